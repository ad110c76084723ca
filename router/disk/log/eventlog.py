"""The event log on disk: the store's values sealed into segments, old segments pruned to their footers.

The store commits events together with the decisions they record. A `Sealer` copies those values into a hidden file and
closes it, at a size or an age, as a segment: footer, fsync, rename, fsync of the directory. A thread may do this while
the next segment begins. Only then does the caller delete the values. A crash at any point neither loses nor doubles an
event: a file that was not renamed is deleted at the next start and written again from the store; the footer of a
renamed one holds its last sequence number.

    events-0000000000000001.jsonl   a sealed segment, named by its first sequence number, never changed again
    events-….jsonl.zst              the same, compressed (`packed`), in place of the other after `compress_after_s`
    .index-0000000000000001         the positions of each message's lines in it (`log_index`)
    pruned.jsonl                    the footers of the segments that are no longer kept
    .account                        the units that the events up to a moment leave open (`account_file`)
    .open-0000000000000042          being written

Nothing here reads a clock or starts a thread. One thread at a time may use a `Segments`, and another one the `Sealer`;
only one process may use a directory. `spark_analytics` checks a log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from router.core.log.line import Line, decode_line, encode_lines
from router.core.log.segment import file_name, fold, is_authentic
from router.core.wire.crypto import SigningKey
from router.core.wire.succession import KeySuccession
from router.disk import private_file
from router.disk.limits import LogLimits
from router.disk.log import account_file
from router.disk.log import index as log_index
from router.disk.log.file import finish, last_line, lines_of, not_written, open_private, sync
from router.disk.log.line_form import read_line
from router.disk.log.packed import (
    NotUnpacked,
    has_digest,
    is_packed,
    open_text,
    pack,
    packed_path,
    plain_path,
    text_size,
)

PRUNED = "pruned.jsonl"
OPEN = ".open-"
ASIDE = ".aside-"
NAME = re.compile(r"events-(\d{16})\.jsonl(?:\.zst)?")


class ForeignLog(Exception):
    """The directory holds the log of another router."""


class SealedSegment(Struct, frozen=True):
    """A segment with a good footer: the data for pruning and for the chain. `size`: bytes of its text; `stored`: bytes
    of its file, which may be compressed."""

    path: Path
    size: int
    footer: Line
    footer_bytes: bytes
    stored: int


def is_as_signed(path: Path, one: SealedSegment) -> bool:
    """Whether the text of that file is the segment's: its footer behind bytes of its digest. Raise `OSError` if it
    cannot be read, `FileNotFoundError` if it is gone."""
    try:
        with open_text(path) as file:
            is_it = has_digest(file, one.size - len(one.footer_bytes), one.footer.sha256 or "")
            return is_it and file.read(len(one.footer_bytes) + 1) == one.footer_bytes
    except NotUnpacked:
        return False


class Segments:
    """The sealed part of one router's log. Opening it deletes files that a crash left half-written.

    A file without a good footer is neither counted nor pruned: it stays, and a search in the log reports it.
    """

    def __init__(
        self, directory: Path, router_key: SigningKey, limits: LogLimits, chain: Sequence[KeySuccession] = ()
    ) -> None:
        """Open the log that `router_key` seals. `chain`: the statements by which that key has followed the router's
        first one, by which the log is called."""
        self.directory = directory
        self.key = router_key
        self.chain = chain
        self.router = chain[0].old if chain else router_key.public
        self.limits = limits
        self._pruned_size = 0
        self._left_plain = set[Path]()
        try:
            private_file.make_directory(directory)
            for path in directory.iterdir():
                if path.name.startswith((OPEN, f".{PRUNED}.", f".{account_file.NAME}.")):
                    path.unlink()
            pruned = self._open_pruned()
            self._spoilt: list[Path] = []
            self._sealed = self._open_sealed()
            self._forget_orphans()
        except OSError as error:
            raise not_written(directory, error) from error
        self._pruned_seq = pruned.last_seq if pruned else 0
        self._head = self._sealed[-1].footer if self._sealed else None
        if self.last_sealed() < self._pruned_seq:
            self._head = pruned

    def __repr__(self) -> str:
        size = sum(one.stored for one in self._sealed)
        return f"<Segments: {len(self._sealed)} kept, {size} bytes, sealed up to {self.last_sealed()}>"

    def last_sealed(self) -> int:
        """Return the last sequence number that a kept or pruned segment covers, 0 for none; the store may delete its
        values up to it."""
        return self._head.last_seq if self._head else 0

    def head(self) -> tuple[int, bytes]:
        """Return the last sealed sequence number and its segment's digest, which neighbours witness; (0, 32 zero bytes)
        before the first segment."""
        head = self._head
        return (head.last_seq, bytes.fromhex(head.sha256 or "")) if head else (0, bytes(32))

    def newest_ns(self) -> int:
        """Return the latest wall time in the last segment, 0 if there is none."""
        return self._head.max_t if self._head else 0

    def predecessor(self) -> str | None:
        """Return the digest that the header of the next segment names, None if it will be the first."""
        return self._head.sha256 if self._head else None

    def adopt(self, draft: Path, footer: Line, footer_bytes: bytes, columns: log_index.Columns) -> None:
        """Give the finished, synced draft its name, and write its index beside it. A file that has this name already
        had no good footer and is renamed."""
        target = self.directory / file_name(footer.first_seq)
        for one in (target, packed_path(target)):
            if one.exists():
                one.rename(self.directory / f"{ASIDE}{one.name}")
                self._spoilt = [other for other in self._spoilt if other != one]
        size = draft.stat().st_size
        draft.rename(target)
        sync(self.directory)
        self._sealed.append(SealedSegment(target, size, footer, footer_bytes, size))
        self._head = footer
        with suppress(OSError):  # A search makes a missing index.
            log_index.write(target, size, footer.sha256 or "", columns)

    def kept(self) -> list[SealedSegment]:
        """Return the segments with a good footer, oldest first."""
        return list(self._sealed)

    def spoilt(self) -> list[Path]:
        """Return the files that have a segment's name but had no good footer when this was opened, oldest first."""
        return sorted(self._spoilt)

    def runs(self, first_seq: int, last_seq: int) -> dict[str, tuple[int, int]]:
        """Return by boot id, in hex, which events from `first_seq` to `last_seq` that run of the node wrote: the first
        and the last one in segments that are kept and can be read."""
        found: dict[str, tuple[int, int]] = {}
        for one in self._sealed:
            if one.footer.first_seq <= last_seq and one.footer.last_seq >= first_seq:
                with suppress(OSError, ValueError), open_text(one.path) as file:
                    for line in map(decode_line, lines_of(file, one.size)):
                        if line.seq and line.boot:  # neither header nor footer
                            first, last = found.get(line.boot, (line.seq, 0))
                            found[line.boot] = min(first, line.seq), max(last, line.seq + line.n - 1)
        return found

    @property
    def pruned_seq(self) -> int:
        """The last sequence number whose lines have been pruned, 0 if there is none."""
        return self._pruned_seq

    # -- pruning ---------------------------------------------------------------------------------------------

    def prune(self, now: float, keep_s: float, keep_bytes: int) -> int:
        """Remove the oldest segments whose events are all older than `keep_s`, or that exceed `keep_bytes`; return how
        many were removed.

        Their footers are on disk first, so that pruned segments do not look missing. `now` is wall time in seconds, of
        a clock that is believed.
        """
        oldest_ns = int((now - keep_s) * 1e9)
        size = sum(one.stored for one in self._sealed)
        old: list[SealedSegment] = []
        for one, newest_ns in zip(self._sealed, self._times(int(now * 1e9)), strict=True):
            if size <= keep_bytes and newest_ns >= oldest_ns:
                break
            old.append(one)
            size -= one.stored
        if not old:
            return 0
        try:
            self._keep_footers([one for one in old if one.footer.last_seq > self._pruned_seq])
            for one in old:
                for path in {one.path, plain_path(one.path), packed_path(plain_path(one.path))}:
                    path.unlink(missing_ok=True)
                log_index.path_of(one.path).unlink(missing_ok=True)
                del self._sealed[0]
            sync(self.directory)
        except OSError as error:
            raise not_written(self.directory, error) from error
        return len(old)

    def compress(self, now: float, after_s: float, most: int) -> int:
        """Compress the oldest plain segments whose events are all older than `after_s`; return how many were, at most
        `most`.

        Each is read back before its plain file goes. One whose lines do not have their footer's digest stays as it is,
        and so does one that is too large (`UNPACKED_BYTES_MAX`). `now` is as for `prune`. Raise `OSError` if the disk
        fails: then nothing is lost.
        """
        oldest_ns, done = int((now - after_s) * 1e9), 0
        for at, newest_ns in enumerate(self._times(int(now * 1e9))):
            one = self._sealed[at]
            if done == most or newest_ns >= oldest_ns:
                break
            if is_packed(one.path) or one.path in self._left_plain:
                continue
            if packed := self._compressed(one):
                self._sealed[at] = packed
                one.path.unlink(missing_ok=True)
                done += 1
            else:
                self._left_plain.add(one.path)
        if done:
            sync(self.directory)
        return done

    def _compressed(self, one: SealedSegment) -> SealedSegment | None:
        """Write the compressed form of a segment beside it; return None if it has to stay as it is."""
        path = packed_path(one.path)
        draft = self.directory / f"{OPEN}{path.name}"
        try:
            with one.path.open("rb") as text, open_private(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as file:
                pack(text, file)
                finish(file)
            if not is_as_signed(draft, one):
                return None
            draft.rename(path)
            sync(self.directory)
            return SealedSegment(path, one.size, one.footer, one.footer_bytes, path.stat().st_size)
        except (NotUnpacked, FileNotFoundError):
            return None
        finally:
            draft.unlink(missing_ok=True)

    def _times(self, now_ns: int) -> list[int]:
        """Return when each segment was written at the latest, oldest first: not before an older one, and, where its
        clock was ahead of now, before the next one whose clock was not."""
        times: list[int] = []
        latest_ns = 0
        for one in self._sealed:
            latest_ns = max(latest_ns, one.footer.max_t if one.footer.max_t <= now_ns else 0)
            times.append(latest_ns)
        following_ns = now_ns
        for number, one in reversed([*enumerate(self._sealed)]):
            if one.footer.max_t > now_ns:
                times[number] = following_ns
            following_ns = times[number]
        return times

    def _keep_footers(self, old: list[SealedSegment]) -> None:
        data = b"".join(one.footer_bytes for one in old)
        if self._pruned_size + len(data) > self.limits.pruned_bytes:
            self._fold_pruned()
        with open_private(self.directory / PRUNED, os.O_RDWR | os.O_CREAT) as file:
            file.seek(self._pruned_size)
            file.truncate()  # A failed attempt may have left bytes.
            file.write(data)
            finish(file)
        sync(self.directory)
        self._pruned_size += len(data)
        self._pruned_seq = max([self._pruned_seq, *(one.footer.last_seq for one in old)])

    def _fold_pruned(self) -> None:
        if not self._pruned_size:
            return
        path = self.directory / PRUNED
        lines = path.read_bytes()[: self._pruned_size].splitlines(keepends=True)
        half = len(lines) // 2
        footers = [(line, self._footer(line, path)) for line in lines[:half]]
        folded = encode_lines(fold([footer for _, footer in footers if footer], self.key, self.chain))
        odd = [line for line, footer in footers if not footer]  # Evidence; not for this router to sign.
        data = b"".join((folded, *odd, *lines[half:]))
        private_file.replace(path, data)
        self._pruned_size = len(data)

    # -- opening ---------------------------------------------------------------------------------------------

    def _open_pruned(self) -> Line | None:
        """Return the last good footer of `pruned.jsonl`. A line torn by a crash is ignored: its segment exists."""
        path = self.directory / PRUNED
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        self._pruned_size = data.rfind(b"\n") + 1
        lines = data[: self._pruned_size].splitlines(keepends=True)
        return next((footer for line in reversed(lines) if (footer := self._footer(line, path))), None)

    def _open_sealed(self) -> list[SealedSegment]:
        found: dict[Path, SealedSegment] = {}
        for path in sorted(self.directory.iterdir()):
            plain = plain_path(path)  # a crash may have left it beside the compressed one
            if not NAME.fullmatch(path.name) or not path.is_file() or plain in found:
                continue
            line = last_line(path)
            footer = self._footer(line, path)
            if footer:
                found[plain] = SealedSegment(path, text_size(path), footer, line, path.stat().st_size)
            else:
                self._spoilt.append(path)
        return sorted(found.values(), key=lambda one: one.footer.last_seq)

    def _forget_orphans(self) -> None:
        """Delete the indexes of segments that no longer exist."""
        known = {log_index.path_of(one.path).name for one in self._sealed}
        for path in self.directory.glob(f"{log_index.INDEX}*"):
            if path.name not in known:
                path.unlink()

    def _footer(self, line: bytes, path: Path) -> Line | None:
        try:
            footer = read_line(line.removesuffix(b"\n"))
        except ValueError:
            return None
        if not line.endswith(b"\n") or not is_authentic(footer):
            return None
        if footer.router != self.router.hex():
            text = f"{path} belongs to the log of the router {footer.router}, not of {self.router.hex()}"
            raise ForeignLog(f"{text}. Move {self.directory} away, or use the home that this key belongs to.")
        return footer
