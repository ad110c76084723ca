"""Prekeys of an app, and what is sealed to those of others (R-E7): bytes that travel by any way, also in the open.

    mine = router.Prekeys("alice")
    offer = b"TKD " + mine.current()              # whoever has these bytes can seal to alice
    body = router.Prekeys("bob").seal(offer[4:], b"the group's link")
    assert mine.open(body).content == b"the group's link"

No node is asked: a sealed body may travel as a unicast, as a message of a pool, or on paper.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from router.client.errors import ClientError
from router.client.old_places import prekey_row
from router.client.options import state_of
from router.client.sealing.own_prekeys import OwnPrekeys
from router.client.sequence import SequenceError, Sequences
from router.core.wire import application
from router.core.wire.codec import Malformed
from router.core.wire.crypto import KEY_BYTES, PublicKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.prekey import Prekey, decode_prekey, encode_prekey, make_prekey
from router.disk import life_file
from router.disk.state.app_rows import AppBatch, AppRows
from router.disk.state.environment import StateError
from router.settings import keyring
from router.settings.home import Home

KEPT_MAX = 8
"""Number of prekeys of one app that can be sealed to: the newest ones."""
PREKEYS = "prekeys"
_MADE_BYTES = 8


class SealedError(ClientError):
    """A body cannot be sealed or opened; the text says why."""


@dataclass(frozen=True, slots=True)
class SealedContent:
    """What was sealed to this app. `sender` has signed it."""

    sender: PublicKey
    content: bytes = field(repr=False)


class Prekeys:
    """The prekeys of the app with this name in a home. Their secrets lie sealed in its state, and are forgotten there
    when they are too old to be sealed to: no copy that is made later opens what was sealed to them."""

    def __init__(
        self, as_name: str, *, home: str | os.PathLike[str] | None = None, entropy: Callable[[int], bytes] = os.urandom
    ) -> None:
        if as_name == keyring.NODE:
            raise ClientError(f'"{keyring.NODE}" is the name of the router\'s own key; choose another one for the app')
        chosen = Home.chosen(home)
        chosen.check_format()
        self._key = keyring.load_or_create(chosen, as_name)
        self._state = state_of(chosen, as_name)
        self._least = life_file.least_number(chosen.path)
        self._entropy = entropy

    def __repr__(self) -> str:
        return f"<prekeys of {self._key.public.hex()[:12]}…, kept in {self._state!r}>"

    def current(self) -> bytes:
        """Return the newest prekey, 146 bytes that all may see; the first call of a day makes one, as the app itself
        does while it runs."""
        own = OwnPrekeys(self._key, self._rows())
        newest = own.current()
        if newest is None or own.is_due(expiry_min(time.time())):
            return self.renew()
        return encode_prekey(make_prekey(self._key, newest.seed))

    def renew(self) -> bytes:
        """Make a new prekey, and return it. What is sealed to one of the eight newest can be opened."""
        seed = self._entropy(KEY_BYTES)

        def decide(rows: AppRows) -> AppBatch:
            batch, known = AppBatch(), rows.rows(PREKEYS)
            number = 1 + int.from_bytes(known[-1][0], "big") if known else 0
            batch.put(PREKEYS, number.to_bytes(8, "big"), prekey_row(seed, int(time.time())), secret=True)
            for key, _ in known[: max(0, len(known) + 1 - KEPT_MAX)]:
                batch.remove(PREKEYS, key)
                batch.forgets = True
            return batch

        try:
            with closing(self._state) as state:
                state.change(decide)
        except StateError as error:
            raise SealedError(str(error)) from None
        return encode_prekey(make_prekey(self._key, seed))

    def seal(self, prekey: bytes, content: bytes) -> bytes:
        """Return the content sealed to the owner of a prekey, who learns our address. Raise `SealedError` if the bytes
        are no prekey, or it is not signed by its owner."""
        sequences = Sequences(self._state, least=self._least)
        try:
            to = decode_prekey(prekey)
            number = sequences.take(to.owner)
            return application.seal_to(to, self._key, number, (), content, ephemeral_seed=self._entropy(KEY_BYTES))
        except (Malformed, application.SealError) as error:
            raise SealedError(f"nothing can be sealed to this: {error}; ask the other for a prekey again") from None
        except SequenceError as error:
            raise SealedError(error.text) from None
        finally:
            sequences.close(_ignore)
            self._state.close()

    def open(self, body: bytes) -> SealedContent:
        """Return what was sealed to us. Raise `SealedError` if it is no sealed body, or not for us, or was changed."""
        keys = {one.id: seed for one, seed in self._known()}
        try:
            found = application.unseal_unicast(body, self._key.public, keys)
        except (Malformed, application.SealError) as error:
            raise SealedError(f"the body cannot be opened: {error}") from None
        if found.code != application.UNICAST:
            raise SealedError(f"the body cannot be opened: it has the code {found.code}, and is no unicast's")
        return SealedContent(found.sender, found.content)

    def _known(self) -> list[tuple[Prekey, bytes]]:
        return [(make_prekey(self._key, seed), seed) for seed in self._seeds()]

    def _seeds(self) -> list[bytes]:
        """Return the secrets that are kept, the oldest first."""
        return [row[_MADE_BYTES:] for _, row in self._rows()]

    def _rows(self) -> list[tuple[bytes, bytes]]:
        try:
            with closing(self._state) as state:
                return state.rows(PREKEYS)
        except StateError as error:
            raise SealedError(str(error)) from None


def _ignore(text: str) -> None:
    """Sequence numbers that cannot be given back stay unused, which loses nothing."""
