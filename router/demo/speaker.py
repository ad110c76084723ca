"""The app on edge A: publish numbered messages, on order.

A line `FIRST LAST` on standard input orders the messages with these numbers. Standard output has JSON lines: `{"ready":
true}`, `{"taken": ID}` for every message that A has in custody, `{"done": LAST}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

import trio

import router

IN_FLIGHT = 20


def body(number: int, marker: str) -> bytes:
    """Return a message's body: the number, and words to search for on a disk."""
    return f"{number} {marker}".encode()


def tell(**said: object) -> None:
    print(json.dumps(said), flush=True)


def taken(id: router.MessageId) -> None:
    tell(taken=id.hex())


async def publish(group: router.Group, numbers: Iterable[int], marker: str) -> None:
    async with group.publisher(IN_FLIGHT, on_custody=taken) as publisher:
        for number in numbers:
            await publisher.publish(body(number, marker))


async def speak(home: str, name: str, marker: str) -> None:
    async with router.connect(home=home, as_name="speaker", when_down="queue") as node:
        group = node.group(name)
        tell(ready=True)
        while order := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            first, last = map(int, order.split())
            await publish(group, range(first, last + 1), marker)
            tell(done=last)


if __name__ == "__main__":
    trio.run(speak, sys.argv[1], sys.argv[2], sys.argv[3])
