"""Segments: header, footer, chain, and every way to damage one."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import cbor2
import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from test_events import ALICE, BOOT, accepted

from router.core.crypto import SigningKey, verify
from router.core.events import Event, Outward, State, encode_events
from router.core.line import Line, encode_lines, gap, rows
from router.core.segment import (
    PROBLEMS_MAX,
    SEAL_LABEL,
    Check,
    Tally,
    contradicts,
    file_name,
    fold,
    header,
    is_authentic,
    sign,
    signed_bytes,
)

CDDL = Validator(Path(__file__).parents[3] / "cddl" / "segment.cddl")
KEY, OTHER = SigningKey(b"r" * 32), SigningKey(b"x" * 32)
ROUTER = KEY.public.hex()


def outward(at_ns: int = 5) -> Outward:
    return Outward(at_ns, 6, "delivered", ALICE, 4, ((7, 2), (20, 1)), None, 1, 9, 500)


def events_of(*events: Event, first_seq: int = 1) -> list[Line]:
    return rows(encode_events(events, first_seq, BOOT), KEY.public)


def sealed(found: list[Line], predecessor: str | None = None, key: SigningKey = KEY) -> bytes:
    """A segment's bytes."""
    tally = Tally(found[0].seq)
    data = encode_lines([header(found[0], predecessor), *found])
    tally.digest.update(data)
    for row in found:
        tally.note(row)
    return data + encode_lines([sign(tally.footer(key.public.hex(), predecessor), key)])


def checked(data: bytes, router: str | None = None) -> Check:
    check = Check(router)
    for line in data.splitlines(keepends=True):
        check.line(line)
    check.end()
    return check


WHOLE = sealed(events_of(State(4, 5, "start", ()), accepted(3), outward(9), outward(2), first_seq=10), "ab" * 32)


# -- header and footer ------------------------------------------------------------------------------------


def test_a_segment_is_named_by_its_first_sequence_number() -> None:
    assert file_name(10) == "events-0000000000000010.jsonl"


def test_header_and_footer() -> None:
    first, *_, last = WHOLE.splitlines(keepends=True)
    assert json.loads(first) == {
        "v": 1, "event": "segment", "router": ROUTER, "boot": BOOT.hex(), "schema": "upsycle event log 1",
        "first_seq": 10, "predecessor": "ab" * 32,
    }  # fmt: skip
    footer = json.loads(last)
    signature = bytes.fromhex(footer.pop("signature"))
    assert footer == {
        "v": 1, "event": "seal", "n": 6, "router": ROUTER, "first_seq": 10, "last_seq": 15, "segments": 1,
        "lines": 4, "counts": {"start": 1, "accepted": 3, "delivered": 6}, "min_t": 2, "max_t": 9,
        "predecessor": "ab" * 32, "sha256": sha256(WHOLE.removesuffix(last)).hexdigest(),
    }  # fmt: skip
    said = [1, ROUTER, 10, 15, 6, 1, 4, footer["counts"], 2, 9, "ab" * 32, footer["sha256"]]
    signed = b"upsycle event log seal 1" + cbor2.dumps(said, canonical=True)
    assert verify(KEY.public, signed, signature)


def test_header_and_footer_are_what_the_cddl_says() -> None:
    first, *_, last = WHOLE.splitlines()
    assert CDDL.validate(json.loads(first), "header")
    assert CDDL.validate(json.loads(last), "footer")
    footer = checked(WHOLE).footer
    assert footer is not None
    assert CDDL.validate(signed_bytes(footer).removeprefix(SEAL_LABEL), "sealed", require_deterministic=True)


def test_the_label_keeps_a_seal_from_being_anything_else() -> None:
    assert SEAL_LABEL == b"upsycle event log seal 1"


def _footer() -> Line:
    footer = checked(WHOLE).footer
    assert footer is not None and is_authentic(footer)
    return footer


@pytest.mark.parametrize(
    "change",
    [
        {"event": "seals"}, {"v": 2}, {"router": OTHER.public.hex()}, {"router": None}, {"router": "zz"},
        {"first_seq": 9}, {"last_seq": 16}, {"last_seq": 0}, {"n": 7}, {"segments": 2}, {"lines": 5},
        {"counts": {"accepted": 3}}, {"counts": None}, {"min_t": 1}, {"max_t": 10}, {"predecessor": None},
        {"predecessor": "ac" * 32}, {"sha256": "00" * 32}, {"sha256": None}, {"signature": None},
        {"signature": "00" * 64}, {"signature": "é"}, {"signature": "00"}, {"counts": {"\ud800": 1}},
    ],
    ids=str,
)  # fmt: skip
def test_a_footer_with_anything_changed_is_not_authentic(change: dict[str, object]) -> None:
    assert not is_authentic(replace(_footer(), **change))


