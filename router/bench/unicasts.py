"""Sealed unicasts beside those in the open: `python -m router.bench.unicasts ORDER`, two apps over TLS at one core.

Both ways alternate in one run, in windows: one at full speed, from the first message until the reader says that it has
the last, and one in which each message waits for the custody of the one before, for the latency.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any, Literal

import trio
from msgspec import Struct, to_builtins
from msgspec import json as msgspec_json

from router.bench.rig import in_trio
from router.bench.scenarios import Bench, keys
from router.client.node import Node, connect
from router.core.wire.crypto import PublicKey, SigningKey

ROUNDS = 7
SLOW_MESSAGES = 200
IN_FLIGHT = 500
GOAL_RATE, GOAL_P50 = 0.8, 1.1
_STAMP_BYTES = 8
_END = b"end "
"""Begins the last body of a window. A number follows: of two equal ones in the open, thousands of messages apart, the
second might count as a duplicate of the first."""

Row = dict[str, Any]
WAYS = (True, False)  # in the open, sealed


class UnicastOrder(Struct):
    """What one of the two processes is to do for the node at `url`: read, or send `count` messages a window to `to`."""

    role: Literal["read", "send"]
    url: str
    address: str
    seed: str
    to: str = ""
    count: int = 0
    body_bytes: int = 1024


@in_trio
async def sealed_beside_plain(bench: Bench, count: int, say: Callable[[str], None]) -> Row:
    """Return the medians of both ways, and of their ratios round by round."""
    reader, sender = keys(2)
    rig = await bench.rig("tls", [reader, sender])
    async with rig.running() as running:
        say("unicasts, sealed and in the open")
        read = UnicastOrder("read", rig.url, rig.address, reader.seed.hex())
        send = UnicastOrder(
            "send", rig.url, rig.address, sender.seed.hex(), reader.public.hex(), count, bench.body_bytes
        )
        listener = running.client("router.bench.unicasts", to_builtins(read))
        await listener.start()
        return await running.client("router.bench.unicasts", to_builtins(send)).whole()


def _app(order: UnicastOrder) -> Node:
    return connect(url=order.url, expect=order.address, key=SigningKey(bytes.fromhex(order.seed)))


async def _read(order: UnicastOrder) -> None:
    """Answer the end of each window with the times that its messages took, until killed."""
    took_ms = list[float]()
    async with _app(order) as node:
        print("ready", flush=True)
        async for message in node.unicasts():
            now_ns = time.monotonic_ns()
            assert message.source is not None
            if message.body.startswith(_END):
                await node.send(message.source, json.dumps(sorted(took_ms)[len(took_ms) // 2]).encode(), plain=True)
                took_ms = []
            else:
                took_ms.append((now_ns - int.from_bytes(message.body[:_STAMP_BYTES], "big")) / 1e6)


async def _send(order: UnicastOrder) -> Row:
    async with _app(order) as node:
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        windows = Windows(node, PublicKey(bytes.fromhex(order.to)), order)
        await windows.run(plain=False, count=SLOW_MESSAGES)  # the prekey is asked for
        rounds = [await windows.round(number) for number in range(ROUNDS)]
    return _row(rounds)


class Windows:
    """The windows of the sender."""

    def __init__(self, node: Node, to: PublicKey, order: UnicastOrder) -> None:
        self._node = node
        self._to = to
        self._order = order
        self._answers = node.unicasts()
        self._ends = count()
        self._padding = os.urandom(order.body_bytes - _STAMP_BYTES)

    async def round(self, number: int) -> dict[str, dict[bool, float]]:
        """Return rate and latency of both ways; the first one of each round is the second of the next."""
        found: dict[str, dict[bool, float]] = {"rate": {}, "p50_ms": {}}
        for plain in WAYS if number % 2 else WAYS[::-1]:
            began_s = time.monotonic()
            await self.run(plain=plain, count=self._order.count)
            found["rate"][plain] = self._order.count / (time.monotonic() - began_s)
            found["p50_ms"][plain] = await self.run(plain=plain, count=SLOW_MESSAGES, at_once=1)
        return found

    async def run(self, *, plain: bool, count: int, at_once: int = IN_FLIGHT) -> float:
        """Send so many messages; return their median in ms once the reader has them all."""
        left = iter(range(count))

        async def send() -> None:
            for _ in left:
                body = time.monotonic_ns().to_bytes(_STAMP_BYTES, "big") + self._padding
                await self._node.send(self._to, body, plain=plain)

        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(send)
        await self._node.send(self._to, _END + b"%d" % next(self._ends), plain=plain)
        return float((await anext(self._answers)).body)


def _row(rounds: list[dict[str, dict[bool, float]]]) -> Row:
    """Return the medians, and the medians of what each round gives sealed for each in the open."""
    row: Row = {"transport": "tls", "rounds": len(rounds)}
    for name in ("rate", "p50_ms"):
        for way, plain in (("sealed", False), ("plain", True)):
            row[f"{way}_{name}"] = round(median(one[name][plain] for one in rounds), 2)
        row[f"{name}_ratio"] = round(median(one[name][False] / one[name][True] for one in rounds), 3)
    row["met"] = row["rate_ratio"] >= GOAL_RATE and row["p50_ms_ratio"] <= GOAL_P50
    return row


async def main(order: UnicastOrder) -> None:
    if order.role == "read":
        await _read(order)
    else:
        print(json.dumps(await _send(order)), flush=True)


if __name__ == "__main__":
    trio.run(main, msgspec_json.decode(sys.argv[1], type=UnicastOrder))
