"""Seeded schedules of every possible fault of a node, on the cycle that ships."""

from __future__ import annotations

import logging

import pytest

from world.schedule import play

QUICK, LONG, EACH = 15, 10_000, 50


def batches() -> list[object]:
    """Return the first and the last seed of each batch; those beyond `QUICK` are long."""
    rest = ((first, min(first + EACH, LONG)) for first in range(QUICK, LONG, EACH))
    return [(0, QUICK), *(pytest.param(one, marks=pytest.mark.long) for one in rest)]


@pytest.mark.parametrize("seeds", batches(), ids=str)
def test_a_schedule_ends_with_books_that_balance(seeds: tuple[int, int], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "router")
    for seed in range(*seeds):
        play(seed)


def test_a_message_that_seemed_expired_at_a_reconnect_is_marked_when_it_comes_after_newer_ones() -> None:
    """The clock of app 2's node was wrong when it reconnected."""
    play(8817)
