"""Which neighbours are dialled to learn from them, and how often, by value."""

from __future__ import annotations

from typing import Any

import pytest

from services.discovery.core.looks import DIALLED_MAX, LOOK_S, REMEMBERED_MAX, Looks

DAY_S = 86_400


def away(number: int = 1, problem: str | None = None) -> dict[str, Any]:
    urls = [f"tls://45.0.0.{number % 250}:4100"]
    address = number.to_bytes(32).hex()
    return {
        "address": address, "standing": "peer", "state": "away", "urls": urls, "uplink": False, "problem": problem,
    }  # fmt: skip


def dials(looks: Looks, row: dict[str, Any], first_s: float, seconds: float, *, is_alone: bool = False) -> int:
    """Return how often a neighbour is dialled in that time, if it is away at each look."""
    found = 0
    for at in range(int(seconds // LOOK_S)):
        looks.begin()
        found += len([*looks.due([row], first_s + at * LOOK_S, is_alone=is_alone)])
    return found


@pytest.mark.parametrize(("problem", "first_hour", "later"), [(None, 6, 24), ("connection refused", 9, 24 * 6)])
def test_a_neighbour_whose_links_end_is_dialled_ever_more_seldom(
    problem: str | None, first_hour: int, later: int
) -> None:
    looks = Looks()
    assert dials(looks, away(problem=problem), 0, 3600) == first_hour
    assert dials(looks, away(problem=problem), 3600, DAY_S) <= later + 1


@pytest.mark.parametrize("standing", ["peer", "client"])
def test_a_configured_router_is_dialled_whether_it_has_rights_here_or_not(standing: str) -> None:
    assert dials(Looks(), away() | {"standing": standing}, 0, LOOK_S) == 1


@pytest.mark.parametrize("standing", ["met", "stranger", "local"])
def test_nobody_else_is_dialled_to_learn_of_others(standing: str) -> None:
    assert dials(Looks(), away() | {"standing": standing}, 0, LOOK_S) == 0


def test_while_nobody_is_known_each_look_dials_who_was_not_reached() -> None:
    assert dials(Looks(), away(problem="connection refused"), 0, 3600, is_alone=True) == 60
    assert dials(Looks(), away(), 0, 3600, is_alone=True) == 6, "and one that was reached has nothing to tell"


def test_after_two_hours_without_a_dial_the_pauses_begin_again() -> None:
    looks = Looks()
    dials(looks, away(), 0, DAY_S)
    assert dials(looks, away(), DAY_S + 3 * 3600, 3600) == 6


def test_one_look_dials_a_few_and_a_bounded_number_is_remembered() -> None:
    looks = Looks()
    looks.begin()
    assert len([*looks.due([away(n) for n in range(40)], 0, is_alone=False)]) == DIALLED_MAX
    for n in range(REMEMBERED_MAX + 9):
        looks.begin()
        assert [*looks.due([away(1000 + n)], 1.0, is_alone=False)]
    assert repr(looks) == f"<looks: {REMEMBERED_MAX} neighbours were dialled>"
