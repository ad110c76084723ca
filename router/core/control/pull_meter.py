"""Meters of the PULLs that this router answers: their number, the bytes read and carried for them, and repetitions.

Apps and services of this node are metered by number alone. They read history and send it on to one neighbour after the
other, and have no memory of what they were carried.
"""

from __future__ import annotations

from router.core.link.allowance import Allowance
from router.core.neighbours.directory import UNKNOWN, Standing
from router.core.routing.limits import PullLimits
from router.core.routing.links import Link
from router.core.wire.now import Now

CARRIED_MAX = 1024
"""Most ids remembered of the messages that were carried to one neighbour lately; beyond it all are forgotten."""
BURST_BYTES = 1 << 20
"""Most bytes that are saved up, so that no cycle reads for a second's worth of PULLs at once."""
METERS_MAX = 1024
"""Most meters kept; beyond it the oldest is forgotten. Those of one key are kept while it is away, or a new connection
would bring a new allowance."""


class _Meter:
    """The PULLs and bytes that one neighbour may still have answered, and the messages that it was carried lately."""

    __slots__ = ("carried", "number", "size")

    def __init__(self, per_s: float, bytes_per_s: float) -> None:
        self.number = Allowance(per_s, max(1.0, per_s))
        self.size = _of_bytes(bytes_per_s)
        self.carried: dict[bytes, float] = {}  # by id: the monotonic second

    def was_carried(self, id: bytes, since_s: float) -> bool:
        """Whether the message was carried since then."""
        at_s = self.carried.get(id)
        return at_s is not None and at_s > since_s


class PullMeters:
    """Owns the meters of all neighbours, each made at the first PULL, and one for all keys that the operator does not
    know.

    The bytes of a message are charged when it has been read, whether or not it fits the window, and may exceed what is
    left; nothing further is read until that is made up for."""

    def __init__(self, limits: PullLimits) -> None:
        self._limits = limits
        self._unknown = _of_bytes(limits.unknown_bytes_per_s)
        self._meters: dict[tuple[bytes, bool], _Meter] = {}  # by key, and whether at the rate of a router

    def __repr__(self) -> str:
        return f"<{len(self._meters)} meters of PULLs>"

    def gone(self, link: Link) -> None:
        """Forget what was carried over a link that is gone."""
        for as_router in (False, True):
            if (meter := self._meters.get((link.key, as_router))) is not None:
                meter.carried.clear()

    def was_carried(self, link: Link, id: bytes, now: Now, *, as_router: bool) -> bool:
        """Whether the neighbour was carried that message a moment ago."""
        return self._of(link, as_router=as_router).was_carried(id, now.mono_s - self._limits.again_s)

    def takes(self, link: Link, now: Now, *, as_router: bool) -> bool:
        """Whether a message may be read for a PULL now; count it then."""
        meter = self._of(link, as_router=as_router)
        if not meter.size.take(0, now.mono_s) or (link.standing in UNKNOWN and not self._unknown.take(0, now.mono_s)):
            return False
        return meter.number.take(1, now.mono_s)

    def charge(self, link: Link, number: int, size: int, now: Now, *, as_router: bool) -> None:
        """Charge that many further PULLs, and the bytes of a message that was read."""
        meter = self._of(link, as_router=as_router)
        meter.number.charge(number, now.mono_s)
        if link.standing is not Standing.LOCAL:
            meter.size.charge(size, now.mono_s)
        if link.standing in UNKNOWN:
            self._unknown.charge(size, now.mono_s)

    def carried(self, link: Link, id: bytes, now: Now, *, as_router: bool) -> None:
        """Note that the neighbour was carried that message."""
        if link.standing is Standing.LOCAL:
            return
        meter = self._of(link, as_router=as_router)
        if len(meter.carried) >= CARRIED_MAX:
            meter.carried.clear()
        meter.carried[id] = now.mono_s

    def _of(self, link: Link, *, as_router: bool) -> _Meter:
        limits, place = self._limits, (link.key, as_router)
        if place not in self._meters:
            if len(self._meters) >= METERS_MAX:
                del self._meters[next(iter(self._meters))]
            number, size = limits.per_s, limits.bytes_per_s
            if as_router:
                number, size = limits.routers_per_s, limits.routers_bytes_per_s
            self._meters[place] = _Meter(number, size)
        return self._meters[place]


def _of_bytes(per_s: float) -> Allowance:
    return Allowance(per_s, min(per_s, BURST_BYTES))
