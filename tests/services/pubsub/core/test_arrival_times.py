"""When messages came, by rank: exact lately, bounded for ever, and never so that news counts as history."""

from __future__ import annotations

from bisect import bisect_left
from random import Random

import pytest

from services.pubsub.core.comparison.arrival_times import PART, TIMES_MAX, ArrivalTimes

DAY_S = 86_400


def test_a_busy_week_stays_within_the_bound() -> None:
    """A topic with a message each second took 1.4 MB more each day."""
    times, most = ArrivalTimes(), 0
    for at in range(7 * DAY_S // 60):
        times.take(((1_800_000_000 + 60 * at + second, 2) for second in range(60)), 120 * at)
        most = max(most, len(times))
    assert most <= TIMES_MAX


@pytest.mark.parametrize("seed", range(5))
def test_a_message_that_came_later_never_counts_as_earlier(seed: int) -> None:
    """Compared with all times, in a list."""
    chance, times = Random(seed), ArrivalTimes()
    seconds, ranks, rank, at_s = list[int](), list[int](), 0, 1_800_000_000
    for _ in range(3 * TIMES_MAX):
        at_s, count = at_s + chance.choice((1, 1, 1, 7, 300)), chance.randrange(1, 9)
        times.take([(at_s, count)], rank)
        seconds.append(at_s)
        ranks.append(rank)
        rank += count
    assert len(times) < len(seconds)
    for _ in range(500):
        asked_s = chance.randrange(seconds[0] - 10, at_s + 10)
        at = bisect_left(seconds, asked_s)
        right = ranks[at] if at < len(ranks) else rank
        found = times.rank_before(asked_s)
        found = rank if found is None else found
        assert found <= right, "in doubt a message is news"
        first = bisect_left(seconds, asked_s - 3 * (at_s - asked_s) / PART)
        assert first == len(ranks) or found >= ranks[max(0, first - 1)], "by three parts of its age at most"


def test_what_came_lately_is_known_to_the_second() -> None:
    times = ArrivalTimes()
    times.take(((1_800_000_000 + second, 1) for second in range(2 * TIMES_MAX)), 0)
    for second in range(2 * TIMES_MAX - PART, 2 * TIMES_MAX):
        assert times.rank_before(1_800_000_000 + second) == second
    assert times.rank_before(1_800_000_000 + 2 * TIMES_MAX) is None
    assert times.rank_before(1_700_000_000) == 0 and repr(times) == f"<{len(times)} arrival times>"
