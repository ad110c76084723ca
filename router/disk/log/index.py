"""An index beside each segment of the event log, which finds one message's lines without reading the log.

Its columns are in the order of the log, made by joining bytes, and never sorted: a search scans them like text. Ids are
uniform, so their first 8 bytes suffice; an outward line is indexed by its parcel, one about an invitation by the
invitation's id. Lines are found by *place*, which stands for the lines of some values of the store: an offset in the
file and in both columns.

    .index-0000000000000001    beside events-0000000000000001.jsonl: head, places, ids, parcels, gaps, unnamed

It is derived data: never synced, made again where it is missing or does not fit, and deleted with its segment.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from router.core.log.events import ID_BYTES, TURNED_EVENTS, Event, Outward, RouterChange, Turned
from router.core.log.line import Line
from router.disk import private_file
from router.disk.log.file import lines_of
from router.disk.log.line_form import read_line
from router.disk.log.packed import open_text
from spark_analytics.judgement.schema import FRAME_EVENTS

INDEX = ".index-"
TAG_BYTES = 8
INVITE, INVITATION = "invite", "invitation"
U64 = "Q"
PLACE_BYTES, NOTED_BYTES = 64 * 1024, 4096
"""The bytes of lines for which one place stands at least, in an index made anew, and in that of the open segment. The
latter is in memory, where a place for each value of the store would be most of it."""
_PLACE_WORDS_BYTES = 3 * TAG_BYTES
_HEAD = Struct("=8sQ32s5Q5I")  # native: an index from another kind of machine does not fit
_MAGIC = b"logidx 4"
_TAG_WORDS = ID_BYTES // TAG_BYTES


class Columns(NamedTuple):
    """The index of one segment. `places` has three numbers each: the offset in the file, and the lengths of both
    columns before it.

    `gaps`: first sequence number and count of missing events, for each `log_gap` and for lines that could not be read
    when the index was made anew.
    `unnamed`: wall time and number of unnamed messages, for each line about messages turned away that does not name
    them all.
    """

    places: array[int]
    ids: bytes
    parcels: bytes
    gaps: array[int]
    unnamed: array[int] = array(U64)

    def holding_ids(self, head: bytes) -> Iterator[int]:
        """Yield the positions in `ids` of the ids that begin with `head`; only its first 8 bytes count."""
        return _aligned(self.ids, head[:TAG_BYTES])

    def lines_of_id(self, at: int) -> tuple[int, int | None]:
        """Return the file offsets (start, stop) of the place that names the id at position `at`; stop None: to the
        end."""
        return self._span(bisect_right(self.places[1::3], at) - 1)

    def lines_of_parcels(self, parcels: Iterable[int]) -> list[tuple[int, int | None]]:
        """Return the file offsets (start, stop) of places with outward lines of these parcels, in order."""
        starts = self.places[2::3]
        found = {bisect_right(starts, at) - 1 for one in parcels for at in _aligned(self.parcels, _word(one))}
        return [self._span(place) for place in sorted(found)]

    def _span(self, place: int) -> tuple[int, int | None]:
        starts = self.places[0::3]
        return starts[place], starts[place + 1] if place + 1 < len(starts) else None


class IndexedLines(NamedTuple):
    """Lines of the log: the first `size` bytes of one file (the first of `paths` that exists), and their index."""

    paths: tuple[Path, ...]
    first_seq: int
    last_seq: int
    min_t: int
    size: int
    columns: Columns


class Growing:
    """The index of a segment that is being written."""

    def __init__(self) -> None:
        self._places = array(U64)
        self._in_place = set[int]()  # parcels of the last place
        self._ids = bytearray()
        self._parcels = array(U64)
        self._gaps = array(U64)
        self._unnamed = array(U64)

    def __repr__(self) -> str:
        ids, parcels = len(self._ids) // TAG_BYTES, len(self._parcels)
        return f"<index of {len(self._places) // 3} places, {ids} ids, {parcels} parcels>"

    def note(self, offset: int, events: Sequence[Event]) -> None:
        """Add the lines of these events, one value of the store, which begin at `offset` in the file."""
        if not self._places or offset - self._places[-3] >= NOTED_BYTES:
            self._begin_place(offset)
        named: list[bytes] = []
        parcels: set[int] = set()
        for one in events:
            if isinstance(one, Outward):
                parcels.add(one.parcel)
            elif isinstance(one, RouterChange):
                named += _invitation_of(one)
            else:
                named.append(one.ids)
                if isinstance(one, Turned) and (unnamed := one.count - len(one.ids) // ID_BYTES) > 0:
                    self._unnamed.extend((one.at_ns, unnamed))
        if named:
            self._ids += memoryview(b"".join(named)).cast("Q")[::_TAG_WORDS].tobytes()
        self._parcels.extend(parcels - self._in_place)
        self._in_place |= parcels

    def _begin_place(self, offset: int) -> None:
        self._places.extend((offset, len(self._ids) // TAG_BYTES, len(self._parcels)))
        self._in_place.clear()

    def note_gap(self, first_seq: int, count: int) -> None:
        self._gaps.extend((first_seq, count))

    def note_lines(self, offset: int, rows: Sequence[Line]) -> None:
        """Add lines that were read back, which begin at `offset` in the file."""
        self._begin_place(offset)
        parcels: set[int] = set()
        for row in rows:
            if row.event in TURNED_EVENTS and row.recipient is None:
                unnamed = (row.count or 0) - len(row.ids or "") // (2 * ID_BYTES)
                self._unnamed.extend((row.t, unnamed) if unnamed > 0 else ())
            if row.ranges is None and (ids := ids_in(row)):
                raw = bytes.fromhex(ids)
                self._ids += b"".join(raw[at : at + TAG_BYTES] for at in range(0, len(raw), ID_BYTES))
            elif row.event == "log_gap" and row.fields and "missing" in row.fields:
                self.note_gap(row.seq, row.n)
            elif row.parcel is not None:
                parcels.add(row.parcel)
        self._parcels.extend(parcels)

    def columns(self) -> Columns:
        """Return a copy of the columns, which later notes do not change."""
        gaps = array(U64, self._gaps)
        unnamed = array(U64, self._unnamed)
        places, ids, parcels = array(U64, self._places), bytes(self._ids), self._parcels.tobytes()
        return Columns(places, ids, parcels, gaps, unnamed)


def ids_in(row: Line) -> str:
    """Return the ids, in hex, by which a line is indexed: those of messages, or of an invitation."""
    found = (row.fields or {}).get(INVITATION, "") if row.event == INVITE else ""
    return row.ids or (found if re.fullmatch("[0-9a-f]{64}", str(found)) else "")


def _invitation_of(event: RouterChange) -> list[bytes]:
    of_it = [value for name, value in event.fields if event.event == INVITE and name == INVITATION]
    return [value for value in of_it if isinstance(value, bytes) and len(value) == ID_BYTES]


def path_of(segment: Path) -> Path:
    """Return the path of the index beside `segment`."""
    return segment.with_name(f"{INDEX}{segment.name.removeprefix('events-').partition('.')[0]}")


def write(segment: Path, size: int, digest: str, columns: Columns) -> None:
    """Write the index beside a segment of `size` bytes of text whose footer has sha256 `digest`. After an `OSError`
    there is none, or one that `read` rejects."""
    numbers = columns.gaps.tobytes(), columns.unnamed.tobytes()
    parts = columns.places.tobytes(), columns.ids, columns.parcels, *numbers
    head = _HEAD.pack(_MAGIC, size, bytes.fromhex(digest), *map(len, parts), *map(crc32, parts))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(path_of(segment), flags, private_file.FILE_MODE), "wb") as file:
        file.writelines((head, *parts))


def read(segment: Path, size: int, digest: str) -> Columns | None:
    """Return the index of `segment`; None if it is missing, damaged or belongs to another segment."""
    try:
        data = path_of(segment).read_bytes()
    except OSError:
        return None
    if len(data) < _HEAD.size:
        return None
    magic, of_size, of_digest, *numbers = _HEAD.unpack_from(data)
    lengths, checks = numbers[:5], numbers[5:]
    fits = (magic, of_size, of_digest.hex()) == (_MAGIC, size, digest)
    if not fits or len(data) != _HEAD.size + sum(lengths):
        return None
    parts, at = [], _HEAD.size
    for length, check in zip(lengths, checks, strict=True):
        parts.append(data[at : at + length])
        at += length
        if crc32(parts[-1]) != check:
            return None
    if len(parts[0]) % _PLACE_WORDS_BYTES or any(len(part) % TAG_BYTES for part in parts) or not parts[0]:
        return None
    return Columns(array(U64, parts[0]), parts[1], parts[2], array(U64, parts[3]), array(U64, parts[4]))


def is_of(row: Line, first_seq: int, last_seq: int, router: str | None = None) -> bool:
    """Whether the line is a header, a footer, or about one of these events. `router`: whose log it is, None if
    unknown."""
    if row.event in FRAME_EVENTS:
        return True
    return first_seq <= row.seq and row.seq + row.n - 1 <= last_seq and router in (None, row.router)


def make(segment: Path, size: int, footer: Line) -> Columns:
    """Make the index from the segment's lines. Anything that is no line of this segment becomes a gap. Raise
    `EndlessLine` at a line that is too long, `OSError` if the file cannot be read."""
    growing, rows, began, offset = Growing(), list[Line](), 0, 0
    next_seq = footer.first_seq
    with open_text(segment) as file:
        for data in lines_of(file, size):
            if offset - began >= PLACE_BYTES:
                growing.note_lines(began, rows)
                rows, began = [], offset
            offset += len(data)
            try:
                row = read_line(data.removesuffix(b"\n"))
            except ValueError:
                continue
            if not is_of(row, footer.first_seq, footer.last_seq, footer.router):
                continue
            rows.append(row)
            if row.seq > next_seq:
                growing.note_gap(next_seq, row.seq - next_seq)
            next_seq = max(next_seq, row.seq + row.n)
    growing.note_lines(began, rows)
    if next_seq <= footer.last_seq:
        growing.note_gap(next_seq, footer.last_seq + 1 - next_seq)
    return growing.columns()


def _aligned(column: bytes, wanted: bytes) -> Iterator[int]:
    at = column.find(wanted)
    while at >= 0:
        place, rest = divmod(at, TAG_BYTES)
        if not rest:
            yield place
        at = column.find(wanted, at + 1)


def _word(number: int) -> bytes:
    return array(U64, (number,)).tobytes()
