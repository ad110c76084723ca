"""The event log on disk: the store's values sealed into segments, old segments pruned to their footers.

The store commits events together with the decisions they are about. A `Sealer` copies those values into a
hidden file and closes it, at a size or an age, as a segment: footer, fsync, rename, fsync of the directory, which a
thread may do while the next segment begins. Only then does the caller delete the values. A crash at any point loses
and doubles nothing: a file that was not renamed is thrown away at the next start and made again from the store; a
renamed one says how far it is.

    events-0000000000000001.jsonl   a sealed segment, named by its first sequence number, never changed again
    pruned.jsonl                    the footers of the segments that are no longer kept
    .open-0000000000000042          being written

Nothing reads a clock or starts a thread. One thread at a time may use a `Segments`, and beside it one the `Sealer`;
one process a directory. A log is read back by `logchain`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from errno import EMFILE, ENFILE
from pathlib import Path
from typing import BinaryIO

from router.core.crypto import SigningKey
from router.core.line import Line, decode_line, encode_lines, gap, rows
from router.core.segment import Tally, file_name, fold, header, is_authentic, sign
from router.settings import private_file

PRUNED = "pruned.jsonl"
OPEN = ".open-"
ASIDE = ".aside-"
NAME = re.compile(r"events-(\d{16})\.jsonl")
FOOTER_BYTES_MAX = 64 * 1024
WRITE_BYTES = 256 * 1024


class LogNotWritten(Exception):
    """The disk did not take the log. Nothing is lost: the events are still in the store."""


class ForeignLog(Exception):
    """The directory holds the log of another router."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When a segment is closed; and at which size the older half of the pruned footers is folded into one."""

    segment_bytes: int = 8 << 20
    segment_s: float = 3600
    pruned_bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class Sealed:
    """A segment with a good footer: what pruning and the chain need of it."""

    path: Path
    size: int
    footer: Line
    footer_bytes: bytes


