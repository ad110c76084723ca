"""The apps of the kill rounds, each a process that may be killed at any moment: `apps.py ROLE JSON`.

`publish` keeps its messages in its own database until the router has them, and after every start hands in the same
bytes again; standard input gives the number up to which it publishes. `keep` writes each message's effect and id in one
transaction, and settles the message only then.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import trio

from router import Node, Refused, connect
from router.client.publishing import Posted
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import message_id, seal_multicast

LIFE_S = 86_400
PAUSE_S = 0.004
LOCKED_S = 300.0  # as `HANG_S` of the rigs, which this process does not find
PUBLISHED = """
    CREATE TABLE IF NOT EXISTS published
        (n INTEGER PRIMARY KEY, id BLOB UNIQUE, wire BLOB, acknowledged INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE IF NOT EXISTS refused (n INTEGER, reason TEXT);
"""
KEPT = """
    CREATE TABLE IF NOT EXISTS effects (at INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER, id BLOB UNIQUE);
    CREATE TABLE IF NOT EXISTS repeats (id BLOB, redelivered INTEGER);
"""


@dataclass
class App:
    """The arguments of an app. Seeds are hex; `home` is that of its node."""

    home: str
    seed: str
    group_seed: str
    database: str

    def command(self, role: str) -> Sequence[str]:
        return sys.executable, __file__, role, json.dumps(asdict(self))

    @property
    def group(self) -> SigningKey:
        return SigningKey(bytes.fromhex(self.group_seed))

    def connect(self) -> Node:
        return connect(home=self.home, key=SigningKey(bytes.fromhex(self.seed)), when_down="queue")

    def open(self, schema: str) -> sqlite3.Connection:
        """Open the database; a killed process loses nothing of it, a power cut might."""
        database = sqlite3.connect(self.database, isolation_level=None, timeout=LOCKED_S)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(schema)
        return database


class Publisher:
    """Hands in what the database holds, in order; numbers count from 1."""

    def __init__(self, app: App) -> None:
        self._group = app.group
        self._database = app.open(PUBLISHED)

    async def run(self, node: Node) -> None:
        question = "SELECT n, wire FROM published WHERE NOT acknowledged ORDER BY n"
        for n, again in self._database.execute(question).fetchall():
            await self._hand_in(node, n, again)
        print("ready", flush=True)
        async for words in trio.lowlevel.FdStream(0):
            await self._publish(node, int(words.split()[-1]))

    async def _publish(self, node: Node, last: int) -> None:
        (so_far,) = self._database.execute("SELECT coalesce(max(n), 0) FROM published").fetchone()
        for n in range(so_far + 1, last + 1):
            expiry = expiry_min(time.time() + LIFE_S)
            wire = seal_multicast(self._group, str(n).encode(), ttl_s=LIFE_S, expiry_min=expiry)
            row = (n, message_id(wire), wire)
            self._database.execute("INSERT INTO published (n, id, wire) VALUES (?, ?, ?)", row)
            await self._hand_in(node, n, wire)
            if random.random() < 0.5:  # in bursts
                await trio.sleep(random.random() * PAUSE_S)

    async def _hand_in(self, node: Node, n: int, wire: bytes) -> None:
        await node.wires.hand_in(wire, partial(self._over, n))

    def _over(self, n: int, posted: Posted) -> None:
        if isinstance(posted.error, Refused):
            row = (n, f"{posted.error.reason.word} {posted.error.text}")
            self._database.execute("INSERT INTO refused VALUES (?, ?)", row)
        elif posted.error is not None:
            return  # the connection is left: it is handed in again
        self._database.execute("UPDATE published SET acknowledged = 1 WHERE n = ?", (n,))


async def keep(app: App, node: Node) -> None:
    database = app.open(KEPT)
    group = await node.join(app.group.public)
    print("ready", flush=True)
    async for message in group:
        database.execute("BEGIN IMMEDIATE")
        if database.execute("SELECT 1 FROM effects WHERE id = ?", (message.id,)).fetchone():
            database.execute("INSERT INTO repeats VALUES (?, ?)", (message.id, message.redelivered))
        else:
            database.execute("INSERT INTO effects (n, id) VALUES (?, ?)", (int(message.body), message.id))
        database.execute("COMMIT")
        await trio.sleep(random.random() * PAUSE_S)  # done, but not settled: after a kill here it comes again


# -- for the test: what an app has written so far -------------------------------------------------------------


def count(database: Path, what: str) -> int:
    [(found,)] = _ask(database, f"SELECT count(*) FROM {what}")
    assert isinstance(found, int)
    return found


def ids(database: Path, what: str) -> list[bytes]:
    return [bytes(found) for (found,) in _ask(database, f"SELECT id FROM {what}")]


def _ask(database: Path, question: str) -> list[tuple[Any]]:
    connection = sqlite3.connect(database, timeout=LOCKED_S)
    try:
        return connection.execute(question).fetchall()
    finally:
        connection.close()


async def run(role: str, app: App) -> None:
    async with app.connect() as node:
        await (Publisher(app).run(node) if role == "publish" else keep(app, node))


if __name__ == "__main__":
    trio.run(run, sys.argv[1], App(**json.loads(sys.argv[2])))
