"""Find the problems inside one file of an event log, line by line, given its bytes.

It is read only where header, digest and signature do not already vouch for the whole file, and for tails, which are
unsigned. Any bytes give a list of problems, each with its line and what should be there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from .chain import events
from .footer import Footer, Header, Verify, decode_line, is_natural, read_footer, read_header
from .line_grammar import LINE_BYTES_MAX, columns_fit, is_line
from .schema import COLUMNS

PROBLEMS_MAX = 100
TOO_MANY = f"after {PROBLEMS_MAX} problems nothing from here on was looked at"
TOO_LONG = f"this line is longer than {LINE_BYTES_MAX} bytes, and nothing from here on was read"


@dataclass(slots=True)
class Lines:
    """The contents of one file, and its problems as `(line number from 1, text)`.

    `router`, `first_seq` and `last_seq` are what the file claims, as far as it was read; `lines` counts its events.
    `is_cut`: reading stopped after too many problems, or at a line that is too long.
    """

    router: str | None = None
    first_seq: int = 0
    last_seq: int = 0
    lines: int = 0
    header: Header | None = None
    footer: Footer | None = None
    problems: list[tuple[int, str]] = field(default_factory=list)
    is_cut: bool = False


_CONTRADICTIONS = ("before this line is missing", "the sequence number ", "the footer ", "the event ")
"""The first words of problems between lines, or between lines and the footer."""


def contradicts_itself(found: Lines) -> bool:
    """Whether each line is valid and the footer is its router's, but they contradict each other."""
    texts = [text for _, text in found.problems]
    return found.footer is not None and bool(texts) and all(text.startswith(_CONTRADICTIONS) for text in texts)


def examine(data: Iterable[bytes], verify: Verify, *, is_tail: bool = False) -> Lines:
    """Return the contents and problems of a segment. A tail must have a header, lines without a gap, and no footer.
    `data`: its bytes, part by part."""
    check = _Check(verify, is_tail)
    for line in lines_of(data):
        if check.is_full:
            check.cut()
            break
        check.line(line)
    return check.end()


def lines_of(data: Iterable[bytes]) -> Iterator[bytes]:
    """Split into lines with their newlines; only a newline ends a line. A line that is too long is cut and ends the
    split."""
    rest: list[bytes] = []
    length = 0
    for part in data:
        start = 0
        while end := part.find(b"\n", start) + 1:
            if length + end - start > LINE_BYTES_MAX:
                break
            yield b"".join((*rest, part[start:end]))
            rest, length, start = [], 0, end
        rest.append(part[start:])
        length += len(rest[-1])
        if length >= LINE_BYTES_MAX:
            break
    if length:
        yield b"".join(rest)[:LINE_BYTES_MAX]


def why_no_line(line: bytes) -> str:
    """Describe what is wrong with the spelling of a line that is valid JSON."""
    row = json.loads(line)
    plain = json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    at = next((at for at, (one, other) in enumerate(zip(plain, line, strict=False)) if one != other), len(plain))
    there = "" if plain == line.rstrip(b"\n") else f", from column {at + 1} on"
    return f"it is not spelled as a router writes it{there} (cddl/segment.cddl)"


