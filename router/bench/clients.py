"""The bench's publishers and subscribers: separate processes on real links, cheap enough not to distort the figures.

They sign in advance, do not verify what their own router hands them, and count by the number in each body.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any

import trio

from router.client.custody.arrivals import Span
from router.client.custody.outbox import Outbox, Submission
from router.core.link.session import Offer
from router.core.wire.admin import Answer, Inquiry, encode_inquiry
from router.core.wire.crypto import PublicKey, SigningKey
from router.rig.app_link import AppLink, SentCounts

DIAL_S = 10.0
_NUMBER = Struct(">Q")


def link_of(
    key: SigningKey, window_messages: int, window_bytes: int, durable: bool = False, role: str = "app"
) -> AppLink:
    """Return a link of the bench with a window and outbox of this size."""
    offer = Offer(role, bytes(8), durable, window_messages, window_bytes, os.urandom(16))
    return AppLink(key, offer, Outbox(window_messages, window_bytes))


async def join(link: AppLink, group: PublicKey) -> None:
    """Join a group of which no messages are queued for this link. Raise `JoinRefused`."""
    wanted = await link.want(group)
    while not wanted.answered.is_set():
        await link.settle(await link.receive())
    if wanted.error is not None:
        raise wanted.error


async def emptied(link: AppLink) -> None:
    """Ask the node repeatedly until its queues are empty."""
    while True:
        link.heard.clear()
        asked = encode_inquiry(Inquiry("status", os.urandom(4).hex()))
        await link.hand_in([link.unicast(link.router, asked, ttl_s=0)], SentCounts())
        while not link.heard:
            await link.settle(await link.receive())
        if any(isinstance(said, Answer) and json.loads(said.text)["queue"]["messages"] == 0 for said in link.heard):
            return


@dataclass
class Order:
    """The task of one client process; passed as JSON."""

    role: str
    url: str
    router: str
    seeds: list[str]
    path: str = ""
    group_seeds: list[str] = field(default_factory=list)
    frame_bytes: int = 0
    number_at: int = 0
    first: int = 0
    count: int = 0
    repeat: int = 1
    chunk: int = 48
    rate_per_s: float = 0.0
    durable: bool = False
    stall: bool = False
    back: bool = False  # a returning member, which reads what is queued and stays until nothing is
    window_messages: int = 4096
    window_bytes: int = 8 << 20
    links: int = 1


async def publish(order: Order) -> dict[str, Any]:
    """Send the messages first..first+count-1, each `repeat` times; with a rate, in chunks at even intervals."""
    link, sent = await _connected(order, order.seeds[0]), SentCounts()
    with Path(order.path).open("rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    frames = mapped[order.first * order.frame_bytes :][: order.count * order.frame_bytes]
    _ready()
    began = time.monotonic()
    times = array("d")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_send, link, order, frames, sent, times)
        total = order.count * order.repeat
        while sent.settled < total:
            await link.settle(await link.receive())
    refused = [reason.word for reason, _ in sent.refusals[:10]]
    return {
        "began": began,
        "ended": time.monotonic(),
        "sent": sent.settled,
        "refused": refused,
        "times": list(times),
    }


async def _connected(order: Order, seed: str) -> AppLink:
    link = link_of(SigningKey(bytes.fromhex(seed)), order.window_messages, order.window_bytes, order.durable)
    await link.connect(order.url, PublicKey(bytes.fromhex(order.router)), DIAL_S)
    return link


async def _send(link: AppLink, order: Order, frames: memoryview, sent: SentCounts, times: array[float]) -> None:
    size = order.frame_bytes
    outbox = link.outbox
    step = order.chunk
    began = time.monotonic()
    for at in range(0, order.count, step):
        count = min(step, order.count - at)
        if order.rate_per_s:
            await trio.sleep(max(0.0, began + at / order.rate_per_s - time.monotonic()))
            times.extend([time.monotonic()] * count)
        chunk = [bytes(frames[start : start + size]) for start in range(at * size, (at + count) * size, size)]
        for _ in range(order.repeat):
            while outbox.full:
                await link.flush()
                if outbox.full:
                    await link.moved.park()
            for one in chunk:
                outbox.add(Submission(one, sent))
        if order.rate_per_s:
            await link.flush()
    await link.flush()


class ReceivedNumbers:
    """The messages that one subscriber has received, by the number in each body."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.seen = bytearray(order.first + order.count)
        self.got = self.doubled = self.out_of_order = 0
        self.times = array("d")
        self._last = -1

    def add(self, data: bytes, spans: Sequence[Span]) -> None:
        """Count the messages of one read: how many are new, came before, or are out of order."""
        seen, at, last, read_number = self.seen, self._order.number_at, self._last, _NUMBER.unpack_from
        for _, start, _ in spans:
            # VIA changes the array head, not the place of the body.
            (number,) = read_number(data, start + at)
            if seen[number]:
                self.doubled += 1
            else:
                seen[number] = 1
                self.got += 1
            if number < last:
                self.out_of_order += 1
            last = number
        self._last = last
        if self._order.rate_per_s:
            self.times.extend([time.monotonic()] * len(spans))


async def subscribe(order: Order) -> dict[str, Any]:
    """Join on a link for each seed, then receive until `count` messages have come on each."""
    if order.back:  # the clock starts before the link is up
        _ready()
    began = time.monotonic()
    links = [await _connected(order, seed) for seed in order.seeds]
    if not order.back:
        for link in links:
            for seed in order.group_seeds:
                await join(link, SigningKey(bytes.fromhex(seed)).public)
        _ready()
        began = time.monotonic()
    if order.stall:
        await trio.sleep_forever()
    tallies = [ReceivedNumbers(order) for _ in links]
    async with trio.open_nursery() as nursery:
        for link, tally in zip(links, tallies, strict=True):
            nursery.start_soon(_take_all, link, tally, order.count)
    if order.back:
        await emptied(links[0])
    return {
        "began": began,
        "ended": time.monotonic(),
        "times": list(tallies[0].times),
        "got": sum(one.got for one in tallies),
        "doubled": sum(one.doubled for one in tallies),
        "out_of_order": sum(one.out_of_order for one in tallies),
        "lost": sum(order.count - sum(one.seen) for one in tallies),
    }


async def _take_all(link: AppLink, tally: ReceivedNumbers, count: int) -> None:
    while tally.got < count:
        reads = await link.receive()
        for read in reads:
            tally.add(read.data, read.spans)
        await link.settle(reads)


async def idle(order: Order) -> dict[str, Any]:
    """Open `links` links and hold them until standard input closes."""
    links = [await _connected(order, os.urandom(32).hex()) for _ in range(order.links)]
    _ready()
    await trio.to_thread.run_sync(sys.stdin.read)
    return {"links": len(links)}


def _ready() -> None:
    global _idle_cpu_s
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    _idle_cpu_s = _cpu_s()


_idle_cpu_s = 0.0


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    order = Order(**json.loads(sys.argv[1]))
    act = {"publish": publish, "subscribe": subscribe, "idle": idle}[order.role]
    result = trio.run(act, order)
    result["cpu_s"] = _cpu_s() - _idle_cpu_s
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
