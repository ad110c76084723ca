"""Sealed segments of the event log: header, lines, signed footer, and the chain they form.

A footer's `sha256` covers all bytes of the file before the footer's line. The next segment's header and
footer repeat it as their `predecessor`, so a directory of segments is a chain (`cddl/segment.cddl`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from msgspec.structs import replace

from router.core.wire.codec import encode
from router.core.wire.crypto import SigningKey, verify
from router.core.wire.succession import (
    SUCCESSION_BYTES_MAX,
    KeySuccession,
    decode_succession,
    encode_succession,
    is_chain,
)

from .line import VERSION, Line

SCHEMA = "upsycle event log 1"
SEAL_LABEL = b"upsycle event log seal 1"
SEALED_BYTES = SUCCESSION_BYTES_MAX
"""Bytes of a statement in a footer: its times are of after 1970, so each has the greatest length."""


def file_name(first_seq: int) -> str:
    return f"events-{first_seq:016d}.jsonl"


def header(first: Line, predecessor: str | None, reasons: Sequence[str] | None = None) -> Line:
    """Return the header before the line `first`; `predecessor`: the previous segment's digest, None without one;
    `reasons`: the words that may stand in the segment beside the first ones (`reasons.listed`), None if it does not say
    so."""
    return Line(
        VERSION,
        "segment",
        router=first.router,
        boot=first.boot,
        schema=SCHEMA,
        first_seq=first.seq,
        predecessor=predecessor,
        reasons=reasons,
    )


class SegmentTotals:
    """The totals over a segment's lines, for its footer."""

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.next_seq = first_seq
        self.lines = 0
        self.counts: dict[str, int] = {}
        self.min_t = 0
        self.max_t = 0
        self.digest = sha256()

    def note(self, row: Line) -> None:
        """Count one event's line; the caller updates `digest` separately, many lines at a time."""
        self.next_seq = row.seq + row.n
        self.counts[row.event] = self.counts.get(row.event, 0) + (row.count or 0)
        if row.t > self.max_t:
            self.max_t = row.t
        if row.t < self.min_t or not self.lines:
            self.min_t = row.t
        self.lines += 1

    def footer(self, router: str | None, predecessor: str | None) -> Line:
        """Return the footer without its signature."""
        return Line(
            VERSION,
            "seal",
            n=self.next_seq - self.first_seq,
            router=router,
            first_seq=self.first_seq,
            last_seq=self.next_seq - 1,
            segments=1,
            lines=self.lines,
            counts=self.counts,
            min_t=self.min_t,
            max_t=self.max_t,
            predecessor=predecessor,
            sha256=self.digest.hexdigest(),
        )


def signed_bytes(footer: Line) -> bytes:
    """Return the bytes that the router signs: a label and the footer's values as deterministic CBOR (R-B7)."""
    said = (
        footer.v,
        footer.router,
        footer.first_seq,
        footer.last_seq,
        footer.n,
        footer.segments,
        footer.lines,
        footer.counts,
        footer.min_t,
        footer.max_t,
        footer.predecessor,
        footer.sha256,
    )
    return SEAL_LABEL + encode(said)


def sign(footer: Line, key: SigningKey, chain: Sequence[KeySuccession] = ()) -> Line:
    """Return the footer with its signature. `chain`: the statements that lead to `key` from the router's first one, by
    which its log is called."""
    statements = b"".join(map(encode_succession, chain)).hex() or None
    return replace(footer, signature=key.sign(signed_bytes(footer)).hex(), successions=statements)


def is_authentic(footer: Line) -> bool:
    """Whether this is a complete footer, signed by the router that it names, or by a key that has followed that one."""
    if footer.event != "seal" or footer.counts is None or footer.sha256 is None or footer.last_seq < 1:
        return False
    try:
        key, signature = bytes.fromhex(footer.router or ""), bytes.fromhex(footer.signature or "")
        signed = signed_bytes(footer)
        chain = _chain(footer)
    except (ValueError, OverflowError):
        return False
    if len(key) != 32 or len(signature) != 64 or footer.signature != signature.hex():
        return False
    if chain and not (chain[0].old == key and is_chain(chain, chain[-1].new)):
        return False
    return verify(bytes(chain[-1].new) if chain else key, signed, signature)


def _chain(footer: Line) -> list[KeySuccession]:
    """Return the statements in a footer; raise ValueError if it holds anything else in their place."""
    data = bytes.fromhex(footer.successions or "")
    return [decode_succession(data[at : at + SEALED_BYTES]) for at in range(0, len(data), SEALED_BYTES)]


def fold(footers: Iterable[Line], key: SigningKey, chain: Sequence[KeySuccession] = ()) -> list[Line]:
    """Merge footers that are adjacent in the chain into one signed footer over the segments of all of them."""
    out: list[Line] = []
    for footer in footers:
        if out and out[-1].sha256 == footer.predecessor and out[-1].last_seq + 1 == footer.first_seq:
            out[-1] = _joined(out[-1], footer)
        else:
            out.append(footer)
    return [footer if footer.segments == 1 else sign(footer, key, chain) for footer in out]


def _joined(one: Line, two: Line) -> Line:
    counts = dict(one.counts or {})
    for event, count in (two.counts or {}).items():
        counts[event] = counts.get(event, 0) + count
    return replace(
        two,
        first_seq=one.first_seq,
        predecessor=one.predecessor,
        counts=counts,
        n=one.n + two.n,
        lines=one.lines + two.lines,
        segments=one.segments + two.segments,
        min_t=min(one.min_t, two.min_t),
        max_t=max(one.max_t, two.max_t),
    )
