"""Write one sample node's log: the lines of real events in real segments, signed and chained as nodes do it."""

from __future__ import annotations

from pathlib import Path

from router.core.log.events import Event
from router.core.log.line import encode_lines, event_rows
from router.core.log.segment import Tally, file_name, header, sign
from router.core.wire.crypto import SigningKey

EVENTS = 256
SECOND = 1_000_000_000


class SampleLog:
    """Turn events into segments. `t` is the node's own wall clock, `mono` that of its boot, in nanoseconds.

    No file stays open, so that a thousand nodes need no thousand descriptors; nothing is synced.
    """

    def __init__(self, directory: Path, key: SigningKey, segment_bytes: int, segment_s: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = key
        self._segment_bytes = segment_bytes
        self._segment_ns = segment_s * SECOND
        self._events: list[Event] = []
        self._tally = Tally(1)
        self._path: Path | None = None
        self._size = 0
        self._since = 0
        self.router = bytes(key.public)
        self.boot = bytes(16)
        self.seq = 1
        self.t = 0
        self.mono = 0
        self.last_t = 0
        self.head: tuple[int, str] | None = None
        self.segments = self.lines = self.bytes = 0

    def __repr__(self) -> str:
        return f"<log of {self.router.hex()[:8]}: {self.lines} lines in {self.segments} segments>"

    def begin(self, boot: bytes) -> None:
        """Name the boot of all that follows."""
        self.flush()
        self.boot = boot

    def put(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) >= EVENTS:
            self.flush()

    def flush(self) -> None:
        """Write the events so far; close a segment that has reached its size or age."""
        if not self._events:
            return
        rows = event_rows(self.seq, self.boot, self._events, self.router)
        self._events = []
        if self._path is None:
            self._path = self._directory / file_name(self.seq)
            self._path.unlink(missing_ok=True)
            self._tally, self._size, self._since = Tally(self.seq), 0, rows[0].t
            self._write(encode_lines([header(rows[0], self.head[1] if self.head else None)]))
        for row in rows:
            self._tally.note(row)
        self._write(encode_lines(rows))
        self.seq = self._tally.next_seq
        self.lines += len(rows)
        self.last_t = rows[-1].t
        if self._size >= self._segment_bytes or self.last_t - self._since >= self._segment_ns:
            self.close()

    def _write(self, data: bytes) -> None:
        assert self._path is not None
        with self._path.open("ab") as file:
            file.write(data)
        self._tally.digest.update(data)
        self._size += len(data)
        self.bytes += len(data)

    def close(self) -> None:
        """Write footer and signature; the next event begins another segment."""
        self.flush()
        if self._path is not None:
            footer = sign(self._tally.footer(self.router.hex(), self.head[1] if self.head else None), self._key)
            self._write(encode_lines([footer]))
            self.head = footer.last_seq, footer.sha256 or ""
            self.segments += 1
            self._path = None
