"""Read log files: the kind of each one, its router, the events it covers, and its problems.

A segment is good if header, footer, signature and digest vouch for all its bytes; then its lines need not be read. Only
files that are not good are read line by line, and tails and pruned.jsonl, where each line counts by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from .chain import Seal
from .footer import Footer, Header, Verify, decode_line, read_footer, read_header
from .line_grammar import LINE_BYTES_MAX, is_line
from .schema import AHEAD_MAX, SCHEMA, VERSION, named_seq, role
from .segment_lines import PROBLEMS_MAX, TOO_LONG, TOO_MANY, Lines, contradicts_itself, examine, lines_of, why_no_line

UNREACHABLE = "no log reaches the event in its name: it is left out"
ASIDE = "was set aside when a segment of that name was written again; it is not read: compare the two"

CHANGED = "was changed while it was read: audit it again"
UNLISTED = "cannot be listed"
NOT_A_FILE = "it is not a regular file"
DEAD_LINK = "it is a link, and leads to no file that can be read"
"""The text for a link in place of a directory, which the audit may not follow."""
UNREADABLE = "cannot be read"
SIGNED_SO = "its router signed it as it is: the footer's digest is right, but its counts are not"
NOT_THE_SCHEMA = "its router signed it, but it holds a line that is not as the schema says"


class FileFacts(NamedTuple):
    """The facts of a file that an engine computes. A file that has gone since it was listed is left out: its footer is
    in pruned.jsonl.

    `head`, `last`: first and last line (at most 64 KiB each, the last with its newline if there is one); `digest`:
    SHA-256 in hex of all bytes before the last line; `error`: why it cannot be read, "" if it can; `is_odd`: the engine
    found an invalid line among these bytes.
    """

    path: str
    size: int
    head: bytes
    last: bytes
    digest: str
    error: str = ""
    is_odd: bool = False


Content = Callable[[str], Iterable[bytes]]
"""Return all bytes of a file, part by part. Raise `OSError`, also while reading, if it cannot be read."""


class Problem(NamedTuple):
    """A problem and its place. Lines count from 1; 0 is the file as a whole."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}" if self.line else f"{self.path}: {self.text}"


@dataclass(slots=True)
class Seen:
    """A file, its claims and its status. `seals`: the footers that prove what it covers; `digest`: that of all its
    bytes; `is_file`: False for an entry that is no file, whose name then proves nothing about how far a log reached.
    `claimed`: the events that a file without a valid signature claims, if not by its name."""

    path: str
    status: str
    router: str | None = None
    first: int = 0
    last: int = 0
    lines: int = 0
    predecessor: str | None = None
    digest: str = ""
    seals: tuple[Seal, ...] = ()
    is_file: bool = True
    claimed: tuple[int, int] = (0, 0)


