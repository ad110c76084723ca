"""One line of the event log: JSON, with one flat schema for everything that is logged.

A column that does not apply is left out and reads as null. Keys, ids and digests are lower-case hex, ids
joined without a separator. `count` is the number of messages (for an outward event: deliveries) that a line
represents, `n` the number of sequence numbers it takes. All columns and their OpenTelemetry names:
`cddl/segment.cddl`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import unpack
from typing import Any

import msgspec
from msgspec import Struct

from .events import (
    FIELD_MAX,
    WORD_BYTES,
    Accepted,
    Event,
    Noted,
    Outward,
    RouterChange,
    Turned,
    decode_events,
    reason_word,
    stands_for,
    storable,
)

VERSION = 1
GAP_MAX = 1 << 39
"""The most sequence numbers that one line takes: audits add up fewer than 2^40."""
KINDS = ("unicast", "multicast", "copy")
TIME_MAX = 4 * 10**18 - 1
"""The latest time that is logged, in Unix nanoseconds (year 2096); later clock readings are logged as this."""


class Line(Struct, frozen=True, gc=False, omit_defaults=True):
    """One line of a segment, of any kind. If a column's default is 0, the value 0 never occurs."""

    v: int
    event: str
    seq: int = 0
    n: int = 0
    t: int = 0
    mono: int | None = None
    router: str | None = None
    boot: str | None = None
    kind: str | None = None
    source: str | None = None
    group: str | None = None
    signer: str | None = None
    destination: str | None = None
    peer: str | None = None
    link: int | None = None
    first: int | None = None
    count: int | None = None
    ids: str | None = None
    sizes: Sequence[int] | None = None
    ttls: Sequence[int] | None = None
    expiries: Sequence[int] | None = None
    recipients: Sequence[str] | None = None
    recipient: str | None = None
    ranges: Sequence[tuple[int, int]] | None = None
    parcel: int | None = None
    reason: str | None = None
    attempt: int | None = None
    depth: int | None = None
    duration_ns: int | None = None
    bytes: int | None = None
    fields: dict[str, Any] | None = None
    schema: str | None = None
    first_seq: int = 0
    last_seq: int = 0
    segments: int = 0
    lines: int = 0
    counts: dict[str, int] | None = None
    min_t: int = 0
    max_t: int = 0
    predecessor: str | None = None
    sha256: str | None = None
    signature: str | None = None
    # beside the schema: of the footers of a router whose key has been followed, and of headers
    successions: str | None = None
    reasons: Sequence[str] | None = None


# The schema of every line in Spark's type names, in the order of the columns.
_SPARK = {
    "int": "BIGINT", "str": "STRING", "Sequence[int]": "ARRAY<BIGINT>", "Sequence[str]": "ARRAY<STRING>",
    "Sequence[tuple[int, int]]": "ARRAY<ARRAY<BIGINT>>", "dict[str, Any]": "MAP<STRING,STRING>",
    "dict[str, int]": "MAP<STRING,BIGINT>",
}  # fmt: skip
COLUMNS = {name: _SPARK[kind.removesuffix(" | None")] for name, kind in Line.__annotations__.items()}
del COLUMNS["successions"], COLUMNS["reasons"]

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Line)


def encode_lines(rows: Sequence[Line]) -> bytes:
    """Return the lines as JSON, each with its newline."""
    return _ENCODER.encode_lines(rows)


def encode_line(row: Line) -> bytes:
    """Return one line as JSON, without its newline."""
    return _ENCODER.encode(row)


def decode_line(line: bytes) -> Line:
    """Return the line that these bytes encode; raise `ValueError` with a text for people if they encode none."""
    try:
        row = _DECODER.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"not a line of an event log: {str(error)[:120]}") from None
    if not (0 <= row.seq <= FIELD_MAX and 0 <= row.n <= FIELD_MAX):
        raise ValueError(f"not a line of an event log: the sequence number {row.seq} with {row.n} numbers")
    return row


# -- events as lines ------------------------------------------------------------------------------------


def rows(value: bytes, router: bytes) -> list[Line]:
    """Return the lines of one event value of the store; raise `Malformed` if it is none."""
    return event_rows(*decode_events(value), router)


def event_rows(seq: int, boot: bytes, events: Sequence[Event], router: bytes) -> list[Line]:
    """Return the lines of these events; the first takes the sequence number `seq`."""
    out: list[Line] = []
    names = router.hex(), boot.hex()
    for event in events:
        row = _LINE_OF[type(event)](event, seq, *names)
        out.append(row)
        seq += row.n
    return out


