"""An honest peer of a large CAPD pool beside hostile ones, on real sockets.

What it asks is answered, and what it brings is taken and announced. How long that took is printed, and decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
import trio
from rigs.patience import HANG_S
from samples.capd import posted

from router.client.node import connect
from router.rig.process import pause
from router.settings.home import Home
from services.capd.bench.beside import Node
from services.capd.client import pool_of
from services.capd.core import messages as m
from services.capd.core.message import read_message
from services.capd.core.nexa.commands import IDS, MESSAGES, IdsReply, Inv, MessagesReply, Msg, Query
from services.capd.core.nexa.envelope import MAGICS, Packet
from services.capd.core.nexa.own_commands import MaskedQuery
from services.capd.core.pattern import Pattern
from services.capd.nexa_client import NexaClient, NexaClientError

COUNT = 100_000
ROUNDS = 12
PLACES = iter(f"127.0.1.{number}" for number in range(2, 250))


@asynccontextmanager
async def peer(place: str, address: str = "", *, greets: bool = True) -> AsyncIterator[NexaClient]:
    """Connect from an address of its own: what one address may do is limited."""
    host, _, port = place.rpartition(":")
    async with await trio.open_tcp_stream(host, int(port), local_address=address or next(PLACES)) as stream:
        client = NexaClient(stream, place, "regtest")
        if greets:
            await client.greet(HANG_S)
        yield client


@dataclass
class Honest:
    """A peer that brings an offer, waits until it is announced, and finds it, again and again."""

    place: str
    waits_ms: list[float] = field(default_factory=list)

    async def go(self, rounds: int) -> None:
        async with peer(self.place) as client:
            for number in range(rounds):
                began_s = time.monotonic()
                offer = posted(b"TKD\x0c%16d honest" % time.monotonic_ns(), 60.0, int(time.time()) - 5)
                await client.say(Msg((offer,)))
                while offer.own_id() not in (await client.next(Inv, within_s=HANG_S)).ids:
                    pass
                await client.say(Query(number, MESSAGES, 0, 10, offer.data[:16]))
                found: MessagesReply = await client.next(MessagesReply, within_s=HANG_S)
                assert found.cookie == number and found.messages == (offer,)
                self.waits_ms.append(1000 * (time.monotonic() - began_s))

    def said(self, beside: str) -> str:
        return f"{beside}: median {median(self.waits_ms):.1f} ms, longest {max(self.waits_ms):.1f} ms"


@asynccontextmanager
async def a_large_pool(base: Path) -> AsyncIterator[Node]:
    node = Node(base, COUNT)
    try:
        await node.start()
        yield node
    finally:
        if node.process.is_running:
            assert await node.process.stop() == 0


async def greedy(place: str, queries: int, *, reads: bool = True) -> int:
    """Ask for much at once, as much as one may; return how many answers came."""
    answers = 0
    async with peer(place) as client:
        for number in range(queries):
            await client.say(MaskedQuery(number, IDS, 0, 8_000, Pattern.of(b"\0" * 16, b"\0" * 15 + b"\x01")))
        try:
            while reads and answers < queries:
                await client.next(IdsReply, within_s=HANG_S)
                answers += 1
        except NexaClientError:
            return answers
        if not reads:
            await trio.sleep_forever()
    return answers


async def hostile(place: str) -> None:
    """Send far more than one may, until the pool closes the connection; come again from the same address."""
    address = next(PLACES)
    while True:
        try:
            async with peer(place, address) as client:
                for number in range(2_000):
                    await client.say(MaskedQuery(number, MESSAGES, 0, 200, Pattern.of(b"", b"")))
                while True:
                    await client.next(MessagesReply, within_s=HANG_S)
        except (NexaClientError, OSError):
            await trio.sleep(0.05)


async def dribbling(place: str, data: bytes, address: str, *, greets: bool) -> None:
    """Send these bytes one by one, and come again when the pool has had enough."""
    while True:
        try:
            async with peer(place, address, greets=greets) as client:
                for at in range(len(data)):
                    await client.send(data[at : at + 1])
                    await trio.sleep(0.5)
        except (NexaClientError, OSError):
            await trio.sleep(0.5)


async def beside(node: Node, name: str, *others: Callable[[], Awaitable[object]]) -> str:
    """Let the honest peer go its rounds beside the others; return how long they took it."""
    honest = Honest(node.place)
    async with trio.open_nursery() as nursery:
        for one in others:
            nursery.start_soon(one)
        await trio.sleep(1.0)
        await honest.go(ROUNDS)
        nursery.cancel_scope.cancel()
    return honest.said(name)


@pytest.mark.long
async def test_an_honest_peer_beside_hostile_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with a_large_pool(tmp_path) as node:
        place, said = node.place, [await beside(node, "alone")]
        said.append(await beside(node, "one that asks 400 masked queries at once", lambda: greedy(place, 400)))
        said.append(await beside(node, "seven of them", *7 * [lambda: greedy(place, 400)]))
        said.append(await beside(node, "seven that do not read", *7 * [lambda: greedy(place, 400, reads=False)]))
        said.append(await beside(node, "ten that ask 2,000 at once and come again", *10 * [lambda: hostile(place)]))
        half = Packet("capdmsg", b"\x01" + bytes(400)).encoded(MAGICS["regtest"])
        slow = [
            lambda at=at: dribbling(place, half, f"127.0.2.{at // 8 + 2}", greets=at % 2 == 0)  # type: ignore[misc]
            for at in range(48)
        ]
        said.append(await beside(node, "48 that send a byte each half second", *slow))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(greedy, place, 400)
            answers = await greedy(place, 40)
            nursery.cancel_scope.cancel()
        assert answers == 40, "one that asks little beside one that asks much"
    with capsys.disabled():
        print("", *said, sep="\n")


@pytest.mark.long
async def test_a_long_search_beside_other_talk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All messages of a large pool come in pages, each once, while others post and ask; and no post is lost."""
    async with (
        a_large_pool(tmp_path) as node,
        connect(home=Home(node.home)) as app,
        connect(home=Home(node.home)) as other,
    ):
        async with pool_of(app) as reader, pool_of(other) as writer, trio.open_nursery() as nursery:
            waits_ms: list[float] = []
            written: list[bytes] = []

            async def write() -> None:
                began = trio.current_time()
                while True:
                    offer = posted(b"TKD\x0c%16d wallet" % len(written), 3.0, int(time.time()) - 5)
                    began_s = time.monotonic()
                    answer: m.PostAnswer = await writer.ask(m.Post, offer.encoded())
                    assert answer.result == 0, answer
                    waits_ms.append(1000 * (time.monotonic() - began_s))
                    written.append(offer.own_id())
                    await pause(began)

            honest = Honest(node.place)
            nursery.start_soon(write)
            nursery.start_soon(honest.go, 10 * ROUNDS)
            began_s = time.monotonic()
            found = [read_message(wire).own_id() async for _, wire in reader.messages(Pattern.prefix(b""))]
            took_s = time.monotonic() - began_s
            nursery.cancel_scope.cancel()
        assert len(set(found)) == len(found) >= COUNT
        async with pool_of(app) as reader:
            for own_id in written:
                assert (await reader.ask(m.Get, own_id)).count == 1
    with capsys.disabled():
        text = f"{len(found):,} messages in {took_s:.1f} s; {len(written)} posts, median {median(waits_ms):.1f} ms"
        print("", text, honest.said("an honest peer meanwhile"), sep="\n")
