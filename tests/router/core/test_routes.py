"""Learned routes: what replaces what, and the limits (R-C2)."""

from __future__ import annotations

import pytest

from router.core.routes import Route, Routes

ANN, BOB, CEM = (bytes((n,)) * 32 for n in (1, 2, 3))
EAST, WEST = b"e" * 32, b"w" * 32


def routes(routes_max: int = 10, per_neighbour_max: int = 10, hold_s: int = 60) -> Routes:
    return Routes(routes_max, per_neighbour_max, hold_s)


def test_a_route_leads_until_its_time() -> None:
    table = routes()
    assert table.learn(Route(ANN, EAST, 100), 50)
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
    assert table.learn(Route(ANN, neighbour, until_s), now_s) is learned
    assert list(table) == [Route(ANN, neighbour, until_s) if learned else Route(ANN, EAST, 100)]
    assert (table.revision > before) is (learned and neighbour is WEST), "a plan changes only with the neighbour"


def test_a_neighbour_that_is_down_too_long_gives_way() -> None:
    table = routes()
    table.learn(Route(ANN, EAST, 1000), 0)
    table.neighbour_down(EAST, 10)
    table.neighbour_down(EAST, 60)
    assert not table.learn(Route(ANN, WEST, 500), 69)
    table.neighbour_up(EAST)
    assert not table.learn(Route(ANN, WEST, 500), 80)
    table.neighbour_down(EAST, 80)
    assert table.learn(Route(ANN, WEST, 500), 140)


def test_a_full_table_learns_nothing() -> None:
    table = routes(routes_max=2)
    assert table.learn(Route(ANN, EAST, 100), 0) and table.learn(Route(BOB, EAST, 100), 0)
    assert not table.learn(Route(CEM, WEST, 100), 0)
    assert table.learn(Route(BOB, WEST, 200), 0) and len(table) == 2


def test_a_full_neighbour_takes_nothing_over() -> None:
    table = routes(per_neighbour_max=1)
    assert table.learn(Route(ANN, EAST, 100), 0) and table.learn(Route(BOB, WEST, 100), 0)
    assert not table.learn(Route(CEM, EAST, 100), 0) and not table.learn(Route(BOB, EAST, 500), 0)
    assert table.learn(Route(ANN, EAST, 500), 0)
    assert table.forget(ANN) and not table.forget(ANN)
    assert table.learn(Route(CEM, EAST, 100), 0)


def test_nothing_is_kept_of_a_neighbour_without_routes() -> None:
    table = routes()
    table.neighbour_down(EAST, 0)
    table.learn(Route(ANN, EAST, 100), 0)
    table.neighbour_down(EAST, 0)
    table.forget(ANN)
    assert not table._down_since and not table._of_neighbour
