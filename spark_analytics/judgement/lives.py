"""The lives of a router in its log: where it was restored from a snapshot, and which files an earlier life wrote since.

A restored router goes on from the last event that the snapshot knew, and its numbers leap (cddl/segment.cddl, `start`).
What the life before wrote after the snapshot may lie in an older copy of the log. That is no second history: these
files are `former`, and no line of them counts, as the restored router did not know of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from .footer import decode_line
from .log_files import Content, Seen
from .schema import LEAP_MIN
from .segment_lines import lines_of

RESTORED = "what it did in between is not in its log"
"""The last words of a hole's `why` where a router was restored."""

UNTRUE = "the restore that the log names was not as it says"
"""The last words of a hole's `why` where a neighbour contradicts a restore."""

CLOCKS_S = 3 * 86_400
"""How far the clocks of a router and of a neighbour may be apart before a restore is doubted: a clock that was days
wrong must accuse nobody."""


class Restore(NamedTuple):
    """A `start` in a restored home: the number of the life, the Unix seconds of the snapshot and of the restore, the
    last event that the snapshot knew, and the first event of the life."""

    router: str
    life: int
    snapshot_s: int
    restored_s: int
    after_seq: int
    life_seq: int

    @property
    def why(self) -> str:
        """Return why the events between the lives are missing."""
        return f"restored on {_utc(self.restored_s)} from a snapshot of {_utc(self.snapshot_s)}; {RESTORED}"

    def skips(self, first_seq: int, last_seq: int) -> bool:
        """Whether the numbers from `first_seq` to `last_seq` lie between the lives."""
        return self.after_seq < first_seq <= last_seq < self.life_seq

    def denied(self, head_seq: int, told_s: int) -> str | None:
        """Return what contradicts this restore in what a neighbour was told, at `told_s` by its own clock: that the log
        ends at `head_seq`; None if nothing does.

        Events between the lives were written after the snapshot and before the restore. So a neighbour cannot have been
        told of them before the one, nor after the other. A restore that took place in truth, for whatever reason, is
        contradicted by nobody.
        """
        if not self.skips(head_seq, head_seq):
            return None
        if told_s > self.restored_s + CLOCKS_S:
            return f"on {_utc(told_s)}, after the restore of {_utc(self.restored_s)}"
        if told_s < self.snapshot_s - CLOCKS_S:
            return f"on {_utc(told_s)}, before the snapshot of {_utc(self.snapshot_s)}"
        return None


def _utc(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def leave_out_former(files: Sequence[Seen], content: Content) -> list[Restore]:
    """Find the restores of one router; mark the files that an earlier life wrote after the snapshot as former."""
    found = [(one, restore) for one in files if _may_begin_a_life(one) for restore in _restores(one, content)]
    for begins, restore in sorted(found, key=lambda pair: -pair[1].life_seq):
        if begins.status == "former":
            continue
        for one in files:
            if one is not begins and one.status in ("good", "tail") and _is_former(one, begins, restore):
                one.status, one.seals = "former", ()
    return sorted({restore for _, restore in found})


def _may_begin_a_life(seen: Seen) -> bool:
    """Whether numbers leap in a file, or before it; no other file is read."""
    leaps = seen.last - seen.first >= LEAP_MIN or (seen.status == "tail" and seen.first >= LEAP_MIN)
    return seen.status in ("good", "tail") and leaps


def _is_former(one: Seen, begins: Seen, restore: Restore) -> bool:
    """Whether a file was written by an earlier life, and not before the snapshot."""
    return one.last < restore.life_seq and (one.last > restore.after_seq or one.first >= begins.first)


def _restores(seen: Seen, content: Content) -> list[Restore]:
    """Return the restores after which a life began in this file; each later start tells of the last one again."""
    found = set[Restore]()
    try:
        for row in _starts(lines_of(content(seen.path))):
            fields = row.get("fields")
            said = [fields.get(name) for name in Restore._fields[1:]] if isinstance(fields, dict) else []
            if (values := [one for one in said if isinstance(one, int) and one is not True]) and len(values) == len(
                said
            ):
                found.add(Restore(str(seen.router), *values))
    except OSError:
        pass  # It was read a moment ago; the engine will report that it has gone.
    return [one for one in found if _is_begun_in(seen, one)]


def _is_begun_in(seen: Seen, one: Restore) -> bool:
    """Whether the numbers fit each other, and the life began in the file."""
    is_in_time = min(one.snapshot_s, one.restored_s) >= 0 and max(one.snapshot_s, one.restored_s) < 1 << 32
    return is_in_time and one.after_seq + LEAP_MIN < one.life_seq and seen.first <= one.life_seq <= seen.last


def _starts(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if b'"event":"start"' in line:
            try:
                yield decode_line(line)
            except ValueError:
                continue
