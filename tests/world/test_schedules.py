"""Seeded schedules of every possible fault of a node, on the cycle that ships."""

from __future__ import annotations

import logging

import pytest

from world.schedule import play

QUICK, LONG, EACH = 50, 10_000, 50


def batches() -> list[object]:
    """Return the first seeds of batches; those beyond `QUICK` are long."""
    return [first if first < QUICK else pytest.param(first, marks=pytest.mark.long) for first in range(0, LONG, EACH)]


@pytest.mark.parametrize("first", batches())
def test_a_schedule_ends_with_books_that_balance(first: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "router")
    for seed in range(first, first + EACH):
        play(seed)


def test_a_message_that_seemed_expired_at_a_reconnect_is_marked_when_it_comes_after_newer_ones() -> None:
    """The clock of app 2's node was wrong when it reconnected."""
    play(8817)