class Reading:
    """Take one file after another, in order of their paths."""

    def __init__(self, content: Content, verify: Verify, known: Collection[str], doubted: Collection[str] = ()) -> None:
        self.files: list[Seen] = []
        self.problems: list[Problem] = []
        self.authentic: set[str] = set()
        self._content = content
        self._verify = verify
        self._known = known
        self._doubted = doubted

    def take(self, fact: FileFacts) -> None:
        kind = role(fact.path)
        if kind == "aside":
            self._say(fact.path, 0, ASIDE)
        elif fact.error:
            self._say(fact.path, 0, f"{UNREADABLE}: {fact.error}")
            self._take_bad(fact.path, Lines())
            self.files[-1].is_file = fact.error not in (NOT_A_FILE, DEAD_LINK)
        elif kind == "pruned" or (kind is None and fact.head.startswith(b'{"v":1,"event":"seal"')):
            self._take_pruned(fact.path)
        elif kind == "tail":
            self._take_tail(fact)
        else:
            self._take_segment(fact)

    def _take_segment(self, fact: FileFacts) -> None:
        footer, header = self._good_footer(fact)
        if footer is None or header is None:
            foreign = _foreign(fact)
            if foreign is not None:
                self.files.append(foreign[0])
                self._say(fact.path, 1, foreign[1])
                return
            found = self._examine(fact.path, is_tail=False)
            if found is not None and self._is_doubted(fact) and contradicts_itself(found):
                self._say(fact.path, 0, SIGNED_SO)
            elif found is not None and not found.problems:
                self._say(fact.path, 0, NOT_THE_SCHEMA if self._is_doubted(fact) else CHANGED)
            self._take_bad(fact.path, found or Lines(), self._footer_unread(fact, found))
            return
        if (named := named_seq(fact.path)) not in (None, footer.first_seq):
            self._say(fact.path, 1, f"the file's name says {named}, its header {footer.first_seq}: renamed or copied")
        self.files.append(
            Seen(
                fact.path,
                "good",
                footer.router,
                footer.first_seq,
                footer.last_seq,
                footer.lines,
                footer.predecessor,
                footer.sha256,
                (_seal(footer, fact.path, True, header.reasons),),
            )
        )

    def _is_doubted(self, fact: FileFacts) -> bool:
        return fact.is_odd or fact.path in self._doubted

    def _good_footer(self, fact: FileFacts) -> tuple[Footer, Header] | tuple[None, None]:
        """Return footer and header if these, signature and digest vouch for the file; None otherwise."""
        if self._is_doubted(fact):
            return None, None
        if not all(is_line(line.removesuffix(b"\n")) for line in (fact.head, fact.last)):
            return None, None
        try:
            header, footer = read_header(decode_line(fact.head)), read_footer(decode_line(fact.last))
        except ValueError:
            return None, None
        same = (header.router, header.first_seq, header.predecessor) == (
            footer.router,
            footer.first_seq,
            footer.predecessor,
        )
        whole = same and footer.segments == 1 and footer.sha256 == fact.digest and fact.last.endswith(b"\n")
        return (footer, header) if whole and self._is_authentic(footer, fact.last) else (None, None)

    def _footer_unread(self, fact: FileFacts, found: Lines | None) -> Footer | None:
        """Return the authentic footer of a file whose reading was cut off before it; None if there is none."""
        if found is None or not found.is_cut:
            return None
        try:
            footer = read_footer(decode_line(fact.last))
        except ValueError:
            return None
        return footer if self._is_authentic(footer, fact.last) else None

    def _is_authentic(self, footer: Footer, line: bytes) -> bool:
        name = sha256(line).hexdigest()
        found = name in self._known or name in self.authentic or footer.is_authentic(self._verify)
        if found:
            self.authentic.add(name)
        return found

    def _take_tail(self, fact: FileFacts) -> None:
        found = self._examine(fact.path, is_tail=True)
        if found is None or found.problems or found.header is None:
            self._take_bad(fact.path, found or Lines())
            return
        header, last = found.header, max(found.last_seq, found.header.first_seq - 1)
        digest = f"{fact.digest} {sha256(fact.last).hexdigest()}"
        self.files.append(
            Seen(
                fact.path,
                "tail",
                header.router,
                header.first_seq,
                last,
                found.lines,
                header.predecessor,
                digest,
            )
        )

    def _take_bad(self, path: str, found: Lines, footer: Footer | None = None) -> None:
        seqs = [seq for seq in (found.first_seq, found.last_seq) if seq]
        seqs += [footer.first_seq, footer.last_seq] if footer else []
        claimed = min(seqs, default=0), max(seqs, default=0)
        seqs += [named] if (named := named_seq(path)) else []
        span = min(seqs, default=0), max(seqs, default=0)
        router = footer.router if footer else found.router
        self.files.append(Seen(path, "bad", router, *span, found.lines, claimed=claimed))

    def _take_pruned(self, path: str) -> None:
        before = len(self.problems)
        seals: dict[str, list[Seal]] = defaultdict(list)
        try:
            for number, line in enumerate(lines_of(self._content(path)), 1):
                if len(self.problems) - before >= PROBLEMS_MAX:
                    self._say(path, number, TOO_MANY)
                    break
                if line.endswith(b"\n"):  # A rest without a newline was torn by a crash: its segment still stands.
                    self._take_pruned_footer(path, number, line, seals)
                elif len(line) >= LINE_BYTES_MAX:
                    self._say(path, number, TOO_LONG)
        except OSError as error:
            self._say(path, 0, f"{UNREADABLE}: {error.strerror or error}")
        status = "bad" if len(self.problems) > before else "pruned"
        for router, found in sorted(seals.items()):
            first, last = min(one.first_seq for one in found), max(one.last_seq for one in found)
            self.files.append(Seen(path, status, router, first, last, len(found), seals=tuple(found)))
        if not seals:
            self.files.append(Seen(path, status))

    def _take_pruned_footer(self, path: str, number: int, line: bytes, seals: dict[str, list[Seal]]) -> None:
        try:
            footer = read_footer(decode_line(line))
        except ValueError as error:
            self._say(path, number, f"not the footer of a pruned segment: {error}")
            return
        if not is_line(line[:-1]):
            self._say(path, number, f"not the footer of a pruned segment: {why_no_line(line)}")
        elif self._is_authentic(footer, line):
            seals[footer.router].append(_seal(footer, path, False))
        else:
            said = f"segments {footer.first_seq} to {footer.last_seq}"
            text = f"the footer of the pruned {said} is not signed by the router {footer.router}, or was changed"
            self._say(path, number, text)

    def _examine(self, path: str, *, is_tail: bool) -> Lines | None:
        try:
            found = examine(self._content(path), self._verify, is_tail=is_tail)
        except OSError as error:
            self._say(path, 0, f"{UNREADABLE}: {error.strerror or error}")
            return None
        for number, text in found.problems:
            self._say(path, number, text)
        return found

    def _say(self, path: str, line: int, text: str) -> None:
        self.problems.append(Problem(path, line, text))

    def mark_copies(self) -> None:
        """Mark all but the first path of the same bytes as copies."""
        there: set[tuple[str | None, str]] = set()
        for seen in self.files:
            if seen.status in ("good", "tail"):
                if (seen.router, seen.digest) in there:
                    seen.status, seen.seals = "copy", ()
                there.add((seen.router, seen.digest))

    def name_routers(self) -> None:
        """Assign files without a valid signature to the router whose log the rest of the directory is, whatever they
        claim."""
        around: dict[str, set[str]] = defaultdict(set)
        for seen in self.files:
            if seen.router is not None and seen.status not in ("bad", "foreign"):
                around[seen.path.rpartition("/")[0]].add(seen.router)
        for seen in self.files:
            routers = around[seen.path.rpartition("/")[0]]
            if seen.status in ("bad", "foreign") and not seen.seals and len(routers) == 1:
                [seen.router] = routers

    def leave_out_unreachable(self) -> None:
        """Ignore names of files without a valid signature that no log can reach; leave out those that claim nothing
        else."""
        reached: dict[str | None, int] = defaultdict(int)
        for seen in self.files:
            is_believed = seen.status not in ("bad", "foreign")
            last = seen.last if is_believed else seen.claimed[1]
            reached[seen.router] = max(reached[seen.router], last)
        for seen in self.files:
            if seen.status in ("bad", "foreign") and (named_seq(seen.path) or 0) > reached[seen.router] + AHEAD_MAX:
                seen.first, seen.last = seen.claimed
                if not seen.last:
                    seen.status = "foreign"
                    self._say(seen.path, 0, UNREACHABLE)


