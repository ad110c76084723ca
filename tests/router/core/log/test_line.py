"""The JSON lines of the log: one example of each event, and every column as documented."""

import json
from collections.abc import Callable
from pathlib import Path
from struct import unpack
from typing import Any

import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from test_events import ALICE, BOB, BOOT, GROUP, accepted, some_events

from router.core.log.events import Accepted, Event, Outward, RouterChange, Turned, encode_events, span
from router.core.log.line import COLUMNS, GAP_MAX, Line, decode_line, encode_lines, event_rows, gaps, lines, rows
from router.core.wire.codec import Malformed
from router.core.wire.reasons import Reason

CDDL = Validator(Path(__file__).parents[4] / "cddl" / "segment.cddl")
ROUTER = BOB


def the_line(event: Event) -> dict[str, object]:
    [line] = lines(encode_events([event], 40, BOOT), ROUTER)
    return dict(json.loads(line))


def common(event: str, n: int = 1, count: int = 1) -> dict[str, object]:
    return {
        "v": 1, "event": event, "seq": 40, "n": n, "t": 5, "mono": 6, "router": ROUTER.hex(),
        "boot": BOOT.hex(), "count": count,
    }  # fmt: skip


# -- one line of each kind ------------------------------------------------------------------------------


def test_an_accepted_multicast() -> None:
    assert the_line(accepted(2)) == {
        **common("accepted", 2, 2), "kind": "multicast", "group": GROUP.hex(), "peer": ALICE.hex(), "link": 3,
        "first": 7, "ids": "00" * 32 + "01" * 32, "sizes": [1000, 1001], "ttls": [60, 61],
        "expiries": [3_000_000, 3_000_001], "recipients": [ALICE.hex(), BOB.hex()],
    }  # fmt: skip


def test_an_accepted_unicast() -> None:
    event = Accepted(5, 6, 7, 0, ALICE, BOB, None, 0, (BOB,), bytes(32), bytes(4), bytes(4), b"\xff" * 4)
    assert the_line(event) == {
        **common("accepted"), "kind": "unicast", "source": ALICE.hex(), "destination": BOB.hex(), "link": 0,
        "first": 7, "ids": "00" * 32, "sizes": [0], "ttls": [0], "expiries": [4294967295],
        "recipients": [BOB.hex()],
    }  # fmt: skip


def test_an_outward_event() -> None:
    event = Outward(5, 6, "refused", BOB, 4, ((7, 2), (20, 1)), Reason.QUEUE_FULL_RECIPIENT, 1, 9, 500, 5)
    assert the_line(event) == {
        **common("refused", count=3), "recipient": BOB.hex(), "link": 4, "ranges": [[7, 2], [20, 1]],
        "reason": "queue-full-recipient", "attempt": 1, "depth": 9, "duration_ns": 500,
        "parcel": 5,
    }  # fmt: skip
    assert "reason" not in the_line(Outward(5, 6, "acked", BOB, 4, ((7, 2),), None, 0, 0, 0, 7))


def test_a_turned_event() -> None:
    event = Turned(5, 6, "refused", ALICE, 4, 120, b"\x01" * 64, 2, BOB, 600, 8)
    assert the_line(event) == {
        **common("refused", count=2), "peer": ALICE.hex(), "link": 4, "ids": "01" * 64, "reason": "reason-120",
        "signer": BOB.hex(), "bytes": 600, "duration_ns": 8,
    }  # fmt: skip
    counted = Turned(5, 6, "duplicate", None, 4, Reason.DUPLICATE, b"", 900, None)
    assert the_line(counted) == {**common("duplicate", count=900), "link": 4, "reason": "duplicate"}


def test_a_state_event() -> None:
    fields = (("group", GROUP), ("local", True), ("members", -2), ("name", 'a "b"\n'))
    assert the_line(RouterChange(5, 6, "join", fields)) == {
        **common("join"),
        "fields": {"group": GROUP.hex(), "local": True, "members": -2, "name": 'a "b"\n'},
    }


