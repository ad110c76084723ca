"""An honest peer of a large CAPD pool beside hostile ones, and a long search beside other talk, on real sockets.

What the honest one asks is answered, and what it brings is taken and announced. How long that took is printed, and
decides nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
import trio
from rigs.hostile_peers import HALF, peer
from rigs.patience import HANG_S
from samples.capd import posted

from router.client.node import connect
from router.rig.process import Process, pause
from services.capd.bench.beside import Node
from services.capd.client import pool_of
from services.capd.core import messages as m
from services.capd.core.message import read_message
from services.capd.core.nexa.commands import (
    IDS,
    MESSAGES,
    REPLY_IDS_MAX,
    IdsReply,
    Inv,
    MessagesReply,
    Msg,
    PrefixQuery,
)
from services.capd.core.nexa.own_commands import MaskedQuery
from services.capd.core.pattern import Pattern

COUNT = 100_000
ROUNDS = 20
TESTS = Path(__file__).parents[1]


@dataclass
class Honest:
    """A peer that brings an offer, waits until it is announced, and finds it, again and again."""

    place: str
    address: str = "127.0.1.2"
    waits_ms: list[float] = field(default_factory=list)

    async def go(self, rounds: int) -> None:
        async with peer(self.place, self.address) as client:
            for number in range(rounds):
                offer = posted(b"TKD\x0c%16d honest" % time.monotonic_ns(), 60.0, int(time.time()) - 5)
                began_s = time.monotonic()
                await client.say(Msg((offer,)))
                while offer.own_id() not in (await client.next(Inv, within_s=HANG_S)).ids:
                    pass
                await client.say(PrefixQuery(number, MESSAGES, 0, 10, offer.data[:16]))
                found: MessagesReply = await client.next(MessagesReply, within_s=HANG_S)
                assert found.cookie == number and found.messages == (offer,)
                self.waits_ms.append(1000 * (time.monotonic() - began_s))
            await client.say(MaskedQuery(7, IDS, 0, 8_000, HALF))
            ids: IdsReply = await client.next(IdsReply, within_s=HANG_S)
            assert ids.cookie == 7 and len(ids.ids) == REPLY_IDS_MAX

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


@asynccontextmanager
async def hostile(base: Path, kind: str, place: str, count: int) -> AsyncIterator[None]:
    """Let so many hostile peers go on, in a process of their own."""
    words = (sys.executable, "-m", "rigs.hostile_peers", kind, place, str(count))
    process = Process(kind, words, base / f"{kind}.stderr")
    await process.start()
    try:
        yield
    finally:
        await process.kill()


@pytest.mark.long
async def test_an_honest_peer_beside_hostile_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(TESTS), str(TESTS.parent))))
    async with a_large_pool(tmp_path) as node:
        said = []
        for number, (kind, count) in enumerate(
            (("nobody", 0), ("greedy", 1), ("greedy", 7), ("deaf", 7), ("flood", 10), ("slow", 48))
        ):
            honest = Honest(node.place, f"127.0.1.{2 + number}")
            async with hostile(tmp_path, kind, node.place, count):
                await honest.go(ROUNDS)
            said.append(honest.said(f"beside {count} {kind}"))
    with capsys.disabled():
        print("", *said, sep="\n")


@pytest.mark.long
async def test_a_long_search_beside_other_talk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All messages of a large pool come in pages, each once, while others post and ask; and no post is lost."""
    async with (
        a_large_pool(tmp_path) as node,
        connect(home=node.home) as app,
        connect(home=node.home) as other,
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
            nursery.start_soon(honest.go, 100 * ROUNDS)
            began_s = time.monotonic()
            found = [read_message(wire).own_id() async for _, wire in reader.messages(Pattern.prefix(b""))]
            took_s = time.monotonic() - began_s
            nursery.cancel_scope.cancel()
        assert len(set(found)) == len(found) >= COUNT
        async with pool_of(app) as reader:
            held = {own_id async for own_id in reader.ids(Pattern.prefix(b"TKD"))}
        assert set(written) <= held
    with capsys.disabled():
        text = f"{len(found):,} messages in {took_s:.1f} s; {len(written)} posts, median {median(waits_ms):.1f} ms"
        print("", text, honest.said("an honest peer meanwhile"), sep="\n")
