"""The chain of one router's segments: which sequence numbers they cover, and where two histories contradict each
other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise
from operator import xor
from typing import NamedTuple

from .schema import COUNT_MAX

Span = tuple[int, int]
"""First and last sequence number, both included."""
Conflict = tuple[int, str, str]
"""The sequence number from which a file contradicts another, the file's path, and what is wrong there."""


class Seal(NamedTuple):
    """One authentic footer (of a kept segment, or of one or several pruned ones): the numbers it covers, and its counts
    of lines and of messages by event, and the latest and the earliest time."""

    router: str
    first_seq: int
    last_seq: int
    predecessor: str | None
    sha256: str
    segments: int
    is_kept: bool
    path: str
    lines: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    max_t: int = 0
    followers: tuple[str, ...] = ()
    """The keys that have followed the router's first one, by which it is called."""
    min_t: int = 0
    reasons: frozenset[str] | None = None
    """The words that its header names; None: it does not say so."""


class Summed(NamedTuple):
    """The sums over a file's lines of one event. `numbers`: how many event numbers they take; `marks`: the XOR of the
    marks of their ends (`fingerprint`); `min_t`, `max_t`: the earliest and the latest time, of a
    line without one 0; None: not known."""

    event: str
    lines: int
    messages: int
    numbers: int
    marks: int
    min_t: int | None = None
    max_t: int | None = None


def fits_lines(seal: Seal, sums: Iterable[Summed], marks: int) -> bool:
    """Whether a footer describes these lines, and each of its event numbers is in exactly one of them. `marks`: the
    marks of the ends of its range of numbers.

    Counts from `COUNT_MAX` on are taken as equal.
    """
    found = list(sums)
    there = {one.event: min(one.messages, COUNT_MAX) for one in found if one.messages}
    return (
        sum(one.lines for one in found) == seal.lines
        and sum(one.numbers for one in found) == seal.last_seq - seal.first_seq + 1
        and reduce(xor, (one.marks for one in found), 0) == marks
        and there == {event: min(count, COUNT_MAX) for event, count in seal.counts if count}
        and fits_times(seal, found)
    )


def fits_times(seal: Seal, sums: Iterable[Summed]) -> bool:
    """Whether a footer's earliest and latest time are those of these lines, as far as these are known."""
    known = [(one.min_t, one.max_t) for one in sums if one.min_t is not None and one.max_t is not None]
    first, last = min((first for first, _ in known), default=0), max((last for _, last in known), default=0)
    return not known or (first, last) == (seal.min_t, seal.max_t)


def events(first: int, last: int) -> str:
    """Return `event 7`, or for a range `events 7 to 9`."""
    return f"event {first}" if first == last else f"events {first} to {last}"


def missing(first: int, last: int, covered: Iterable[Span]) -> list[Span]:
    """Return the parts of first..last that no span covers, in order."""
    out = []
    for start, end in sorted(covered):
        if first < start:
            out.append((first, min(start - 1, last)))
        first = max(first, end + 1)
        if first > last:
            return out
    return [*out, (first, last)] if first <= last else out


def fits(predecessor: str | None, first_seq: int, seals: Iterable[Seal]) -> bool:
    """Whether an entry that begins at `first_seq` may name this predecessor, as far as the seals know the entry before
    it."""
    if first_seq == 1:
        return predecessor is None
    before = {seal.sha256 for seal in seals if seal.last_seq == first_seq - 1}
    return not before or predecessor in before


def fork(seals: Sequence[Seal], others: Iterable[Conflict] = ()) -> tuple[int, list[tuple[str, str]]] | None:
    """Find the first sequence number at which one router's seals hold two histories, and `(path, text)` of those that
    do.

    Return None if they hold only one. Copies must be gone from `seals`. `others`: conflicts that were found elsewhere.
    """
    found = [*_overlaps(seals), *_unlike_ends(seals), *_breaks(seals), *others]
    if not found:
        return None
    first = min(start for start, _, _ in found)
    return first, sorted({(path, text) for start, path, text in found if start == first})


TWO_HISTORIES = "two nodes use one key, or a log was copied and both went on, or it was rewritten"


def _order(seal: Seal) -> tuple[int, int, str, str, str]:
    return seal.first_seq, seal.last_seq, seal.predecessor or "", seal.sha256, seal.path


def _overlaps(seals: Iterable[Seal]) -> list[Conflict]:
    """Find kept segments that overlap. Folded footers of pruned ones may overlap segments that another copy still
    keeps."""
    out: list[Conflict] = []
    longest: Seal | None = None
    for seal in sorted((seal for seal in seals if seal.is_kept), key=_order):
        if longest and seal.first_seq <= longest.last_seq:
            both = f"{seal.first_seq} to {min(seal.last_seq, longest.last_seq)}"
            for one, other in ((longest, seal), (seal, longest)):
                text = f"holds the events {both}, which {other.path} holds otherwise: {TWO_HISTORIES}"
                out.append((longest.first_seq, one.path, text))
        if longest is None or seal.last_seq > longest.last_seq:
            longest = seal
    return out


def _unlike_ends(seals: Iterable[Seal]) -> list[Conflict]:
    """Find footers that end at the same event with different digests, where at least one is of a pruned segment."""
    ends: dict[int, dict[str, Seal]] = defaultdict(dict)
    for seal in sorted(seals, key=lambda seal: (not seal.is_kept, _order(seal))):
        ends[seal.last_seq].setdefault(seal.sha256, seal)
    out: list[Conflict] = []
    for last, by_digest in ends.items():
        for one, other in pairwise(by_digest.values()):
            if other.is_kept:
                continue  # Then so is `one`, and they overlap.
            start = one.first_seq if one.is_kept else max(one.first_seq, other.first_seq)
            said = f"ends at event {last} with the digest {other.sha256}, in {one.path} with {one.sha256}"
            out.append((start, other.path, f"{said}: {TWO_HISTORIES}"))
    return out


def _breaks(seals: Iterable[Seal]) -> list[Conflict]:
    """Find segments that name another predecessor than the one that precedes them."""
    seals = sorted(seals, key=_order)
    ends: dict[int, list[Seal]] = defaultdict(list)
    for seal in seals:
        ends[seal.last_seq].append(seal)
    out: list[Conflict] = []
    for seal in seals:
        before = ends[seal.first_seq - 1] if seal.first_seq > 1 else []
        if fits(seal.predecessor, seal.first_seq, before):
            continue
        there = before[0].sha256 if before else None
        start = min([seal.first_seq, *(one.first_seq for one in before if one.is_kept)])
        said = f"segment {seal.first_seq} to {seal.last_seq} names {seal.predecessor} as its predecessor"
        out.append((start, seal.path, f"{said}, but that is {there}: {TWO_HISTORIES}"))
    return out
