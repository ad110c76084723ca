"""The lives of a node: each restore of a snapshot begins a new one, whose numbers no earlier life can have used.

A life has a number: the Unix millisecond of its restore, always greater than that of the life before; 0 is the life of
a home that was never restored. Event numbers and arrival numbers leap in a new life (`begun`), because those of the
life before went on after the snapshot, and nobody knows how far.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from router.core.wire.run_claim import LIFE_MAX

EVENTS_PER_MS = 1000
"""The most events and messages a millisecond that any life has written since the snapshot; none writes so many."""
LEAP_MIN = 10_000_000_000
"""The least distance between the numbers of two lives, which also makes up for a clock that was hours behind."""


class Restored(Struct, frozen=True, forbid_unknown_fields=True):
    """What `router restore` tells the node: the number of its new life, and the moments of the snapshot and of the
    restore, in Unix seconds."""

    life: int
    snapshot_s: int
    restored_s: int

    def __post_init__(self) -> None:
        if not (0 < self.life <= LIFE_MAX and 0 <= self.snapshot_s < 1 << 32 and 0 <= self.restored_s < 1 << 32):
            raise ValueError("its numbers are beyond their ranges")


class Life(NamedTuple):
    """The life in which a node stands, as its store keeps it. `after_seq`: the last event of the snapshot; `first_seq`:
    the first event number of this life; `skipped`: how many event numbers this life and those before it left out."""

    number: int = 0
    snapshot_s: int = 0
    restored_s: int = 0
    after_seq: int = 0
    first_seq: int = 1
    skipped: int = 0

    def told(self) -> tuple[tuple[str, int], ...]:
        """Return the fields of a `start` in this life, none in the first one."""
        if not self.number:
            return ()
        return (
            ("life", self.number),
            ("snapshot_s", self.snapshot_s),
            ("restored_s", self.restored_s),
            ("after_seq", self.after_seq),
            ("life_seq", self.first_seq),
        )

    def facts(self) -> dict[str, int] | None:
        """Return what operators are told of this life; None if the home was never restored."""
        if not self.number:
            return None
        return {"life": self.number, "snapshot_s": self.snapshot_s, "restored_s": self.restored_s}


def next_life(before: int, wall_ms: int) -> int:
    """Return the number of the life that follows the life `before`, at the time `wall_ms` (Unix milliseconds)."""
    return max(before + 1, wall_ms)


def begun(restored: Restored, before: Life, next_arrival: int, next_seq: int) -> tuple[Life, int]:
    """Return the new life, and its first arrival number. `next_arrival`, `next_seq`: the numbers that follow those of
    the snapshot. The leap grows with the time since the snapshot, so that also two lives from one snapshot differ. A
    life that ended before its first event was committed is skipped with its numbers, since no line tells of it."""
    since_ms = max(0, restored.life - restored.snapshot_s * 1000)
    leap = LEAP_MIN + since_ms * EVENTS_PER_MS
    said = restored.life, restored.snapshot_s, restored.restored_s
    after_seq = before.after_seq if next_seq == before.first_seq else next_seq - 1
    return Life(*said, after_seq, next_seq + leap, before.skipped + leap), next_arrival + leap


def first_number(restored: Restored) -> int:
    """Return the first number that apps of this life give to messages: no app of an earlier one can have reached it."""
    return restored.life * EVENTS_PER_MS