def lines(value: bytes, router: bytes) -> list[bytes]:
    """Return the lines of one event value of the store as JSON, without newlines."""
    return [_ENCODER.encode(row) for row in rows(value, router)]


def _accepted(event: Accepted, seq: int, router: str, boot: str) -> Line:
    count = len(event.ids) // 32
    source, group = (None, event.signer.hex()) if event.kind else (event.signer.hex(), None)
    return Line(
        VERSION,
        "accepted",
        seq,
        count,
        min(event.at_ns, TIME_MAX),
        event.mono_ns,
        router,
        boot,
        kind=KINDS[event.kind],
        source=source,
        group=group,
        destination=_hex(event.destination),
        peer=_hex(event.neighbour),
        link=event.link,
        first=event.first,
        count=count,
        ids=event.ids.hex(),
        sizes=_numbers(event.sizes, count),
        ttls=_numbers(event.ttls, count),
        expiries=_numbers(event.expiries, count),
        recipients=[one.hex() for one in event.recipients],
    )


def _outward(event: Outward, seq: int, router: str, boot: str) -> Line:
    return Line(
        VERSION,
        event.event,
        seq,
        1,
        min(event.at_ns, TIME_MAX),
        event.mono_ns,
        router,
        boot,
        recipient=event.recipient.hex(),
        link=event.link,
        count=stands_for(event),
        ranges=event.ranges,
        parcel=event.parcel,
        reason=None if event.reason is None else reason_word(event.reason),
        attempt=event.attempt,
        depth=event.depth,
        duration_ns=event.duration_ns,
    )


def _turned(event: Turned, seq: int, router: str, boot: str) -> Line:
    return Line(
        VERSION,
        event.event,
        seq,
        1,
        min(event.at_ns, TIME_MAX),
        event.mono_ns,
        router,
        boot,
        peer=_hex(event.neighbour),
        link=event.link,
        count=event.count,
        ids=event.ids.hex() or None,
        reason=reason_word(event.reason),
        signer=_hex(event.signer),
        duration_ns=event.duration_ns or None,
        bytes=event.size or None,
    )


def _state(event: RouterChange, seq: int, router: str, boot: str) -> Line:
    return Line(
        VERSION,
        event.event,
        seq,
        1,
        min(event.at_ns, TIME_MAX),
        event.mono_ns,
        router,
        boot,
        count=stands_for(event),
        fields=_fields(event),
    )


def _noted(event: Noted, seq: int, router: str, boot: str) -> Line:
    return Line(
        VERSION,
        event.event,
        seq,
        1,
        min(event.at_ns, TIME_MAX),
        event.mono_ns,
        router,
        boot,
        signer=event.service.hex(),
        count=stands_for(event),
        ids=event.ids.hex() or None,
        reason=None if event.reason is None else reason_word(event.reason),
        fields=_fields(event),
    )


_LINE_OF: dict[type[Event], Callable[[Any, int, str, str], Line]] = {
    Accepted: _accepted,
    Outward: _outward,
    Turned: _turned,
    RouterChange: _state,
    Noted: _noted,
}


def _fields(event: RouterChange | Noted) -> dict[str, Any]:
    return {
        str(storable(name)): value.hex() if isinstance(value, bytes) else storable(value)
        for name, value in event.fields
    }


def _numbers(column: bytes, count: int) -> tuple[int, ...]:
    """Return the numbers of a column; a parcel's messages mostly have equal lives, so one number stands for all."""
    first = column[:WORD_BYTES]
    return unpack("<I", first) * count if first * count == column else unpack(f"<{count}I", column)


def _hex(raw: bytes | None) -> str | None:
    return None if raw is None else raw.hex()


def gaps(first_seq: int, following: Line) -> list[Line]:
    """Return the `log_gap` lines for missing sequence numbers, from `first_seq` up to the `following` line: one, or one
    for each `GAP_MAX`, as where a life of the router began long after the snapshot."""
    return [
        Line(
            VERSION,
            "log_gap",
            seq,
            missing := min(GAP_MAX, following.seq - seq),
            following.t,
            following.mono,
            following.router,
            following.boot,
            count=1,
            fields={"missing": missing},
        )
        for seq in range(first_seq, following.seq, GAP_MAX)
    ]
