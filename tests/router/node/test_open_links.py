"""Open links: the last contact of neighbours that have none, as many as there is room for."""

from __future__ import annotations

from samples.logs import KEY

from router.core.neighbours.directory import Directory, Neighbour
from router.core.router import Router
from router.core.routing.limits import CoreLimits
from router.core.routing.recovered import Recovered
from router.core.wire.link_items import Hello
from router.core.wire.now import Now
from router.node.open_links import LEFT_MAX, OpenLinks

HELLO = Hello((1,), "router", bytes(8), True, 1 << 20, 8, 4096, (), bytes(16))
KEYS = [number.to_bytes(32, "big") for number in range(1, LEFT_MAX + 3)]


def at(seconds: float) -> Now:
    return Now(1_790_000_000 * 10**9, int(seconds * 1e9))


def test_open_links_know_when_the_newest_neighbours_were_here() -> None:
    directory = Directory(KEY.public, accept_strangers=True)
    directory.replace_neighbours([Neighbour(key) for key in KEYS[1:]])
    router, links = Router(KEY, directory, CoreLimits(), Recovered(), at(0)), OpenLinks()
    for number, key in enumerate(KEYS[:3]):
        router.link_up(number, key, False, HELLO, at(1))
        links.note_end(router, number, at(2))
        router.link_down(number, at(2))
    links.note_end(router, 99, at(2))
    assert [links.away_s(key, at(5.5)) for key in KEYS[:4]] == [None, 3.5, 3.5, None], "the first is a stranger"
    for key in KEYS[2:]:
        router.link_up(7, key, False, HELLO, at(6))
        links.note_end(router, 7, at(6))
        router.link_down(7, at(6))
    assert [links.away_s(key, at(8)) for key in KEYS[1:4]] == [None, 2, 2], "the one that left first is forgotten"