class Segments:
    """The sealed part of one router's log. Opening it throws away what a crash left half-written.

    A file without a good footer is neither counted nor pruned: it stays, and reading the log reports it.
    """

    def __init__(self, directory: Path, router_key: SigningKey, limits: Limits) -> None:
        self.directory = directory
        self.key = router_key
        self.limits = limits
        self._pruned_size = 0
        try:
            private_file.make_directory(directory)
            for path in directory.iterdir():
                if path.name.startswith((OPEN, f".{PRUNED}.")):
                    path.unlink()
            pruned = self._open_pruned()
            self._sealed = self._open_sealed()
        except OSError as error:
            raise _not_written(directory, error) from error
        self._pruned_seq = pruned.last_seq if pruned else 0
        self._head = self._sealed[-1].footer if self._sealed else None
        if self.last_sealed() < self._pruned_seq:
            self._head = pruned

    def __repr__(self) -> str:
        size = sum(one.size for one in self._sealed)
        return f"<Segments: {len(self._sealed)} kept, {size} bytes, sealed up to {self.last_sealed()}>"

    def last_sealed(self) -> int:
        """The last sequence number that a segment covers, kept or pruned; 0: none. Values up to it may go."""
        return self._head.last_seq if self._head else 0

    def head(self) -> tuple[int, bytes]:
        """`(last_sealed, that segment's digest)`, for neighbours to witness; 32 zero bytes at first."""
        head = self._head
        return (head.last_seq, bytes.fromhex(head.sha256 or "")) if head else (0, bytes(32))

    def newest_ns(self) -> int:
        """The latest wall time in the last segment; 0: there is none."""
        return self._head.max_t if self._head else 0

    def predecessor(self) -> str | None:
        """The digest that the next segment names; None: it is the first."""
        return self._head.sha256 if self._head else None

    def adopt(self, draft: Path, footer: Line, footer_bytes: bytes) -> None:
        """Give the finished, synced draft its name. What has that name was not good: it is set aside."""
        target = self.directory / file_name(footer.first_seq)
        if target.exists():
            target.rename(self.directory / f"{ASIDE}{target.name}")
        size = draft.stat().st_size
        draft.rename(target)
        _sync(self.directory)
        self._sealed.append(Sealed(target, size, footer, footer_bytes))
        self._head = footer

    # -- pruning ---------------------------------------------------------------------------------------------

    def prune(self, now: float, keep_s: float, keep_bytes: int) -> int:
        """Remove the oldest segments: whose events all are older than `keep_s`, or that exceed `keep_bytes`.

        Their footers are on disk before they go: pruned is not missing. `now` is wall time in seconds, of a
        clock that is believed. Returns how many went.
        """
        oldest_ns = int((now - keep_s) * 1e9)
        size = sum(one.size for one in self._sealed)
        old: list[Sealed] = []
        for one in self._sealed:
            if size <= keep_bytes and one.footer.max_t >= oldest_ns:
                break
            old.append(one)
            size -= one.size
        if not old:
            return 0
        try:
            self._keep_footers([one for one in old if one.footer.last_seq > self._pruned_seq])
            for one in old:
                one.path.unlink(missing_ok=True)
                del self._sealed[0]
            _sync(self.directory)
        except OSError as error:
            raise _not_written(self.directory, error) from error
        return len(old)

    def _keep_footers(self, old: list[Sealed]) -> None:
        data = b"".join(one.footer_bytes for one in old)
        if self._pruned_size + len(data) > self.limits.pruned_bytes:
            self._fold_pruned()
        with _private(self.directory / PRUNED, os.O_RDWR | os.O_CREAT) as file:
            file.seek(self._pruned_size)
            file.truncate()  # What a failed attempt may have left.
            file.write(data)
            _finish(file)
        _sync(self.directory)
        self._pruned_size += len(data)
        self._pruned_seq = max([self._pruned_seq, *(one.footer.last_seq for one in old)])

    def _fold_pruned(self) -> None:
        if not self._pruned_size:
            return
        path = self.directory / PRUNED
        lines = path.read_bytes()[: self._pruned_size].splitlines(keepends=True)
        half = len(lines) // 2
        footers = [(line, self._footer(line, path)) for line in lines[:half]]
        folded = encode_lines(fold([footer for _, footer in footers if footer], self.key))
        odd = [line for line, footer in footers if not footer]  # Evidence; not for this router to sign.
        data = b"".join((folded, *odd, *lines[half:]))
        private_file.replace(path, data)
        self._pruned_size = len(data)

    # -- opening ---------------------------------------------------------------------------------------------

    def _open_pruned(self) -> Line | None:
        """The last good footer of the pruned. A line torn by a crash does not count: its segment stands."""
        path = self.directory / PRUNED
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        self._pruned_size = data.rfind(b"\n") + 1
        lines = data[: self._pruned_size].splitlines(keepends=True)
        return next((footer for line in reversed(lines) if (footer := self._footer(line, path))), None)

    def _open_sealed(self) -> list[Sealed]:
        found: list[Sealed] = []
        for path in self.directory.iterdir():
            if not NAME.fullmatch(path.name) or not path.is_file():
                continue
            line = _last_line(path)
            footer = self._footer(line, path)
            if footer:
                found.append(Sealed(path, path.stat().st_size, footer, line))
        return sorted(found, key=lambda one: one.footer.last_seq)

    def _footer(self, line: bytes, path: Path) -> Line | None:
        try:
            footer = decode_line(line)
        except ValueError:
            return None
        if not line.endswith(b"\n") or not is_authentic(footer):
            return None
        if footer.router != self.key.public.hex():
            text = f"{path} belongs to the log of the router {footer.router}, not of {self.key.public.hex()}"
            raise ForeignLog(f"{text}. Move {self.directory} away, or use the home that this key belongs to.")
        return footer


class Closing:
    """A segment that has all its lines: what is left is for the disk, and may be left to a thread."""

    def __init__(self, segments: Segments, file: BinaryIO, draft: Path, footer: Line) -> None:
        self._segments = segments
        self._file = file
        self._draft = draft
        self.footer = footer
        self.is_done = False

    def write(self) -> None:
        """Footer, fsync, rename, fsync of the directory. `LogNotWritten` if the disk fails."""
        footer_bytes = encode_lines([self.footer])
        try:
            self._file.write(footer_bytes)
            _finish(self._file)
            self._segments.adopt(self._draft, self.footer, footer_bytes)
            self.is_done = True
        except OSError as error:
            raise _not_written(self._segments.directory, error) from error
        finally:
            self.forget()

    def forget(self) -> None:
        _close(self._file, self._draft)