def test_a_state_event_that_stands_for_several() -> None:
    fields = (("standing", "stranger"), ("times", 900))
    line = the_line(RouterChange(5, 6, "link_up", fields))
    assert line == {**common("link_up", count=900), "fields": dict(fields)}


def test_sequence_numbers_run_on() -> None:
    stop = RouterChange(5, 6, "stop", ())
    found = rows(encode_events([stop, accepted(3), stop, accepted(1), stop], 40, BOOT), ROUTER)
    assert [(row.seq, row.n) for row in found] == [(40, 1), (41, 3), (44, 1), (45, 1), (46, 1)]


def test_a_gap_takes_the_sequence_numbers_that_are_missing() -> None:
    [stop] = rows(encode_events([RouterChange(5, 6, "stop", ())], 40, BOOT), ROUTER)
    line = Line(1, "log_gap", 31, 9, 5, 6, ROUTER.hex(), BOOT.hex(), count=1, fields={"missing": 9})
    assert gaps(31, stop) == [line] and gaps(40, stop) == []


def test_a_gap_that_audits_could_not_add_up_takes_several_lines() -> None:
    [stop] = rows(encode_events([RouterChange(5, 6, "stop", ())], 3 * GAP_MAX, BOOT), ROUTER)
    assert [(line.seq, line.n) for line in gaps(7, stop)] == [
        (7, GAP_MAX), (7 + GAP_MAX, GAP_MAX), (7 + 2 * GAP_MAX, GAP_MAX - 7),
    ]  # fmt: skip


# -- all lines ------------------------------------------------------------------------------------------


@given(some_events)
def test_a_line_says_all_that_the_event_said(events: list[Event]) -> None:
    value = encode_events(events, 40, BOOT)
    back = [decode_line(line) for line in lines(value, ROUTER)]
    seq = 40
    for row, event in zip(back, events, strict=True):
        assert (row.seq, row.n, row.t, row.mono) == (seq, span(event), event.at_ns, event.mono_ns)
        assert (row.router, row.boot) == (ROUTER.hex(), BOOT.hex())
        assert said(row) == meant(event)
        seq += span(event)


def said(row: Line) -> tuple[object, ...]:
    if row.event == "accepted":
        columns = tuple(tuple(column or ()) for column in (row.sizes, row.ttls, row.expiries))
        who = row.source or row.group, row.destination, row.peer, row.link, row.recipients
        return (row.kind, *who, row.first, row.ids, *columns)
    if row.ranges is not None:
        ranges = tuple(tuple(one) for one in row.ranges)
        outward = row.attempt, row.depth, row.duration_ns, row.parcel
        return row.event, row.recipient, row.link, ranges, row.reason is None, *outward
    if row.fields is not None:
        return row.event, row.fields
    return row.event, row.peer, row.link, row.reason, row.ids or "", row.count, row.signer


def meant(event: Event) -> tuple[object, ...]:
    match event:
        case Accepted():
            size = len(event.ids) // 32
            columns = (unpack(f"<{size}I", one) for one in (event.sizes, event.ttls, event.expiries))
            keys = [one and one.hex() for one in (event.signer, event.destination, event.neighbour)]
            recipients = [one.hex() for one in event.recipients]
            kind = "multicast" if event.kind else "unicast"
            return kind, *keys, event.link, recipients, event.first, event.ids.hex(), *columns
        case Outward():
            outward = event.attempt, event.depth, event.duration_ns, event.parcel
            return (
                event.event,
                event.recipient.hex(),
                event.link,
                event.ranges,
                event.reason is None,
                *outward,
            )
        case Turned():
            peer, signer = (one and one.hex() for one in (event.neighbour, event.signer))
            word = {int(one): one.word for one in Reason}[event.reason]
            return event.event, peer, event.link, word, event.ids.hex(), event.count, signer
    fields = {name: one.hex() if isinstance(one, bytes) else one for name, one in event.fields}
    return event.event, fields


@given(some_events)
def test_events_give_the_lines_that_their_value_gives(events: list[Event]) -> None:
    """The first are handed over at the commit, the second are read from the store after a crash."""
    assert encode_lines(event_rows(40, BOOT, events, ROUTER)) == encode_lines(
        rows(encode_events(events, 40, BOOT), ROUTER)
    )


