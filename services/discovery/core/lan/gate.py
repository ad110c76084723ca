"""The rates at which datagrams are examined, before any signature is checked (R-D19).

Each examined one costs a signature check of some 100 µs. Whatever the flood, `CHECKS_PER_S` of them are made in a
second, 5 % of a core. A source beyond its own share uses what is left for all such sources, so neither a host that
floods nor one that sends in the name of another's address shuts out the rest. A key that a link has proven is heard at
the addresses where it was, and from new ones, at shares that no other key uses up.
"""

from __future__ import annotations

from collections.abc import Callable

from router.core.wire.advert import DATAGRAM_BYTES_MAX, claimed_router
from router.core.wire.reasons import Reason
from router.service.contract import Came
from services.discovery.core.lan.neighbours import KEYS_MAX, Neighbour, Neighbours, Source, is_over_ipv6, source_of
from services.discovery.core.lan.paces import Pace
from services.discovery.reasons import LAN_FLOOD, LAN_OFF_LINK

SHARED_PER_S, REST_PER_S = 100, 100
"""Datagrams examined in a second over IPv4, and over IPv6: of sources within their shares, and of others."""
REST_BURST = 10
"""Most datagrams of others at once; else they are 10 ms apart, so that one a second is not late each time."""
SOURCE_BURST = 4
"""Number of datagrams from one source that are its share at once, before that is one a second: two nodes on one machine
may each send news and a farewell within a second."""
AT_HOME_PER_S, MOVED_PER_S = 50, 50
"""Datagrams examined in a second in the name of keys that a link has proven: from addresses where these are, one a
second from each after the burst, and from others, as many from each."""
CHECKS_PER_S = 2 * (SHARED_PER_S + REST_PER_S) + AT_HOME_PER_S + MOVED_PER_S
RENEWED_EACH_S, RENEWED_BURST = 1.0, 4
"""Rate of repetitions of one neighbour's last datagram, from each address where it was heard, and from all others
together; these cost no signature."""


class _Checks:
    """The checks over one IP version. `has_room` tells whether any source may have one; while none may, that costs
    nothing, since a flood asks it for each of its datagrams."""

    def __init__(self) -> None:
        self._full_until_s = 0.0
        self._shared = Pace(SHARED_PER_S, burst=SOURCE_BURST)
        self._rest = Pace(REST_PER_S, each_s=1 / REST_PER_S, burst=REST_BURST)

    def __repr__(self) -> str:
        return f"<checks: {self._shared!r}, {self._rest!r}>"

    def has_room(self, now_s: float) -> bool:
        if now_s < self._full_until_s:
            return False
        if self._shared.has_room(now_s) or self._rest.allows(None, now_s):
            return True
        self._full_until_s = min(self._shared.free_s(), self._rest.free_s())
        return False

    def take(self, source: Source, now_s: float) -> bool:
        return self._shared.take(source, now_s) or self._rest.take(None, now_s)


class Gate:
    """Decides whether a datagram may cost a check of its signature, or a repetition be handled."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._checks = _Checks(), _Checks()
        self._at_home = Pace(AT_HOME_PER_S, burst=SOURCE_BURST)
        self._moved = Pace(MOVED_PER_S, burst=SOURCE_BURST)
        self._renewed = Pace(8 * KEYS_MAX * RENEWED_BURST, each_s=RENEWED_EACH_S, burst=RENEWED_BURST)

    def __repr__(self) -> str:
        return f"<gate: {self._checks!r}>"

    def renews(self, one: Neighbour, source: Source, now_s: float) -> bool:
        """Whether one more repetition of a neighbour's last datagram is to be handled."""
        at_home = one.is_at(source) and self._renewed.take((one.key, source), now_s)
        return at_home or self._renewed.take(one.key, now_s)

    def refusal(self, came: Came, is_on_link: Callable[[Source], bool], now_s: float) -> Reason | None:
        """Return why a datagram is not to cost a check of its signature: what costs least is asked first, and a flood
        is refused before its sources are read."""
        key = claimed_router(came.data)
        if not key or len(came.data) > DATAGRAM_BYTES_MAX:
            return Reason.MALFORMED
        if not self.has_room(key, is_over_ipv6(came.peer), now_s):
            return LAN_FLOOD
        source = source_of(came.peer)
        if not is_on_link(source):
            return LAN_OFF_LINK
        return None if self.examines(key, source, now_s) else LAN_FLOOD

    def has_room(self, key: bytes, is_six: bool, now_s: float) -> bool:
        """Whether any datagram in the name of this key may be examined now that came over IPv6, or IPv4."""
        return self._checks[is_six].has_room(now_s) or self._neighbours.is_proven(key)

    def examines(self, key: bytes, source: Source, now_s: float) -> bool:
        """Whether to examine a datagram in the name of this key; if so, it is counted."""
        if self._neighbours.is_proven(key):
            one = self._neighbours.get(key)
            if one is not None and one.is_at(source) and self._at_home.take((key, source), now_s):
                return True
            if self._moved.take(source, now_s):
                return True
        return self._checks[source.ip.version == 6].take(source, now_s)
