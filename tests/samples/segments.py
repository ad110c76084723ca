"""Segments of an event log as bytes, sealed with a router's key, for the tests of their readers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from struct import pack

from router.core.log.events import Accepted, Event, Outward, RouterChange, encode_events
from router.core.log.line import Line, encode_lines, rows
from router.core.log.segment import SegmentTotals, file_name, header, sign
from router.core.wire.crypto import SigningKey
from samples.logs import BOOT, KEY
from spark_analytics.judgement.footer import decode_line

ROUTER = KEY.public.hex()
GROUP, ALICE = (SigningKey(bytes([number]) * 32).public for number in (1, 2))


def accepted(count: int) -> Accepted:
    ids = b"".join(bytes([number]) * 32 for number in range(count))
    columns = [pack(f"<{count}I", *range(start, start + count)) for start in (1000, 60, 3_000_000)]
    return Accepted(5, 6, 7, 1, GROUP, None, ALICE, 3, (ALICE, GROUP), ids, *columns)


def outward(at_ns: int = 5) -> Outward:
    return Outward(at_ns, 6, "delivered", ALICE, 4, ((7, 2), (20, 1)), None, 1, 9, 500, 7)


def events_of(*events: Event, first_seq: int = 1, key: SigningKey = KEY) -> list[Line]:
    return rows(encode_events(events, first_seq, BOOT), key.public)


def numbered(first_seq: int, last_seq: int, at_ns: int = 5, key: SigningKey = KEY) -> list[Line]:
    """Return one delivered line for each of these sequence numbers."""
    return events_of(*(outward(at_ns) for _ in range(first_seq, last_seq + 1)), first_seq=first_seq, key=key)


def tail(found: list[Line], predecessor: str | None = None, reasons: Sequence[str] | None = None) -> bytes:
    """Return header and lines as bytes; `reasons`: what the header names."""
    return encode_lines([header(found[0], predecessor, reasons), *found])


def footer(
    found: list[Line], predecessor: str | None = None, key: SigningKey = KEY, reasons: Sequence[str] | None = None
) -> Line:
    tally = SegmentTotals(found[0].seq)
    tally.digest.update(tail(found, predecessor, reasons))
    for row in found:
        tally.note(row)
    return sign(tally.footer(key.public.hex(), predecessor), key)


def sealed(
    found: list[Line], predecessor: str | None = None, key: SigningKey = KEY, reasons: Sequence[str] | None = None
) -> bytes:
    """Return a segment's bytes."""
    return tail(found, predecessor, reasons) + encode_lines([footer(found, predecessor, key, reasons)])


WHOLE = sealed(events_of(RouterChange(4, 5, "start", ()), accepted(3), outward(9), outward(2), first_seq=10), "ab" * 32)
"""Six lines: header, start (10), three messages (11-13), two deliveries (14, 15), footer."""


def write_log(
    directory: Path, key: SigningKey = KEY, segments: int = 4, at_ns: int = 5, after: str | None = None, first: int = 1
) -> Path:
    """Write segments of two events each."""
    directory.mkdir(exist_ok=True)
    for number in range(segments):
        seq = first + 2 * number
        data = sealed(numbered(seq, seq + 1, at_ns, key), after, key)
        (directory / file_name(seq)).write_bytes(data)
        after = decode_line(data.splitlines()[-1])["sha256"]
    return directory


def last_line(path: Path) -> bytes:
    return path.read_bytes().splitlines(keepends=True)[-1]


def prune(log: Path, *names: str) -> None:
    with (log / "pruned.jsonl").open("ab") as file:
        for name in names:
            file.write(last_line(log / name))
            (log / name).unlink()
