"""Sequence numbers: each once, contiguous across runs that end normally, never twice after a crash."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from router.client.sequence import SequenceError, Sequences
from router.core.wire.crypto import SigningKey


def unheard(problem: str) -> None:
    raise AssertionError(problem)


ONE, TWO = (SigningKey(bytes((n,)) * 32).public for n in (1, 2))


def test_without_a_path_they_begin_at_0() -> None:
    numbers = Sequences(None, block=2)
    assert [numbers.take(ONE) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert numbers.take(TWO) == 0
    numbers.close(unheard)
    assert repr(numbers) == "<sequence numbers of 2 groups, kept in memory>"


def test_contiguous_across_runs(tmp_path: Path) -> None:
    path = tmp_path / "apps" / "sensor.seq"
    taken = []
    for count in (3, 8, 1):
        numbers = Sequences(path, block=4)
        taken += [numbers.take(ONE) for _ in range(count)]
        numbers.close(unheard)
    assert taken == list(range(12))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == f"{ONE.hex()} 12\n"


def test_a_crash_leaves_a_gap_but_no_number_twice(tmp_path: Path) -> None:
    path = tmp_path / "x.seq"
    assert [Sequences(path, block=4).take(ONE) for _ in range(3)] == [0, 4, 8]


def test_two_processes_of_one_name_share_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.seq"
    first, second = Sequences(path, block=2), Sequences(path, block=2)
    taken = [one.take(ONE) for _ in range(5) for one in (first, second)]
    assert len(set(taken)) == 10
    first.close(unheard)
    second.close(unheard)
    assert Sequences(path, block=2).take(ONE) > max(taken)


def test_the_last_number_can_be_given_back(tmp_path: Path) -> None:
    for numbers in (Sequences(None, block=2), Sequences(tmp_path / "x.seq", block=2)):
        assert [numbers.take(ONE), numbers.take(ONE)] == [0, 1]
        numbers.give_back(ONE, 0)
        assert numbers.take(ONE) == 2
        numbers.give_back(ONE, 2)
        assert numbers.take(ONE) == 2
        numbers.close(unheard)


def test_a_number_given_back_at_the_edge_of_a_block(tmp_path: Path) -> None:
    numbers = Sequences(tmp_path / "x.seq", block=1)
    assert numbers.take(ONE) == 0
    numbers.give_back(ONE, 0)
    assert [numbers.take(ONE), numbers.take(ONE)] == [0, 1]


@pytest.mark.parametrize("text", ["nonsense", "00 1", f"{ONE.hex()} x", f"{ONE.hex()}", "\xff"])
def test_a_damaged_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.seq"
    path.touch(mode=0o600)
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(SequenceError, match="damaged; move it away"):
        Sequences(path).take(ONE)


def test_a_file_that_others_can_change(tmp_path: Path) -> None:
    path = tmp_path / "x.seq"
    path.write_text("")
    path.chmod(0o644)
    with pytest.raises(SequenceError, match="chmod 600"):
        Sequences(path).take(ONE)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "apps").write_text("a file")
    with pytest.raises(SequenceError, match="cannot be written"):
        Sequences(tmp_path / "apps" / "x.seq").take(ONE)


def test_what_cannot_be_given_back_is_told_and_raises_nothing(tmp_path: Path) -> None:
    path = tmp_path / "apps" / "sensor.seq"
    numbers = Sequences(path, block=4)
    numbers.take(ONE)
    shutil.rmtree(path.parent)
    path.parent.write_text("a file stands here now")
    problems: list[str] = []
    numbers.close(problems.append)
    [problem] = problems
    assert "sensor.seq cannot be written: " in problem
    assert problem.endswith("; see that there is room; some sequence numbers of this app stay unused")