class Sealer:
    """The segment being written. `add` the store's values in their order, `seal` when it is `due`.

    After `LogNotWritten` the open segment is forgotten: give it the store's values again, from `next_seq` on.
    """

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._router = segments.key.public
        self._closing: Closing | None = None
        self._file: BinaryIO | None = None
        self._draft = Path()
        self._tally = Tally(0)
        self._size = 0
        self._since = 0.0
        self.next_seq = segments.last_sealed() + 1

    def __repr__(self) -> str:
        state = f"{self._tally.lines} lines, {self._size} bytes open" if self._file else "nothing open"
        return f"<Sealer: {state}, next is {self.next_seq}>"

    def add(self, value: bytes, now: float) -> bool:
        """Take the next value; False if it was sealed or taken before. `now`: seconds of any steady clock.

        Sequence numbers that were skipped become a `log_gap` line. `Malformed` for a value that is none of
        the log's (the caller may go on with the next: the gap will show), `LogNotWritten` if the disk fails.
        """
        found = rows(value, self._router)
        end = found[-1].seq + found[-1].n if found else 0
        if end <= self.next_seq:
            return False
        if found[0].seq > self.next_seq:
            found.insert(0, gap(self.next_seq, found[0]))
        assert found[0].seq == self.next_seq, "a value begins inside one that was taken before"
        try:
            if self._file is None:
                self._begin(found[0], now)
            self._write(encode_lines(found))
        except OSError as error:
            self.close()
            raise _not_written(self._segments.directory, error) from error
        for row in found:
            self._tally.note(row)
        self.next_seq = end
        return True

    def due(self, now: float) -> bool:
        """Whether the open segment has its size or its age, and the one before is closed."""
        limits = self._segments.limits
        old = now - self._since >= limits.segment_s
        is_open = self._file is not None and self._closing is None
        return is_open and (old or self._size >= limits.segment_bytes)

    def seal(self) -> int:
        """Close the open segment, if there is one. Returns the last sequence number that is now sealed.

        What the store still holds up to it may be deleted. `LogNotWritten` if the disk fails.
        """
        closing = self.begin_seal()
        try:
            if closing is not None:
                closing.write()
        finally:
            self.end_seal()
        return self._segments.last_sealed()

    def begin_seal(self) -> Closing | None:
        """The same in three steps: this, `Closing.write` in a thread, `end_seal`. What is added meanwhile begins the
        next segment, which cannot be closed before this one is."""
        assert self._closing is None, "one segment is closed after the other"
        if self._file is not None:
            unsigned = self._tally.footer(self._router.hex(), self._segments.predecessor())
            footer = sign(unsigned, self._segments.key)
            self._closing = Closing(self._segments, self._file, self._draft, footer)
            self._file = None
        return self._closing

    def end_seal(self) -> None:
        """If the disk did not take it, what was added meanwhile is forgotten as well."""
        closing, self._closing = self._closing, None
        if closing is not None and not closing.is_done:
            closing.forget()
            self.close()

    def close(self) -> None:
        """Forget the open segment; its values are still in the store."""
        if self._file is not None:
            _close(self._file, self._draft)
            self._file = None
        last = self._closing.footer.last_seq if self._closing else self._segments.last_sealed()
        self.next_seq = last + 1

    def _begin(self, first: Line, now: float) -> None:
        self._draft = self._segments.directory / f"{OPEN}{first.seq:016d}"
        self._file = _private(self._draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._tally = Tally(first.seq)
        self._size = 0
        self._since = now
        before = self._closing.footer.sha256 if self._closing else self._segments.predecessor()
        self._write(encode_lines([header(first, before)]))

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        self._file.write(data)
        self._tally.digest.update(data)
        self._size += len(data)


def _private(path: Path, flags: int) -> BinaryIO:
    return os.fdopen(os.open(path, flags | os.O_CLOEXEC, private_file.FILE_MODE), "r+b", WRITE_BYTES)


def _close(file: BinaryIO, draft: Path) -> None:
    """The draft goes, unless it has its name."""
    with suppress(OSError):
        file.close()
    with suppress(OSError):
        draft.unlink()


def _finish(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _last_line(path: Path) -> bytes:
    """The last line, as far as a footer may reach back; nothing if the file cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - FOOTER_BYTES_MAX))
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return b""
    return lines[-1] if lines else b""


def _not_written(directory: Path, error: OSError) -> LogNotWritten:
    remedy = "mend the disk, or free it"
    if error.errno in (EMFILE, ENFILE):
        remedy = "raise the limit of open file descriptors (LimitNOFILE), or lower limits.connections_max"
    text = f"The event log in {directory} failed: {error.strerror or error}."
    return LogNotWritten(f"{text} The events stay in the store; {remedy}, and they follow.")