def _seal(footer: Footer, path: str, is_kept: bool, reasons: frozenset[str] | None = None) -> Seal:
    return Seal(
        footer.router,
        footer.first_seq,
        footer.last_seq,
        footer.predecessor,
        footer.sha256,
        footer.segments,
        is_kept,
        path,
        footer.lines,
        tuple(sorted(footer.counts.items())),
        footer.max_t,
        footer.followers,
        footer.min_t,
        reasons,
    )


def _foreign(fact: FileFacts) -> tuple[Seen, str] | None:
    """Return a file that is no log and has no log's name, or the log of another version, with the text that says so."""
    try:
        row = decode_line(fact.head)
    except ValueError:
        row = {}
    if row.get("event") != "segment":
        text = "not an event log: its first line is not the header of a segment"
        return None if role(fact.path) else (Seen(fact.path, "foreign"), text)
    version, schema = row.get("v"), row.get("schema")
    if (version, schema) == (VERSION, SCHEMA) or type(version) is not int or not isinstance(schema, str):
        return None
    named = named_seq(fact.path) or 0
    seen = Seen(fact.path, "foreign", first=named, last=named)
    try:
        header = read_header(row | {"v": VERSION, "schema": SCHEMA})
        seen.router, seen.first, seen.last = header.router, header.first_seq, header.first_seq
        seen.last = max(seen.last, read_footer(decode_line(fact.last) | {"v": VERSION}).last_seq)
        seen.claimed = seen.first, seen.last
    except ValueError:
        pass  # Only its router and span are read from a log of another version, and only if they can be.
    text = f"has version {version!r:.20} of the schema {schema!r:.60}; this audit reads version {VERSION} of {SCHEMA!r}"
    return seen, f"{text}: use a newer one"
