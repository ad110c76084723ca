"""Messages that routers say to have had from each other in a circle, so that none of them had it first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

Row = Mapping[str, Any]
CLAIM = "in-a-circle"
EDGES_MAX = 100_000
"""The most acceptances that are followed, in order of ids; a circle beyond them is not told."""


class _Circle(NamedTuple):
    """What is told of one circle: of each message whether it is a multicast, its id, and the event of each router."""

    told: list[tuple[bool, str, tuple[int, ...]]]
    carriers: int


def claims(edges: Iterable[Row], sound: Collection[str]) -> list[dict[str, Any]]:
    """Return a claim for each router of each circle: that it had messages first from `peer`, which had them from the
    next in the circle. The count is of all messages of the circle, and of multicasts only of those beyond the carriers
    in which they may have come; the event is that of the first of them, and `accepted_seq` that of `peer`.

    `edges`: of messages that every router had from another one that had it, in order of ids, the first acceptance of
    each router: `id`, `router`, `brought` (keys), `seq`, `is_multicast`, `is_within` (the audit's time span), and
    `carriers`, how many messages for `router` itself `brought` had accepted. `sound`: routers whose logs are whole from
    their first event on: no earlier acceptance is lacking.
    """
    circles: dict[tuple[str, ...], _Circle] = {}
    for name, each in groupby(edges, key=lambda row: row["id"]):
        own = {row["router"]: row for row in each}
        for routers in _of_one(own):
            steps = [own[router] for router in routers]
            if all(router in sound for router in routers) and any(step["is_within"] for step in steps):
                circle = circles.setdefault(routers, _Circle([], sum(step["carriers"] for step in steps)))
                seqs = tuple(step["seq"] for step in steps)
                circle.told.append((any(step["is_multicast"] for step in steps), name, seqs))
    return [row for routers, circle in sorted(circles.items()) for row in _rows(routers, circle)]


def _of_one(own: Mapping[str, Row]) -> Iterable[tuple[str, ...]]:
    """Yield the circles of one message, each beginning with its least router."""
    passed: set[str] = set()
    for start in sorted(own):
        way: list[str] = []
        router = start
        while router in own and router not in passed:
            passed.add(router)
            way.append(router)
            router = own[router]["brought"]
        if router in way and len(way) - way.index(router) > 1:
            circle = way[way.index(router) :]
            at = circle.index(min(circle))
            yield (*circle[at:], *circle[:at])


def _rows(routers: tuple[str, ...], circle: _Circle) -> Iterable[dict[str, Any]]:
    alone = sum(not is_multicast for is_multicast, _, _ in circle.told)
    count = alone + max(0, len(circle.told) - alone - circle.carriers)
    if not count:
        return
    _, name, seqs = min(circle.told)
    for at, router in enumerate(routers):
        after = (at + 1) % len(routers)
        first = {"seq": seqs[at], "accepted_seq": seqs[after], "id": name}
        yield {"claim": CLAIM, "router": router, "peer": routers[after], "count": count, "first": first}
