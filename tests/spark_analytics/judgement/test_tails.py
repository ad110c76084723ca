"""Unsigned tails are compared with the other files that hold the same events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from samples.log_facts import evidence
from samples.segments import ROUTER, numbered, tail, write_log

from router.core.log.segment import file_name
from spark_analytics.judgement.evidence import Evidence
from spark_analytics.judgement.log_files import Seen
from spark_analytics.judgement.tails import Tails

EARLY, LATE = 5, 6
"""Times by which two histories of the same events differ."""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def written(name: str, first: int, last: int, at_ns: int = EARLY) -> Path:
        path = tmp_path / name / f"tail-{first}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(tail(numbered(first, last, at_ns)))
        return path

    return written


def statuses(found: Evidence) -> list[str]:
    return [file.status for file in found.files]


def test_of_two_copied_homes_that_both_went_on_neither_counts(write: Callable[..., Path]) -> None:
    one, other = write("a", 1, 6), write("b", 1, 8, LATE)
    for order in ((one, other), (other, one)):
        found = evidence(*(path.parent for path in order))
        assert statuses(found) == ["fork", "fork"]
        assert [(hole.first_seq, hole.last_seq) for hole in found.holes] == [(1, 8)]
        assert [problem.text.partition(":")[0] for problem in found.problems] == [
            f"holds the event 1 otherwise than {path}" for path in (other, one)
        ]


def test_an_older_copy_of_a_tail_is_no_other_history(write: Callable[..., Path]) -> None:
    found = evidence(write("a", 1, 4).parent, write("b", 1, 9).parent, write("c", 3, 12).parent)
    assert (statuses(found), found.holes, found.problems) == (["tail"] * 3, (), ())
    assert found.logs[0].last == 12


def test_a_tail_that_contradicts_a_segment_is_not_believed(write: Callable[..., Path], tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", segments=2)
    agreeing, other = write("a", 3, 6), write("b", 2, 9, LATE)
    found = evidence(log, agreeing.parent, other.parent)
    assert {Path(file.path).parent.name: file.status for file in found.files} == {
        "log": "good", "a": "tail", "b": "bad",
    }  # fmt: skip
    [problem] = found.problems
    assert (problem.path, problem.line) == (str(other), 2)
    assert problem.text.startswith(f"holds the event 2 otherwise than {log}/events-0000000000000001.jsonl, which is")
    assert [(hole.router, hole.first_seq, hole.last_seq) for hole in found.holes] == [(ROUTER, 7, 9)]


def test_a_segment_without_its_footer_counts_only_as_it_was_signed(tmp_path: Path) -> None:
    def unsigned(at_ns: int) -> tuple[Evidence, Path]:
        log = write_log(tmp_path / str(at_ns), segments=3)
        first = log / file_name(1)
        lines = first.read_bytes().splitlines(keepends=True)
        first.unlink()
        written = log / "tail-0000000000000001.jsonl"
        written.write_bytes(b"".join(lines[:-1]).replace(b'"t":5,', b'"t":%d,' % at_ns))
        return evidence(log), written

    found, _ = unsigned(EARLY)
    assert (statuses(found), found.holes, found.problems) == (["good", "good", "tail"], (), ())
    found, path = unsigned(LATE)
    assert statuses(found) == ["good", "good", "bad"]
    assert [(hole.first_seq, hole.last_seq) for hole in found.holes] == [(1, 2)]
    assert [(problem.path, problem.line) for problem in found.problems] == [(str(path), 1)]
    assert f"as {path.with_name(file_name(3))} shows" in found.problems[0].text


def test_files_are_read_only_where_one_reaches_into_another(write: Callable[..., Path]) -> None:
    read: list[str] = []

    def content(path: str) -> list[bytes]:
        read.append(path)
        return [Path(path).read_bytes()]

    apart, one, other = (
        Seen(str(path), "tail", ROUTER, first, last)
        for first, last in ((1, 2), (3, 6), (5, 8))
        for path in [write(str(first), first, last)]
    )
    assert Tails(content).fork([apart, one, other]) == []
    assert read == [one.path, other.path]
