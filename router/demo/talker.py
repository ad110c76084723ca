"""An app of `router demo --overlay`: read a group in causal order, write its messages into a book, and publish on
order.

A line `FIRST LAST [MINUTES]` on standard input orders the messages with these numbers, valid for MINUTES. Standard
output has JSON lines: `{"received": N, "again": M}` at the start and after every message, `{"taken": ID}` for every
message that the node has in custody, `{"done": LAST}`, `{"caught_up": TEXT, "missing": N, "of": M}`.

A message's text and id are committed in one SQLite transaction before the message is settled; the journal beside the
book keeps the order through a kill.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from pathlib import Path

import trio

import router
from router.core.wire.lifetime import EXPIRY_MIN
from router.demo.said import TalkMessage, read_body
from router.demo.speaker import tell


class TalkerBook:
    """The app's record of the messages it read: one SQLite file."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("CREATE TABLE IF NOT EXISTS book (place INTEGER PRIMARY KEY, id BLOB UNIQUE, body BLOB)")
        self.read_of = Counter(said.by for _, said in self.rows())
        self.again = 0

    def write(self, id: bytes, body: bytes) -> None:
        with self._database as transaction:
            new = transaction.execute("INSERT OR IGNORE INTO book (id, body) VALUES (?, ?)", (id, body)).rowcount
        if new:
            self.read_of[read_body(body).by] += 1
        else:
            self.again += 1

    def rows(self) -> list[tuple[str, TalkMessage]]:
        """Return the text and id of each message, in the order in which they were read."""
        found = self._database.execute("SELECT id, body FROM book ORDER BY place")
        return [(id.hex(), read_body(body)) for id, body in found]

    def tell(self) -> None:
        tell(received=self.read_of.total(), again=self.again)

    def close(self) -> None:
        self._database.close()


async def talk(home: str, name: str, own: str, path: Path) -> None:
    """Read the group, and publish the numbers that each line of standard input orders: first, last, minutes of life."""
    book = TalkerBook(path)
    connected = router.connect(home=home, as_name="talker", when_down="queue", journal=path.with_suffix(".journal"))
    async with connected as node, trio.open_nursery() as nursery:
        group = await node.join(name, order="causal")
        nursery.start_soon(_read, group, book)
        nursery.start_soon(_hear_news, node)
        book.tell()
        while order := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            first, last, *minutes = map(int, order.split())
            life_min = minutes[0] if minutes else EXPIRY_MIN
            for number in range(first, last + 1):
                said = TalkMessage(own, number, dict(book.read_of))
                tell(taken=(await group.publish(said.body(), expiry_min=life_min)).hex())
            tell(done=last)
        nursery.cancel_scope.cancel()


async def _read(group: router.Group, book: TalkerBook) -> None:
    async for message in group:
        book.write(message.id, message.body)
        book.tell()


async def _hear_news(node: router.Node) -> None:
    async for news in node.caught_up:
        tell(caught_up=str(news), missing=news.missing, of=news.of)


if __name__ == "__main__":
    trio.run(talk, sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
