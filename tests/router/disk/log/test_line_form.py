"""A node reads lines of event logs strictly: by the audit's grammar, and only with as many messages as a line
states."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from samples.lines import lines, samples
from samples.segments import WHOLE

from router.core.log.line import Line, encode_line
from router.disk.log.line_form import NotALine, read_line
from spark_analytics.judgement.line_grammar import LINE_BYTES_MAX, columns_fit, is_line

OUTWARD = lines()[2]


def is_one(data: bytes) -> bool:
    try:
        read_line(data)
    except NotALine as error:
        assert str(error).startswith("not a line of an event log: ")
        return False
    return True


def test_what_a_router_writes_is_read() -> None:
    for line in lines():
        assert read_line(encode_line(line)) == line
    assert all(map(is_one, WHOLE.splitlines()))


def test_an_event_that_a_service_noted_is_a_line() -> None:
    state = next(line for line in WHOLE.splitlines() if b'"fields"' in line)
    for name, holds in ((b"guestbook:signed", True), (b"Guestbook", False), (b":x", False)):
        noted = re.sub(rb'"event":"[^"]*"', b'"event":"%b"' % name, state)
        assert is_one(noted) is holds


@given(st.integers(0, 10**6))
@example(4912)
def test_it_is_read_where_it_is_a_line_that_holds_its_messages(seed: int) -> None:
    for _, data in samples(seed, 20):
        row = json.loads(data) if is_line(data) else {}
        said = bool(row) and (row["event"] != "accepted" or columns_fit(row))
        assert is_one(data) is said


@given(st.binary(max_size=200))
def test_any_bytes_are_a_line_or_none(data: bytes) -> None:
    is_one(data)
    assert not is_one(data + b'{"v":1,"event":"stop"}')


@pytest.mark.parametrize("more", [b'"mood":1', b'"mood":[1,-2],"why":null', b'"mood":["\xc3\xa9"]', b'"mood":true'])
def test_more_columns_of_a_newer_router_are_borne(more: bytes) -> None:
    for line in lines():
        assert read_line(encode_line(line)[:-1] + b"," + more + b"}") == line


def test_other_events_of_a_newer_router_are_read_as_they_are() -> None:
    new = replace(OUTWARD, event="swallowed")
    assert read_line(encode_line(new)) == new
    assert not is_one(encode_line(replace(new, v=2)))


@pytest.mark.parametrize(
    "line",
    [
        replace(OUTWARD, t=-1), replace(OUTWARD, t=10**19), replace(OUTWARD, link=-1), replace(OUTWARD, link=None),
        replace(OUTWARD, seq=0), replace(OUTWARD, recipient="A" * 64), replace(OUTWARD, recipient="x"),
        replace(OUTWARD, ranges=[(1, -1)]), replace(OUTWARD, ranges=[(1, 10**10)]), replace(OUTWARD, reason="\ud7ff"),
        replace(OUTWARD, fields={"a": 1.5}), replace(OUTWARD, ids="0" * 64), replace(OUTWARD, event="accepted"),
        replace(OUTWARD, parcel=None),
        replace(lines()[0], sizes=[9]), replace(lines()[0], ids="g" * 192), replace(lines()[0], n=2),
        Line(1, "stop", 1, 1, router="0" * 64, boot="0" * 32, count=1, fields={"a": {"b": 1}}),
    ],
)  # fmt: skip
def test_what_says_what_no_router_says_is_none(line: Line) -> None:
    assert not is_one(encode_line(line))


def test_a_line_is_no_longer_than_so() -> None:
    short = replace(lines()[7], fields={"a": ""})
    line = encode_line(replace(short, fields={"a": "x" * (LINE_BYTES_MAX - len(encode_line(short)) - 1)}))
    assert len(line) == LINE_BYTES_MAX - 1 and is_one(line) and not is_one(line.replace(b"xx", b"xxx", 1))
