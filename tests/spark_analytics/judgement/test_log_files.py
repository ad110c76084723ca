"""The kind of a log file by itself: good, tail, pruned, bad or foreign, with file and line."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from samples.log_facts import facts
from samples.logs import KEY, OTHER
from samples.segments import ROUTER, WHOLE, events_of, footer, numbered, outward, sealed, tail

from router.core.log.line import encode_lines
from router.core.log.segment import file_name
from router.core.wire.crypto import verify
from spark_analytics.judgement.log_files import FileFacts, Problem, Reading
from spark_analytics.judgement.segment_lines import PROBLEMS_MAX, TOO_MANY

NAME = "events-0000000000000010.jsonl"
Seen = tuple[str | None, str, int, int, int]


def read(directory: Path, **files: bytes) -> tuple[list[Seen], list[tuple[str, int, str]]]:
    """Return `(router, status, first, last, lines)` of each file, and the problems, with paths relative to their
    directory."""
    reading = Reading(lambda path: [Path(path).read_bytes()], verify, ())
    for name, data in files.items():
        path = directory / name.replace("__", ".")
        path.write_bytes(data)
        reading.take(facts(path))
    seen = [(one.router, one.status, one.first, one.last, one.lines) for one in reading.files]
    return seen, [(Path(path).name, line, text) for path, line, text in reading.problems]


def one(directory: Path, name: str, data: bytes) -> tuple[Seen, list[tuple[int, str]]]:
    [seen], problems = read(directory, **{name: data})
    return seen, [(line, text) for _, line, text in problems]


def test_a_good_segment_is_not_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(WHOLE)
    fact = facts(tmp_path / NAME)
    reading = Reading(lambda path: pytest.fail(f"read {path}"), verify, ())
    reading.take(fact)
    [seen] = reading.files
    assert (seen.router, seen.status, seen.first, seen.last, seen.lines) == (ROUTER, "good", 10, 15, 4)
    assert [seal[1:7] for seal in seen.seals] == [(10, 15, "ab" * 32, seen.digest, 1, True)]


def test_a_footer_that_is_known_is_not_verified_again(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(WHOLE)
    reading = Reading(lambda _: [], verify, ())
    reading.take(facts(tmp_path / NAME))
    assert len(reading.authentic) == 1
    again = Reading(lambda _: [], lambda *_: pytest.fail("verified"), reading.authentic)
    again.take(facts(tmp_path / NAME))
    assert (again.files, again.authentic) == (reading.files, reading.authentic)


@pytest.mark.parametrize(
    ("data", "line", "text"),
    [
        (WHOLE.replace(b'"depth":9', b'"depth":8'), 6, "the lines have the digest"),
        (WHOLE.replace(b'"max_t":9', b'"max_t":8'), 6, "the footer is not signed by"),
        (WHOLE[:-1], 6, "the file is cut off in the middle of this line"),
        (WHOLE + b"\n", 7, "a line after the footer"),
        (b"", 1, "the file is empty"),
        (bytes(500), 1, "not a line of an event log"),
    ],
    ids=range(6),
)
def test_a_segment_that_is_not_as_its_router_signed_it(tmp_path: Path, data: bytes, line: int, text: str) -> None:
    seen, problems = one(tmp_path, NAME, data)
    assert seen[1] == "bad" and seen[2] == 10
    assert any(number == line and text in found for number, found in problems), problems


def test_lines_of_one_router_under_anothers_footer(tmp_path: Path) -> None:
    lines = events_of(outward(), first_seq=10)
    data = tail(lines) + encode_lines([footer(lines, key=OTHER)])
    seen, problems = one(tmp_path, NAME, data)
    assert (seen[1], problems) == ("bad", [(3, "header and footer name different routers or predecessors")])


def test_a_renamed_segment_counts_and_is_told(tmp_path: Path) -> None:
    seen, problems = one(tmp_path, "events-0000000000000011.jsonl", WHOLE)
    assert seen == (ROUTER, "good", 10, 15, 4)
    assert problems == [(1, "the file's name says 11, its header 10: renamed or copied")]


def test_a_segment_under_any_name_is_one(tmp_path: Path) -> None:
    assert one(tmp_path, "copy.txt", WHOLE) == ((ROUTER, "good", 10, 15, 4), [])


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    reading = Reading(lambda _: [], verify, ())
    reading.take(facts(tmp_path / NAME))
    assert reading.problems == [Problem(str(tmp_path / NAME), 0, "cannot be read: it is not a regular file")]
    assert [(seen.status, seen.first, seen.last) for seen in reading.files] == [("bad", 10, 10)]


def test_a_file_that_goes_while_it_is_audited() -> None:
    def gone(path: str) -> list[bytes]:
        raise FileNotFoundError(2, "No such file or directory")

    reading = Reading(gone, verify, ())
    for name in (NAME, "tail-3.jsonl", "pruned.jsonl"):
        reading.take(FileFacts(name, 9, b"{\n", b"{\n", "00" * 32))
    assert [seen.status for seen in reading.files] == ["bad"] * 3
    assert {text for _, _, text in reading.problems} == {"cannot be read: No such file or directory"}


def test_a_file_that_changes_while_it_is_audited(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(WHOLE[:-1])
    fact = facts(tmp_path / NAME)
    reading = Reading(lambda _: [WHOLE], verify, ())
    reading.take(fact)
    assert [seen.status for seen in reading.files] == ["bad"]
    assert [text for _, _, text in reading.problems] == ["was changed while it was read: audit it again"]


def test_the_log_of_another_version_is_foreign(tmp_path: Path) -> None:
    data = WHOLE.replace(b'"v":1', b'"v":2')
    seen, problems = one(tmp_path, NAME, data)
    assert seen == (ROUTER, "foreign", 10, 15, 0)
    said = "this audit reads version 1 of 'upsycle event log 1': use a newer one"
    assert problems == [(1, f"has version 2 of the schema 'upsycle event log 1'; {said}")]
    seen, _ = one(tmp_path, NAME, data.replace(b'"router":"', b'"router":"X'))
    assert seen == (None, "foreign", 10, 10, 0)


def test_what_is_no_log_at_all_is_foreign(tmp_path: Path) -> None:
    for data in (b"hello\n", b"", json.dumps({"event": "start"}).encode()):
        seen, problems = one(tmp_path, "notes.txt", data)
        assert seen == (None, "foreign", 0, 0, 0)
        assert problems == [(1, "not an event log: its first line is not the header of a segment")]


def test_a_tail_counts_if_its_lines_follow_each_other(tmp_path: Path) -> None:
    data = tail(numbered(10, 13))
    assert one(tmp_path, "tail-10.jsonl", data) == ((ROUTER, "tail", 10, 13, 4), [])
    assert one(tmp_path, "tail-10.jsonl", data.splitlines(True)[0]) == ((ROUTER, "tail", 10, 9, 0), [])
    cut = b"".join(line for number, line in enumerate(data.splitlines(True)) if number != 2)
    seen, problems = one(tmp_path, "tail-10.jsonl", cut)
    assert seen == (ROUTER, "bad", 10, 13, 3)
    assert problems == [(3, "before this line is missing: event 11")]


def test_pruned_footers_count_each_by_itself(tmp_path: Path) -> None:
    lines = [encode_lines([footer(numbered(seq, seq + 1))]) for seq in (1, 3, 5)]
    assert one(tmp_path, "pruned.jsonl", b"".join(lines)) == ((ROUTER, "pruned", 1, 6, 3), [])
    edited = lines[1].replace(b'"lines":2', b'"lines":3')
    seen, problems = one(tmp_path, "pruned.jsonl", lines[0] + edited + b"x\n" + lines[2] + b'{"v":1,"ev')
    assert seen == (ROUTER, "bad", 1, 6, 2)
    assert problems == [
        (2, f"the footer of the pruned segments 3 to 4 is not signed by the router {ROUTER}, or was changed"),
        (3, "not the footer of a pruned segment: not JSON from column 1 on"),
    ]
    assert one(tmp_path, "pruned.jsonl", b"") == ((None, "pruned", 0, 0, 0), [])
    assert one(tmp_path, "any.txt", lines[0]) == ((ROUTER, "pruned", 1, 2, 1), [])


@pytest.mark.parametrize("name", [NAME, "tail-10.jsonl", "pruned.jsonl"])
def test_a_file_that_is_all_wrong_is_not_read_to_its_end(tmp_path: Path, name: str) -> None:
    """The file has empty lines, or forged footers; only as many are examined as are reported."""
    forged = encode_lines([footer(numbered(1, 2))]).replace(b'"lines":2', b'"lines":3')
    verified: list[bytes] = []

    def refuse(_: bytes, message: bytes, __: bytes) -> bool:
        verified.append(message)
        return False

    for junk in (b"\n", forged):
        reading = Reading(parts := Parts([junk * 1_000] * 100), refuse, ())
        (tmp_path / name).write_bytes(junk * 1_000)
        reading.take(facts(tmp_path / name))
        assert [seen.status for seen in reading.files] == ["bad"]
        assert [text for _, _, text in reading.problems].index(TOO_MANY) == PROBLEMS_MAX
        assert parts.read == 1 and len(verified) <= PROBLEMS_MAX + 1


class Parts:
    """The content of every file, which counts how much of it was read."""

    def __init__(self, parts: list[bytes]) -> None:
        self.parts = parts
        self.read = 0

    def __call__(self, _: str) -> Iterator[bytes]:
        for part in self.parts:
            self.read += 1
            yield part


def test_what_was_not_looked_at_is_covered_by_the_footer_at_its_end(tmp_path: Path) -> None:
    parts = WHOLE.splitlines(keepends=True)
    seen, problems = one(tmp_path, NAME, b"".join((*parts[:2], b"\n" * 1_000, *parts[2:])))
    assert seen == (ROUTER, "bad", 10, 15, 1) and problems[-1] == (103, TOO_MANY)


def test_a_file_set_aside_is_told_of_and_not_read(tmp_path: Path) -> None:
    seen, problems = read(tmp_path, **{f".aside-{NAME}": b"anything"})
    text = "was set aside when a segment of that name was written again; it is not read: compare the two"
    assert (seen, problems) == ([], [(f".aside-{NAME}", 0, text)])


def test_equal_bytes_count_once_under_the_first_path(tmp_path: Path) -> None:
    part = tail(numbered(16, 17))
    reading = Reading(lambda path: [Path(path).read_bytes()], verify, ())
    for name, data in {"a": WHOLE, "b": WHOLE, "tail-16.jsonl": part, "tail-9.jsonl": part}.items():
        (tmp_path / name).write_bytes(data)
        reading.take(facts(tmp_path / name))
    reading.mark_copies()
    assert [(seen.status, len(seen.seals)) for seen in reading.files] == [
        ("good", 1), ("copy", 0), ("tail", 0), ("copy", 0),
    ]  # fmt: skip


def test_a_file_without_a_router_is_of_its_neighbours_in_the_directory(tmp_path: Path) -> None:
    for name, found in (("one", [KEY]), ("two", [KEY, OTHER]), ("none", [])):
        (tmp_path / name).mkdir()
        reading = Reading(lambda path: [Path(path).read_bytes()], verify, ())
        for number, key in enumerate(found):
            (tmp_path / name / f"{number}").write_bytes(sealed(events_of(outward(), key=key), key=key))
            reading.take(facts(tmp_path / name / f"{number}"))
        (tmp_path / name / NAME).write_bytes(b"")
        reading.take(facts(tmp_path / name / NAME))
        reading.name_routers()
        assert reading.files[-1].router == (ROUTER if name == "one" else None)


def test_what_nobody_signed_is_not_believed_about_whose_it_is(tmp_path: Path) -> None:
    reading = Reading(lambda path: [Path(path).read_bytes()], verify, ())
    claim = WHOLE.replace(ROUTER.encode(), OTHER.public.hex().encode()).replace(b'seq":1', b'seq":9')
    for name, data in {file_name(1): sealed(numbered(1, 2)), file_name(4): claim}.items():
        (tmp_path / name).write_bytes(data)
        reading.take(facts(tmp_path / name))
    assert (reading.files[1].router, reading.files[1].first, reading.files[1].last) == (OTHER.public.hex(), 4, 95)
    reading.name_routers()
    assert reading.files[1].router == ROUTER
