"""Learned routes: which replace which, and the limits (R-C2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.routing.limits import RouteLimits
from router.core.routing.routes import Route, Routes

ANN, BOB, CEM, DAN, EVE = (bytes((n,)) * 32 for n in range(1, 6))
EAST, WEST, SOUTH = b"e" * 32, b"w" * 32, b"s" * 32


def routes(routes_max: int = 10, per_neighbour_max: int = 10, hold_s: int = 60, percent: int = 100) -> Routes:
    """Return a table in which South is a client and the others are peers."""
    return Routes(RouteLimits(routes_max, per_neighbour_max, percent, hold_s), lambda one: 2 if one == SOUTH else 1)


def learns(table: Routes, route: Route, now_s: int) -> bool:
    return table.learn(route, now_s) is not None


def test_a_route_leads_until_its_time() -> None:
    table = routes()
    assert learns(table, Route(ANN, EAST, 100), 50)
    assert table.neighbour_of(ANN, 99) == EAST
    assert table.neighbour_of(ANN, 100) is None and table.neighbour_of(BOB, 50) is None
    assert table.aged(99) == [] and table.aged(100) == [Route(ANN, EAST, 100)] == list(table)
    assert repr(table) == "<1 learned routes through 1 neighbours>"


@pytest.mark.parametrize(
    ("neighbour", "until_s", "now_s", "learned"),
    [
        (EAST, 100, 50, False), (EAST, 99, 50, False), (EAST, 101, 50, True),
        (WEST, 100, 50, False), (WEST, 101, 50, True), (WEST, 100, 99, False),
        (WEST, 100, 100, True),
    ],
)  # fmt: skip
def test_only_a_later_expiry_or_age_replaces(neighbour: bytes, until_s: int, now_s: int, learned: bool) -> None:
    table = routes()
    table.learn(Route(ANN, EAST, 100), 50)
    before = table.revision
    assert (table.learn(Route(ANN, neighbour, until_s), now_s) is not None) is learned
    assert list(table) == [Route(ANN, neighbour, until_s) if learned else Route(ANN, EAST, 100)]
    assert (table.revision > before) is (learned and neighbour is WEST), "a plan changes only with the neighbour"


def test_a_neighbour_that_is_down_too_long_gives_way() -> None:
    table = routes()
    table.learn(Route(ANN, EAST, 1000), 0)
    table.neighbour_down(EAST, 10)
    table.neighbour_down(EAST, 60)
    assert not learns(table, Route(ANN, WEST, 500), 69)
    table.neighbour_up(EAST)
    assert not learns(table, Route(ANN, WEST, 500), 80)
    table.neighbour_down(EAST, 80)
    assert learns(table, Route(ANN, WEST, 500), 140)


def test_a_full_table_learns_nothing() -> None:
    table = routes(routes_max=2)
    assert learns(table, Route(ANN, EAST, 100), 0) and learns(table, Route(BOB, EAST, 100), 0)
    assert not learns(table, Route(CEM, WEST, 100), 0)
    assert learns(table, Route(BOB, WEST, 200), 0) and len(table) == 2


def test_a_full_neighbour_takes_nothing_over() -> None:
    table = routes(per_neighbour_max=1)
    assert learns(table, Route(ANN, EAST, 100), 0) and learns(table, Route(BOB, WEST, 100), 0)
    assert not learns(table, Route(CEM, EAST, 100), 0) and not learns(table, Route(BOB, EAST, 500), 0)
    assert learns(table, Route(ANN, EAST, 500), 0)
    assert table.forget(ANN) and not table.forget(ANN)
    assert learns(table, Route(CEM, EAST, 100), 0)


def test_nothing_is_kept_of_a_neighbour_without_routes() -> None:
    table = routes()
    table.neighbour_down(EAST, 0)
    table.learn(Route(ANN, EAST, 100), 0)
    table.neighbour_down(EAST, 0)
    table.forget(ANN)
    assert not table._down_since and not table._of_neighbour


def test_for_a_route_of_higher_rank_the_oldest_of_who_has_most_gives_way() -> None:
    table = routes(routes_max=3)
    for key, neighbour in ((ANN, EAST), (BOB, WEST), (CEM, WEST)):
        assert table.learn(Route(key, neighbour, 100), 0) == []
    assert table.learn(Route(DAN, EAST, 900), 0) is None, "a peer's gives way to no peer's"
    assert table.learn(Route(DAN, SOUTH, 10), 0) == [Route(BOB, WEST, 100)]
    assert table.learn(Route(EVE, SOUTH, 10), 0) == [Route(ANN, EAST, 100)]
    assert {one.destination for one in table} == {CEM, DAN, EVE}
    assert table.learn(Route(CEM, SOUTH, 10), 0) == [], "it takes the place of its own"
    assert table.learn(Route(ANN, SOUTH, 900), 0) is None, "nothing is left that would give way"


def test_a_neighbour_leaves_as_much_as_it_has() -> None:
    table = routes(routes_max=12, percent=50)
    taken = [
        sum(learns(table, Route(bytes((at, n)) * 16, bytes((at,)) * 32, 9), 0) for n in range(12)) for at in range(9)
    ]
    assert taken == [6, 3, 1, 1, 1, 0, 0, 0, 0]
    assert sum(learns(table, Route(bytes((99, n)) * 16, SOUTH, 9), 0) for n in range(12)) == 6, "of all that peers have"


KEYS = st.sampled_from([ANN, BOB, CEM, DAN, EVE])


@given(st.lists(st.tuples(KEYS, st.sampled_from([EAST, WEST, SOUTH]), st.integers(1, 9), st.booleans())))
def test_what_is_counted_of_a_neighbour_is_what_leads_through_it(steps: list[tuple[bytes, bytes, int, bool]]) -> None:
    table, known = routes(routes_max=4, per_neighbour_max=3, percent=60), dict[bytes, Route]()
    for destination, neighbour, until_s, forgets in steps:
        if forgets:
            assert table.forget(destination) is (known.pop(destination, None) is not None)
        elif (gone := table.learn(route := Route(destination, neighbour, until_s), 0)) is not None:
            for one in gone:
                assert known.pop(one.destination) == one and one.neighbour is not SOUTH and neighbour is SOUTH
            known[destination] = route
        assert {one.destination: one for one in table} == known and len(known) <= 4
        for each in (EAST, WEST, SOUTH):
            theirs = table.through(each)
            assert {route.destination for route in theirs} == {key for key, it in known.items() if it.neighbour == each}
            assert len(theirs) <= 3
