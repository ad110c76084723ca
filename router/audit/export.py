"""Event logs for somebody else: every log that counts, written anew under pseudonyms and signed under the router's.

    OUT/<router's name>/log/events-….jsonl, tail-….jsonl, pruned.jsonl     what `router audit` reads
    OUT/export.json                                                         how many of each, and nothing else

Sequence numbers, times, sizes and reasons stay as they are, so an audit of the export gives the same figures. What does
not count in an audit is left out: there it is a hole, here too. Never a key, an id, a path or text of a state event.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from router.audit.pseudonyms import SECRET_BYTES, Pseudonyms
from router.audit.room import NO_ROOM, no_room
from router.core.line import Line, decode_line, encode_lines
from router.core.segment import Tally, file_name, header, is_authentic, sign
from router.disk.eventlog import PRUNED
from router.settings import private_file
from spark_analytics.evidence import File

SCHEMA = "upsycle log export 1"


class ExportError(Exception):
    """The export was not made; the text says why and what to do."""


class Exported(NamedTuple):
    """What an export holds."""

    routers: int
    segments: int
    events: int
    left_out: int


def secret_from(path: Path, made: Callable[[Path], None] = lambda path: None) -> bytes:
    """The secret in this file, hex; a new one if there is none, and `made` is told.

    `ExportError` if others may read it or it is none.
    """
    try:
        private_file.create(path, secrets.token_hex(SECRET_BYTES).encode() + b"\n")
        made(path)
    except FileExistsError:
        pass
    except OSError as error:
        another = "make room there, or name a file on another disk"
        remedy = another if error.errno in NO_ROOM else "name a file in a directory you may write"
        raise ExportError(f"{path} cannot be made: {error.strerror}; {remedy}") from None
    try:
        text = private_file.read(path, 2 * SECRET_BYTES + 2).decode("ascii", "replace").strip()
    except private_file.Exposed as error:
        raise ExportError(f"{error}; whoever reads it can undo the names: `chmod 600 {path}`") from None
    except OSError as error:
        raise ExportError(f"{path} cannot be read: {error.strerror}") from None
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise ExportError(f"{path} holds no secret for exports: {2 * SECRET_BYTES} hex digits; name another file")
    return secret


def export(files: Iterable[File], out: Path, names: Pseudonyms) -> Exported:
    """Write it into `out`, which must be missing or empty; all or nothing, and nothing if no file can be believed."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(f"{out} is there already; name a new directory")
    draft = out.with_name(f".{out.name}.{secrets.token_hex(8)}")
    where = draft.absolute().parent
    above = [path for path in draft.parents if not path.exists()]
    try:
        draft.mkdir(parents=True)
        said = _write(files, draft, names)
        if not said.routers:
            raise ExportError("none of the files holds a log that can be believed; nothing was exported")
        (draft / "export.json").write_text(json.dumps({"schema": SCHEMA, **said._asdict()}) + "\n")
        draft.replace(out)
    except OSError as error:
        failed = f"{error.filename or out} failed: {error.strerror}"
        text = no_room(where, where) if error.errno in NO_ROOM else failed
        raise ExportError(f"{text}; nothing was exported") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        for path in above:
            with suppress(OSError):  # It holds the export.
                path.rmdir()
    return said


def _write(files: Iterable[File], out: Path, names: Pseudonyms) -> Exported:
    routers: dict[str, _Log] = {}
    left_out = 0
    for file in sorted(files, key=lambda one: (one.router or "", one.first_seq, one.path)):
        if file.router is None or file.status not in ("good", "tail", "pruned"):
            left_out += file.status != "copy"
            continue
        log = routers.get(file.router)
        if log is None:
            log = routers[file.router] = _Log(out / names.key(file.router)[:16] / "log", file.router, names)
        log.add(file)
    logs = routers.values()
    return Exported(len(logs), sum(one.segments for one in logs), sum(one.events for one in logs), left_out)


class _Log:
    """One router's log under its name: a chain of its own, with the holes that the first one has."""

    def __init__(self, directory: Path, router: str, names: Pseudonyms) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._names = names
        self._key = names.signing_key(router)
        self._end: tuple[int, str] | None = None  # last sequence number of the segment before, and its new digest
        self.segments = 0
        self.events = 0

    def add(self, file: File) -> None:
        path = Path(file.path)
        if file.status == "pruned":
            self._add_pruned(path)
        else:
            self._add_lines(path, is_sealed=file.status == "good")

    def _add_pruned(self, path: Path) -> None:
        """Their digests become names like those of ids: the next segment still names the one before."""
        with path.open("rb") as lines, (self._directory / PRUNED).open("ab") as out:
            for footer in filter(is_authentic, _readable(lines)):
                renamed = self._sign(replace(footer, predecessor=self._before(footer), sha256=self._digest(footer)))
                out.write(encode_lines([renamed]))
                self._end = footer.last_seq, renamed.sha256 or ""

    def _add_lines(self, path: Path, *, is_sealed: bool) -> None:
        lines = _decoded(path)
        first = next(lines)
        tally = Tally(first.first_seq)
        head = encode_lines([header(self._names.line(replace(first, seq=first.first_seq)), self._before(first))])
        tally.digest.update(head)
        name = file_name(first.first_seq) if is_sealed else path.name
        with (self._directory / name).open("xb") as out:
            out.write(head)
            for row in lines:
                if row.event == "seal":
                    break
                renamed = self._names.line(row)
                data = encode_lines([renamed])
                tally.note(renamed)
                tally.digest.update(data)
                out.write(data)
            if is_sealed:
                footer = self._sign(tally.footer(self._key.public.hex(), self._before(first)))
                out.write(encode_lines([footer]))
                self._end = footer.last_seq, footer.sha256 or ""
        self.segments += is_sealed
        self.events += tally.lines

    def _before(self, line: Line) -> str | None:
        if self._end is not None and self._end[0] + 1 == line.first_seq:
            return self._end[1]
        return None if line.predecessor is None else self._names.id(line.predecessor)

    def _digest(self, footer: Line) -> str:
        return self._names.id(footer.sha256 or "")

    def _sign(self, footer: Line) -> Line:
        return sign(replace(footer, router=self._key.public.hex()), self._key)


def _readable(lines: Iterable[bytes]) -> Iterator[Line]:
    for data in lines:
        with suppress(ValueError):
            yield decode_line(data)


def _decoded(path: Path) -> Iterator[Line]:
    """The lines of a file that an audit found good; it may have been pruned since."""
    try:
        with path.open("rb") as file:
            for data in file:
                yield decode_line(data)
    except FileNotFoundError:
        raise ExportError(f"{path} was pruned in the meantime; run it again") from None
