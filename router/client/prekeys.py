"""Prekeys of an app, and what is sealed to those of others (R-E7): bytes that travel by any way, also in the open.

    mine = router.Prekeys("alice")
    offer = b"TKD " + mine.current()              # whoever has these bytes can seal to alice
    body = router.Prekeys("bob").seal(offer[4:], b"the group's link")
    assert mine.open(body).content == b"the group's link"

No node is asked: a sealed body may travel as a unicast, as a message of a pool, or on paper.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from router.client.errors import ClientError
from router.client.options import APPS
from router.client.sequence import Sequences
from router.core.wire import application
from router.core.wire.codec import Malformed
from router.core.wire.crypto import KEY_BYTES, PublicKey
from router.core.wire.prekey import Prekey, decode_prekey, encode_prekey, make_prekey
from router.disk import private_file
from router.settings import keyring
from router.settings.home import Home

KEPT_MAX = 8
"""So many prekeys of one app can be sealed to: the newest ones."""


class SealedError(ClientError):
    """A body cannot be sealed or opened; the text says why."""


@dataclass(frozen=True, slots=True)
class SealedContent:
    """What was sealed to this app. `sender` has signed it."""

    sender: PublicKey
    content: bytes = field(repr=False)


class Prekeys:
    """The prekeys of the app with this name in a home; their secrets lie in `apps/NAME.prekeys`, 0600."""

    def __init__(
        self, as_name: str, *, home: str | os.PathLike[str] | None = None, entropy: Callable[[int], bytes] = os.urandom
    ) -> None:
        if as_name == keyring.NODE:
            raise ClientError(f'"{keyring.NODE}" is the name of the router\'s own key; choose another one for the app')
        chosen = Home.chosen(home)
        self._key = keyring.load_or_create(chosen, as_name)
        self._path = Path(chosen) / APPS / f"{as_name}.prekeys"
        self._sequences_path = Path(chosen) / APPS / f"{as_name}.seq"
        self._entropy = entropy

    def __repr__(self) -> str:
        return f"<prekeys of {self._key.public.hex()[:12]}…, kept in {self._path}>"

    def current(self) -> bytes:
        """Return the newest prekey, 146 bytes that all may see; the first call makes one."""
        seeds = self._seeds()
        return encode_prekey(make_prekey(self._key, seeds[-1])) if seeds else self.renew()

    def renew(self) -> bytes:
        """Make a new prekey, and return it. What is sealed to one of the eight newest can be opened."""
        try:
            for directory in (self._path.parent.parent, self._path.parent):
                private_file.make_directory(directory)
            with private_file.alone(self._path.parent):
                seeds = [*self._seeds(), self._entropy(KEY_BYTES)][-KEPT_MAX:]
                private_file.replace(self._path, b"".join(seeds))
        except OSError as error:
            raise SealedError(f"{self._path} cannot be written: {error.strerror}; see that there is room") from None
        return encode_prekey(make_prekey(self._key, seeds[-1]))

    def seal(self, prekey: bytes, content: bytes) -> bytes:
        """Return the content sealed to the owner of a prekey, who learns our address. Raise `SealedError` if the bytes
        are no prekey, or it is not signed by its owner."""
        sequences = Sequences(self._sequences_path)
        try:
            to = decode_prekey(prekey)
            number = sequences.take(to.owner)
            return application.seal_to(to, self._key, number, (), content, ephemeral_seed=self._entropy(KEY_BYTES))
        except (Malformed, application.SealError) as error:
            raise SealedError(f"nothing can be sealed to this: {error}; ask the other for a prekey again") from None
        finally:
            sequences.close(_ignore)

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
        try:
            data = private_file.read(self._path, KEPT_MAX * KEY_BYTES)
        except FileNotFoundError:
            return []
        except private_file.Exposed as exposed:
            said = f"{self._path} can be read by others (mode {exposed.mode:03o})"
            raise SealedError(f"{said}; run: chmod 600 {self._path}, and renew the prekey") from None
        except OSError as error:
            raise SealedError(f"{self._path} cannot be read: {error.strerror}") from None
        if len(data) % KEY_BYTES:
            said = f"{self._path} is damaged; move it away, and a new prekey is made"
            raise SealedError(f"{said}: what was sealed to earlier ones cannot be opened any more")
        return [data[at : at + KEY_BYTES] for at in range(0, len(data), KEY_BYTES)]


def _ignore(text: str) -> None:
    """Sequence numbers that cannot be given back stay unused, which loses nothing."""
