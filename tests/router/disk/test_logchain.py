"""Reading a log back: whole, cut, edited, pruned."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_samples import BOOT, KEY, OTHER, open_log, outward, problems, seal_each

from router.core.events import State, encode_events
from router.core.segment import contradicts
from router.disk.eventlog import Limits, Sealer, Segments
from router.disk.logchain import LINE_BYTES_MAX, Problem, Segment, read_segments, verify_segment

ONE, TWO, THREE, FOUR = (f"events-{number:016d}.jsonl" for number in (1, 2, 3, 4))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of four segments with one event each, of seconds 100, 200, 300 and 400."""
    seal_each(tmp_path / "log", 100, 200, 300, 400)
    return tmp_path / "log"


def edit(path: Path, change: Callable[[bytes], bytes]) -> None:
    before = path.read_bytes()
    after = change(before)
    assert before != after
    path.write_bytes(after)


# -- a log as it should be --------------------------------------------------------------------------------


def test_a_whole_log(log: Path) -> None:
    found = list(read_segments(log, KEY.public))
    assert [segment.path.name for segment in found] == [ONE, TWO, THREE, FOUR]
    assert all(segment.whole and not (segment.problems or segment.gaps or segment.pruned) for segment in found)
    assert [[line.seq for _, line in segment.events()] for segment in found] == [[1], [2], [3], [4]]
    assert [number for number, _ in found[0].events()] == [2]
    assert all(verify_segment(segment.path, KEY.public) == [] for segment in found)


def test_a_pruned_log(log: Path) -> None:
    Segments(log, KEY, Limits()).prune(350, 100, 1 << 30)
    found = list(read_segments(log))
    assert [(segment.pruned, segment.whole, segment.path.name) for segment in found] == [
        (True, True, "pruned.jsonl"), (True, True, "pruned.jsonl"), (False, True, THREE), (False, True, FOUR),
    ]  # fmt: skip
    assert [segment.footer.counts for segment in found if segment.footer] == [{"delivered": 1}] * 4
    assert [len(list(segment.events())) for segment in found] == [0, 0, 1, 1]
    assert problems(log) == []


def test_a_log_that_is_being_written(log: Path) -> None:
    _, sealer = open_log(log)
    sealer.add(encode_events([outward(500)], 5, BOOT), 0)
    assert (problems(log), len(list(read_segments(log)))) == ([], 4)
    sealer.close()


def test_a_log_that_is_pruned_while_it_is_read(log: Path) -> None:
    found = read_segments(log)
    assert next(found).path.name == ONE
    Segments(log, KEY, Limits()).prune(350, 100, 1 << 30)
    assert [(one.path.name, one.problems) for one in found] == [("pruned.jsonl", ()), (THREE, ()), (FOUR, ())]


def test_an_empty_log(tmp_path: Path) -> None:
    assert list(read_segments(tmp_path)) == []


def test_a_problem_names_file_line_and_what_is_wrong() -> None:
    assert str(Problem(Path("log/a"), 3, "is odd")) == "log/a:3: is odd"
    assert str(Problem(Path("log/a"), 0, "is odd")) == "log/a: is odd"


# -- tampering --------------------------------------------------------------------------------------------


def missing(first: int, last: int) -> str:
    return f"the sequence numbers {first} to {last} before this segment are missing"


def removed(name: str) -> Callable[[Path], None]:
    return lambda log: (log / name).unlink()


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda log: edit(log / name, change)


def copied(name: str, other: str) -> Callable[[Path], None]:
    def copy(log: Path) -> None:
        (log / other).write_bytes((log / name).read_bytes())

    return copy


def replaced_by_a_directory(log: Path) -> None:
    (log / TWO).unlink()
    (log / TWO).mkdir()


def replaced_by_a_link_to_nothing(log: Path) -> None:
    (log / TWO).unlink()
    (log / TWO).symlink_to(log / "nowhere")


def replaced_by_a_pipe(log: Path) -> None:
    (log / TWO).unlink()
    os.mkfifo(log / TWO)


def sealed_again_by_another_router(log: Path) -> None:
    """The same events, a good chain, but the wrong key."""
    segments = Segments(log.parent / "other", OTHER, Limits())
    sealer = Sealer(segments)
    for seq in (1, 2):
        sealer.add(encode_events([outward(100 * seq)], seq, BOOT), 0)
        sealer.seal()
    (log / TWO).write_bytes((log.parent / "other" / TWO).read_bytes())


def rewritten_by_the_router_itself(log: Path) -> None:
    """The key was stolen: one segment is made anew, with a good signature."""
    segments = Segments(log.parent / "other", KEY, Limits())
    sealer = Sealer(segments)
    for seq, at_s in ((1, 100), (2, 222)):
        sealer.add(encode_events([outward(at_s)], seq, BOOT), 0)
        sealer.seal()
    (log / TWO).write_bytes((log.parent / "other" / TWO).read_bytes())


