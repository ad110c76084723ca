"""Schedules depend on their seed alone, and no fault meets another where both would mean nothing."""

from __future__ import annotations

from itertools import accumulate, combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from router.chaos.schedule import (
    CLOCK_STEPS_S,
    DRIFTED_S_MAX,
    DRIFTS_S,
    FAULTS_MAX,
    FAULTS_S_PERCENT,
    KINDS,
    Fault,
    chosen,
    make_schedule,
)
from router.chaos.shape import NODES_MAX, NODES_MIN, FleetLink, fleet_shape

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(NODES_MIN, NODES_MAX)


def test_the_shape_of_five_nodes() -> None:
    shape = fleet_shape(5)
    assert shape.nodes == ("core-1", "core-2", "edge-a", "edge-b", "edge-c")
    assert shape.core_of == {"edge-a": "core-1", "edge-b": "core-2", "edge-c": "core-1"}
    assert [str(one) for one in shape.links] == ["core-2>core-1", "edge-a>core-1", "edge-b>core-2", "edge-c>core-1"]
    assert shape.path("edge-a", "edge-c") == {"edge-a", "core-1", "edge-c"}
    assert shape.path("edge-a", "core-2") == {"edge-a", "core-1", "core-2"}


def test_the_smallest_fleet_is_a_core_and_an_edge() -> None:
    assert fleet_shape(2).links == (FleetLink("edge-a", "core-1"),)


@example(31451, 427.42578125, 7)  # the last fault begins less than half a hundredth before the end of its time
@given(SEEDS, st.floats(5, 600), SIZES)
def test_a_schedule_keeps_its_bounds(seed: int, seconds: float, nodes: int) -> None:
    shape = fleet_shape(nodes)
    found = make_schedule(seed, seconds, shape)
    assert found == make_schedule(seed, seconds, shape)
    assert [one.number for one in found] == [*range(1, len(found) + 1)]
    places = {*shape.nodes, *map(str, shape.links)}
    for one in found:
        assert one.at_s <= seconds * FAULTS_S_PERCENT / 100 and one.for_s > 0 and one.target in places
        assert (one.amount != 0) == (one.kind in ("clock", "drift", "delay"))
    for one, other in combinations(found, 2):
        if set(one.claims) & set(other.claims):
            assert one.ends_s < other.at_s


@pytest.mark.parametrize("seed", range(20))
def test_drifts_add_up_and_stay_near_the_time(seed: int) -> None:
    drifts = [one for one in make_schedule(seed, 3600, fleet_shape(5)) if one.kind == "drift"]
    assert {one.target for one in drifts} == set(fleet_shape(5).nodes)
    for node in fleet_shape(5).nodes:
        ahead_s = [*accumulate(one.drifted_s for one in drifts if one.target == node)]
        assert 1 < max(map(abs, ahead_s)) <= DRIFTED_S_MAX


def test_a_drift_is_a_step_each_second() -> None:
    assert Fault(1, 0.0, 0.5, "drift", "edge-a", 0.2).drifted_s == 0.2
    assert Fault(1, 0.0, 2.5, "drift", "edge-a", -5.0).drifted_s == -15.0
    assert Fault(1, 0.0, 2.5, "clock", "edge-a", 7200.0).drifted_s == 0


def test_each_kind_comes_before_one_comes_twice() -> None:
    kinds = [one.kind for one in make_schedule(5, 300, fleet_shape(9))]
    assert set(kinds) == set(KINDS)


def test_other_seeds_give_other_schedules() -> None:
    assert len({make_schedule(seed, 30, fleet_shape(5)) for seed in range(20)}) == 20


def test_a_long_run_has_no_more_faults_than_the_limit() -> None:
    assert len(make_schedule(1, 86_400, fleet_shape(5))) == FAULTS_MAX


def test_chosen_faults_keep_their_numbers() -> None:
    whole = make_schedule(3, 60, fleet_shape(5))
    assert [one.number for one in chosen(whole, (4, 2))] == [2, 4]
    assert chosen(whole, ()) == ()
    with pytest.raises(ValueError, match=f"has {len(whole)} faults and no 999"):
        chosen(whole, (2, 999))


def test_each_fault_is_a_sentence() -> None:
    said = {one.kind: str(one) for one in make_schedule(5, 300, fleet_shape(5))}
    assert said.keys() == set(KINDS) and "core-2" in said["service"]
    assert any(f"{step:+,.0f} s" in said["clock"] for step in CLOCK_STEPS_S)
    assert any(f"{step:+.1f} s each second" in said["drift"] for step in DRIFTS_S)
