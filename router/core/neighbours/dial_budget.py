"""Limit how often an address is dialled that only an advertisement names, since it may be a victim's (R-D22).

Within ten minutes it gets at most a few connections, for at most a few expected keys, over all keys together; a few
more are allowed for each public network. If another key is found there, or whoever answers is no router, the address
rests for ten minutes, and each time for twice as long. If nobody answers, it rests briefly, because a router that is
started again is absent for some seconds. Dials of an address cost nothing once they found the expected key, because the
address belongs to that router.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from msgspec import Struct, field

from router.core.service.refusals import Refusals
from router.core.wire.address import IpAddress, network_text, public_prefix
from router.core.wire.lifetime import apart_words
from router.core.wire.reasons import DIAL_BUDGET, Reason

MINUTE_S = 60
DAY_S = 86_400


class WhoAnswered(Enum):
    """Who was found at a dialled address: the expected key, nobody, or somebody else."""

    EXPECTED = "expected"
    NOBODY = "nobody"
    OTHER = "other"


class DialLimits(Struct, frozen=True):
    """The numbers of D22. `absent_s_min`, `absent_s_max`: how long an address rests where nobody answers. `places_max`:
    addresses that are remembered; while all of them count, no further one is dialled."""

    keys: int = 3
    connections: int = 3
    of_prefix: int = 30
    window_s: float = 10 * MINUTE_S
    rest_s_min: float = 10 * MINUTE_S
    rest_s_max: float = DAY_S
    absent_s_min: float = 10.0
    absent_s_max: float = 10 * MINUTE_S
    places_max: int = 10_000


class _Place(Struct):
    """The dials of one address within the window, and until when it rests."""

    dials: deque[tuple[float, bytes]] = field(default_factory=deque)
    rests_until_s: float = 0.0
    rest_s: float = 0.0


class DialBudget:
    """Decides whether an address may be dialled now. `end` follows a `begin` that returned None, unless dialling was
    given up. `refusals` counts refused dials by network, because keys cost an attacker nothing."""

    def __init__(self, limits: DialLimits, refusals: Refusals) -> None:
        self._limits = limits
        self._refusals = refusals
        self._places: dict[IpAddress, _Place] = {}
        self._prefixes: dict[bytes, deque[float]] = {}
        self._swept_s = 0.0

    def __repr__(self) -> str:
        return f"<dial budget: {len(self._places)} addresses>"

    def begin(self, key: bytes, at: IpAddress, now_s: float) -> tuple[Reason, str] | None:
        """Count a connection to this address, where `key` is expected; return why it may not be dialled, or None."""
        self._sweep(now_s)
        place = self._places.get(at)
        refused = self._refusal(place, key, at, now_s)
        if refused:
            self._refusals.count(DIAL_BUDGET, prefix=network_text(at.ip))
            return DIAL_BUDGET, f"{at} is named by an advertisement and not dialled now: {refused}"
        self._places.setdefault(at, _Place()).dials.append((now_s, key))
        if (prefix := public_prefix(at)) is not None:
            self._prefixes.setdefault(prefix, deque()).append(now_s)
        return None

    def end(self, key: bytes, at: IpAddress, now_s: float, found: WhoAnswered) -> None:
        """Record how a connection began, where `key` was expected; unless it is there, the address rests."""
        place, limits = self._places.get(at), self._limits
        if place is None:
            return
        if found is WhoAnswered.EXPECTED:
            place.rest_s = 0.0
            self._forget(place, key, at)
            return
        is_absent = found is WhoAnswered.NOBODY
        least, most = (
            (limits.absent_s_min, limits.absent_s_max) if is_absent else (limits.rest_s_min, limits.rest_s_max)
        )
        place.rest_s = max(place.rest_s, min(max(least, 2 * place.rest_s), most))
        place.rests_until_s = now_s + place.rest_s

    def _forget(self, place: _Place, key: bytes, at: IpAddress) -> None:
        """Do not count the dials that expected this key at this address."""
        times = self._prefixes.get(public_prefix(at) or b"", deque[float]())
        for mine in [one for one in place.dials if one[1] == key]:
            place.dials.remove(mine)
            if mine[0] in times:
                times.remove(mine[0])

    def _refusal(self, place: _Place | None, key: bytes, at: IpAddress, now_s: float) -> str:
        limits, since_s = self._limits, now_s - self._limits.window_s
        if place is None and len(self._places) >= limits.places_max:
            return "too many other addresses were"
        if place is not None:
            _drop_before(place.dials, since_s)
            if place.rests_until_s > now_s:
                left = apart_words(int((place.rests_until_s - now_s) * 1e9)).removesuffix(" ahead of")
                return f"it was last dialled in vain, and rests for {left}"
            keys = {one for _, one in place.dials} | {key}
            if len(place.dials) >= limits.connections or len(keys) > limits.keys:
                return f"it was dialled {len(place.dials)} times lately, for {len(keys - {key})} other keys"
        times = self._prefixes.get(public_prefix(at) or b"")
        while times and times[0] <= since_s:
            times.popleft()
        if times and len(times) >= limits.of_prefix:
            return f"addresses of its network were dialled {len(times)} times lately"
        return ""

    def _sweep(self, now_s: float) -> None:
        """Forget old entries now and then; the length of an address's rest is remembered for a day."""
        if now_s - self._swept_s < MINUTE_S:
            return
        self._swept_s, since_s = now_s, now_s - self._limits.window_s
        for at, one in list(self._places.items()):
            _drop_before(one.dials, since_s)
            if not one.dials and one.rests_until_s + (DAY_S if one.rest_s else 0) <= now_s:
                del self._places[at]
        for prefix, times in list(self._prefixes.items()):
            if times and times[-1] <= since_s:
                del self._prefixes[prefix]


def _drop_before(dials: deque[tuple[float, bytes]], since_s: float) -> None:
    while dials and dials[0][0] <= since_s:
        dials.popleft()
