"""Measure a link through the web side beside one at a listener: `PYTHONPATH=tests python
tests/services/web/measure_link.py`.

Messages of 1 KiB go from one app to another as fast as the node takes them, both over `ws` at a listener of the node,
then both over `/link` of the web side, in turns. Prints the messages a second of both ways as medians, and the median
of the ratios of windows that follow each other: a row of docs/measured/messages.md."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from statistics import median

import trio
from rigs.ports import free_port

from router.bench.clients import Order
from router.bench.rig import Client, Clients, Rig, workbench
from router.bench.traffic import Traffic, make
from router.core.wire.crypto import SigningKey
from router.settings.config_services import NewHomeService

BODY_BYTES, CHUNK = 1024, 48
GOAL = 0.5
PUBLISHER, SUBSCRIBER = SigningKey(os.urandom(32)), SigningKey(os.urandom(32))


def client(clients: Clients, url: str, role: str, key: SigningKey, traffic: Traffic, first: int, count: int) -> Client:
    """Return a process with one link to that URL, not started yet."""
    order = Order(
        role,
        url,
        clients.rig.address,
        [key.seed.hex()],
        path=str(traffic.path),
        group_seeds=[traffic.group_seed.hex()],
        frame_bytes=traffic.frame_bytes,
        number_at=traffic.number_at,
        first=first,
        count=count,
        chunk=CHUNK,
    )
    return clients.client("router.bench.clients", asdict(order))


async def window(clients: Clients, url: str, traffic: Traffic, first: int, count: int) -> float:
    """Return the messages a second."""
    reader = client(clients, url, "subscribe", SUBSCRIBER, traffic, first, count)
    writer = client(clients, url, "publish", PUBLISHER, traffic, first, count)
    for one in (reader, writer):
        await one.start()
    for one in (reader, writer):
        await one.go()
    wrote, read = await writer.result(), await reader.result()
    assert not (wrote["refused"] or read["lost"])
    return float(count / (read["ended"] - wrote["began"]))


async def measure(rounds: int, count: int) -> list[tuple[float, float]]:
    """Return the messages a second at the listener and through the web side, in pairs."""
    found: list[tuple[float, float]] = []
    with workbench() as base:
        traffic, port = make(base / "traffic", 2 * (rounds + 1) * count, BODY_BYTES), free_port()
        web = NewHomeService({"listen": f"tcp://127.0.0.1:{port}", "operator": ""}, is_public=False)
        rig = Rig(base / "home", "ws", guests=[PUBLISHER, SUBSCRIBER], residents={"web": web})
        await rig.start()
        async with rig.running() as clients:
            ways = (rig.url, f"ws://127.0.0.1:{port}/link")
            for number in range(rounds + 1):
                pair: dict[str, float] = {}
                for way in (ways, ways[::-1])[number % 2]:
                    pair[way] = await window(clients, way, traffic, (2 * number + len(pair)) * count, count)
                found.append((pair[ways[0]], pair[ways[1]]))
    return found[1:]  # the first pair warms up


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a link through the web side beside one at a listener.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=12_000, help="in each window")
    given = parser.parse_args()
    pairs = trio.run(measure, given.rounds, given.messages)
    direct, through = median(one for one, _ in pairs), median(one for _, one in pairs)
    share = median(after / before for before, after in pairs)
    print(f"at a listener: {direct:,.0f} messages a second; through the web side: {through:,.0f}")
    print(f"share of its rate: {share:.2f} (goal: at least {GOAL})")


if __name__ == "__main__":
    main()
