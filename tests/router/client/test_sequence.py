"""Sequence numbers: each once, contiguous across runs that end normally, never twice after a crash."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from router.client.sequence import SequenceError, Sequences
from router.core.wire.crypto import SigningKey
from router.disk.state.app_state import AppState


def unheard(problem: str) -> None:
    raise AssertionError(problem)


ONE, TWO = (SigningKey(bytes((n,)) * 32).public for n in (1, 2))


def numbered(path: Path | None, block: int) -> Sequences:
    return Sequences(AppState(path), block)


def test_without_a_path_they_begin_at_0() -> None:
    numbers = numbered(None, 2)
    assert [numbers.take(ONE) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert numbers.take(TWO) == 0
    numbers.close(unheard)
    assert repr(numbers) == "<sequence numbers of 2 groups, kept in memory>"


def test_contiguous_across_runs(tmp_path: Path) -> None:
    path = tmp_path / "apps" / "sensor.state"
    taken = []
    for count in (3, 8, 1):
        numbers = numbered(path, 4)
        taken += [numbers.take(ONE) for _ in range(count)]
        numbers.close(unheard)
        numbers.state.close()
    assert taken == list(range(12))
    assert path.stat().st_mode & 0o777 == 0o700 and (path / "data.mdb").stat().st_mode & 0o777 == 0o600
    assert AppState(path).number(ONE) == 12


def test_a_crash_leaves_a_gap_but_no_number_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.state"
    assert [numbered(path, 4).take(ONE) for _ in range(3)] == [0, 4, 8]


def test_two_users_of_one_name_share_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.state"
    first, second = numbered(path, 2), numbered(path, 2)
    taken = [one.take(ONE) for _ in range(5) for one in (first, second)]
    assert len(set(taken)) == 10
    first.close(unheard)
    second.close(unheard)
    assert numbered(path, 2).take(ONE) > max(taken)


def test_the_last_number_can_be_given_back(tmp_path: Path) -> None:
    for numbers in (numbered(None, 2), numbered(tmp_path / "x.state", 2)):
        assert [numbers.take(ONE), numbers.take(ONE)] == [0, 1]
        numbers.give_back(ONE, 0)
        assert numbers.take(ONE) == 2
        numbers.give_back(ONE, 2)
        assert numbers.take(ONE) == 2
        numbers.close(unheard)


def test_a_number_given_back_at_the_edge_of_a_block(tmp_path: Path) -> None:
    numbers = numbered(tmp_path / "x.state", 1)
    assert numbers.take(ONE) == 0
    numbers.give_back(ONE, 0)
    assert [numbers.take(ONE), numbers.take(ONE)] == [0, 1]


def test_there_is_a_most_of_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.client.sequence.GROUPS_MAX", 1)
    numbers = numbered(tmp_path / "x.state", 4)
    assert numbers.take(ONE) == 0
    with pytest.raises(SequenceError, match="to 1 groups, which is the most; use another name"):
        numbers.take(TWO)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "apps").write_text("a file")
    with pytest.raises(SequenceError, match="cannot be opened"):
        numbered(tmp_path / "apps" / "x.state", 4).take(ONE)


def test_what_cannot_be_given_back_is_told_and_raises_nothing(tmp_path: Path) -> None:
    path = tmp_path / "apps" / "sensor.state"
    numbers = numbered(path, 4)
    numbers.take(ONE)
    shutil.rmtree(path.parent)
    problems: list[str] = []
    numbers.close(problems.append)
    [problem] = problems
    assert "sensor.state cannot be written: it was renamed or removed while it was in use; put it back" in problem
    assert problem.endswith("; some sequence numbers of this app stay unused")


def test_in_a_restored_home_they_go_on_from_its_life(tmp_path: Path) -> None:
    path, taken = tmp_path / "sensor.state", []
    for least in (0, 0, 1_000, 1_000):
        numbers = Sequences(AppState(path), 4, least)
        taken += [numbers.take(ONE) for _ in range(3)]
        numbers.close(unheard)
    assert taken == [0, 1, 2, 3, 4, 5, 1000, 1001, 1002, 1003, 1004, 1005]
