"""Reading event logs back: every segment of a directory, what is wrong with it, and what is missing.

A gap is told, never hidden. Whatever the files hold, and whether they can be read at all, the answer is a
list of problems with file and line, not an exception. A tail that was cut off cleanly shows only against a
witness (`core.segment.contradicts`). The log may be that of a running router.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from router.core.line import Line, decode_line
from router.core.segment import Check, is_authentic
from router.disk.eventlog import ASIDE, NAME, PRUNED

LINE_BYTES_MAX = 64 << 20


class Problem(NamedTuple):
    """What is wrong, and where. Lines count from 1; 0 is the file as a whole."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}" if self.line else f"{self.path}: {self.text}"


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of a log, or the footer that is left of it.

    `whole`: its lines are the ones that the router signed. `gaps` are the spans of sequence numbers, `(first,
    last)`, that are missing before it or that it records itself.
    """

    path: Path
    header: Line | None = None
    footer: Line | None = None
    whole: bool = False
    pruned: bool = False
    gaps: tuple[tuple[int, int], ...] = ()
    problems: tuple[Problem, ...] = ()

    def events(self) -> Iterator[tuple[int, Line]]:
        """`(line number, line)` of each event, read anew; of a segment that is not `whole`, what can be read.

        `OSError` if the file is gone by now.
        """
        if self.pruned or self.header is None:
            return
        with _open(self.path) as file:
            for number, data in enumerate(_lines(file), 1):
                try:
                    row = decode_line(data)
                except ValueError:
                    continue
                if row.event == "seal":
                    return
                if row.seq:
                    yield number, row


def verify_segment(path: Path, router: bytes | None = None) -> list[Problem]:
    """What is wrong with one segment by itself; `router` is the key that it must be signed by, None: any."""
    return list(_read(path, router.hex() if router else None).problems)


def read_segments(directory: Path, router: bytes | None = None) -> Iterator[Segment]:
    """One router's segments in their order, pruned ones included, each checked against the chain.

    `router` is the key that must have signed them; without it, the first segment's.
    """
    try:
        paths = sorted(directory.iterdir())
        left = list(_read_pruned(directory / PRUNED))
    except OSError as error:
        yield Segment(directory, problems=(_unreadable(directory, error),))
        return
    yield from (one for one in left if one.footer is None)
    yield from (_set_aside(path) for path in paths if path.name.startswith(ASIDE))
    kept = {int(found[1]): path for path in paths if (found := NAME.fullmatch(path.name))}
    pruned = _by_start(left)
    chain = _Chain(router.hex() if router else None)
    for start in sorted(kept.keys() | pruned.keys()):
        path = kept.get(start)
        if path is not None and not path.exists():  # Pruned since we looked.
            pruned |= _by_start(_read_pruned(directory / PRUNED))
        if start in pruned and (path is None or not path.exists()):
            yield chain.link(pruned[start])
        elif path is not None:
            yield chain.link(_read(path, chain.router))


def _by_start(pruned: Iterable[Segment]) -> dict[int, Segment]:
    return {one.footer.first_seq: one for one in pruned if one.footer}


class _Chain:
    """Where the log stands: the next sequence number, and the digest that its segment must name."""

    def __init__(self, router: str | None) -> None:
        self.router = router
        self._next_seq = 1
        self._digest: str | None = None

    def link(self, segment: Segment) -> Segment:
        """The segment, with what is wrong between it and those before it."""
        says = segment.footer or segment.header
        if says is None:
            return segment
        first, gaps, texts = says.first_seq, segment.gaps, []
        if first > self._next_seq:
            texts.append(f"the sequence numbers {self._next_seq} to {first - 1} before this segment are missing")
            gaps = ((self._next_seq, first - 1), *gaps)
        elif first < self._next_seq:
            texts.append(f"begins at {first}, but the log before it already reaches {self._next_seq - 1}")
        elif says.predecessor != self._digest:
            texts.append(f"names {says.predecessor} as its predecessor, but that is {self._digest}")
        if self.router not in (None, says.router) and segment.pruned:
            texts.append(f"is of the router {says.router}, not of {self.router}")
        self.router = self.router or says.router
        self._next_seq = max(self._next_seq, first)
        if segment.whole:
            self._next_seq, self._digest = says.last_seq + 1, says.sha256
        line = 1 if segment.header else 0
        found = tuple(Problem(segment.path, line, text) for text in texts)
        return replace(segment, gaps=gaps, problems=found + segment.problems)


def _read(path: Path, router: str | None) -> Segment:
    check = Check(router)
    try:
        with _open(path) as file:
            for data in _lines(file):
                check.line(data)
    except OSError as error:
        return Segment(path, problems=(_unreadable(path, error),))
    check.end()
    found = [Problem(path, number, text) for number, text in check.problems]
    whole = not found
    named = NAME.fullmatch(path.name)
    if named and check.header and int(named[1]) != check.header.first_seq:
        text = f"the file's name says {int(named[1])}, its header {check.header.first_seq}: it was renamed"
        found.append(Problem(path, 1, text))
    for number, first, last in check.gaps:
        found.append(Problem(path, number, f"the log records a gap: {first} to {last} were never written"))
    gaps = tuple((first, last) for _, first, last in check.gaps)
    return Segment(path, check.header, check.footer, whole, False, gaps, tuple(found))


def _read_pruned(path: Path) -> Iterator[Segment]:
    """What is left of pruned segments, one a line; a line that is no footer has a problem instead of one."""
    try:
        with _open(path) as file:
            for number, data in enumerate(_lines(file), 1):
                if not data.endswith(b"\n"):
                    return  # A crash tore it while its segment stood. If that is gone too, the gap shows.
                yield _pruned(path, number, data)
    except FileNotFoundError:
        return


def _pruned(path: Path, number: int, data: bytes) -> Segment:
    try:
        footer = decode_line(data)
    except ValueError as error:
        return Segment(path, pruned=True, problems=(Problem(path, number, str(error)),))
    if not is_authentic(footer):
        text = "the signature of this footer of a pruned segment does not fit what it says"
        return Segment(path, pruned=True, problems=(Problem(path, number, text),))
    return Segment(path, footer=footer, whole=True, pruned=True)


def _set_aside(path: Path) -> Segment:
    text = "was set aside when a segment of that name was written again; compare the two"
    return Segment(path, problems=(Problem(path, 0, text),))


def _unreadable(path: Path, error: OSError) -> Problem:
    return Problem(path, 0, f"cannot be read: {error.strerror or error}")


def _open(path: Path) -> BinaryIO:
    if not stat.S_ISREG(path.stat().st_mode):  # Opening a pipe would wait for ever.
        raise OSError(f"not a regular file: {path}")
    return path.open("rb")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The file's lines with their newlines; one longer than any of ours comes in pieces, each a problem."""
    while data := file.readline(LINE_BYTES_MAX):
        yield data
