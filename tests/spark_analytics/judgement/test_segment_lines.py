"""Every way to damage a segment is reported, with its line, and what should be there."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.work import opcodes
from samples.logs import OTHER
from samples.segments import ROUTER, WHOLE, events_of, outward, sealed, tail

from router.core.log.line import gaps
from router.core.wire.crypto import verify
from spark_analytics.judgement.segment_lines import PROBLEMS_MAX, TOO_MANY, Lines, examine

FIRST_LINES = b"".join(WHOLE.splitlines(keepends=True)[:-1])


def read(data: bytes) -> Lines:
    return examine([data], verify)


def edited(number: int, edit: Callable[[bytes], bytes]) -> bytes:
    parts = WHOLE.splitlines(keepends=True)
    parts[number - 1] = edit(parts[number - 1])
    return b"".join(parts)


def swap(one: bytes, other: bytes) -> Callable[[bytes], bytes]:
    def edit(line: bytes) -> bytes:
        assert one in line
        return line.replace(one, other)

    return edit


def swapped(data: bytes, one: int, other: int) -> bytes:
    parts = data.splitlines(keepends=True)
    parts[one - 1], parts[other - 1] = parts[other - 1], parts[one - 1]
    return b"".join(parts)


def test_a_whole_segment_has_no_problems() -> None:
    found = read(WHOLE)
    assert found.problems == []
    assert (found.router, found.first_seq, found.last_seq, found.lines) == (ROUTER, 10, 15, 4)
    assert found.header and found.header.predecessor == "ab" * 32
    assert found.footer and found.footer.counts == {"start": 1, "accepted": 3, "delivered": 6}


def test_a_gap_that_the_log_records_is_no_problem_of_the_segment() -> None:
    lines = events_of(outward(), first_seq=10)
    found = read(sealed([*gaps(4, lines[0]), *lines]))
    assert (found.problems, found.first_seq, found.last_seq) == ([], 4, 10)


def test_a_column_of_a_newer_router_is_no_problem() -> None:
    found = read(edited(4, lambda line: line.replace(b"}\n", b',"colour":"blue"}\n')))
    assert [line for line, _ in found.problems] == [6]


CHANGED = "the lines have the digest"
TAMPERED = {
    "an event's time edited": (
        edited(4, swap(b'"t":9', b'"t":8')),
        [(6, CHANGED), (6, "the footer says max_t 9, the lines 8")],
    ),
    "one id digit edited": (edited(3, swap(b'"ids":"00', b'"ids":"10')), [(6, CHANGED)]),
    "a range edited": (edited(4, swap(b"[[7,2]", b"[[7,3]")), [(6, CHANGED)]),
    "a count edited": (
        edited(4, swap(b'"count":3', b'"count":2')),
        [(6, CHANGED), (6, "the footer counts 6 delivered, the lines 5")],
    ),
    "another word for an event": (
        edited(4, swap(b'"delivered"', b'"deliverec"')),
        [(4, "the event 'deliverec', of which the footer counts none"), (6, "counts 6 delivered, the lines 3")],
    ),
    "the ids made fewer": (
        edited(3, swap(b'"ids":"' + b"00" * 32, b'"ids":"')),
        [(3, "do not hold 3 messages each"), (6, CHANGED)],
    ),
    "a sequence number edited": (
        edited(4, swap(b'"seq":14', b'"seq":99')),
        [
            (4, "before this line is missing: events 14 to 98"),
            (5, "the sequence number 15 where 100 should be"),
            (6, CHANGED),
        ],
    ),
    "a sequence number gone": (
        edited(4, swap(b'"seq":14,', b"")),
        [(4, "the event 'delivered' has no sequence number"), (5, "before this line is missing: event 14")],
    ),
    "an event removed": (
        edited(4, lambda line: b""),
        [(4, "before this line is missing: event 14"), (5, CHANGED), (5, "lines 4, the lines 3")],
    ),
    "an event doubled": (
        edited(4, lambda line: line * 2),
        [(5, "the sequence number 14 where 15 should be"), (7, CHANGED), (7, "lines 4, the lines 5")],
    ),
    "events in another order": (
        swapped(WHOLE, 4, 5),
        [(4, "before this line is missing: event 14"), (5, "the sequence number 14 where 16"), (6, CHANGED)],
    ),
    "another router's event": (
        edited(4, swap(ROUTER.encode(), OTHER.public.hex().encode())),
        [(4, f"an event of the router {OTHER.public.hex()} in the log of {ROUTER}"), (6, CHANGED)],
    ),
    "a line that is no JSON": (
        edited(4, swap(b'"t":9', b'"t":')),
        [(4, "not a line of an event log: not JSON from column"), (6, CHANGED)],
    ),
    "a line that is not UTF-8": (
        edited(4, swap(b'"delivered"', b'"deliver\xff"')),
        [(4, "not a line of an event log: not UTF-8: byte 0xff at column 24"), (6, CHANGED)],
    ),
    "a line that is no map": (edited(4, lambda line: b"[]\n"), [(4, "not a map of columns"), (6, CHANGED)]),
    "a line of another version": (
        edited(4, swap(b'"v":1', b'"v":2')),
        [(4, "version 2 of the log; this audit reads version 1"), (6, CHANGED)],
    ),
    "an empty line": (
        edited(4, lambda line: line + b"\n"),
        [(5, "not a line of an event log"), (7, CHANGED)],
    ),
    "a column of another type": (
        edited(4, swap(b'"link":4', b'"link":"4"')),
        [(4, "the column link holds '4', where a whole number should be"), (6, CHANGED)],
    ),
    "a column of odd ranges": (
        edited(4, swap(b"[[7,2]", b"[[7,-2]")),
        [(4, "the column ranges holds [[7, -2], [20, 1]], where a list of [first, count] should be")],
    ),
    "no header": (
        edited(1, lambda line: b""),
        [(1, "not the header that should be the first line: the event 'start'"), (5, CHANGED)],
    ),
    "a header of another predecessor": (
        edited(1, swap(b"abab", b"cdcd")),
        [(6, CHANGED), (6, "header and footer name different routers or predecessors")],
    ),
    "a footer that says otherwise": (
        edited(6, swap(b'"lines":4', b'"lines":3')),
        [(6, f"the footer is not signed by the router {ROUTER}, or was changed after it was")],
    ),
    "a footer of another version": (
        edited(6, swap(b'"v":1', b'"v":2')),
        [(6, "not a footer: version 2 of the log; this audit reads version 1")],
    ),
    "no footer": (FIRST_LINES, [(5, "no footer after this line: the file is cut off")]),
    "half a footer": (
        edited(6, lambda line: line[:100]),
        [(6, "cut off in the middle of this line, after 100 bytes"), (6, "not a line"), (6, "no footer after")],
    ),
    "a footer without its newline": (WHOLE[:-1], [(6, "cut off in the middle of this line")]),
    "something after the footer": (WHOLE + b"{}\n", [(7, "a line after the footer; nothing may follow it")]),
    "a second segment after it": (WHOLE + WHOLE, [(7, "a line after the footer"), (12, "a line after the footer")]),
    "nothing at all": (b"", [(1, "the file is empty: it should begin with a header")]),
    "zeros": (bytes(4096), [(1, "cut off"), (1, "not a line"), (1, "no footer")]),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_shows_with_its_line(name: str) -> None:
    data, expected = TAMPERED[name]
    problems = read(data).problems
    for line, text in expected:
        assert any(number == line and text in found for number, found in problems), problems


def test_a_damaged_segment_still_claims_what_can_be_read() -> None:
    found = read(edited(3, lambda line: b"\n"))
    assert (found.router, found.first_seq, found.last_seq, found.lines) == (ROUTER, 10, 15, 3)
    found = read(FIRST_LINES[:-10])
    assert (found.router, found.first_seq, found.last_seq, found.lines) == (ROUTER, 10, 14, 3)
    found = read(b"".join(FIRST_LINES.splitlines(keepends=True)[1:]))
    assert (found.router, found.first_seq, found.last_seq) == (ROUTER, 11, 15)
    assert read(bytes(9)) == Lines(problems=read(bytes(9)).problems)


def test_a_forged_segment_is_whole_for_its_forger_alone() -> None:
    forged = read(sealed(events_of(outward(), first_seq=10, key=OTHER), key=OTHER))
    assert (forged.problems, forged.router) == ([], OTHER.public.hex())


def test_after_too_many_problems_nothing_more_is_looked_at() -> None:
    parts = WHOLE.splitlines(keepends=True)
    found = read(b"".join([*parts[:-1], b"{}\n" * 250, parts[-1]]))
    assert len(found.problems) == PROBLEMS_MAX + 1 and found.is_cut
    assert found.problems[-1] == (len(parts) + PROBLEMS_MAX, TOO_MANY)
    just = read(b"".join([*parts[:-1], b"{}\n" * (PROBLEMS_MAX - 1)]))
    assert (len(just.problems), just.is_cut) == (PROBLEMS_MAX, False)
    assert just.problems[-1][1] == "no footer after this line: the file is cut off"


@pytest.mark.parametrize(("bad_lines", "said"), [(96, "and 1 more problem"), (97, "and 2 more problems")])
def test_problems_of_the_footer_that_are_too_many_are_counted(bad_lines: int, said: str) -> None:
    """A line is missing before the footer, which says four things of it."""
    *lines, _, footer = WHOLE.splitlines(keepends=True)
    assert read(b"".join([*lines, b"{}\n" * bad_lines, footer])).problems[-1][1] == said


@pytest.mark.parametrize("junk", [b"\n", b"{}\n", b"[[[\n", b'{"v":1,"event":"seal"}\n'])
@pytest.mark.parametrize("is_tail", [False, True])
def test_a_file_that_is_all_wrong_costs_no_more_than_its_beginning(junk: bytes, is_tail: bool) -> None:
    def effort(count: int) -> int:
        return opcodes(lambda: examine([FIRST_LINES, *[junk * 1_000] * count], verify, is_tail=is_tail))

    effort(1)  # what is only done once in a process
    assert effort(1_000) < 1.2 * effort(1)


def test_a_tail_is_lines_without_a_footer() -> None:
    data = tail(events_of(outward(), outward(), first_seq=10), "ab" * 32)
    found = examine([data], verify, is_tail=True)
    assert (found.problems, found.router, found.first_seq, found.last_seq, found.lines) == ([], ROUTER, 10, 11, 2)
    header_only = examine([data.splitlines(keepends=True)[0]], verify, is_tail=True)
    assert (header_only.problems, header_only.first_seq, header_only.last_seq) == ([], 10, 0)
    [(line, text)] = examine([data[:-1]], verify, is_tail=True).problems
    assert (line, "the file is cut off in the middle of this line" in text) == (3, True)
    assert examine([WHOLE], verify, is_tail=True).problems == [(6, "a footer in a tail, which is not sealed")]


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_no_byte_of_a_segment_can_be_changed_unseen(at: int, flip: int) -> None:
    assert read(WHOLE[:at] + bytes([WHOLE[at] ^ flip]) + WHOLE[at + 1 :]).problems


@given(st.integers(0, len(WHOLE) - 1))
def test_no_segment_can_be_cut_short_unseen(length: int) -> None:
    assert read(WHOLE[:length]).problems


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_have_problems_but_raise_nothing(data: bytes, is_tail: bool) -> None:
    assert examine([data], verify, is_tail=is_tail).problems
