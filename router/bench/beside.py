"""The latency of a node beside something else: `python -m router.bench.beside HOME GROUP COUNT RATE`.

An app publishes at an even rate while another reads, both at the node of HOME. Prints `ready` when the reader hears,
waits for a line, and prints the milliseconds from just before each message is published until it is read: the median
and the 99th of a hundred.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import trio

from router.client.node import Node, connect


async def listen(node: Node, group: str, count: int, took_ms: list[float]) -> None:
    async for message in node.group(group):
        took_ms.append((trio.current_time() - float(message.body)) * 1e3)
        if len(took_ms) == count:
            return


async def speak(node: Node, group: str, count: int, rate: float) -> None:
    """Publish at an even rate, whatever becomes of the former message."""
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(count):
            await trio.sleep_until(began_s + number / rate)
            nursery.start_soon(node.group(group).publish, repr(trio.current_time()).encode())


async def main(home: Path, group: str, count: int, rate: float) -> None:
    took_ms: list[float] = []
    async with connect(as_name="bench-reader", home=home) as reader, connect(as_name="bench-speaker", home=home) as one:
        await reader.join(group)
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, reader, group, count, took_ms)
            await speak(one, group, count, rate)
    took_ms.sort()
    ranks = {name: took_ms[int(count * share)] for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99))}
    print(json.dumps(ranks), flush=True)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
