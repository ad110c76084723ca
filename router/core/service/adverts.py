"""Advertisements of other routers, as a service keeps them: the newest of each, judged and verified."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from router.core.wire.address import AddressSource, Reach, public_prefix, reach_of, refusal_of
from router.core.wire.advert import EXPIRY_S, Advertisement, Succession, succession
from router.core.wire.advert import refusal_of as out_of_time
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import ADVERT_ADDRESS, Reason

KNOWN_MAX = 4_096


class Verified(Struct, frozen=True):
    """A verified advertisement, with the public network of its address."""

    advert: Advertisement
    exp: int
    prefix: bytes | None

    @property
    def key(self) -> PublicKey:
        return self.advert.router

    @property
    def rev(self) -> int:
        return self.advert.rev


class Adverts:
    """The newest advertisement of each other router, and this node's own (`own`).

    `role`: the service of this kind. At most `most` others are kept: the one that was used least recently is forgotten.
    """

    def __init__(self, role: str, most: int = KNOWN_MAX) -> None:
        self.own: Advertisement | None = None
        self._role = role
        self._most = most
        self._newest: dict[PublicKey, Advertisement] = {}

    def __repr__(self) -> str:
        return f"<{len(self._newest)} advertisements known>"

    def newest(self, router: PublicKey) -> Advertisement | None:
        return self._newest.get(router)

    def service_of(self, router: PublicKey) -> PublicKey | None:
        """Return the key of that router's service of this role, if its advertisement names one."""
        found = self._newest.get(router)
        return None if found is None else found.services.get(self._role)

    def take(self, heard: Advertisement, source: AddressSource, now_s: float) -> Verified | tuple[Reason, str]:
        """Judge an advertisement that `source` brought, and keep it if it is the newest; return why it was not kept,
        else None.

        Cheap checks come first; a copy of a known one is not verified again."""
        known = self._newest.get(heard.router)
        if refused := out_of_time(heard, known, now_s, EXPIRY_S + 3600) or self._misplaced(heard, source):
            return refused
        if not self.is_known(heard) and not heard.verify():
            return Reason.BAD_SIGNATURE, "the advertisement is not signed by the router that it names"
        self.remember(heard)
        return verified(heard, int(now_s))

    def is_known(self, heard: Advertisement) -> bool:
        """Whether it is the newest known one of that router, and need not be verified."""
        known = self._newest.get(heard.router)
        return known is not None and known.wire == heard.wire

    def remember(self, advert: Advertisement) -> None:
        """Keep a verified advertisement in place of an earlier one of the same router."""
        self._newest.pop(advert.router, None)
        while len(self._newest) >= self._most:
            del self._newest[next(iter(self._newest))]
        self._newest[advert.router] = advert

    def _misplaced(self, heard: Advertisement, source: AddressSource) -> tuple[Reason, str] | None:
        """Return why none of its addresses counts, or None if one does (R-D12)."""
        refusals = [refusal_of(one, source, on_loopback=self.is_on_loopback) for one in heard.addresses]
        if None in refusals:
            return None
        return next(filter(None, refusals), (ADVERT_ADDRESS, "it names no address of a kind that is known"))

    @property
    def is_on_loopback(self) -> bool:
        """Whether this node can be reached from its own machine only."""
        return self.own is not None and any(reach_of(one.host) is Reach.LOOPBACK for one in self.own.addresses)

    @property
    def is_private(self) -> bool:
        """Whether this node can be reached within a private network only: what others say of it does not count."""
        return self.own is not None and all(reach_of(one.host) is Reach.PRIVATE for one in self.own.addresses)


def verified(advert: Advertisement, now_s: int) -> Verified:
    """Return a verified advertisement, with the values that are read from it often."""
    prefixes: Iterable[bytes | None] = map(public_prefix, advert.addresses)
    return Verified(advert, advert.deadline_s(now_s), next(filter(None, prefixes), None))


def replaces(heard: Advertisement, known: Advertisement | None) -> bool:
    return succession(heard, known) is Succession.NEWER
