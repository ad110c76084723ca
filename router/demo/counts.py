"""What is counted at the end of the demo, and what of it would be a failure (pure but for reading the apps' books)."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Heard:
    """What one app has in its book, against what was acknowledged.

    `lost`: acknowledged, not there. `strange`: there, never acknowledged. `doubled`: entries with a number that is
    there already. `out_of_order`: entries smaller than one before them. `again`: messages handed over a second time
    and recognised by their id.
    """

    where: str
    received: int
    lost: int
    strange: int
    doubled: int
    out_of_order: int
    again: int

    def failures(self) -> list[str]:
        counted = (
            ("lost", self.lost), ("doubled", self.doubled), ("out of order", self.out_of_order),
            ("received but never acknowledged", self.strange),
        )  # fmt: skip
        return [f"the app on {self.where}: {count} messages {what}" for what, count in counted if count]


def heard(where: str, acknowledged: Collection[str], ids: Collection[str], numbers: Sequence[int], again: int) -> Heard:
    """`ids` and `numbers`: those that the app has handled, the numbers in the order of its book."""
    lost, strange = set(acknowledged) - set(ids), set(ids) - set(acknowledged)
    return Heard(
        where, len(numbers), len(lost), len(strange), len(numbers) - len(set(numbers)), _falls(numbers), again
    )


def _falls(numbers: Iterable[int]) -> int:
    """How many are smaller than one before them."""
    highest, found = 0, 0
    for number in numbers:
        found += number < highest
        highest = max(highest, number)
    return found


def read_book(path: Path) -> tuple[list[str], list[int]]:
    """The ids that the app has handled, and the numbers in its book."""
    database = sqlite3.connect(path)
    try:
        ids = [row[0].hex() for row in database.execute("SELECT id FROM handled")]
        return ids, [row[0] for row in database.execute("SELECT number FROM book ORDER BY place")]
    finally:
        database.close()


@dataclass(frozen=True, slots=True)
class Disk:
    """What was searched for on a disk: the messages' words, and (to see that the search sees) the group's key."""

    bytes: int
    words: int
    keys: int


def search(directories: Iterable[Path], words: bytes, key: bytes) -> Disk:
    found = [path.read_bytes() for directory in directories for path in directory.rglob("*") if path.is_file()]
    return Disk(
        sum(map(len, found)), sum(one.count(words) for one in found), sum(one.count(key) for one in found)
    )


@dataclass(slots=True)
class Counts:
    """Everything that was counted. `away`: waiting at the core for B when it came back. `alone`: acknowledged by A
    while the core was dead. `waiting`: messages left in the queues of each node. `tracebacks`: who printed one."""

    published: int
    acknowledged: int = 0
    alone: int = 0
    away: int = 0
    heard: list[Heard] = field(default_factory=list)
    waiting: dict[str, int] = field(default_factory=dict)
    disk: Disk = Disk(0, 0, 0)
    tracebacks: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def failures(self) -> list[str]:
        """One sentence each; none if all is well."""
        failed = [one for heard in self.heard for one in heard.failures()]
        if self.acknowledged != self.published:
            failed.append(f"{self.published} messages were published and {self.acknowledged} acknowledged")
        failed += [f"{count} messages are left in the queues of {who}" for who, count in self.waiting.items() if count]
        if self.disk.words:
            failed.append(f"the words of the messages are on the core's disk, {self.disk.words} times")
        if not self.disk.keys:
            failed.append("the search of the core's disk found nothing at all, not even the group's key")
        return failed + [f"{who} printed a traceback" for who in self.tracebacks]
