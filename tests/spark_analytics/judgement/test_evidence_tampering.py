"""Every way to tamper with a log leaves a hole, is reported with file and line, and lets no changed line count."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples.log_facts import evidence
from samples.logs import OTHER
from samples.segments import ROUTER, last_line, numbered, prune, sealed, write_log

from router.core.log.segment import file_name
from spark_analytics.judgement.footer import decode_line

ONE, TWO, THREE, FOUR = (file_name(seq) for seq in (1, 3, 5, 7))
BEHIND = file_name(300)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write four segments of two events each: 1 to 8."""
    return write_log(tmp_path / "log")


def removed(name: str) -> Callable[[Path], None]:
    return lambda log: (log / name).unlink()


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(log: Path) -> None:
        before = (log / name).read_bytes()
        assert change(before) != before
        (log / name).write_bytes(change(before))

    return edit


def pruned(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(log: Path) -> None:
        prune(log, ONE, TWO)
        changed("pruned.jsonl", change)(log)

    return edit


def copied(name: str, other: str) -> Callable[[Path], None]:
    def copy(log: Path) -> None:
        (log / other).write_bytes((log / name).read_bytes())

    return copy


def replaced_by_a_directory(log: Path) -> None:
    (log / TWO).unlink()
    (log / TWO).mkdir()


def replaced_by_a_pipe(log: Path) -> None:
    (log / TWO).unlink()
    os.mkfifo(log / TWO)


def replaced_by_a_link_to_nothing(log: Path) -> None:
    (log / TWO).unlink()
    (log / TWO).symlink_to(log / "nowhere")


def a_pipe_behind_the_end(log: Path) -> None:
    os.mkfifo(log / BEHIND)


def a_link_to_nothing_behind_the_end(log: Path) -> None:
    (log / BEHIND).symlink_to(log / "nowhere")


def sealed_by_another_router(log: Path) -> None:
    write_log(log.parent / "other", OTHER)
    (log.parent / "other" / TWO).rename(log / TWO)


def rewritten_by_the_router_itself(log: Path) -> None:
    after = decode_line(last_line(log / ONE))["sha256"]
    (log / TWO).write_bytes(sealed(numbered(3, 4, at_ns=99), after))


def moved(name: str, other: str) -> Callable[[Path], None]:
    def move(log: Path) -> None:
        (log / name).rename(log / other)

    return move


LOST, FIRST, PRUNED = (3, 4), (1, 2), "pruned.jsonl"
MATRIX: dict[str, tuple[Callable[[Path], None], list[tuple[int, int]], list[tuple[str, int, str]]]] = {
    "the first segment removed": (removed(ONE), [FIRST], []),
    "a segment removed": (removed(TWO), [LOST], []),
    "an event edited": (
        changed(TWO, lambda data: data.replace(b'"depth":9', b'"depth":8', 1)), [LOST],
        [(TWO, 4, "the lines have the digest")],
    ),
    "the footer edited": (
        changed(TWO, lambda data: data.replace(b'"max_t":5', b'"max_t":6')), [LOST],
        [(TWO, 4, f"the footer is not signed by the router {ROUTER}")],
    ),
    "the header edited": (
        changed(TWO, lambda data: data.replace(b'"first_seq":3', b'"first_seq":2', 1)), [LOST],
        [(TWO, 4, "the lines have the digest"), (TWO, 2, "before this line is missing: event 2")],
    ),
    "an event removed": (
        changed(TWO, lambda data: b"".join(data.splitlines(True)[::2] + data.splitlines(True)[-1:])), [LOST],
        [(TWO, 2, "before this line is missing: event 3")],
    ),
    "the footer removed": (
        changed(TWO, lambda data: b"".join(data.splitlines(True)[:-1])), [LOST],
        [(TWO, 3, "no footer after this line")],
    ),
    "the last one cut in the middle of an event": (
        changed(FOUR, lambda data: data[:300]), [(7, 7)],
        [(FOUR, 2, "cut off in the middle of this line")],
    ),
    "the last one emptied": (changed(FOUR, lambda data: b""), [(7, 7)], [(FOUR, 1, "the file is empty")]),
    "overwritten with zeros": (
        changed(TWO, lambda data: bytes(len(data))), [LOST], [(TWO, 1, "not a line of an event log")],
    ),
    "another segment's bytes": (copied(ONE, TWO), [LOST], [(TWO, 1, "the file's name says 3, its header 1")]),
    "a copy": (
        copied(TWO, "events-0000000000000009.jsonl"), [],
        [("events-0000000000000009.jsonl", 1, "the file's name says 9, its header 3: renamed or copied")],
    ),
    "renamed": (
        moved(TWO, "events-0000000000000004.jsonl"), [],
        [("events-0000000000000004.jsonl", 1, "the file's name says 4, its header 3: renamed or copied")],
    ),
    "set aside": (
        moved(TWO, f".aside-{TWO}"), [LOST],
        [(f".aside-{TWO}", 0, "was set aside")],
    ),
    "a directory": (replaced_by_a_directory, [LOST], [(TWO, 0, "cannot be read: it is not a regular file")]),
    "a pipe": (replaced_by_a_pipe, [LOST], [(TWO, 0, "cannot be read: it is not a regular file")]),
    "a link to nothing": (
        replaced_by_a_link_to_nothing, [LOST], [(TWO, 0, "cannot be read: it is a link, and leads to no file")],
    ),
    "a pipe behind the end": (a_pipe_behind_the_end, [], [(BEHIND, 0, "cannot be read: it is not a regular file")]),
    "a link to nothing behind the end": (
        a_link_to_nothing_behind_the_end, [], [(BEHIND, 0, "cannot be read: it is a link, and leads to no file")],
    ),
    "sealed by another router": (sealed_by_another_router, [LOST], []),
    "a newer version": (
        changed(TWO, lambda data: data.replace(b'"v":1', b'"v":2')), [LOST], [(TWO, 1, "has version 2 of the schema")],
    ),
    "rewritten with the stolen key": (
        rewritten_by_the_router_itself, [(3, 8)],
        [(THREE, 1, "two nodes use one key, or a log was copied and both went on, or it was rewritten")],
    ),
    "the pruned footers removed": (pruned(lambda data: b""), [(1, 4)], []),
    "a pruned footer removed": (pruned(lambda data: data.splitlines(True)[1]), [FIRST], []),
    "a pruned footer edited": (
        pruned(lambda data: data.replace(b'"delivered":6', b'"delivered":7', 1)), [FIRST],
        [(PRUNED, 1, "the footer of the pruned segments 1 to 2 is not signed by")],
    ),
    "a pruned footer that is no JSON": (
        pruned(lambda data: data.replace(b"{", b"(", 1)), [FIRST], [(PRUNED, 1, "not the footer of a pruned segment")],
    ),
    "pruned footers in another order": (pruned(lambda data: b"".join(data.splitlines(True)[::-1])), [], []),
    "pruned though older ones are kept": (lambda log: prune(log, TWO), [LOST], []),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRIX)
def test_tampering_leaves_a_hole_and_is_told_with_file_and_line(log: Path, name: str) -> None:
    tamper, lost, expected = MATRIX[name]
    tamper(log)
    found = evidence(log)
    ours = [hole for hole in found.holes if hole.router == ROUTER]
    assert [(hole.first_seq, hole.last_seq) for hole in ours] == lost
    for file, line, text in expected:
        assert any(
            (Path(path).name, number) == (file, line) and text in said for path, number, said in found.problems
        ), found.problems
    assert {Path(path).name for path, _, _ in found.problems} == {file for file, _, _ in expected}
    [summary] = [one for one in found.logs if one.router == ROUTER]
    assert summary.whole == (not lost)
    counted = {seq for file in found.files if file.router == ROUTER and file.status == "good"
               for seq in range(file.first_seq, file.last_seq + 1)}  # fmt: skip
    assert not counted & {seq for first, last in lost for seq in range(first, last + 1)}


@pytest.mark.parametrize("name", MATRIX)
def test_any_order_of_files_gives_the_same_evidence(log: Path, name: str) -> None:
    MATRIX[name][0](log)
    write_log(log.parent / "stranger", OTHER)
    directories = log, log.parent / "stranger"
    found = evidence(*directories)
    for seed in range(3):
        assert evidence(*directories[::-1], order=Random(seed).shuffle) == found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([ONE, TWO, FOUR]), st.data())
def test_any_damage_to_any_file_is_told_and_no_line_of_it_counts(log: Path, name: str, data: st.DataObject) -> None:
    path = log / name
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(at + 1, len(whole)))
    other = data.draw(st.binary(max_size=40))
    try:
        path.write_bytes(whole[:at] + other + whole[end:])
        found = evidence(log)
        damaged = path.read_bytes() != whole
        assert bool(found.problems) == bool(found.holes) == damaged
        [status] = [file.status for file in found.files if file.path == str(path)]
        assert (status == "good") != damaged
    finally:
        path.write_bytes(whole)
