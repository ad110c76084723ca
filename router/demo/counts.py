"""The counts at the end of the demo, and which of them are failures."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field


class BookCounts(Struct, frozen=True):
    """The messages in one app's book, compared with those acknowledged.

    `lost`: acknowledged, not in the book. `strange`: in the book, never acknowledged. `doubled`: numbers that are in it
    more than once. `out_of_order`: numbers smaller than one before them. `again`: messages handed over a second time
    and recognised by their id, which is no failure.
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
            (self.lost, "lost"),
            (self.doubled, "doubled"),
            (self.out_of_order, "out of order"),
            (self.strange, "that nobody acknowledged"),
        )
        return [f"the app on {self.where}: {count} {what}" for count, what in counted if count]


def compare(
    where: str, acknowledged: Collection[str], ids: Collection[str], numbers: Sequence[int], again: int
) -> BookCounts:
    """Compare the messages that an app handled (`ids` and `numbers` in its book's order) with those acknowledged."""
    lost, strange = set(acknowledged) - set(ids), set(ids) - set(acknowledged)
    doubled = len(numbers) - len(set(numbers))
    return BookCounts(where, len(numbers), len(lost), len(strange), doubled, _falls(numbers), again)


def _falls(numbers: Iterable[int]) -> int:
    """Return how many numbers are smaller than one before them."""
    highest, found = 0, 0
    for number in numbers:
        found += number < highest
        highest = max(highest, number)
    return found


def read_book(path: Path) -> tuple[list[str], list[int]]:
    """Return the ids that a listener has handled, and the numbers in its book."""
    database = sqlite3.connect(path)
    try:
        ids = [row[0].hex() for row in database.execute("SELECT id FROM handled")]
        return ids, [row[0] for row in database.execute("SELECT number FROM book ORDER BY place")]
    finally:
        database.close()


class DiskWords(Struct, frozen=True):
    """The number of times that the messages' words are found on a disk, and the group's key, which proves that the
    search works."""

    bytes: int = 0
    words: int = 0
    keys: int = 0


def search(directories: Iterable[Path], words: bytes, key: bytes) -> DiskWords:
    files = [path for directory in directories for path in directory.rglob("*") if path.is_file()]
    found = [path.read_bytes() for path in files]
    return DiskWords(sum(map(len, found)), sum(one.count(words) for one in found), sum(one.count(key) for one in found))


class WhyAnswer(Struct, frozen=True):
    """One `router why` command at the end of the demo, and what it printed."""

    about: str
    command: str
    text: str


class DemoCounts(Struct):
    """All counts of the demo.

    `alone`: acknowledged by A while the core was dead. `waited`: queued at the core for B when the core came back.
    `queued`: what is left in each node's queues at the end. `asked`: `router why` about a delayed and a refused
    message. `audit`: the summary of the audit of all three logs. `core_away_s`: Unix seconds of the core's death and of
    its return. `latency_ms`: of messages published while all nodes were up (`all_up`), and of later ones (`kept`).
    `tracebacks`: names of the processes that printed one.
    """

    published: int
    acknowledged: int = 0
    alone: int = 0
    waited: int = 0
    heard: list[BookCounts] = field(default_factory=list)
    queued: dict[str, int] = field(default_factory=dict)
    disk: DiskWords = field(default_factory=DiskWords)
    asked: list[WhyAnswer] = field(default_factory=list)
    audit: dict[str, Any] = field(default_factory=dict)
    core_away_s: list[float] = field(default_factory=list)
    latency_ms: dict[str, dict[str, float | None]] = field(default_factory=dict)
    tracebacks: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def failures(self) -> list[str]:
        """Return one sentence for each failure; none if all is well."""
        failed = [one for heard in self.heard for one in heard.failures()]
        if self.acknowledged != self.published:
            failed.append(f"{self.published} messages were published and {self.acknowledged} acknowledged")
        failed += [f"{count} messages are left in the queues of {who}" for who, count in self.queued.items() if count]
        if self.disk.words:
            failed.append(f"the words of the messages are on the core's disk, {self.disk.words} times")
        if not self.disk.keys:
            failed.append("the search of the core's disk did not even find the group's key, so it shows nothing")
        failed += self._unlike_audit()
        return failed + [f"{who} printed a traceback" for who in self.tracebacks]

    def _unlike_audit(self) -> list[str]:
        """Return where the audit of the routers' logs contradicts the apps' books."""
        delivered, received = self.audit.get("delivered"), sum(one.received for one in self.heard)
        failed = [] if delivered == received else [f"the audit counts {delivered} deliveries, the books {received}"]
        if self.audit.get("verdict", "bad") == "bad":
            failed.append(f"the audit's verdict is {self.audit.get('verdict')}")
        return failed
