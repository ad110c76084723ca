"""An app that publishes beside one that reads, at one node: `python -m services.capd.bench.pair HOME GROUP COUNT RATE`.

Prints `ready` when the reader hears, waits for a line, and prints the median milliseconds from just before a message is
published until it is read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

import trio

from router.client.node import Node, connect


async def listen(node: Node, group: str, count: int, took_ms: list[float]) -> None:
    async for message in node.group(group):
        took_ms.append((trio.current_time() - float(message.body)) * 1e3)
        if len(took_ms) == count:
            return


async def main(home: Path, group: str, count: int, rate: float) -> None:
    took_ms: list[float] = []
    async with connect(as_name="bench-reader", home=home) as reader, connect(as_name="bench-speaker", home=home) as one:
        await reader.join(group)
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        began_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen, reader, group, count, took_ms)
            for number in range(count):
                await trio.sleep_until(began_s + number / rate)
                nursery.start_soon(one.group(group).publish, repr(trio.current_time()).encode())
    print(json.dumps({"p50_ms": median(took_ms)}), flush=True)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
