"""Advertisements of routers, as the discovery service of this node announces them in the group of its own key (R-C26).

The body `[1, PEER_ADVERTISEMENT]` of a multicast there reaches this router as the value `Advertised`, and is settled
when everything decided about it is committed. A unicast that begins alike is a JOIN.
"""

from __future__ import annotations

from typing import NamedTuple

from router.core.wire.advert import Advertisement, Succession, decode_advertisement, succession
from router.core.wire.codec import Malformed
from router.core.wire.reasons import ADVERT_STALE, Reason


class Advertised(NamedTuple):
    """The body of an advertisement as it was announced, and the service that announced it."""

    service: bytes
    body: bytes


class Advertisements:
    """The newest advertisement of each router, at most `most`; the one that was heard least lately gives way.

    Its signature and times are the service's to judge."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_router: dict[bytes, Advertisement] = {}

    def __repr__(self) -> str:
        return f"<advertisements of {len(self._by_router)} routers, of at most {self._most}>"

    def __len__(self) -> int:
        return len(self._by_router)

    def get(self, router: bytes) -> Advertisement | None:
        return self._by_router.get(router)

    def hear(self, said: Advertised) -> tuple[Reason, str] | None:
        """Take in an advertisement; return why it is refused, or None."""
        try:
            heard = decode_advertisement(said.body)
        except Malformed as error:
            return Reason.MALFORMED, str(error)
        found = succession(heard, self._by_router.get(heard.router))
        if found in (Succession.OLDER, Succession.CONFLICTING):
            return ADVERT_STALE, found.value
        self._by_router.pop(heard.router, None)
        while self._by_router and len(self._by_router) >= self._most:
            del self._by_router[next(iter(self._by_router))]
        self._by_router[heard.router] = heard
        return None
