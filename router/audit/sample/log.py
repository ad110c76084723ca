"""Write one sample node's log: real lines in real segments, signed and chained as nodes do it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from router.core.log.line import VERSION, Line, encode_lines
from router.core.log.segment import Tally, file_name, header, sign
from router.core.wire.crypto import SigningKey

ROWS = 256
PENDING_BYTES = 64 * 1024
SECOND = 1_000_000_000
Range = tuple[int, int]


class SampleLog:
    """Turn lines into segments. `t` is the node's own wall clock, `mono` that of its boot, in nanoseconds.

    The file of the open segment is reopened for every 64 KiB, so that a thousand nodes need no thousand descriptors.
    """

    def __init__(self, directory: Path, key: SigningKey, segment_bytes: int, segment_s: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = key
        self._segment_bytes = segment_bytes
        self._segment_ns = segment_s * SECOND
        self._rows: list[Line] = []
        self._pending = bytearray()
        self._tally = Tally(1)
        self._path: Path | None = None
        self._size = 0
        self._since = 0
        self.router = key.public.hex()
        self.boot = ""
        self.seq = 1
        self.t = 0
        self.mono = 0
        self.last_t = 0
        self.head: tuple[int, str] | None = None
        self.segments = self.lines = self.bytes = 0

    def __repr__(self) -> str:
        return f"<log of {self.router[:8]}: {self.lines} lines in {self.segments} segments>"

    def accepted(
        self, kind: str, signer: str, destination: str | None, peer: str, link: int, first: int, ids: str,
        columns: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], recipients: tuple[str, ...],
    ) -> None:  # fmt: skip
        """Write an accepted line. `columns`: sizes, ttls, expiries, one number for each id."""
        count = len(ids) >> 6
        source, group = (signer, None) if kind == "unicast" else (None, signer)
        self._put(
            Line(
                VERSION, "accepted", self.seq, count, self.t, self.mono, self.router, self.boot, kind, source, group,
                destination=destination, peer=peer, link=link, first=first, count=count, ids=ids, sizes=columns[0],
                ttls=columns[1], expiries=columns[2], recipients=recipients,
            ),
            count,
        )  # fmt: skip

    def outward(
        self, event: str, recipient: str, link: int, parcel: int, ranges: tuple[Range, ...], count: int,
        reason: str | None, depth: int, duration_ns: int,
    ) -> None:  # fmt: skip
        self._put(
            Line(
                VERSION, event, self.seq, 1, self.t, self.mono, self.router, self.boot, recipient=recipient, link=link,
                count=count, ranges=ranges, parcel=parcel, reason=reason, attempt=0, depth=depth,
                duration_ns=duration_ns,
            ),
            1,
        )  # fmt: skip

    def turned(self, event: str, peer: str, link: int, reason: str, ids: str, count: int, signer: str | None) -> None:
        self._put(
            Line(
                VERSION, event, self.seq, 1, self.t, self.mono, self.router, self.boot, peer=peer, link=link,
                ids=ids or None, count=count, reason=reason, signer=signer,
            ),
            1,
        )  # fmt: skip

    def state(self, event: str, **fields: Any) -> None:
        self._put(
            Line(VERSION, event, self.seq, 1, self.t, self.mono, self.router, self.boot, count=1, fields=fields), 1
        )

    def _put(self, row: Line, n: int) -> None:
        self._rows.append(row)
        self.last_t = row.t
        self.seq += n
        if len(self._rows) >= ROWS:
            self.flush()

    def flush(self) -> None:
        """Encode the lines so far; close a segment that has reached its size or age."""
        rows = self._rows
        if not rows:
            return
        if self._path is None:
            self._begin(rows[0])
        data = encode_lines(rows)
        note = self._tally.note
        for row in rows:
            note(row)
        self.lines += len(rows)
        self._rows = []
        self._write(data)
        if self._size >= self._segment_bytes or self.t - self._since >= self._segment_ns:
            self.close()

    def _begin(self, first: Line) -> None:
        self._tally = Tally(first.seq)
        self._path = self._directory / file_name(first.seq)
        self._path.unlink(missing_ok=True)
        self._size = 0
        self._since = first.t
        self._write(encode_lines([header(first, self.head[1] if self.head else None)]))

    def _write(self, data: bytes) -> None:
        self._tally.digest.update(data)
        self._size += len(data)
        self._pending += data
        if len(self._pending) >= PENDING_BYTES:
            self._append()

    def _append(self) -> None:
        assert self._path is not None
        with self._path.open("ab") as file:
            file.write(self._pending)
        self.bytes += len(self._pending)
        self._pending.clear()

    def close(self) -> None:
        """Write footer and signature; the next line begins another segment."""
        self.flush()
        if self._path is None:
            return
        footer = sign(self._tally.footer(self.router, self.head[1] if self.head else None), self._key)
        self._pending += encode_lines([footer])
        self._append()
        self.head = footer.last_seq, footer.sha256 or ""
        self.segments += 1
        self._path = None
