"""The app on edge B, and the one on the core: join the group, and write each message's number into a book.

The number and the message's id are committed in one SQLite transaction, so a message handed over again, because this
app died before it could settle it, is recognised by its id and not written again. Standard output has one JSON line
`{"received": N, "again": M}` at the start and after every message.
"""

from __future__ import annotations

import json
import sqlite3
import sys

import router


class HandledBook:
    """The app's record of the messages it handled: one SQLite file."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("CREATE TABLE IF NOT EXISTS handled (id BLOB PRIMARY KEY)")
        self._database.execute("CREATE TABLE IF NOT EXISTS book (place INTEGER PRIMARY KEY, number INTEGER)")
        self.received = int(self._database.execute("SELECT count(*) FROM book").fetchone()[0])
        self.again = 0

    def write(self, id: bytes, number: int) -> None:
        with self._database as transaction:
            if transaction.execute("INSERT OR IGNORE INTO handled VALUES (?)", (id,)).rowcount == 0:
                self.again += 1
                return
            transaction.execute("INSERT INTO book (number) VALUES (?)", (number,))
        self.received += 1


def tell(book: HandledBook) -> None:
    print(json.dumps({"received": book.received, "again": book.again}), flush=True)


def listen(home: str, name: str, path: str) -> None:
    book = HandledBook(path)
    with router.connect_blocking(home=home, as_name="listener", when_down="queue") as node:
        group = node.join(name)
        tell(book)
        for message in group:
            book.write(message.id, int(message.body.split()[0]))
            tell(book)


if __name__ == "__main__":
    listen(sys.argv[1], sys.argv[2], sys.argv[3])
