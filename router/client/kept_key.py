"""The key of an app with a name: another one is kept under the name when it was renewed, and the app signs on anew."""

from __future__ import annotations

from collections.abc import Callable

from router.client.options import SignOn
from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text
from router.settings import keyring

Sign = Callable[[SigningKey], None]


class KeptKey:
    """Looks for another key when the node says that this app's was renewed. Each of `signers` gets that; `problem` gets
    a sentence on it."""

    def __init__(self, sign_on: SignOn, problem: Callable[[str], None], *signers: Sign) -> None:
        self._sign_on = sign_on
        self._problem = problem
        self._signers = signers

    def __repr__(self) -> str:
        return f"<kept key of {self._sign_on.whom}>"

    def now(self) -> SigningKey | None:
        """Return the key that is kept under the app's name now, and sign by it from now on; None if there is no name,
        or no key."""
        sign_on = self._sign_on
        if sign_on.settings.as_name is None:
            return None
        try:
            key = keyring.load(sign_on.home, sign_on.settings.as_name)
        except keyring.KeyringError as error:
            self._problem(str(error))
            return None
        if key.public != sign_on.key.public:
            sign_on.key = key
            for sign_by in self._signers:
                sign_by(key)
            self._problem(f"the key of {sign_on.whom} was renewed: its address is {key_text('addr', key.public)} now")
        return key
