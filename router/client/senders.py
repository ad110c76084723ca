"""Find the keys to publish and to read in a group from its name, link or key."""

from __future__ import annotations

from collections.abc import Callable

from router.client.composer import GroupSender
from router.client.custody.causes import Causes
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.grouplink import GroupLink, parse_link
from router.core.wire.link_text import is_link
from router.core.wire.text import BadText, parse_key
from router.settings import keyring
from router.settings.home import Home
from router.settings.keyring import KeyringError

GroupName = str | GroupLink | PublicKey | SigningKey


class Senders:
    """Finds groups in a home; `causes` returns the causes of a group's next message."""

    def __init__(self, home: Home, causes: Callable[[PublicKey], Causes]) -> None:
        self._home = home
        self._causes = causes

    def of(self, group: GroupName) -> tuple[GroupSender, str | None]:
        """Return the sender of that group, and its name in the home."""
        if isinstance(group, str):
            return self._of_text(group)
        if isinstance(group, GroupLink):
            return GroupSender.of_link(group, self._causes(group.group)), group.name
        if isinstance(group, SigningKey):
            return GroupSender(group.public, group, None, self._causes(group.public)), None
        if isinstance(group, PublicKey):
            return GroupSender(group, None, None, self._causes(group)), None
        raise TypeError(f"a group is given as its name, link or key, not as {type(group).__name__}")

    def _of_text(self, text: str) -> tuple[GroupSender, str | None]:
        if is_link(text):
            return self.of(parse_link(text))
        try:
            name, found = keyring.find(self._home, text)
        except KeyringError:
            try:
                return self.of(parse_key(text, "group"))
            except BadText:
                pass
            raise
        return self.of(found)[0], name