def test_a_signature_has_one_spelling() -> None:
    footer = _footer()
    assert not is_authentic(replace(footer, signature=(footer.signature or "").upper()))


def test_another_router_may_not_sign_for_this_one() -> None:
    assert not is_authentic(sign(_footer(), OTHER))


# -- folding and witnesses --------------------------------------------------------------------------------


def chain(*sizes: int) -> list[Line]:
    """Footers of segments that follow each other, with so many events each."""
    footers: list[Line] = []
    seq, predecessor = 1, None
    for size in sizes:
        found = events_of(*(outward(seq + number) for number in range(size)), first_seq=seq)
        footer = checked(sealed(found, predecessor)).footer
        assert footer is not None
        footers.append(footer)
        seq, predecessor = seq + size, footer.sha256
    return footers


def test_neighbours_in_the_chain_fold_into_one_footer() -> None:
    one, two, three = chain(2, 1, 3)
    [folded] = fold([one, two, three], KEY)
    assert is_authentic(folded)
    assert replace(folded, signature=None) == Line(
        1, "seal", router=ROUTER, n=6, first_seq=1, last_seq=6, segments=3, lines=6, counts={"delivered": 18},
        min_t=1, max_t=6, predecessor=None, sha256=three.sha256,
    )  # fmt: skip


def test_folding_can_go_on() -> None:
    footers = chain(2, 1, 3, 1)
    once = fold(footers[:2], KEY) + footers[2:]
    assert fold(once, KEY) == fold(footers, KEY)


def test_a_gap_is_not_folded_away() -> None:
    one, _, three, four = chain(2, 1, 3, 1)
    assert [(each.first_seq, each.last_seq) for each in fold([one, three, four], KEY)] == [(1, 2), (4, 7)]
    other = replace(three, first_seq=3, predecessor="00" * 32)
    assert fold([one, other], KEY) == [one, other]
    assert fold([], KEY) == []


def test_only_a_witness_knows_of_a_tail_that_was_cut_off() -> None:
    one, two, three = chain(2, 1, 3)
    head = bytes.fromhex(three.sha256 or "")
    assert contradicts([one, two, three], 6, head) is None
    assert contradicts([one, two, three], 2, bytes.fromhex(one.sha256 or "")) is None
    assert contradicts([one, two], 6, head) == (
        "a neighbour was told of events up to 6; this log ends at 3: its tail was cut off"
    )
    assert contradicts([], 6, head) == (
        "a neighbour was told of events up to 6; this log ends at 0: its tail was cut off"
    )
    assert contradicts([one, two, three], 6, bytes(32)) == (
        f"a neighbour was told that the segment up to 6 has the digest {'00' * 32}; "
        f"here it has {three.sha256}: the log was rewritten"
    )


# -- checking ---------------------------------------------------------------------------------------------


def test_a_whole_segment_has_no_problems() -> None:
    check = checked(WHOLE, ROUTER)
    assert (check.problems, check.gaps) == ([], [])
    assert check.header and check.header.first_seq == 10
    assert check.footer and check.footer.last_seq == 15


def test_a_gap_that_the_log_records_is_told_but_no_problem_of_the_segment() -> None:
    found = events_of(outward(), first_seq=10)
    check = checked(sealed([gap(4, found[0]), *found]))
    assert (check.problems, check.gaps) == ([], [(2, 4, 9)])
    assert check.footer and check.footer.counts == {"log_gap": 1, "delivered": 3}


def edited(number: int, edit: Callable[[bytes], bytes]) -> bytes:
    parts = WHOLE.splitlines(keepends=True)
    parts[number - 1] = edit(parts[number - 1])
    return b"".join(parts)


def swap(one: bytes, other: bytes) -> Callable[[bytes], bytes]:
    def edit(line: bytes) -> bytes:
        assert one in line
        return line.replace(one, other)

    return edit


