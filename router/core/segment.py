"""Sealed segments of the event log: header, lines, signed footer, and the chain they make.

A footer's `sha256` is over all bytes of the file before the footer's line. The next segment's header and
footer name it as their `predecessor`, so a directory of segments is a chain (`cddl/segment.cddl`).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from msgspec.structs import replace

from .codec import encode
from .crypto import SigningKey, verify
from .line import VERSION, Line, decode_line

SCHEMA = "upsycle event log 1"
SEAL_LABEL = b"upsycle event log seal 1"
PROBLEMS_MAX = 100


def file_name(first_seq: int) -> str:
    return f"events-{first_seq:016d}.jsonl"


def header(first: Line, predecessor: str | None) -> Line:
    """The line before `first`. `predecessor` is the digest of the segment before, None for the very first."""
    return Line(
        VERSION, "segment", router=first.router, boot=first.boot, schema=SCHEMA, first_seq=first.seq,
        predecessor=predecessor,
    )  # fmt: skip


class Tally:
    """What a footer says of the lines before it."""

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.next_seq = first_seq
        self.lines = 0
        self.counts: dict[str, int] = {}
        self.min_t = 0
        self.max_t = 0
        self.digest = sha256()

    def note(self, row: Line) -> None:
        """Count one event's line. Its bytes go into `digest` apart, many lines at a time."""
        self.next_seq = row.seq + row.n
        self.counts[row.event] = self.counts.get(row.event, 0) + (row.count or 0)
        if row.t > self.max_t:
            self.max_t = row.t
        if row.t < self.min_t or not self.lines:
            self.min_t = row.t
        self.lines += 1

    def footer(self, router: str | None, predecessor: str | None) -> Line:
        """The footer without its signature."""
        return Line(
            VERSION, "seal", n=self.next_seq - self.first_seq, router=router, first_seq=self.first_seq,
            last_seq=self.next_seq - 1, segments=1, lines=self.lines, counts=self.counts, min_t=self.min_t,
            max_t=self.max_t, predecessor=predecessor, sha256=self.digest.hexdigest(),
        )  # fmt: skip


def signed_bytes(footer: Line) -> bytes:
    """What the router signs: label, and all that the footer says, as deterministic CBOR (R-B7)."""
    said = (
        footer.v, footer.router, footer.first_seq, footer.last_seq, footer.n, footer.segments, footer.lines,
        footer.counts, footer.min_t, footer.max_t, footer.predecessor, footer.sha256,
    )  # fmt: skip
    return SEAL_LABEL + encode(said)


def sign(footer: Line, key: SigningKey) -> Line:
    return replace(footer, signature=key.sign(signed_bytes(footer)).hex())


def is_authentic(footer: Line) -> bool:
    """Whether this is a complete footer, signed by the router that it names."""
    if footer.event != "seal" or footer.counts is None or footer.sha256 is None or footer.last_seq < 1:
        return False
    try:
        key, signature = bytes.fromhex(footer.router or ""), bytes.fromhex(footer.signature or "")
        signed = signed_bytes(footer)
    except (ValueError, OverflowError):
        return False
    if len(key) != 32 or len(signature) != 64 or footer.signature != signature.hex():
        return False
    return verify(key, signed, signature)


def fold(footers: Iterable[Line], key: SigningKey) -> list[Line]:
    """Fewer footers that say the same: neighbours in the chain become one, over the segments of both."""
    out: list[Line] = []
    for footer in footers:
        if out and out[-1].sha256 == footer.predecessor and out[-1].last_seq + 1 == footer.first_seq:
            out[-1] = _joined(out[-1], footer)
        else:
            out.append(footer)
    return [footer if footer.segments == 1 else sign(footer, key) for footer in out]


def _joined(one: Line, two: Line) -> Line:
    counts = dict(one.counts or {})
    for event, count in (two.counts or {}).items():
        counts[event] = counts.get(event, 0) + count
    return replace(
        two, first_seq=one.first_seq, predecessor=one.predecessor, counts=counts,
        n=one.n + two.n, lines=one.lines + two.lines, segments=one.segments + two.segments,
        min_t=min(one.min_t, two.min_t), max_t=max(one.max_t, two.max_t),
    )  # fmt: skip


