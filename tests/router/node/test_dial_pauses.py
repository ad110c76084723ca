"""The pauses between dials of a neighbour, by value: those of one that moves, and after an address was skipped."""

from __future__ import annotations

import pytest

from router.core.service.back_off import BackOff
from router.node.dial_pauses import FOLLOW_FOR_S, FOLLOW_S_MAX, SPREAD_S, DialPauses

KEY = b"k" * 32


def pauses(shortest_s: float = 0.5, longest_s: float = 60.0) -> DialPauses:
    made = DialPauses(BackOff(shortest_s, longest_s))
    made.begin(KEY, 0.0)
    return made


@pytest.mark.parametrize("draw", [0.0, 0.5, 0.999])
def test_neighbour_that_moves_is_dialled_every_twenty_seconds_for_an_hour_after_it_was_lost(draw: float) -> None:
    found = pauses()
    assert found.pause_s(KEY, 20, draw, 100.0, has_moved=True) == FOLLOW_S_MAX * (1 + draw) / 2
    assert found.pause_s(KEY, 20, draw, 100.0, has_moved=False) == 60.0 * (1 + draw) / 2
    assert found.pause_s(KEY, 20, draw, FOLLOW_FOR_S, has_moved=True) == 60.0 * (1 + draw) / 2
    found.lost(KEY, FOLLOW_FOR_S)
    found.begin(KEY, FOLLOW_FOR_S + 1)
    assert found.pause_s(KEY, 20, draw, FOLLOW_FOR_S + 100, has_moved=True) == FOLLOW_S_MAX * (1 + draw) / 2


@pytest.mark.parametrize(("shortest_s", "longest_s"), [(0.05, 1.0), (200.0, 200.0), (30.0, 3600.0)])
def test_neighbour_that_moves_is_not_dialled_less_often_than_the_settings_say(
    shortest_s: float, longest_s: float
) -> None:
    found = pauses(shortest_s, longest_s)
    assert found.pause_s(KEY, 20, 1.0, 100.0, has_moved=True) == min(longest_s, FOLLOW_S_MAX)


def test_skipped_address_is_dialled_when_its_rest_is_over_and_not_by_all_at_once() -> None:
    found = pauses()
    for until_s in (112.0, 100.3, 104.0):
        found.skipped(KEY, until_s)
    waits = [found.pause_s(KEY, 20, draw / 100, 100.0, has_moved=False) for draw in range(100)]
    assert [round(one, 6) for one in (waits[0], waits[50], waits[99])] == [0.3, 0.3 + 0.5 * SPREAD_S, 5.25]
    assert found.pause_s(KEY, 1, 0.5, 90.0, has_moved=False) == 0.375, "a shorter pause stays"
    found.begin(KEY, 101.0)
    assert found.pause_s(KEY, 20, 0.0, 101.0, has_moved=False) == 30.0, "the next attempt skipped none"


def test_pauses_are_forgotten_with_the_neighbour() -> None:
    found = pauses()
    found.forget(KEY)
    found.skipped(KEY, 1.0)
    assert repr(found) == "<pauses of 0 neighbours>" and found.pause_s(KEY, 20, 0.0, 0.0, has_moved=True) == 30.0
