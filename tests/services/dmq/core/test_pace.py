"""Cycles with other nodes are the further apart, the more messages come, within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.dmq.core.peers.fetching import LATE_S
from services.dmq.core.peers.pace import (
    EACH_S,
    FADES_S,
    LEAST_S,
    MOST_S,
    SLOW_FOR_S,
    SLOW_MOST_S,
    SLOW_S,
    RelayPace,
)


def pace_of(*times_s: float) -> RelayPace:
    pace = RelayPace()
    for one in times_s:
        pace.took(one)
    return pace


def test_each_message_adds_to_the_distance_which_shrinks_again() -> None:
    assert RelayPace().distance_s(100.0) == LEAST_S
    assert pace_of(100.0).distance_s(100.0) == LEAST_S + EACH_S
    assert pace_of(100.0, 100.0).distance_s(100.0) == pytest.approx(LEAST_S + 2 * EACH_S)
    assert pace_of(100.0).distance_s(100.0 + FADES_S) == pytest.approx(LEAST_S + EACH_S / 2.718281828)
    assert pace_of(100.0).distance_s(160.0) == pytest.approx(LEAST_S)


def test_while_answers_take_long_cycles_are_closer_together() -> None:
    pace = pace_of(*[100.0] * 50)
    pace.answered(LATE_S / 2, 100.0)  # as in each round on a busy machine
    assert pace.distance_s(100.0) == MOST_S
    pace.answered(SLOW_S, 100.0)
    assert pace.distance_s(100.0) == SLOW_MOST_S < MOST_S
    assert pace_of(100.0).distance_s(100.0) == LEAST_S + EACH_S
    for _ in range(50):
        pace.took(100.0 + SLOW_FOR_S)
    assert pace.distance_s(100.0 + SLOW_FOR_S) == MOST_S


@given(st.lists(st.floats(0, 1e6), max_size=50), st.floats(0, 1e6))
def test_it_stays_within_its_bounds(times_s: list[float], after_s: float) -> None:
    now_s = max(times_s, default=0.0) + after_s
    assert LEAST_S <= pace_of(*sorted(times_s)).distance_s(now_s) <= MOST_S