def pruned_to(now: int, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def prune(log: Path) -> None:
        Segments(log, KEY, Limits()).prune(now, 0, 1 << 30)
        edit(log / "pruned.jsonl", change)

    return prune


CHANGED = "the lines have the digest"
MATRIX: dict[str, tuple[Callable[[Path], None], list[tuple[str, int, str]]]] = {
    "the first segment removed": (removed(ONE), [(TWO, 1, missing(1, 1))]),
    "a segment removed": (removed(TWO), [(THREE, 1, missing(2, 2))]),
    "an event edited": (
        changed(TWO, lambda data: data.replace(b'"depth":9', b'"depth":8')),
        [(TWO, 3, CHANGED), (THREE, 1, missing(2, 2))],
    ),
    "an event edited and the digest mended": (
        changed(TWO, lambda data: data.replace(b'"max_t":200', b'"max_t":201')),
        [(TWO, 3, "signature does not fit"), (THREE, 1, missing(2, 2))],
    ),
    "an event removed": (
        changed(TWO, lambda data: b"".join(data.splitlines(True)[::2])),
        [(TWO, 2, CHANGED), (TWO, 2, "the footer says lines 1, the lines 0"), (THREE, 1, missing(2, 2))],
    ),
    "a footer removed": (
        changed(TWO, lambda data: b"".join(data.splitlines(True)[:2])),
        [(TWO, 2, "no footer after this line"), (THREE, 1, missing(2, 2))],
    ),
    "cut in the middle of an event": (
        changed(TWO, lambda data: data[:300]),
        [(TWO, 2, "cut off in the middle of this line"), (TWO, 2, "not a line"), (THREE, 1, missing(2, 2))],
    ),
    "cut by one byte": (
        changed(TWO, lambda data: data[:-1]),
        [(TWO, 3, "cut off in the middle of this line"), (THREE, 1, missing(2, 2))],
    ),
    "emptied": (changed(TWO, lambda data: b""), [(TWO, 1, "the file is empty"), (THREE, 1, missing(2, 2))]),
    "overwritten with zeros": (
        changed(TWO, lambda data: bytes(len(data))),
        [(TWO, 1, "not a line"), (TWO, 1, "no footer"), (THREE, 1, missing(2, 2))],
    ),
    "lines appended": (
        changed(TWO, lambda data: data + data.splitlines(True)[1]),
        [(TWO, 4, "nothing may follow it"), (THREE, 1, missing(2, 2))],
    ),
    "line ends changed": (
        changed(TWO, lambda data: data.replace(b"\n", b"\r\n")),
        [(TWO, 3, CHANGED), (THREE, 1, missing(2, 2))],
    ),
    "another segment in its place": (
        copied(THREE, TWO),
        [
            (TWO, 1, "the file's name says 2, its header 3"),
            (TWO, 1, missing(2, 2)),
            (THREE, 1, "begins at 3"),
        ],
    ),
    "a copy under another name": (
        copied(TWO, "events-0000000000000009.jsonl"),
        [("events-0000000000000009.jsonl", 1, "begins at 2, but the log before it already reaches 4")],
    ),
    "sealed by another router": (
        sealed_again_by_another_router,
        [(TWO, 1, "a segment of the router"), (TWO, 1, "as its predecessor"), (THREE, 1, missing(2, 2))],
    ),
    "rewritten with the stolen key": (
        rewritten_by_the_router_itself,
        [(THREE, 1, "as its predecessor, but that is")],
    ),
    "a directory": (replaced_by_a_directory, [(TWO, 0, "cannot be read"), (THREE, 1, missing(2, 2))]),
    "a link to nothing": (
        replaced_by_a_link_to_nothing,
        [(TWO, 0, "cannot be read: No such file or directory"), (THREE, 1, missing(2, 2))],
    ),
    "a pipe": (
        replaced_by_a_pipe,
        [(TWO, 0, "cannot be read: not a regular file"), (THREE, 1, missing(2, 2))],
    ),
    "the pruned footers removed": (
        pruned_to(201, lambda data: b""),
        [(THREE, 1, missing(1, 2))],
    ),
    "a pruned footer removed": (
        pruned_to(201, lambda data: data.splitlines(True)[1]),
        [("pruned.jsonl", 0, missing(1, 1))],
    ),
    "a pruned footer edited": (
        pruned_to(201, lambda data: data.replace(b'"delivered":1', b'"delivered":2', 1)),
        [("pruned.jsonl", 1, "the signature of this footer"), ("pruned.jsonl", 0, missing(1, 1))],
    ),
    "a pruned footer that is no JSON": (
        pruned_to(201, lambda data: data.replace(b"{", b"(", 1)),
        [("pruned.jsonl", 1, "not a line of an event log"), ("pruned.jsonl", 0, missing(1, 1))],
    ),
    "pruned footers swapped": (
        pruned_to(301, lambda data: b"".join(reversed(data.splitlines(True)))),
        [],
    ),
}


@pytest.mark.parametrize("name", MATRIX)
def test_tampering_is_told_with_file_and_line(log: Path, name: str) -> None:
    tamper, expected = MATRIX[name]
    tamper(log)
    found = [problem for segment in read_segments(log, KEY.public) for problem in segment.problems]
    for file, line, text in expected:
        assert any((problem.path.name, problem.line) == (file, line) and text in problem.text for problem in found), (
            "\n".join(map(str, found))
        )
    assert {problem.path.name for problem in found} == {file for file, _, _ in expected}


@pytest.mark.parametrize("name", [name for name in MATRIX if name != "rewritten with the stolen key"])
def test_what_was_tampered_with_is_not_whole_and_the_gap_is_told(log: Path, name: str) -> None:
    MATRIX[name][0](log)
    found = list(read_segments(log, KEY.public))
    covered = {
        seq
        for segment in found
        if segment.whole and segment.footer
        for seq in range(segment.footer.first_seq, segment.footer.last_seq + 1)
    }
    gaps = {seq for segment in found for first, last in segment.gaps for seq in range(first, last + 1)}
    assert covered | gaps == {1, 2, 3, 4}


def test_what_can_be_read_of_a_damaged_segment_can_be_had(log: Path) -> None:
    edit(log / TWO, lambda data: data.replace(b'"depth":9', b'"depth":8') + b"{\n")
    found = list(read_segments(log))[1]
    assert not found.whole
    assert [line.depth for _, line in found.events()] == [8]


def test_a_tail_that_was_cut_off_shows_only_to_a_witness(log: Path) -> None:
    seq, digest = Segments(log, KEY, Limits()).head()
    (log / FOUR).unlink()
    assert problems(log) == []
    footers = [segment.footer for segment in read_segments(log) if segment.footer]
    assert contradicts(footers, seq, digest) == (
        "a neighbour was told of events up to 4; this log ends at 3: its tail was cut off"
    )


def test_without_a_key_the_first_segment_names_the_router(log: Path) -> None:
    sealed_again_by_another_router(log)
    texts = [problem.text for segment in read_segments(log) for problem in segment.problems]
    assert f"a segment of the router {OTHER.public.hex()}, not of {KEY.public.hex()}" in texts


def test_the_log_of_another_router(log: Path) -> None:
    found = [problem for segment in read_segments(log, OTHER.public) for problem in segment.problems]
    assert [problem.path.name for problem in found if "not of" in problem.text] == [ONE, TWO, THREE, FOUR]
    Segments(log, KEY, Limits()).prune(1e6, 0, 0)
    [first, *_] = [problem for segment in read_segments(log, OTHER.public) for problem in segment.problems]
    assert first.text == f"is of the router {KEY.public.hex()}, not of {OTHER.public.hex()}"


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    [segment] = read_segments(tmp_path / "log")
    assert segment.problems == (Problem(tmp_path / "log", 0, "cannot be read: No such file or directory"),)
    assert verify_segment(tmp_path / ONE) == [Problem(tmp_path / ONE, 0, "cannot be read: No such file or directory")]


def test_a_line_longer_than_any_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / ONE
    with path.open("wb") as file:
        file.truncate(LINE_BYTES_MAX + 10)
    found = verify_segment(path)
    assert {problem.line for problem in found} == {1, 2}


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([ONE, TWO, FOUR]), st.data())
def test_any_damage_to_any_file_gives_problems_and_no_traceback(log: Path, name: str, data: st.DataObject) -> None:
    path = log / name
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(at + 1, len(whole)))
    other = data.draw(st.binary(max_size=40))
    try:
        path.write_bytes(whole[:at] + other + whole[end:])
        damaged = path.read_bytes() != whole
        assert bool(problems(log)) == damaged
        assert bool(verify_segment(path)) == damaged
        Sealer(Segments(log, KEY, Limits()))
    finally:
        path.write_bytes(whole)


def test_a_segment_of_many_kinds_of_events(tmp_path: Path) -> None:
    segments, sealer = open_log(tmp_path)
    sealer.add(encode_events([State(5, 6, "start", (("version", "1"),)), outward(3, 70)], 1, BOOT), 0)
    sealer.seal()
    [segment] = read_segments(tmp_path)
    assert isinstance(segment, Segment) and segment.header and segment.footer
    assert (segment.header.schema, segment.footer.counts) == (
        "upsycle event log 1",
        {"start": 1, "delivered": 70},
    )
    assert segments.head()[1].hex() == segment.footer.sha256