@given(some_events)
def test_every_line_is_what_the_cddl_says(events: list[Event]) -> None:
    for line in lines(encode_events(events, 40, BOOT), ROUTER):
        result = CDDL.validate(json.loads(line), "line")
        assert result, result.format()


PYTHON: dict[str, Callable[[Any], bool]] = {
    "STRING": lambda one: isinstance(one, str),
    "BIGINT": lambda one: type(one) is int and 0 <= one < 1 << 63,
    "ARRAY<BIGINT>": lambda one: all(map(PYTHON["BIGINT"], one)),
    "ARRAY<STRING>": lambda one: all(map(PYTHON["STRING"], one)),
    "ARRAY<ARRAY<BIGINT>>": lambda one: all(map(PYTHON["ARRAY<BIGINT>"], one)),
    "MAP<STRING,STRING>": lambda one: all(isinstance(value, str | int) for value in one.values()),
    "MAP<STRING,BIGINT>": lambda one: all(map(PYTHON["BIGINT"], one.values())),
}


@given(some_events)
def test_every_column_holds_what_the_analytics_expect(events: list[Event]) -> None:
    for line in lines(encode_events(events, 40, BOOT), ROUTER):
        for name, one in json.loads(line).items():
            assert PYTHON[COLUMNS[name]](one), (name, one)


def test_the_schema() -> None:
    """A column may be added; an existing one keeps its name and type, so that old logs stay readable."""
    assert ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()) == (
        "v BIGINT, event STRING, seq BIGINT, n BIGINT, t BIGINT, mono BIGINT, router STRING, boot STRING, "
        "kind STRING, source STRING, group STRING, signer STRING, destination STRING, peer STRING, link "
        "BIGINT, first BIGINT, count BIGINT, ids STRING, sizes ARRAY<BIGINT>, ttls ARRAY<BIGINT>, "
        "expiries ARRAY<BIGINT>, recipients ARRAY<STRING>, recipient STRING, ranges ARRAY<ARRAY<BIGINT>>, "
        "parcel BIGINT, reason STRING, attempt BIGINT, depth BIGINT, duration_ns BIGINT, bytes BIGINT, "
        "fields MAP<STRING,STRING>, "
        "schema STRING, first_seq BIGINT, last_seq BIGINT, segments BIGINT, lines BIGINT, counts "
        "MAP<STRING,BIGINT>, min_t BIGINT, max_t BIGINT, predecessor STRING, sha256 STRING, signature "
        "STRING"
    )


def test_the_cddl_lists_every_column_with_its_type() -> None:
    table = (Path(__file__).parents[4] / "cddl" / "segment.cddl").read_text()
    for name, kind in COLUMNS.items():
        assert any(name in line.split()[1:3] or f"{name}," in line for line in table.splitlines() if kind in line)


# -- reading --------------------------------------------------------------------------------------------


@given(some_events)
def test_lines_with_newlines_are_the_same_lines(events: list[Event]) -> None:
    value = encode_events(events, 40, BOOT)
    assert encode_lines(rows(value, ROUTER)) == b"".join(line + b"\n" for line in lines(value, ROUTER))


@given(st.binary(max_size=100) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_a_line_or_an_error_with_a_text(data: bytes) -> None:
    try:
        decode_line(data)
    except ValueError as error:
        assert str(error).startswith("not a line of an event log: ")


@pytest.mark.parametrize("line", [b"", b"\n", b"{}", b"[" * 100_000, b'{"v":1,"event":"\xff"}', b'{"v":1}{}'])
def test_no_line(line: bytes) -> None:
    with pytest.raises(ValueError, match="not a line of an event log: "):
        decode_line(line)


def test_a_newer_column_is_ignored() -> None:
    assert decode_line(b'{"v":2,"event":"renamed","mood":"good"}\n') == Line(2, "renamed")


def test_a_value_that_is_none() -> None:
    with pytest.raises(Malformed):
        lines(b"no", ROUTER)
