"""The rates at which datagrams are examined, before any signature is checked (D19).

Each examined one costs a signature, each new key an entry, a report to the router and a dial. Whatever the flood, the
router spends no more than these rates allow; who is in no place to be flooded out of them are keys that a link has
proven, which have a rate of their own.
"""

from __future__ import annotations

from router.core.wire.crypto import PublicKey
from services.discovery.core.lan.neighbours import KEYS_MAX, Neighbours, Source
from services.discovery.core.lan.paces import Pace

ADMITTED_PER_S = 200
SOURCE_BURST = 4
"""Number of datagrams from one source that are accepted at once, before the rate is one a second: two nodes on one
machine may each send news and a farewell within a second."""
SLOW_S = 10.0
"""The time over which the slower rates are counted, so that a crowd of honest neighbours need not wait."""
ENTERED_MAX = 50
"""Most new keys in that time. Each costs the router up to two commits and this node a dial."""
CLAIMED_PER_S, CLAIMED_EACH_S, CLAIMED_BURST = 50, 0.2, 10
"""Rate of new advertisements in the name of keys that a link has proven; five a second for each key."""
REPORTED_MAX, REPORTED_EACH_S, REPORTED_BURST = 30, 5.0, 3
"""Most reports to the router in that time that neighbours which no link has proven have other addresses; of each one
neighbour, proven or not, one in five seconds, after those of its first datagrams. Each costs the router a commit."""
RENEWED_EACH_S, RENEWED_BURST = 1.0, 8
"""Rate of repetitions of one neighbour's last datagram, from all its sources; these cost no signature."""


class _SharedPace:
    """A rate that sources share: besides what one address may have, all addresses of an IPv6 network together have at
    most half of it, since there one host has any number of them."""

    def __init__(self, most: int, window_s: float = 1.0) -> None:
        self._all = Pace(most, window_s, burst=SOURCE_BURST)
        self._six = Pace(most, window_s, each_s=2 * window_s / most, burst=most // 2)

    def has_room(self, now_s: float) -> bool:
        return self._all.has_room(now_s)

    def allows(self, source: Source, now_s: float) -> bool:
        is_six = source.ip.version == 6
        return self._all.allows(source, now_s) and not (is_six and not self._six.allows(source.host, now_s))

    def take(self, source: Source, now_s: float) -> bool:
        if not self.allows(source, now_s):
            return False
        if source.ip.version == 6:
            self._six.take(source.host, now_s)
        return self._all.take(source, now_s)


class Gate:
    """Decides whether a datagram may cost a signature, and whether a new key may have a place."""

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._admitted = _SharedPace(ADMITTED_PER_S)
        self._entered = _SharedPace(ENTERED_MAX, SLOW_S)
        self._claimed = Pace(CLAIMED_PER_S, each_s=CLAIMED_EACH_S, burst=CLAIMED_BURST)
        self._reported = Pace(REPORTED_MAX, SLOW_S, each_s=REPORTED_EACH_S, burst=REPORTED_BURST)
        self._reported_proven = Pace(KEYS_MAX, each_s=REPORTED_EACH_S, burst=REPORTED_BURST)
        self._renewed = Pace(KEYS_MAX * RENEWED_BURST, each_s=RENEWED_EACH_S, burst=RENEWED_BURST)

    def __repr__(self) -> str:
        return f"<gate: {self._admitted._all!r}>"

    def renews(self, key: PublicKey, now_s: float) -> bool:
        """Whether one more repetition of a neighbour's last datagram is to be handled."""
        return self._renewed.take(key, now_s)

    def has_room(self, key: PublicKey, now_s: float) -> bool:
        """Whether any datagram in the name of this key may be examined now."""
        return self._neighbours.is_proven(key) or self._admitted.has_room(now_s)

    def examines(self, key: PublicKey, source: Source, now_s: float) -> bool:
        """Whether to examine a datagram in the name of this key; if so, it is counted."""
        if self._neighbours.is_proven(key):
            return self._claimed.take(key, now_s)
        if self._neighbours.is_new(key) and not self._entered.allows(source, now_s):
            return False
        return self._admitted.take(source, now_s)

    def enters(self, key: PublicKey, source: Source, now_s: float) -> bool:
        """Whether a key from this source may have a place; if it is new, it is counted."""
        return not self._neighbours.is_new(key) or self._entered.take(source, now_s)

    def reports(self, key: PublicKey, now_s: float) -> bool:
        """Whether the router may be told now that a neighbour has other addresses; if not, the next datagram asks
        again."""
        pace = self._reported_proven if self._neighbours.is_proven(key) else self._reported
        return pace.take(key, now_s)
