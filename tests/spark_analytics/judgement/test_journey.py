"""The ways of messages: origins, hops and clock bounds of every path, also where logs go round in a circle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.judgement.journey import NS_MAX, Bounds, Way, clocks_of, ways

Steps = list[tuple[int, int, int | None]]


def found(steps: Steps, clocks: dict[tuple[int, int], Bounds] | None = None) -> dict[tuple[int, int], Way]:
    return {(way.path, way.router): way for way in ways(steps, clocks or {})}


def test_ways_follow_each_path_by_itself() -> None:
    by_place = found([(7, 1, None), (7, 2, 1), (7, 3, 2), (7, 4, 2), (8, 3, None), (8, 2, 3)])
    assert {place: (way.origin, way.hops) for place, way in by_place.items()} == {
        (7, 1): (1, 0), (7, 2): (1, 1), (7, 3): (1, 2), (7, 4): (1, 2), (8, 3): (3, 0), (8, 2): (3, 1),
    }  # fmt: skip


def test_bounds_of_clocks_add_up_along_a_way() -> None:
    clocks = clocks_of([(1, 2, -5, 10), (3, 2, 1, 4)])
    by_place = found([(0, 1, None), (0, 2, 1), (0, 3, 2), (0, 4, 3)], clocks)
    assert [by_place[0, router].bounds for router in (1, 2, 3, 4)] == [
        Bounds(0, 0), Bounds(-5, 10), Bounds(-9, 9), Bounds(),
    ]  # fmt: skip
    assert by_place[0, 3].row() == (0, 3, 1, 2, -9, 9)


def test_bounds_of_both_directions_hold_together() -> None:
    assert clocks_of([(1, 2, -5, None), (2, 1, -3, 9)])[1, 2] == Bounds(-5, 3)
    assert clocks_of([(1, 2, None, None)]) == {(1, 2): Bounds(), (2, 1): Bounds()}


def test_bounds_that_contradict_or_that_no_clock_has_say_nothing() -> None:
    set_between = clocks_of([(1, 2, 10, None), (2, 1, 10, None)])
    assert found([(0, 1, None), (0, 2, 1)], set_between)[0, 2].bounds == Bounds()
    far = clocks_of([(1, 2, 0, NS_MAX), (2, 3, 0, NS_MAX)])
    assert found([(0, 1, None), (0, 2, 1), (0, 3, 2)], far)[0, 3].bounds == Bounds(0, None)


def test_a_circle_and_what_comes_from_it_has_no_beginning() -> None:
    by_place = found([(0, 1, 2), (0, 2, 1), (0, 3, 2), (0, 4, 4), (0, 5, None)])
    assert [by_place[0, router][2:4] for router in (1, 2, 3, 4, 5)] == [(None, None)] * 4 + [(5, 0)]


def test_a_way_from_a_router_without_an_acceptance_has_no_bounds() -> None:
    way = found([(0, 2, 1)], clocks_of([(1, 2, 0, 1)]))[0, 2]
    assert (way.origin, way.hops, way.bounds) == (1, 1, Bounds())


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.none() | st.integers(0, 9)), max_size=30))
def test_each_step_has_one_way_that_goes_back_to_its_origin(steps: Steps) -> None:
    brought = {(path, router): neighbour for path, router, neighbour in steps}
    by_place = found([(path, router, neighbour) for (path, router), neighbour in brought.items()])
    assert by_place.keys() == brought.keys()
    for (path, router), way in by_place.items():
        at: int | None = router
        for _ in range(way.hops or 0):
            assert at is not None
            at = brought[path, at]
        if way.hops is None:
            assert way.origin is None and brought[path, router] is not None
        else:
            assert at is not None and at == way.origin and brought.get((path, at)) is None
