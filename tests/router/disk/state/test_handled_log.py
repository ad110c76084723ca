"""The log of handled messages: read again after a crash as far as it is whole, and taken into the state once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from router.disk.state.app_rows import AppBatch
from router.disk.state.app_state import AppState
from router.disk.state.handled_log import LOG_BYTES, LOG_FROM, HandledLog

JOURNAL, PLACE = b"journal1", b"journal1" + b"g" * 32


def batch_of(*numbers: int) -> AppBatch:
    handled = [(JOURNAL + number.to_bytes(32, "big"), 100) for number in numbers]
    return AppBatch(handled, heads={PLACE: [(number.to_bytes(32, "big"), 100) for number in numbers]})


@pytest.fixture
def descriptor(tmp_path: Path) -> int:
    return os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT, 0o600)


def test_what_was_appended_is_read_again(descriptor: int) -> None:
    log = HandledLog(descriptor, 0)
    assert log.append(batch_of(1, 2)) and log.append(batch_of()) and log.append(batch_of(3))
    again = HandledLog(descriptor, 0)
    assert again.waiting.handled == batch_of(1, 2, 3).handled and again.waiting.heads == batch_of(3).heads
    assert again.number == 3 and again.append(batch_of(4))
    assert [HandledLog(descriptor, folded).number for folded in (0, 1, 4, 7)] == [4, 4, 4, 7]


def test_what_follows_on_records_that_are_in_the_state_is_read(descriptor: int) -> None:
    """They were committed, which was not learned of, as when the disk fails at the end of the commit."""
    log = HandledLog(descriptor, 0)
    for number in range(3):
        log.append(batch_of(number))
    again = HandledLog(descriptor, 2)
    assert again.waiting.handled == batch_of(2).handled and not again.is_empty
    assert again.append(batch_of(3)) and HandledLog(descriptor, 2).waiting.handled == batch_of(2, 3).handled
    assert HandledLog(descriptor, 4).is_empty


@pytest.mark.parametrize("at", [0, 4, 8, 20, 60, 100])
def test_a_record_that_is_not_whole_ends_the_log(descriptor: int, at: int) -> None:
    log = HandledLog(descriptor, 0)
    log.append(batch_of(1))
    second = log._at
    log.append(batch_of(2))
    changed = os.pread(descriptor, 1, second + at)[0] ^ 1
    os.pwrite(descriptor, bytes((changed,)), second + at)
    again = HandledLog(descriptor, 0)
    assert again.waiting.handled == batch_of(1).handled and again.number == 1
    assert again.append(batch_of(3)) and HandledLog(descriptor, 0).waiting.handled == batch_of(1, 3).handled


def test_records_of_before_are_not_read_behind_new_ones(descriptor: int) -> None:
    log = HandledLog(descriptor, 0)
    for number in range(5):
        log.append(batch_of(number))
    log.folded()
    assert log.is_empty and log.append(batch_of(9))
    assert HandledLog(descriptor, 5).waiting.handled == batch_of(9).handled


def test_a_full_log_goes_into_the_state(tmp_path: Path, descriptor: int) -> None:
    state = AppState(tmp_path / "state")
    state.begin_log(descriptor, JOURNAL)
    count, at_once = 2 * LOG_BYTES // 44, 350
    for first in range(0, count, at_once):
        batch = batch_of(*range(first, first + at_once))
        state.commit(AppBatch(batch.handled, heads={PLACE: batch.heads[PLACE][-1:]}))
    keys = [JOURNAL + number.to_bytes(32, "big") for number in range(first + at_once)]
    with state.reading() as rows:
        assert 0 < rows.handled() < len(keys)
    assert len(state.known(keys)) == len(keys) and state.heads(PLACE) == [(keys[-1][8:], 100)]
    state.end_log()
    with state.reading() as rows:
        assert len(rows.known(keys)) == rows.handled() == len(keys) and rows.heads(PLACE) == [(keys[-1][8:], 100)]
    assert os.fstat(descriptor).st_size == LOG_FROM + LOG_BYTES
    state.close()


def test_what_commits_with_others_takes_the_log_along(tmp_path: Path, descriptor: int) -> None:
    state = AppState(tmp_path / "state")
    state.begin_log(descriptor, JOURNAL)
    state.commit(batch_of(1))
    with state.reading() as rows:
        assert rows.handled() == 0
    assert len(state.known([key for key, _ in batch_of(1, 2).handled])) == 1 and state.heads(PLACE)
    seen = []

    def decide(rows: object) -> AppBatch:
        seen.append(rows.handled())  # type: ignore[attr-defined]
        return AppBatch(numbers={bytes(32): 1})

    state.change(decide)
    assert seen == [1], "a decision sees what was in the log"
    state.close()
    state.begin_log(descriptor, JOURNAL)
    state.commit(batch_of(2))
    state.close()
    again = AppState(tmp_path / "state")
    again.begin_log(descriptor, JOURNAL)
    assert len(again.known([key for key, _ in batch_of(1, 2).handled])) == 2
    again.end_log()
    again.close()
