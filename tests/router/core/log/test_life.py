"""The numbers of a new life leap beyond all that an earlier one can have used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.core.log.life import EVENTS_PER_MS, LEAP_MIN, Life, Restored, begun, next_life
from router.core.wire.run_claim import LIFE_MAX
from spark_analytics.judgement.line_grammar import NUMBER_MAX

NUMBERS = some.integers(1, 1 << 50)
MOMENTS_S = some.integers(0, 1 << 31)


@given(NUMBERS, NUMBERS, MOMENTS_S, some.lists(some.integers(1, 1 << 36), min_size=1, max_size=5, unique=True))
def test_no_number_of_any_life_since_the_snapshot_is_used_again(
    seq: int, arrival: int, snapshot_s: int, after_ms: list[int]
) -> None:
    """Several lives begin from one snapshot; each writes as much as a node can until the next one begins."""
    used_seq, used_arrival = seq + 2_000_000_000, arrival + 2_000_000_000
    for since_ms in sorted(after_ms):
        at_ms = snapshot_s * 1000 + since_ms
        life, first = begun(Restored(next_life(0, at_ms), snapshot_s, at_ms // 1000), Life(), arrival, seq)
        assert life.first_seq > used_seq and first > used_arrival
        assert life.after_seq == seq - 1 and life.skipped == life.first_seq - seq
        following = min((one for one in after_ms if one > since_ms), default=since_ms)
        written = (following - since_ms) * EVENTS_PER_MS - 1
        used_seq, used_arrival = life.first_seq + written, first + written


@given(some.lists(some.tuples(some.integers(1, 1 << 42), some.integers(0, LEAP_MIN - 1)), min_size=1, max_size=8))
def test_every_life_counts_on_from_the_one_before(restores: list[tuple[int, int]]) -> None:
    """Each restore is of a snapshot of the life before, which wrote more after it; clocks may run backwards."""
    life, seq, written, used = Life(), 1, 0, 0
    for at_ms, events in restores:
        restored = Restored(next_life(life.number, at_ms), 0, 0)
        assert restored.life > life.number
        seq, written = seq + events, written + events
        used = max(used, seq + events)
        after, _ = begun(restored, life, 1, seq)
        assert after.first_seq > used
        life, seq = after, after.first_seq
        assert seq - 1 - life.skipped == written, "as many as the lives of this store have written"


def test_a_life_without_an_event_is_skipped_by_the_next_one() -> None:
    """Its node was killed before the first commit; no line of the log has numbers for the next one to go on from."""
    first, _ = begun(Restored(1, 0, 0), Life(), 1, 9)
    then, _ = begun(Restored(2, 0, 0), first, 1, first.first_seq)
    assert (first.after_seq, then.after_seq) == (8, 8)
    assert then.skipped == then.first_seq - 9


def test_the_first_life_says_nothing_of_itself() -> None:
    assert Life().told() == () and Life().facts() is None
    life, _ = begun(Restored(1_800_000_000_500, 1_799_999_999, 1_800_000_000), Life(), 5, 9)
    assert dict(life.told()) == {
        "life": 1_800_000_000_500, "snapshot_s": 1_799_999_999, "restored_s": 1_800_000_000, "after_seq": 8,
        "life_seq": 9 + LEAP_MIN + 1500 * EVENTS_PER_MS,
    }  # fmt: skip


def test_the_greatest_life_leaves_its_numbers_within_a_line_of_the_log() -> None:
    """Of nine lives in a row that leap as far as any can; beyond, no auditor would read what the node writes."""
    life, arrival = Life(), 1
    for _ in range(9):
        life, arrival = begun(Restored(LIFE_MAX, 0, 0), life, arrival, life.first_seq)
    assert max(life.first_seq, arrival, life.skipped) <= NUMBER_MAX


@pytest.mark.parametrize("wrong", [(0, 1, 1), (LIFE_MAX + 1, 1, 1), (1, -1, 1), (1, 1, 1 << 32)])
def test_numbers_beyond_their_ranges_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="beyond their ranges"):
        Restored(*wrong)
