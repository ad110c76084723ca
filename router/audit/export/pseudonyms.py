"""Pseudonyms for keys and messages that reveal nothing about them, and still join: one secret, one name.

A key's name is again an Ed25519 public key, whose seed is the keyed hash of the key. So the log of a router can be
signed under the router's name, and every reader of logs reads an export unchanged. Without the secret no one can find
out whose name it is, nor whether a known key or message is in the export (BLAKE3 keyed; audit of a fleet, R-B7).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from blake3 import blake3
from msgspec.structs import replace

from router.core.log.line import Line
from router.core.wire.crypto import SigningKey

SECRET_BYTES = 32
KEYS_MAX = 100_000  # names kept in memory; one costs 20 µs to make again
WITHHELD = "withheld"
_KEY, _ID, _BOOT = b"upsycle export key 1", b"upsycle export id 1", b"upsycle export boot 1"
_HEX32 = re.compile(r"[0-9a-f]{64}")
_WORDS = frozenset(
    ("standing", "because", "grants", "revoked", "alarm", "state")
)  # fields whose text is one of a few fixed words
_UNTOLD = frozenset(("head_digest",))  # names another log's file: the writer of that log's export knows its new digest


class Pseudonyms:
    """The names derived from one secret of 32 bytes."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise ValueError(f"a secret for exports has {SECRET_BYTES} bytes, not {len(secret)}")
        self._secret = secret
        self.key = lru_cache(maxsize=KEYS_MAX)(self._key)
        self.boot = lru_cache(maxsize=KEYS_MAX)(self._boot)

    def __repr__(self) -> str:
        return "<Pseudonyms>"

    def signing_key(self, key: str) -> SigningKey:
        """Return the key that signs this router's log under its name."""
        return SigningKey(blake3(_KEY + _raw(key), key=self._secret).digest())

    def _key(self, key: str) -> str:
        return self.signing_key(key).public.hex()

    def id(self, one: str) -> str:
        """Return the name of a message, or of a digest."""
        return blake3(_ID + _raw(one), key=self._secret).hexdigest()

    def _boot(self, one: str) -> str:
        return blake3(_BOOT + one.encode(), key=self._secret).hexdigest()[: len(one)]

    def line(self, row: Line) -> Line:
        """Return the event under pseudonyms. Text in a state event is withheld, unless it is a known word.

        Raise `ValueError` if a column for keys or ids holds anything else.
        """
        return replace(
            row,
            router=self._optional(row.router),
            source=self._optional(row.source),
            group=self._optional(row.group),
            signer=self._optional(row.signer),
            destination=self._optional(row.destination),
            peer=self._optional(row.peer),
            recipient=self._optional(row.recipient),
            recipients=None if row.recipients is None else [self.key(one) for one in row.recipients],
            ids=None if row.ids is None else self._ids(row.ids),
            boot=None if row.boot is None else self.boot(row.boot),
            fields=None if row.fields is None else self._fields(row.fields),
        )

    def _ids(self, ids: str) -> str:
        return "".join(self.id(ids[at : at + 64]) for at in range(0, len(ids), 64))

    def _optional(self, key: str | None) -> str | None:
        return None if key is None else self.key(key)

    def _fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {name: self._field(name, value) for name, value in fields.items() if name not in _UNTOLD}

    def _field(self, name: str, value: Any) -> Any:
        if isinstance(value, int) or (name in _WORDS and isinstance(value, str)):
            return value
        return self.key(value) if isinstance(value, str) and _HEX32.fullmatch(value) else WITHHELD


def _raw(one: str) -> bytes:
    if not _HEX32.fullmatch(one):
        raise ValueError(f"{one!r:.80} where a key or an id of 64 hex digits should be")
    return bytes.fromhex(one)
