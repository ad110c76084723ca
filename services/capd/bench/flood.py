"""Neighbours that flood a pool: `python -m services.capd.bench.flood HOST:PORT MESSAGES_PER_S QUERIES_PER_S`.

They come from several loopback addresses, bring messages below the line, and ask for prefixes. The process prints
`ready` when all are connected, begins at a line of standard input, ends at the next, and prints its counts as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from random import Random

import trio

from services.capd.bench.pools import DATA_BYTES, HALF_BYTES, first_half
from services.capd.core.message import CapdMessage
from services.capd.core.nexa.commands import MESSAGES, MessagesReply, Msg, PrefixQuery
from services.capd.core.priority import LIFE_S, bits_for
from services.capd.nexa_client import NexaClient

NETWORK = "regtest"
CONNECTIONS = 16
STEP_S = 0.1
PAGE = 10


class Flood:
    """The flooding neighbours, and the numbers of their messages, queries and answers."""

    def __init__(self, messages_per_s: int, queries_per_s: int) -> None:
        self._messages = messages_per_s * STEP_S / CONNECTIONS
        self._queries = queries_per_s * STEP_S / CONNECTIONS
        self._chance = Random(6)
        self.said = {"messages": 0, "queries": 0, "answers": 0}

    async def hear(self, client: NexaClient) -> None:
        while True:
            await client.next(MessagesReply, within_s=float("inf"))
            self.said["answers"] += 1

    async def speak(self, client: NexaClient) -> None:
        began_s, step, messages, queries = trio.current_time(), 0, 0.0, 0.0
        while True:
            step += 1
            await trio.sleep_until(began_s + step * STEP_S)
            messages, queries = messages + self._messages, queries + self._queries
            count, messages = int(messages), messages % 1
            await client.say(Msg(tuple(self._below() for _ in range(count))))
            self.said["messages"] += count
            for _ in range(int(queries)):
                half = first_half(self._chance.randrange(1_000), 1_000_000)
                await client.say(PrefixQuery(1, MESSAGES, 0, PAGE, half[:HALF_BYTES]))
                self.said["queries"] += 1
            queries %= 1

    def _below(self) -> CapdMessage:
        """Return a message whose work is claimed, not done, and which has faded to half of the relay line."""
        born = int(time.time()) - LIFE_S // 2
        return CapdMessage(self._chance.randbytes(DATA_BYTES), born, bits_for(2.2, DATA_BYTES), b"\0")


async def main(place: str, messages_per_s: int, queries_per_s: int) -> None:
    flood = Flood(messages_per_s, queries_per_s)
    host, _, port = place.rpartition(":")
    clients = []
    for number in range(CONNECTIONS):
        stream = await trio.open_tcp_stream(host, int(port), local_address=f"127.0.0.{2 + number}")
        clients.append(client := NexaClient(stream, place, NETWORK))
        await client.greet(60.0)
    print("ready", flush=True)
    await trio.to_thread.run_sync(sys.stdin.readline)
    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(flood.hear, client)
            nursery.start_soon(flood.speak, client)
        await trio.to_thread.run_sync(sys.stdin.readline)
        nursery.cancel_scope.cancel()
    print(json.dumps(flood.said), flush=True)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
