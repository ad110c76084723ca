"""The files of an export: segments, tails and pruned footers under pseudonyms, and stand-ins for files that cannot be
believed.

Every digest changes. Wherever a segment was named by its digest (by the next one, by its pruned footer, by a neighbour
that witnessed it), it is named by its new one, or by a pseudonym if its lines are not in the export. So chains, forks
and contradicted witnesses stay as they were.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from heapq import merge
from itertools import count
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from router.audit.export.pseudonyms import Pseudonyms
from router.core.log.line import VERSION, Line, decode_line, encode_lines
from router.core.log.segment import SegmentTotals, file_name, header, is_authentic, sign
from router.disk.log.eventlog import PRUNED
from router.disk.log.packed import open_text, plain_path
from spark_analytics.judgement.evidence import Evidence, File
from spark_analytics.judgement.line_grammar import LINE_BYTES_MAX
from spark_analytics.judgement.log_files import FileFacts
from spark_analytics.judgement.schema import role

LEFT_OUT = "left out of this export"
"""The event, or the schema, of a stand-in: no log has it, so an audit reports it."""
UNREACHABLE_SEQ = 10**16 - 1
"""The number of a stand-in for a file that no log reaches."""
AGAIN = "run it again, or name the other files to export those"


class ExportError(Exception):
    """The export was not made; the text says why and what to do."""


class Writer:
    """Write one export. `left_out`: paths of files for which there are stand-ins."""

    def __init__(self, evidence: Evidence, facts: Iterable[FileFacts], names: Pseudonyms) -> None:
        self.routers: set[str] = set()
        self.segments = 0
        self.events = 0
        self.left_out: set[str] = set()
        self._files = evidence.files
        self._sealed = {seal.path: seal.sha256 for seal in evidence.seals if seal.is_kept}
        self._kept = frozenset(self._sealed.values())
        self._pruned = {seal.path for seal in evidence.seals if not seal.is_kept}
        self._given = {log.router for log in evidence.logs}
        self._last = {one.path: one.last for one in facts if one.path in self._sealed}
        self._names = names
        self._digests: dict[str, str] = {}  # of segments that are written: original digest -> digest here
        self._used: Counter[Path] = Counter()

    def write(self, out: Path, report: Callable[[str, float], None]) -> None:
        for number, file in enumerate(self._in_order()):
            report("writing the export", number / len(self._files))
            directory = out / (self._names.key(file.router)[:16] if file.router else "unknown") / "log"
            if file.router and (file.path in self._sealed or _is_tail(file)):
                self._write_lines(file, file.router, directory)
            elif file.router and file.path in self._pruned:
                self._write_footers(file, file.router, directory)
            if file.status == "former":  # no line of it counts, and none is missed
                self.left_out.add(file.path)
            if file.status in ("bad", "foreign"):
                self._stand_in(file, directory)
                self.left_out.add(file.path)

    def _in_order(self) -> list[File]:
        """Return segments in the order of sealing, as far as clocks agree: a witness names one that was sealed before.
        Then return the other files, whose digests are named nowhere."""
        logs: dict[str | None, list[File]] = defaultdict(list)
        rest = []
        for file in sorted(self._files, key=lambda one: (one.status in ("bad", "foreign"), one.first_seq, one.path)):
            if file.path in self._sealed:
                logs[file.router].append(file)
            else:
                rest.append(file)
        return [*merge(*logs.values(), key=self._sealed_at), *rest]

    def _sealed_at(self, file: File) -> int:
        return decode_line(self._last[file.path]).max_t

    # -- lines -----------------------------------------------------------------------------------------------

    def _write_lines(self, file: File, router: str, directory: Path) -> None:
        digest = self._sealed.get(file.path)
        name = plain_path(Path(file.path)).name if digest is None else file_name(file.first_seq)
        was, tally, before = sha256(), SegmentTotals(file.first_seq), None
        path, fits, footer = self._free(directory, name), True, None
        with path.open("xb") as out:
            for number, data in _lines(file.path):
                row = self._renamed(file.path, number, data)
                if row.event == "seal":
                    footer = row
                    break
                was.update(data)
                if number == 1:
                    before = row.predecessor
                else:
                    fits &= row.seq == tally.next_seq
                    tally.note(row)
                written = encode_lines([row])
                tally.digest.update(written)
                out.write(written)
            if digest not in (None, was.hexdigest()):
                raise ExportError(f"{file.path} was changed since it was judged; run it again")
            if footer is not None and not (fits and _tells_of(footer, tally)):
                self._leave_out(file, path, directory)
                return
            if (tally.lines, tally.next_seq - 1) != (file.lines, file.last_seq):
                told = f"{tally.lines} events up to {tally.next_seq - 1} instead of {file.lines} up to {file.last_seq}"
                raise ExportError(f"{file.path} holds {told}; {AGAIN}")
            if digest is not None:
                own = self._sign(tally.footer(None, before), router)
                out.write(encode_lines([own]))
                self._digests[digest] = own.sha256 or ""
        self.routers.add(router)
        self.segments += digest is not None
        self.events += tally.lines

    def _renamed(self, path: str, number: int, data: bytes) -> Line:
        """Return the line under pseudonyms; a footer unchanged."""
        try:
            row = decode_line(data)
            if row.event == "seal":
                return row
            if number == 1:
                first = self._names.line(replace(row, seq=row.first_seq))
                return header(first, self._digest(row.predecessor), row.reasons)
            renamed = self._names.line(row)
            head = self._head(row.fields) if row.event == "link" and row.fields else None
            return replace(renamed, fields={**(renamed.fields or {}), "head_digest": head}) if head else renamed
        except ValueError as error:
            raise ExportError(f"{path}:{number}: {error}; {AGAIN}") from None

    def _head(self, fields: Mapping[str, Any]) -> str | None:
        """Return the new digest by which a witness names the head of a neighbour's log; None if that log or segment is
        not here yet.

        A log outside this export is not named at all: another export may hold it, with another digest.
        """
        digest = fields.get("head_digest")
        if not isinstance(digest, str) or fields.get("peer") not in self._given:
            return None
        return None if digest in self._kept and digest not in self._digests else self._digest(digest)

    def _digest(self, old: str | None) -> str | None:
        return None if old is None else self._digests.get(old) or self._names.id(old)

    def _sign(self, footer: Line, router: str) -> Line:
        key = self._names.signing_key(router)
        return sign(replace(footer, router=key.public.hex()), key)  # without the keys that have followed

    def _leave_out(self, file: File, path: Path, directory: Path) -> None:
        """Replace a file by a stand-in because its signed footer contradicts its lines, so that an audit would not
        believe it."""
        path.unlink()
        self._stand_in(file, directory)
        self.left_out.add(file.path)

    # -- footers ---------------------------------------------------------------------------------------------

    def _write_footers(self, file: File, router: str, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / PRUNED).open("ab") as out:
            for _, data in _lines(file.path):
                if footer := self._footer(data, router):
                    out.write(encode_lines([footer]))
        self.routers.add(router)

    def _footer(self, data: bytes, router: str) -> Line | None:
        """Return a pruned footer under pseudonyms; None if it is torn, invalid, not authentic, or another router's."""
        with suppress(ValueError):
            footer = decode_line(data)
            if data.endswith(b"\n") and footer.router == router and is_authentic(footer):
                before, digest = self._digest(footer.predecessor), self._digest(footer.sha256)
                return self._sign(replace(footer, predecessor=before, sha256=digest), router)
        return None

    # -- stand-ins -------------------------------------------------------------------------------------------

    def _stand_in(self, file: File, directory: Path) -> None:
        """Write a stand-in that an audit finds bad, or foreign, over the same sequence numbers; without any, a line in
        pruned.jsonl, or a file under a number that no log reaches."""
        router = None if file.router is None else self._names.key(file.router)
        if file.status == "foreign" and not file.last_seq:
            self._free(directory, file_name(UNREACHABLE_SEQ)).touch()
            return
        if not 0 < file.first_seq <= file.last_seq or file.path in self._pruned:
            directory.mkdir(parents=True, exist_ok=True)
            with (directory / PRUNED).open("ab") as out:
                out.write(encode_lines([Line(VERSION, LEFT_OUT)]))
            return
        n = file.last_seq - file.first_seq + 1
        if file.status == "foreign":
            first = Line(VERSION, "segment", router=router, schema=LEFT_OUT, first_seq=file.first_seq)
            last = Line(
                VERSION,
                "seal",
                n=n,
                router=router,
                first_seq=file.first_seq,
                last_seq=file.last_seq,
                segments=1,
                lines=1,
                counts={},
                sha256="0" * 64,
                signature="0" * 128,
            )
            name = file_name(file.first_seq)
        else:
            first, last = Line(VERSION, LEFT_OUT), Line(VERSION, LEFT_OUT, file.first_seq, n, router=router)
            name = f"tail-{file.first_seq:016d}.jsonl"
        self._free(directory, name).write_bytes(encode_lines([first, last]))

    def _free(self, directory: Path, name: str) -> Path:
        """Return a path that is not taken: the second file of one name goes into `log-2`."""
        self._used[directory / name] += 1
        number = self._used[directory / name]
        directory = directory if number == 1 else directory.with_name(f"{directory.name}-{number}")
        directory.mkdir(parents=True, exist_ok=True)
        return directory / name


def _tells_of(footer: Line, tally: SegmentTotals) -> bool:
    """Whether the footer counts the events in the lines, and tells their times; an event with no line need not be
    named."""
    said, there = ({name: n for name, n in (one or {}).items() if n} for one in (footer.counts, tally.counts))
    times = (footer.min_t, footer.max_t) == (tally.min_t, tally.max_t)
    return times and (footer.lines, footer.last_seq, said) == (tally.lines, tally.next_seq - 1, there)


def _is_tail(file: File) -> bool:
    return file.status in ("tail", "fork") and role(file.path) == "tail"


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Return number (from 1) and bytes of each line of a file that was judged; it may have been pruned since."""
    try:
        with open_text(path) as file:
            for number in count(1):
                data = file.readline(LINE_BYTES_MAX + 1)
                if not data:
                    return
                if len(data) > LINE_BYTES_MAX:
                    raise ExportError(f"{path}:{number}: the line is longer than {LINE_BYTES_MAX} bytes; {AGAIN}")
                yield number, data
    except FileNotFoundError:
        raise ExportError(f"{path} was pruned in the meantime; run it again") from None
