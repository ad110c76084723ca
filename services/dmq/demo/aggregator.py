"""An aggregator of the demo: `python -m services.dmq.demo.aggregator SOCKET MAGIC FILE [chokes]`.

It asks over one connection with blocking requests, reads a whole reply at once, and drops the connection with the reply
if one body cannot be read, as mithril's does. A line of JSON in FILE describes each reply and its connection: if the
next reply comes over the same one, the node has got the acknowledgement.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import count
from pathlib import Path

import trio

from services.dmq.client.connection import Broken, Connection, Unreachable, connect
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.demo.script import CHOKES

POLL_S = 0.1


class Choked(Exception):
    """A body cannot be read."""


def read(wires: tuple[bytes, ...], *, chokes: bool) -> list[tuple[str, str]]:
    """Return id and pool of each message; raise `Choked`."""
    messages = [Dmq05().read_notified(wire) for wire in wires]
    if chokes and any(one.body.startswith(CHOKES) for one in messages):
        raise Choked
    return [(one.id.hex(), one.certificate.pool.hex()) for one in messages]


async def listen(node: Connection, connection: str, out: int, *, chokes: bool) -> None:
    while True:
        reply = await node.request(blocking=True)
        try:
            messages = read(reply.messages, chokes=chokes)
        except Choked:
            os.write(out, json.dumps({"connection": connection, "choked": len(reply.messages)}).encode() + b"\n")
            return
        os.write(out, json.dumps({"connection": connection, "messages": messages}).encode() + b"\n")


async def aggregate(path: Path, magic: int, out: int, *, chokes: bool) -> None:
    """Ask until the end; after a lost connection over a new one."""
    for number in count():
        try:
            async with connect(path, magic) as node:
                await listen(node, f"{os.getpid()}-{number}", out, chokes=chokes)
        except (Unreachable, Broken):
            await trio.sleep(POLL_S)


def main() -> None:
    path, magic, file = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    trio.run(lambda: aggregate(path, magic, out, chokes="chokes" in sys.argv[4:]))


if __name__ == "__main__":
    main()
