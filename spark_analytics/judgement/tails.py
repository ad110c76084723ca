"""Compare tails with other files that hold the same events, because tails are unsigned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b, sha256

from .chain import TWO_HISTORIES, Conflict, Seal, missing
from .footer import decode_line
from .log_files import Content, Problem, Seen
from .segment_lines import lines_of

TAKEN_AWAY = "their segment was changed or taken away"
Told = Mapping[int, tuple[int, bytes]]
"""Sequence number -> the line of the event, and a digest of its content."""


class Tails:
    """Compares files; each is read once, and only if another one overlaps it."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._known: dict[str, Told] = {}

    def leave_out(self, files: Sequence[Seen]) -> list[Problem]:
        """Mark tails as bad that contradict a signed segment or that stand in place of one; return the problems."""
        problems, segments = [], _of("good", files)
        signed = [seal for seen in files for seal in seen.seals]
        for tail in _of("tail", files):
            if (footer := self._signed_instead(tail, segments, signed)) is not None:
                tail.status = "bad"
                text = f"holds unsigned events that contradict the signed ones, as {footer.path} shows: {TAKEN_AWAY}"
                problems.append(Problem(tail.path, 1, text))
                continue
            for segment in segments:
                if found := self._contradiction(tail, segment):
                    tail.status = "bad"
                    seq, line, _ = found
                    text = f"holds the event {seq} otherwise than {segment.path}, which is signed: {TWO_HISTORIES}"
                    problems.append(Problem(tail.path, line, text))
                    break
        return problems

    def fork(self, files: Sequence[Seen]) -> list[Conflict]:
        """Find tails that contradict each other: neither history is signed, so none counts."""
        out = []
        for one, other in _overlapping(_of("tail", files)):
            if found := self._contradiction(one, other):
                seq, _, _ = found
                start = min(one.first, other.first)
                for path, there in ((one.path, other.path), (other.path, one.path)):
                    out.append((start, path, f"holds the event {seq} otherwise than {there}: {TWO_HISTORIES}"))
        return out

    def _contradiction(self, one: Seen, other: Seen) -> tuple[int, int, int] | None:
        """Return the first event that both files hold with different content, and its line in each."""
        first, last = max(one.first, other.first), min(one.last, other.last)
        if first > last:
            return None
        here, there = self._told(one.path), self._told(other.path)
        both = (seq for seq in sorted(here.keys() & there.keys()) if here[seq][1] != there[seq][1])
        seq = next(both, None)
        return None if seq is None else (seq, here[seq][0], there[seq][0])

    def _signed_instead(self, tail: Seen, segments: Iterable[Seen], signed: Iterable[Seal]) -> Seal | None:
        """Return a footer that signs events of the tail that no segment holds; None if there is none, or if it signs
        the tail's own bytes."""
        alone = missing(tail.first, tail.last, [(one.first, one.last) for one in segments])
        shows = [seal for seal in signed if alone and seal.last_seq >= alone[0][0]]
        its = {seal.sha256 for seal in shows if (seal.first_seq, seal.last_seq) == (tail.first, tail.last)}
        its |= {str(seal.predecessor) for seal in shows if seal.first_seq == tail.last + 1}
        if not shows or (its and self._digest(tail.path) in its):
            return None
        return min(shows, key=lambda seal: (seal.first_seq, seal.last_seq, seal.path))

    def _digest(self, path: str) -> str:
        digest = sha256()
        try:
            for part in self._content(path):
                digest.update(part)
        except OSError:
            return ""
        return digest.hexdigest()

    def _told(self, path: str) -> Told:
        if path not in self._known:
            try:
                self._known[path] = dict(_events(lines_of(self._content(path))))
            except OSError:
                self._known[path] = {}  # It was read a moment ago; the engine will report that it has gone.
        return self._known[path]


def _overlapping(files: Iterable[Seen]) -> Iterator[tuple[Seen, Seen]]:
    """Return the pairs of files that share events; files that only follow each other are no pair."""
    ordered = sorted(files, key=lambda seen: (seen.first, seen.path))
    for number, one in enumerate(ordered):
        for other in (ordered[at] for at in range(number + 1, len(ordered))):
            if other.first > one.last:
                break
            yield one, other


def _of(status: str, files: Iterable[Seen]) -> list[Seen]:
    return sorted((seen for seen in files if seen.status == status), key=lambda seen: seen.path)


def _events(lines: Iterable[bytes]) -> Iterator[tuple[int, tuple[int, bytes]]]:
    for number, line in enumerate(lines, 1):
        try:
            row = decode_line(line)
        except ValueError:
            continue
        if isinstance(seq := row.get("seq"), int) and row.get("event") not in ("segment", "seal"):
            yield seq, (number, blake2b(json.dumps(row, sort_keys=True).encode(), digest_size=16).digest())