class _Check:
    """Checks one line after another."""

    def __init__(self, verify: Verify, is_tail: bool) -> None:
        self._verify = verify
        self._is_tail = is_tail
        self._found = Lines()
        self._number = 0
        self._unsaid = 0
        self._digest = sha256()
        self._next_seq = 0
        self._counts: dict[str, int] = {}
        self._first_lines: dict[str, int] = {}
        self._times: list[int] = []
        self._ended = False

    @property
    def is_full(self) -> bool:
        """Whether enough problems are found: a file full of them is not read to its end."""
        return len(self._found.problems) >= PROBLEMS_MAX

    def cut(self) -> None:
        """Record that there are more lines, which are not read."""
        self._number += 1
        self._found.is_cut = True

    def line(self, data: bytes) -> None:
        self._number += 1
        if self._ended:
            self._say("a line after the footer; nothing may follow it")
            return
        if len(data) >= LINE_BYTES_MAX and not data.endswith(b"\n"):
            self._ended = self._found.is_cut = True
            self._say(TOO_LONG)
            return
        if not data.endswith(b"\n"):
            self._say(f"the file is cut off in the middle of this line, after {len(data)} bytes of it")
        try:
            row = decode_line(data)
        except ValueError as error:
            self._say(f"not a line of an event log: {error}")
            self._digest.update(data)
            return
        if row.get("event") == "seal":
            self._ended = True
            self._check_footer(row, data)
            return
        self._digest.update(data)
        if self._number == 1:
            self._check_header(row, data)
        else:
            self._check_event(row, data)

    def end(self) -> Lines:
        found = self._found
        if not self._number:
            self._say("the file is empty: it should begin with a header")
        elif found.is_cut:
            pass
        elif self._is_tail and self._ended:
            self._say("a footer in a tail, which is not sealed")
        elif not self._is_tail and not self._ended:
            self._say("no footer after this line: the file is cut off")
        if found.header:
            found.router, found.first_seq = found.header.router, found.header.first_seq
        if found.footer:
            found.router = found.footer.router
            found.first_seq, found.last_seq = found.footer.first_seq, found.footer.last_seq
        if self._unsaid:
            found.problems.append((self._number, f"and {self._unsaid} more problem{'s' * (self._unsaid > 1)}"))
        if found.is_cut and self.is_full:
            found.problems.append((self._number, TOO_MANY))
        return found

    def _say(self, text: str, number: int = 0) -> None:
        if len(self._found.problems) < PROBLEMS_MAX:
            self._found.problems.append((number or max(1, self._number), text))
        else:
            self._unsaid += 1

    def _check_header(self, row: Mapping[str, Any], line: bytes) -> None:
        try:
            header = self._found.header = read_header(row)
        except ValueError as error:
            self._say(f"not the header that should be the first line: {error}")
            return
        self._next_seq = header.first_seq
        self._check_spelling(line)

    def _check_event(self, row: Mapping[str, Any], line: bytes) -> None:
        found, event = self._found, row.get("event")
        wrong = _misfit(row)
        if wrong:
            self._say(wrong)
            return
        seq, n, router = row.get("seq"), row.get("n"), row.get("router")
        if not seq or not n:
            self._say(f"not a line of an event log: the event {event!r:.40} has no sequence number")
            return
        self._check_spelling(line)
        if 0 < self._next_seq < seq:
            self._say(f"before this line is missing: {events(self._next_seq, seq - 1)}")
        elif seq < self._next_seq:
            self._say(f"the sequence number {seq} where {self._next_seq} should be")
        if found.header and router != found.header.router:
            self._say(f"an event of the router {router} in the log of {found.header.router}")
        if event == "accepted" and not columns_fit(row):
            self._say(f"the columns of this accepted event do not hold {n} messages each")
        self._next_seq = seq + n
        found.router = found.router or router
        found.first_seq = found.first_seq or seq
        found.last_seq = max(found.last_seq, seq + n - 1)
        found.lines += 1
        self._counts[str(event)] = self._counts.get(str(event), 0) + (row.get("count") or 0)
        self._first_lines.setdefault(str(event), self._number)
        self._times.append(row.get("t") or 0)

    def _check_spelling(self, line: bytes) -> None:
        if not is_line(line.removesuffix(b"\n")):
            self._say(f"not a line of an event log: {why_no_line(line)}")

    def _check_footer(self, row: Mapping[str, Any], line: bytes) -> None:
        try:
            footer = read_footer(row)
        except ValueError as error:
            self._say(f"not a footer: {error}")
            return
        if not footer.is_authentic(self._verify):
            self._say(f"the footer is not signed by the router {footer.router}, or was changed after it was")
            return
        self._check_spelling(line)
        self._found.footer = footer
        digest = self._digest.hexdigest()
        if footer.sha256 != digest:
            self._say(f"the lines have the digest {digest}, where the footer says {footer.sha256}: they were changed")
        header = self._found.header
        if header and (footer.router, footer.predecessor) != (header.router, header.predecessor):
            self._say("header and footer name different routers or predecessors")
        for name, said, there in (
            ("first_seq", footer.first_seq, header.first_seq if header else self._found.first_seq),
            ("last_seq", footer.last_seq, self._next_seq - 1),
            ("segments", footer.segments, 1),
            ("lines", footer.lines, self._found.lines),
            ("min_t", footer.min_t, min(self._times, default=0)),
            ("max_t", footer.max_t, max(self._times, default=0)),
        ):
            if said != there:
                self._say(f"the footer says {name} {said}, the lines {there}")
        for event in sorted({*footer.counts, *self._counts}):
            counted, there = footer.counts.get(event, 0), self._counts.get(event, 0)
            if event not in footer.counts:
                self._say(f"the event {event!r:.40}, of which the footer counts none", self._first_lines[event])
            elif counted != there:
                self._say(f"the footer counts {counted} {event}, the lines {there}")


# -- one event's columns ----------------------------------------------------------------------------------


def _is_list_of(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "BIGINT": (is_natural, "a whole number"),
    "STRING": (_is_text, "text"),
    "ARRAY<BIGINT>": (_is_list_of(is_natural), "a list of whole numbers"),
    "ARRAY<STRING>": (_is_list_of(_is_text), "a list of texts"),
    "ARRAY<ARRAY<BIGINT>>": (_is_list_of(_is_list_of(is_natural)), "a list of [first, count]"),
    "MAP<STRING,STRING>": (_is_map, "a map"),
    "MAP<STRING,BIGINT>": (_is_map, "a map"),
}


def _misfit(row: Mapping[str, Any]) -> str | None:
    """Describe the first column whose value is not of its type; None if all fit. Skips columns of newer routers."""
    if row.get("v") != 1:
        return f"version {row.get('v')!r:.40} of the log; this audit reads version 1"
    for name, value in row.items():
        fits, kind = _KINDS[COLUMNS[name]] if name in COLUMNS else (None, "")
        if fits and value is not None and not fits(value):
            return f"the column {name} holds {value!r:.60}, where {kind} should be"
    return None
