"""A log signed by its own key that contains invalid lines: valid lines count, invalid ones never do, and nothing
raises."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rigs.work import allocated
from samples.audit_logs import APP, MINUTE, START, Log, message_id, name
from samples.lines import samples

from router.core.log.line import Line, encode_lines
from router.core.log.segment import SegmentTotals, file_name, header, sign
from router.core.why.fate import Prospect, fate
from router.core.why.id_prefix import parse_prefix
from router.disk.limits import LogLimits
from router.disk.log import index as log_index
from router.disk.log.eventlog import Segments
from router.disk.log.index import Growing, IndexedLines
from router.disk.log.line_form import NotALine, read_line
from router.disk.log.search import FoundEvents, LogSnapshot, Search
from router.why.answers import not_one, one
from spark_analytics.judgement.line_grammar import LINE_BYTES_MAX

IDS = [message_id(number) for number in range(3)]
ENDLESS = b'{"v":1,"event":"delivered",' + b"x" * (65 << 20)
KINDS = ["made again", "with its index", "open"]


def accepted() -> Log:
    """Return three messages that are owed to two apps; the samples are lines about these."""
    log = Log()
    log.state("start", 0)
    log.accepted(1, range(3))
    return log


def write(directory: Path, rows: Sequence[Line], odd: bytes, at: int, predecessor: str | None = None) -> Path:
    """Write a segment that is signed over these lines, with other bytes in the place of one of them."""
    tally, log = SegmentTotals(rows[0].seq), Log()
    for row in rows:
        tally.note(row)
    parts = [encode_lines([row]) for row in rows]
    parts[at] = odd + b"\n"
    data = encode_lines([header(rows[0], predecessor)]) + b"".join(parts)
    tally.digest = sha256(data)
    path = directory / file_name(rows[0].seq)
    path.write_bytes(data + encode_lines([sign(tally.footer(name(log.key), predecessor), log.key)]))
    return path


def grown(rows: Sequence[Line]) -> Growing:
    index = Growing()
    index.note_lines(0, rows)
    return index


def logs(directory: Path, kind: str, before: Sequence[Line], rows: Sequence[Line], odd: bytes, at: int) -> LogSnapshot:
    """Return a log of two segments, the second of which contains the bytes `odd`. `kind`: whether it has its own index,
    none, or is still open."""
    first = write(directory, before, encode_lines([before[0]])[:-1], 0)
    path = write(directory, rows, odd, at, read_line(first.read_bytes().splitlines()[-1]).sha256)
    segments = Segments(directory, Log().key, LogLimits())
    sealed = segments.kept()
    columns, last = grown(rows).columns(), sealed[-1]
    if kind == "with its index":
        log_index.write(path, last.size, last.footer.sha256 or "", columns)
    if kind != "open":
        return LogSnapshot(sealed, [], 0)
    span = IndexedLines((path,), rows[0].seq, last.footer.last_seq, START, last.size - len(last.footer_bytes), columns)
    return LogSnapshot(sealed[:-1], [span], 0)


def told(found: FoundEvents, identity: str) -> str:
    """Return the answer of `router why`, as JSON."""
    if found.trace is None:
        return json.dumps(not_one(identity, found))
    whole = fate(found.trace, lambda *_: Prospect(is_owed=False), START + 10 * MINUTE, 86_400)
    return json.dumps(one(found, found.trace, whole, {}))


def seqs(found: FoundEvents) -> Iterator[int]:
    if found.trace is not None:
        for rows in (found.trace.accepted, found.trace.turned, found.trace.outward):
            yield from (row.seq for row in rows)


def is_about(line: Line, identity: str) -> bool:
    """Whether the index leads from that message to that line."""
    return identity in (line.ids or "") or (line.parcel == 1 and identity in IDS)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6))
def test_what_is_nearly_a_line_never_counts(kind: str, seed: int) -> None:
    """Bytes that are a line count as that line; no bytes make the search raise."""
    for line, data in samples(seed, 3):
        log = accepted()
        seq = log.seq
        mine = replace(line, seq=seq)
        after = replace(Log().state("stop"), seq=seq + mine.n)
        odd = data.replace(b'"seq":2,', b'"seq":%d,' % seq)
        try:
            row = read_line(odd)
            is_its = row.seq == seq and row.n == mine.n and row.router == mine.router
        except NotALine:
            is_its = False
        with TemporaryDirectory() as directory:
            sought = logs(Path(directory), kind, log.lines, [mine, after], odd, 0)
            for identity in (*IDS, message_id(4)):
                found = Search(sought).find(parse_prefix(identity))
                said = told(found, identity)
                if is_its or b'"event":"se' in odd:
                    continue
                assert seq not in seqs(found)
                if is_about(line, identity):
                    assert identity not in IDS or (found.trace is not None and found.trace.accepted[-1].seq == 2)
                    holes = found.missing if found.trace is None else found.trace.holes
                    assert found.unread or any(first <= seq <= last for first, last in holes), said


def delivered() -> tuple[Log, list[Line]]:
    log = accepted()
    before = list(log.lines)
    log.outward("delivered", [(1, 3)])
    log.accepted(4, [4])
    log.outward("delivered", [(4, 1)], parcel=4)
    return log, before


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_without_an_end_ends_what_is_read_of_its_file(tmp_path: Path, kind: str) -> None:
    """A file with such a line is dropped, with everything read from it before; other files count, and memory stays
    bounded."""
    log, before = delivered()
    sought = logs(tmp_path, kind, before, log.lines[2:], ENDLESS, 2)
    path = str(tmp_path / file_name(5))
    found: list[FoundEvents] = []

    def search() -> None:
        found.extend(Search(sought).find(parse_prefix(one)) for one in (IDS[0], message_id(4), message_id("no")))

    assert allocated(search) < 2.5 * LINE_BYTES_MAX
    assert all((5, path) in found[number].spoilt for number in ((0, 1, 2) if kind == KINDS[0] else (0, 1)))
    theirs = found[0].trace
    assert theirs is not None and [row.seq for row in theirs.accepted] == [2] and not theirs.outward
    assert theirs.holes == ((5, 7),) and "cannot be known" in told(found[0], IDS[0])
    assert not any(one.trace or one.candidates for one in found[1:])
    assert path in told(found[0], IDS[0])


def test_an_index_that_leads_beyond_its_file_leads_nowhere(tmp_path: Path) -> None:
    log, before = delivered()
    sought = logs(tmp_path, "with its index", before, log.lines[2:], encode_lines([log.lines[2]])[:-1], 0)
    last = sought.sealed[-1]
    columns = grown(log.lines[2:]).columns()
    for start in (last.size + 9, 2**64 - 1):
        columns.places[0] = start
        log_index.write(last.path, last.size, last.footer.sha256 or "", columns)
        found = Search(sought).find(parse_prefix(IDS[0]))
        assert found.trace is not None and not found.trace.outward and found.unread == (str(last.path),)


def test_what_says_another_router_or_other_events_than_its_segment_is_not_of_it(tmp_path: Path) -> None:
    log, before = delivered()
    for number, odd in enumerate((replace(log.lines[2], router=APP), replace(log.lines[2], seq=10**17))):
        directory = tmp_path / str(number)
        directory.mkdir()
        for kind in KINDS[:2]:
            sought = logs(directory, kind, before, log.lines[2:], encode_lines([odd])[:-1], 0)
            found = Search(sought).find(parse_prefix(IDS[0]))
            assert found.trace is not None and not found.trace.outward
            assert any(first <= 5 <= last for first, last in found.trace.holes)
            log_index.path_of(sought.sealed[-1].path).unlink()
