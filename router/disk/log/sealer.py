"""The open segment of the event log: the store's values become its lines, until it is closed as a segment.

A crash at any point neither loses nor doubles an event: see `eventlog`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from router.core.log.events import Logged, decode_events
from router.core.log.life import LEAP_MIN
from router.core.log.line import Line, encode_lines, event_rows, gaps
from router.core.log.segment import SegmentTotals, file_name, header, sign
from router.core.wire.reasons import LISTED_MIN, by_word, known_count, listed
from router.disk.log.eventlog import OPEN, Segments
from router.disk.log.file import finish, not_written, open_private, throw_away
from router.disk.log.index import Growing, IndexedLines

IDLE_S = 10.0
"""The least time without an event after which a node is idle; otherwise for as long as a segment stays open."""


class Closing:
    """A segment with all its lines that only needs to be closed, which a thread may do."""

    def __init__(self, segments: Segments, file: BinaryIO, footer: Line, span: IndexedLines) -> None:
        self._segments = segments
        self._file = file
        self.footer = footer
        self.span = span
        self.is_done = False

    def write(self) -> None:
        """Write the footer, fsync, rename, fsync the directory, and write the index beside it. Raise `LogNotWritten` if
        the disk fails."""
        footer_bytes = encode_lines([self.footer])
        try:
            self._file.write(footer_bytes)
            finish(self._file)
            self._segments.adopt(self.span.paths[0], self.footer, footer_bytes, self.span.columns)
            self.is_done = True
        except OSError as error:
            raise not_written(self._segments.directory, error) from error
        finally:
            self.forget()

    def forget(self) -> None:
        throw_away(self._file, self.span.paths[0])


class Sealer:
    """The segment being written: `add` the store's values in their order, and `seal` when it is `due`.

    `LogNotWritten` discards the open segment: add the store's values again, from `next_seq` on.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._router = segments.router
        self._closing: Closing | None = None
        self._file: BinaryIO | None = None
        self._draft = Path()
        self._tally = SegmentTotals(0)
        self._index = Growing()
        self._size = 0
        self._since = 0.0
        self._added_at: float | None = None
        self._listed: frozenset[str] | None = None
        self._known_count = self._naming_bytes = 0
        self._missing = 0
        self.next_seq = segments.last_sealed() + 1

    def __repr__(self) -> str:
        state = f"{self._tally.lines} lines, {self._size} bytes open" if self._file else "nothing open"
        return f"<Sealer: {state}, next is {self.next_seq}>"

    def add(self, value: bytes, now: float) -> bool:
        """Add the next value as the store holds it. Raise `Malformed` if it cannot be decoded; the caller may continue
        with the next one, and the log will show a gap."""
        return self.add_events(decode_events(value), now)

    def add_events(self, logged: Logged, now: float) -> bool:
        """Add the next events; return False if they were added or sealed before. `now`: seconds of any steady clock.

        Skipped sequence numbers become a `log_gap` line. Raise `LogNotWritten` if the disk fails.
        """
        first_seq, boot, events = logged
        found = event_rows(first_seq, boot, events, self._router)
        end = found[-1].seq + found[-1].n if found else 0
        if end <= self.next_seq:
            return False
        if found[0].seq > self.next_seq:
            missing = found[0].seq - self.next_seq
            self._missing += missing if missing < LEAP_MIN else 0
            found[:0] = gaps(self.next_seq, found[0])
        assert found[0].seq == self.next_seq, "a value begins inside one that was taken before"
        try:
            if self._file is None:
                self._begin(found[0], now)
            elif self._is_outdated():
                found = [self._numbered(row) for row in found]
            self._index.note(self._size, events)
            if first_seq > self.next_seq:
                self._index.note_gap(self.next_seq, first_seq - self.next_seq)
            self._write(encode_lines(found))
        except OSError as error:
            self.close()
            raise not_written(self._segments.directory, error) from error
        for row in found:
            self._tally.note(row)
        self.next_seq, self._added_at = end, now
        return True

    def take_missing(self) -> int:
        """Return how many events were found missing since the last call; numbers that a new life skips are none."""
        missing, self._missing = self._missing, 0
        return missing

    def due(self, now: float, *, early: bool = False) -> bool:
        """Whether the open segment has reached its size (without the reasons that it names) or age, does not name all
        that are known now, or is to be closed `early`, and the previous one is closed."""
        limits = self._segments.limits
        old = now - self._since >= limits.segment_s
        is_open = self._file is not None and self._closing is None
        is_full = self._size - self._naming_bytes >= limits.segment_bytes
        return is_open and (early or old or is_full or self._is_outdated())

    def is_idle(self, now: float) -> bool:
        """Whether events were added, and none since for as long as a segment stays open, and `IDLE_S` at least."""
        least = max(self._segments.limits.segment_s, IDLE_S)
        return self._added_at is not None and now - self._added_at >= least

    def seal(self) -> int:
        """Close the open segment, if there is one, and return the last sealed sequence number.

        The store's values up to it may be deleted. Raise `LogNotWritten` if the disk fails.
        """
        closing = self.begin_seal()
        try:
            if closing is not None:
                closing.write()
        finally:
            self.end_seal()
        return self._segments.last_sealed()

    def begin_seal(self) -> Closing | None:
        """Begin to close the open segment: then run `Closing.write` in a thread, and call `end_seal`. Events added
        meanwhile begin the next segment, which cannot be closed before this one."""
        assert self._closing is None, "one segment is closed after the other"
        if self._file is not None:
            self._flush()
            unsigned = self._tally.footer(self._router.hex(), self._segments.predecessor())
            footer = sign(unsigned, self._segments.key, self._segments.chain)
            self._closing = Closing(self._segments, self._file, footer, self._span())
            self._file = None
        return self._closing

    def end_seal(self) -> None:
        """Finish closing; if the write failed, discard the events added meanwhile as well."""
        closing, self._closing = self._closing, None
        if closing is not None and not closing.is_done:
            closing.forget()
            self.close()

    def close(self) -> None:
        """Discard the open segment; its values are still in the store."""
        if self._file is not None:
            throw_away(self._file, self._draft)
            self._file = None
        last = self._closing.footer.last_seq if self._closing else self._segments.last_sealed()
        self.next_seq = last + 1

    def _begin(self, first: Line, now: float) -> None:
        self._draft = self._segments.directory / f"{OPEN}{first.seq:016d}"
        self._file = open_private(self._draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._tally = SegmentTotals(first.seq)
        self._index = Growing()
        self._size = 0
        self._since = now
        before = self._closing.footer.sha256 if self._closing else self._segments.predecessor()
        self._known_count, words = known_count(), listed()
        self._listed = None if words is None else frozenset(words)
        named = encode_lines([header(first, before, words)])
        self._naming_bytes = len(named) - len(encode_lines([header(first, before)]))
        self._write(named)

    def _is_outdated(self) -> bool:
        """Whether more reasons are known than when the header was written, which names them."""
        return self._known_count != known_count()

    def _numbered(self, row: Line) -> Line:
        """Return the line with its reason by number, if the header does not name its word."""
        if row.reason is None or self._listed is None or row.reason in self._listed:
            return row
        found = by_word(row.reason)
        return row if found is None or found < LISTED_MIN else replace(row, reason=f"reason-{int(found)}")

    def unsealed(self) -> list[IndexedLines]:
        """Return the segments without a name yet, oldest first: at most one being closed and the open one."""
        found = [] if self._closing is None else [self._closing.span]
        if self._file is not None:
            self._flush()
            found.append(self._span())
        return found

    def _span(self) -> IndexedLines:
        """Return the open segment's present lines, with its present path and its later one."""
        tally = self._tally
        paths = self._draft, self._segments.directory / file_name(tally.first_seq)
        return IndexedLines(paths, tally.first_seq, tally.next_seq - 1, tally.min_t, self._size, self._index.columns())

    def _flush(self) -> None:
        assert self._file is not None
        try:
            self._file.flush()
        except OSError as error:
            self.close()
            raise not_written(self._segments.directory, error) from error

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(data)
        self._tally.digest.update(data)
        self._size += len(data)
