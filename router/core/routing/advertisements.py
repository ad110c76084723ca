"""Advertisements of routers, as the discovery service of this node announces them in the group of its own key (R-C26).

The body `[1, PEER_ADVERTISEMENT]` of a multicast there reaches this router as the value `Advertised`, and is settled
when everything decided about it is committed. A unicast that begins alike is a JOIN.
"""

from __future__ import annotations

from typing import NamedTuple

from router.core.wire import shape
from router.core.wire.codec import Malformed, decode
from router.core.wire.reasons import Reason

ADVERTISEMENT = b"\x82\x01"
ADVERTISEMENT_BYTES_MAX = 4096
_ITEMS_MAX = 512


class Advertised(NamedTuple):
    """An advertisement: the service that announced it, and its bytes as the advertised router signed them."""

    service: bytes
    advertisement: bytes


class Advertisements:
    """The newest advertisement of each router, at most `most`; the one that was heard least lately gives way.

    Neither the signature nor anything but the advertised key is looked at here."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_key: dict[bytes, Advertised] = {}

    def __repr__(self) -> str:
        return f"<advertisements of {len(self._by_key)} routers, of at most {self._most}>"

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: bytes) -> Advertised | None:
        return self._by_key.get(key)

    def hear(self, said: Advertised) -> tuple[Reason, str] | None:
        """Take in an advertisement; return why it is refused, or None."""
        try:
            found = shape.open_fields(decode(said.advertisement, _ITEMS_MAX), "an advertisement", ("id", "sig"))
            key = shape.checked_key(found["id"], "id")
        except Malformed as error:
            return Reason.MALFORMED, str(error)
        self._by_key.pop(key, None)
        while self._by_key and len(self._by_key) >= self._most:
            del self._by_key[next(iter(self._by_key))]
        self._by_key[key] = said
        return None