def contradicts(footers: Iterable[Line], seq: int, digest: bytes) -> str | None:
    """What a head `(seq, digest)` that a neighbour was told says against these footers; None: nothing.

    Only such a witness can tell of a tail that was cut off; a cut that nobody witnessed is not knowable.
    """
    last = 0
    for footer in footers:
        if footer.last_seq == seq and footer.sha256 != digest.hex():
            told = f"a neighbour was told that the segment up to {seq} has the digest {digest.hex()}"
            return f"{told}; here it has {footer.sha256}: the log was rewritten"
        last = max(last, footer.last_seq)
    if last < seq:
        return f"a neighbour was told of events up to {seq}; this log ends at {last}: its tail was cut off"
    return None


# -- reading --------------------------------------------------------------------------------------------


class Check:
    """Reads a segment line by line and collects what is wrong with it, as `(line number from 1, text)`.

    At most `PROBLEMS_MAX` are kept, the rest is counted. A `footer` that was found is signed by the router,
    but vouches for the lines only if there is no problem. `gaps` are those that the log itself records, as
    `(line number, first, last sequence number)`.
    """

    def __init__(self, router: str | None = None) -> None:
        self.router = router
        self.header: Line | None = None
        self.footer: Line | None = None
        self.problems: list[tuple[int, str]] = []
        self.gaps: list[tuple[int, int, int]] = []
        self.number = 0
        self._unsaid = 0
        self._tally = Tally(0)
        self._ended = False

    def line(self, data: bytes) -> None:
        """The next line, with its newline."""
        self.number += 1
        if self._ended:
            self._found("a line after the footer; nothing may follow it")
            return
        if data[-1:] != b"\n":
            self._found("the file is cut off in the middle of this line")
        try:
            row = decode_line(data)
        except ValueError as error:
            self._found(str(error))
            self._tally.digest.update(data)
            return
        if row.event == "seal":
            self._ended = True
            self._check_footer(row)
            return
        self._tally.digest.update(data)
        if self.number == 1:
            self._check_header(row)
        else:
            self._check_event(row)

    def end(self) -> None:
        """There are no more lines."""
        if not self.number:
            self._found("the file is empty; a segment has a header and a footer")
        elif not self._ended:
            self._found("no footer after this line: the file is cut off")
        if self._unsaid:
            self.problems.append((self.number, f"and {self._unsaid} more problems"))

    def _found(self, text: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append((max(1, self.number), text))
        else:
            self._unsaid += 1

    def _check_header(self, row: Line) -> None:
        if row.event != "segment" or row.first_seq < 1 or row.router is None:
            self._found("the first line is not the header of a segment")
            return
        if self.router not in (None, row.router):
            self._found(f"a segment of the router {row.router}, not of {self.router}")
        self.header = row
        self._tally.first_seq = self._tally.next_seq = row.first_seq

    def _check_event(self, row: Line) -> None:
        if row.seq < 1 or row.n < 1:
            self._found(f"the event {row.event[:40]} has no sequence number")
            return
        expected = self._tally.next_seq
        if row.seq > expected > 0:
            self._found(f"the sequence numbers {expected} to {row.seq - 1} are missing before this line")
        elif row.seq < expected:
            self._found(f"the sequence number {row.seq} where {expected} should be")
        if row.event == "log_gap":
            self.gaps.append((self.number, row.seq, row.seq + row.n - 1))
        if self.header and row.router != self.header.router:
            self._found(f"an event of the router {row.router} in the log of {self.header.router}")
        if row.event == "accepted" and not _columns_fit(row):
            self._found(f"the columns of this accepted event do not hold {row.n} messages each")
        self._tally.note(row)

    def _check_footer(self, row: Line) -> None:
        if not is_authentic(row):
            self._found("the footer's signature does not fit what the footer says")
            return
        self.footer = row
        found = self._tally.footer(row.router, row.predecessor)
        if row.sha256 != found.sha256:
            self._found(f"the lines have the digest {found.sha256}, not {row.sha256}: the file was changed")
        if self.header and (row.router, row.predecessor) != (self.header.router, self.header.predecessor):
            self._found("header and footer name different routers or predecessors")
        for name in ("first_seq", "last_seq", "n", "segments", "lines", "counts", "min_t", "max_t"):
            if getattr(row, name) != getattr(found, name):
                self._found(f"the footer says {name} {getattr(row, name)}, the lines {getattr(found, name)}")


def _columns_fit(row: Line) -> bool:
    columns = row.sizes, row.ttls, row.expiries
    return len(row.ids or "") == 64 * row.n and all(len(column or ()) == row.n for column in columns)
