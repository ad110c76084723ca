"""The ledger of a run, apart from the nodes: what each app published with custody, what each was shown, and what of it
is wrong.

It rests on what the apps wrote down themselves and on when nodes were restored, and shares nothing with the audit,
which rests on what the nodes wrote down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

from msgspec import Struct, field

from router.chaos.shape import FleetShape

_NEVER = float("inf")
LATE_S = 60.0
"""Seconds that a message may have been under way to a node when the snapshot of that node was taken. What was published
earlier is in the snapshot, and its loss is not excused."""


class TriedEntry(Struct, frozen=True, tag="tried", tag_field="what"):
    """The app is about to publish its message `n`."""

    n: int


class TakenEntry(Struct, frozen=True, tag="taken", tag_field="what"):
    """The node of the app took custody of message `n` at `at_s`; it expires at `until_s` (Unix seconds). `id`: hex."""

    n: int
    id: str
    at_s: float
    until_s: float


class ShownEntry(Struct, frozen=True, tag="shown", tag_field="what"):
    """The app was shown message `n` of the app `by` at `at_s`. `marked`: as one that it may have seen before;
    `late`: as one that comes after what follows it."""

    by: str
    n: int
    id: str
    at_s: float
    marked: bool = False
    late: bool = False


class RefusedEntry(Struct, frozen=True, tag="refused", tag_field="what"):
    """The node did not take message `n`, for a reason."""

    n: int
    reason: str


LedgerEntry = TriedEntry | TakenEntry | ShownEntry | RefusedEntry


class AppAccount(Struct):
    """What one app wrote down, in its order."""

    tried: set[int] = field(default_factory=set)
    taken: dict[int, TakenEntry] = field(default_factory=dict)
    shown: list[ShownEntry] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)

    def enter(self, line: LedgerEntry) -> None:
        match line:
            case TriedEntry():
                self.tried.add(line.n)
            case TakenEntry():
                self.taken[line.n] = line
            case ShownEntry():
                self.shown.append(line)
            case RefusedEntry():
                self.refused[line.n] = line.reason

    @property
    def ids_shown(self) -> set[str]:
        return {one.id for one in self.shown}


class NodeRestore(NamedTuple):
    """A node that was restored: its snapshot was begun at `saved_s`, and it was killed at `lost_s` (Unix seconds)."""

    node: str
    saved_s: float
    lost_s: float


class Judged(Struct):
    """The judgement of a ledger. Sentences in `lost`, `doubled`, `disordered` and `strange` are faults of the fleet.

    `owed`: pairs of an accepted message and an app that must be shown it; `shown`: of these, those that were.
    `expired`, `excused`: those that need not be, as their time was over, or a restore may have cost them. `marked`:
    messages shown again, and marked so. `again`: shown again unmarked, which a restore allows."""

    accepted: int = 0
    refused: int = 0
    owed: int = 0
    shown: int = 0
    expired: int = 0
    excused: int = 0
    marked: int = 0
    again: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)

    def failures(self) -> list[str]:
        """Return one sentence for each kind of fault; none if nothing is wrong."""
        kinds = (
            (self.lost, "lost"),
            (self.doubled, "doubled without a mark"),
            (self.disordered, "out of order"),
            (self.strange, "shown as nobody published it"),
        )
        return [f"{len(found)} {what}: {found[0]}" for found, what in kinds if found]


class Ledger:
    """The accounts of all apps, by the node of each. `since_s`: the Unix second from which all had joined; what was
    published before is owed to nobody."""

    def __init__(self, shape: FleetShape) -> None:
        self._shape = shape
        self.accounts = {node: AppAccount() for node in shape.nodes}
        self.restores: list[NodeRestore] = []
        self.since_s = 0.0

    def judge(self, now_s: float) -> Judged:
        """Judge everything as of `now_s` (Unix seconds): what an app was not shown by then is lost."""
        found = Judged(
            accepted=sum(one.at_s >= self.since_s for each in self.accounts.values() for one in each.taken.values()),
            refused=sum(len(one.refused) for one in self.accounts.values()),
        )
        for reader, account in self.accounts.items():
            self._check_shown(reader, account, found)
            for by in self.accounts:
                self._check_order(reader, by, found)
        self._check_owed(now_s, found)
        return found

    def count_expired(self, reader: str, now_s: float) -> int:
        """Return how many of the messages that the app of `reader` was shown have expired by `now_s`."""
        ends = {one.id: one.until_s for account in self.accounts.values() for one in account.taken.values()}
        return sum(ends.get(id, _NEVER) <= now_s for id in self.accounts[reader].ids_shown)

    def waits(self, now_s: float) -> int:
        """Return how many messages apps still have to be shown."""
        return len(self.judge(now_s).lost)

    def _check_owed(self, now_s: float, found: Judged) -> None:
        """Check that each app was shown what the others published."""
        for reader, account in self.accounts.items():
            shown = account.ids_shown
            for by, other in self.accounts.items():
                for taken in other.taken.values() if by != reader else ():
                    if taken.at_s < self.since_s:
                        continue
                    found.owed += 1
                    if taken.id in shown:
                        found.shown += 1
                    elif taken.until_s <= now_s:
                        found.expired += 1
                    elif any(one.saved_s - LATE_S <= taken.at_s <= one.lost_s for one in self._on_path(by, reader)):
                        found.excused += 1
                    else:
                        found.lost.append(f"message {taken.n} of {by}, {taken.id[:12]}, did not come to {reader}")

    def _check_shown(self, reader: str, account: AppAccount, found: Judged) -> None:
        last = dict[str, float]()
        for line in account.shown:
            about = f"message {line.n} of {line.by}, {line.id[:12]}, at {reader}"
            if (before_s := last.get(line.id)) is not None:
                restores = self._on_path(line.by, reader)
                if line.marked:
                    found.marked += 1
                elif any(before_s <= one.lost_s <= line.at_s for one in restores):
                    found.again += 1
                else:
                    found.doubled.append(about)
            last[line.id] = line.at_s
            publisher = self.accounts.get(line.by, AppAccount())
            known = publisher.taken.get(line.n)
            if line.n not in publisher.tried or (known is not None and known.id != line.id):
                found.strange.append(about)

    def _check_order(self, reader: str, by: str, found: Judged) -> None:
        """Check that the first showings of one publisher's messages are in its order, but for those that are marked as
        late, those from before all had joined, and what comes after a snapshot of a node on the way that was restored
        later."""
        early = {n for n, taken in self.accounts[by].taken.items() if taken.at_s < self.since_s}
        until_s = min((one.saved_s for one in self._on_path(by, reader)), default=_NEVER)
        highest, seen = 0, set[str]()
        for line in self.accounts[reader].shown:
            if line.by != by or line.n in early or line.id in seen or line.at_s >= until_s:
                continue
            seen.add(line.id)
            if line.n < highest and not line.late:
                found.disordered.append(f"message {line.n} of {by} came to {reader} after message {highest}")
            highest = max(highest, line.n)

    def _on_path(self, by: str, reader: str) -> Sequence[NodeRestore]:
        path = self._shape.path(by, reader)
        return [one for one in self.restores if one.node in path]


def next_number(account: AppAccount) -> Iterator[int]:
    """Yield the numbers of an app's next messages: none that it has tried before."""
    return count(max(account.tried, default=0) + 1)
