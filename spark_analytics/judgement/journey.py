"""The journey of a message: which router brought it to which, how many hops it took, and how long, by whose clock.

Both engines give each message a number for its *path*: the set of routers that accepted it, each with the router that
brought it there first. There are few paths, so their hops are followed here, path by path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spark_analytics.judgement.spoilt_hours import HOUR_NS, SPOILT

STEPS_MAX = 500_000
"""The most steps of all paths together that are followed; of more, no message has hops and a latency."""
NS_MAX = 1 << 62
"""The greatest difference of two clocks that counts, in ns; no real one is as great, and sums stay within 64 bits."""

WAY_COLUMNS = ("path", "router", "origin", "hops", "lower_ns", "upper_ns")

JOURNEY = f"""
WITH {SPOILT},
found AS (
    SELECT stop.id, routers.key AS router, brought.key AS neighbour, origins.key AS origin, way.hops, stop.t, entry_t,
        CASE WHEN entries = 1 THEN lower_ns END AS lower_ns,
        CASE WHEN entries = 1 THEN upper_ns END AS upper_ns,
        settled_ns, owed, arrived, ended, open, lost
    FROM {{stop}} stop
    JOIN {{log_key}} routers ON routers.number = stop.router
    LEFT JOIN {{way}} way ON way.path = stop.path AND way.router = stop.router
    LEFT JOIN {{log_key}} brought ON brought.number = stop.neighbour
    LEFT JOIN {{log_key}} origins ON origins.number = way.origin
)
SELECT id, found.router, neighbour, origin, hops, t,
    CASE WHEN here.hour IS NULL AND there.hour IS NULL AND upper_ns IS NOT NULL
        THEN greatest(0, t - entry_t - upper_ns) END AS least_ns,
    CASE WHEN here.hour IS NULL AND there.hour IS NULL AND lower_ns IS NOT NULL
        THEN greatest(0, t - entry_t - lower_ns) END AS most_ns,
    settled_ns, owed, arrived, ended, open, lost,
    here.hour IS NOT NULL OR there.hour IS NOT NULL AS is_spoilt
FROM found
LEFT JOIN spoilt here ON here.router = found.router AND here.hour = CAST((t - t % {HOUR_NS}) / {HOUR_NS} AS BIGINT)
LEFT JOIN spoilt there
    ON there.router = origin AND there.hour = CAST((entry_t - entry_t % {HOUR_NS}) / {HOUR_NS} AS BIGINT)
"""
"""Key (id, router): a message at each router that accepted it. `neighbour`: the router that brought it first, null if
none with a log here did; `origin`: the router at which this way of it began; `hops` from there; `t`: when it was
accepted here first. From its acceptance at the origin to that here it took at least `least_ns` and at most `most_ns`,
whatever the clocks say; null where they have no bounds, where it began at several routers, or where `is_spoilt`: the
clock of this router or of the origin jumped across the hour of its acceptance there. `settled_ns`: from its
acceptance here until the last local recipient had settled it. `owed` .. `lost`: units here. `log_key`: the routers'
keys by number; `way`: the rows of `ways`; `entries`: how many routers got it from none with a log here; `entry_t`: when
the first of them did."""


class Bounds(NamedTuple):
    """The clock of the second router minus that of the first, in ns; None: not known."""

    lower_ns: int | None = None
    upper_ns: int | None = None

    def and_also(self, other: Bounds) -> Bounds:
        """Return the bounds that follow from both."""
        lower = [one for one in (self.lower_ns, other.lower_ns) if one is not None]
        upper = [one for one in (self.upper_ns, other.upper_ns) if one is not None]
        return Bounds(max(lower, default=None), min(upper, default=None))

    def then(self, other: Bounds) -> Bounds:
        """Return the bounds over both differences together."""
        return Bounds(_sum(self.lower_ns, other.lower_ns), _sum(self.upper_ns, other.upper_ns))

    def of_one_time(self) -> Bounds:
        """Return the bounds, or none if they contradict: then a clock was set in between."""
        is_odd = self.lower_ns is not None and self.upper_ns is not None and self.lower_ns > self.upper_ns
        return Bounds() if is_odd else self


NO_TIME = Bounds(0, 0)
Clocks = Mapping[tuple[int, int], Bounds]


class Way(NamedTuple):
    """How the messages of a path came to a router, all by the routers' numbers. `origin`, `hops`: None where the logs
    go round in a circle."""

    path: int
    router: int
    origin: int | None
    hops: int | None
    bounds: Bounds

    def row(self) -> tuple[int | None, ...]:
        """Return the values of `WAY_COLUMNS`."""
        return (*self[:4], *self.bounds)


def clocks_of(
    rows: Iterable[tuple[int, int, int | None, int | None]],
) -> dict[tuple[int, int], Bounds]:
    """Return the bounds by pair, from rows (router, recipient, lower_ns, upper_ns); what bounds the clocks one way also
    does the other way round."""
    found: dict[tuple[int, int], Bounds] = {}
    for router, recipient, lower, upper in rows:
        for pair, bounds in (
            ((router, recipient), Bounds(lower, upper)),
            ((recipient, router), Bounds(_negative(upper), _negative(lower))),
        ):
            found[pair] = found.get(pair, Bounds()).and_also(bounds)
    return found


def ways(steps: Iterable[tuple[int, int, int | None]], clocks: Clocks) -> list[Way]:
    """Return the ways of all paths. `steps`: (path, router, the router that brought it there or None)."""
    paths: dict[int, dict[int, int | None]] = {}
    for path, router, neighbour in steps:
        paths.setdefault(path, {})[router] = neighbour
    return [way for path, brought in paths.items() for way in _followed(path, brought, clocks)]


def _followed(path: int, brought: Mapping[int, int | None], clocks: Clocks) -> Iterable[Way]:
    known: dict[int, Way] = {}
    for router in brought:
        chain: dict[int, int] = {}  # Routers that are not known yet, each with the one that brought it there.
        at = router
        while at not in known and at not in chain and (before := brought.get(at)) is not None:
            chain[at] = before
            at = before
        if at in chain:  # Nothing on a circle has a beginning, nor what came from it.
            known |= {one: Way(path, one, None, None, Bounds()) for one in chain}
            continue
        if at not in known:  # The beginning; without bounds where it has no acceptance in the audit's time span.
            known[at] = Way(path, at, at, 0, NO_TIME if at in brought else Bounds())
        for one, earlier in reversed(chain.items()):
            known[one] = _next(known[earlier], one, clocks)
    return [known[router] for router in brought]


def _next(before: Way, router: int, clocks: Clocks) -> Way:
    """Return the way that goes on from another one's router to this."""
    if before.hops is None:
        return before._replace(router=router)
    bounds = before.bounds.then(clocks.get((before.router, router), Bounds()))
    return Way(before.path, router, before.origin, before.hops + 1, bounds.of_one_time())


def _sum(one: int | None, other: int | None) -> int | None:
    if one is None or other is None or abs(one + other) > NS_MAX:
        return None
    return one + other


def _negative(ns: int | None) -> int | None:
    return None if ns is None else -ns
