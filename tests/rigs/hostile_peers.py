"""Hostile peers of a CAPD pool, in a process of their own: `python -m rigs.hostile_peers KIND HOST:PORT COUNT`.

greedy    each asks 400 masked queries for 8,000 ids at once, reads the answers, and comes again when it is turned away
deaf      the same, and reads nothing
flood     each asks 2,000 queries for messages at once, from the same address again and again
slow      each sends a byte each half second, every other one after a greeting; eight have one address

Prints `ready` when all have begun, and goes on until it is killed.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from rigs.patience import HANG_S
from services.capd.core.nexa.commands import IDS, MESSAGES
from services.capd.core.nexa.envelope import MAGICS, Packet
from services.capd.core.nexa.own_commands import MaskedQuery
from services.capd.core.pattern import Pattern
from services.capd.nexa_client import NexaClient, NexaClientError

NETWORK = "regtest"
AGAIN_S, BYTE_S = 0.05, 0.5
HALF = Pattern.of(bytes(16), bytes(15) + b"\x01")
"""Half of all messages."""


@asynccontextmanager
async def peer(place: str, address: str, *, greets: bool = True) -> AsyncIterator[NexaClient]:
    """Connect from this address: what one address may do is limited."""
    host, _, port = place.rpartition(":")
    async with await trio.open_tcp_stream(host, int(port), local_address=address) as stream:
        client = NexaClient(stream, place, NETWORK)
        if greets:
            await client.greet(HANG_S)
        yield client


async def _asks(client: NexaClient, count: int, kind: int, quantity: int, pattern: Pattern, *, reads: bool) -> None:
    for number in range(count):
        await client.say(MaskedQuery(number, kind, 0, quantity, pattern))
    while reads:
        await client.next(within_s=HANG_S)
    await trio.sleep_forever()


async def _dribbles(client: NexaClient) -> None:
    data = Packet("capdmsg", b"\x01" + bytes(400)).encoded(MAGICS[NETWORK])
    for at in range(len(data)):
        await client.send(data[at : at + 1])
        await trio.sleep(BYTE_S)


async def _go(kind: str, place: str, number: int, begun: list[trio.Event]) -> None:
    address = f"127.0.2.{2 + (number // 8 if kind == 'slow' else number)}"
    while True:
        try:
            async with peer(place, address, greets=kind != "slow" or number % 2 == 0) as client:
                begun[number].set()
                if kind == "slow":
                    await _dribbles(client)
                elif kind == "flood":
                    await _asks(client, 2_000, MESSAGES, 200, Pattern.prefix(b""), reads=True)
                else:
                    await _asks(client, 400, IDS, 8_000, HALF, reads=kind == "greedy")
        except (NexaClientError, OSError):
            begun[number].set()  # it is turned away
            await trio.sleep(AGAIN_S)


async def main(kind: str, place: str, count: int) -> None:
    begun = [trio.Event() for _ in range(count)]
    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(_go, kind, place, number, begun)
        for one in begun:
            await one.wait()
        print("ready", flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
