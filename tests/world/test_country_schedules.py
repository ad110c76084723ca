"""Seeded schedules of cores, edges and subscribers with the pub/sub service's own rules, and every possible fault.

Each ends whole: every subscriber that stays has all messages of its groups, each once; no accepted message vanished; no
router was sent a group that nobody wants there; nothing is in transit.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from sabotage.test_audit_truth_world import agree, audited

from world.country_schedule import play
from world.world import World

QUICK, LONG, EACH = 1, 2_000, 25


def batches() -> list[object]:
    """Return the first and the last seed of each batch; those beyond `QUICK` are long."""
    rest = ((first, min(first + EACH, LONG)) for first in range(QUICK, LONG, EACH))
    return [(0, QUICK), *(pytest.param(one, marks=pytest.mark.long) for one in rest)]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "router")


@pytest.mark.parametrize("seeds", batches(), ids=str)
def test_a_schedule_ends_whole(seeds: tuple[int, int]) -> None:
    for seed in range(*seeds):
        play(seed)


def test_a_leaf_whose_core_forgot_it_still_catches_up() -> None:
    """The core's service was killed, but not its node; the leaf asked the service for an hour before it met it
    again."""
    play(3)


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 150))])
def test_the_audit_of_its_logs_finds_nothing_lost(seed: int, tmp_path: Path) -> None:
    """Copies between cores and repaired messages are told apart from deliveries."""

    def done(world: World) -> None:
        found = audited(world, tmp_path)
        agree(world, found)
        assert found["residual"] == 0

    play(seed, done)