CHANGED = "the lines have the digest"
TAMPERED = {
    "an event's time edited": (
        edited(4, swap(b'"t":9', b'"t":8')),
        [(6, CHANGED), (6, "max_t 9, the lines 8")],
    ),
    "one id digit edited": (edited(3, swap(b'"ids":"00', b'"ids":"10')), [(6, CHANGED)]),
    "a range edited": (
        edited(4, swap(b"[[7,2]", b"[[7,3]")),
        [(6, CHANGED)],
    ),
    "a count edited": (
        edited(4, swap(b'"count":3', b'"count":2')),
        [(6, CHANGED), (6, "'delivered': 6}, the lines")],
    ),
    "the ids made fewer": (
        edited(3, swap(b'"ids":"' + b"00" * 32, b'"ids":"')),
        [(3, "do not hold 3 messages each"), (6, CHANGED)],
    ),
    "a sequence number edited": (
        edited(4, swap(b'"seq":14', b'"seq":99')),
        [
            (4, "the sequence numbers 14 to 98 are missing"),
            (5, "the sequence number 15 where 100"),
            (6, CHANGED),
        ],
    ),
    "a sequence number gone": (
        edited(4, swap(b'"seq":14,', b"")),
        [(4, "the event delivered has no sequence number"), (5, "the sequence numbers 14 to 14 are missing")],
    ),
    "an event removed": (
        edited(4, lambda line: b""),
        [(4, "the sequence numbers 14 to 14 are missing"), (5, CHANGED), (5, "lines 4, the lines 3")],
    ),
    "an event doubled": (
        edited(4, lambda line: line * 2),
        [(5, "the sequence number 14 where 15 should be"), (7, CHANGED), (7, "lines 4, the lines 5")],
    ),
    "another router's event": (
        edited(4, swap(ROUTER.encode(), OTHER.public.hex().encode())),
        [(4, f"an event of the router {OTHER.public.hex()}"), (6, CHANGED)],
    ),
    "a line that is no JSON": (
        edited(4, swap(b'"t":9', b'"t":')),
        [(4, "not a line of an event log: JSON is malformed"), (6, CHANGED)],
    ),
    "an empty line": (
        edited(4, lambda line: line + b"\n"),
        [(5, "not a line of an event log"), (7, CHANGED)],
    ),
    "a column of another type": (
        edited(4, swap(b'"link":4', b'"link":"4"')),
        [(4, "Expected `int | null`, got `str` - at `$.link`"), (6, CHANGED)],
    ),
    "no header": (
        edited(1, lambda line: b""),
        [(1, "the first line is not the header"), (5, CHANGED)],
    ),
    "a header of another predecessor": (
        edited(1, swap(b"abab", b"cdcd")),
        [(6, CHANGED), (6, "header and footer name different routers or predecessors")],
    ),
    "a footer that says otherwise": (
        edited(6, swap(b'"lines":4', b'"lines":3')),
        [(6, "the footer's signature does not fit what the footer says")],
    ),
    "no footer": (edited(6, lambda line: b""), [(5, "no footer after this line: the file is cut off")]),
    "half a footer": (
        edited(6, lambda line: line[:100]),
        [(6, "cut off in the middle of this line"), (6, "not a line"), (6, "no footer after this line")],
    ),
    "a footer without its newline": (WHOLE[:-1], [(6, "cut off in the middle of this line")]),
    "something after the footer": (WHOLE + b"{}\n", [(7, "a line after the footer; nothing may follow it")]),
    "nothing at all": (b"", [(1, "the file is empty")]),
    "zeros": (bytes(4096), [(1, "cut off"), (1, "not a line"), (1, "no footer")]),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_shows_with_its_line(name: str) -> None:
    data, expected = TAMPERED[name]
    problems = checked(data).problems
    for line, text in expected:
        assert any(number == line and text in found for number, found in problems), problems


def test_another_router_is_not_the_one_that_was_asked_for() -> None:
    [(line, text)] = checked(WHOLE, OTHER.public.hex()).problems
    assert (line, text) == (1, f"a segment of the router {ROUTER}, not of {OTHER.public.hex()}")


def test_a_forged_segment_is_authentic_only_for_its_forger() -> None:
    forged = sealed(rows(encode_events([outward()], 10, BOOT), OTHER.public), key=OTHER)
    assert checked(forged).problems == []
    assert len(checked(forged, ROUTER).problems) == 1


def test_problems_are_counted_when_there_are_too_many() -> None:
    parts = WHOLE.splitlines(keepends=True)
    problems = checked(b"".join([*parts[:-1], b"{}\n" * 250, parts[-1]])).problems
    assert len(problems) == PROBLEMS_MAX + 1
    assert problems[-1] == (256, "and 151 more problems")


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_no_byte_of_a_segment_can_be_changed_unseen(at: int, flip: int) -> None:
    assert checked(WHOLE[:at] + bytes([WHOLE[at] ^ flip]) + WHOLE[at + 1 :]).problems


@given(st.integers(0, len(WHOLE) - 1))
def test_no_segment_can_be_cut_short_unseen(length: int) -> None:
    assert checked(WHOLE[:length]).problems


@given(st.binary(max_size=300))
def test_any_bytes_have_problems_but_raise_nothing(data: bytes) -> None:
    assert checked(data).problems
