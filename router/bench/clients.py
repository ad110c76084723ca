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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from router.core.link.custody import Outgoing
from router.core.link.session import Heard, Messages, Offer, RefusedAt, Session, SettledUpTo, Up
from router.core.wire.admin import Answer, Inquiry, decode_inquiry, encode_inquiry
from router.core.wire.codec import frame
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.link_items import Ping, Pong
from router.core.wire.message import open_message, seal_unicast, without_via
from router.transport import contract as transport
from router.transport.contract import Stream

READ_BYTES = 256 * 1024


class Wire:
    """One link of a bench client."""

    def __init__(self, key: SigningKey, window_messages: int, window_bytes: int, durable: bool) -> None:
        self._key = key
        self._offer = Offer("app", bytes(8), durable, window_messages, window_bytes, os.urandom(16))
        self.outgoing = Outgoing(0, 0)
        self.settled = 0
        self.refused: list[str] = []
        self.sent = 0
        self._stream: Stream | None = None
        self._writing = trio.Lock()

    async def connect(self, url: str, router: PublicKey) -> None:
        self._stream = await transport.dial(url, self._key, router, timeout_s=10)
        self.session = Session(self._offer, self._key, dialler=True, peer=self._stream.peer, expect=router)
        await self.flush()
        while not self.session.is_open:
            await self.receive()

    async def flush(self) -> None:
        out = self.session.output()
        if out:
            async with self._writing:
                await self._connected.send_parts(out)

    @property
    def _connected(self) -> Stream:
        assert self._stream is not None
        return self._stream

    async def receive(self) -> list[Messages]:
        """Return the messages of the next read; exit if the node closed the link."""
        data = await self._connected.receive_some(READ_BYTES)
        if not data:
            raise SystemExit("the node closed the link")
        found = []
        for event in self.session.receive(data, time.monotonic()):
            match event:
                case Messages():
                    found.append(event)
                case SettledUpTo(n):
                    self.outgoing.settle(n)
                    self.settled = n
                case RefusedAt(_, reason, _):
                    self.refused.append(reason.word)
                case Heard(Ping(t0)):
                    self.session.send(Pong(t0, time.time_ns(), time.time_ns()))
                case Up(peer, hello):
                    self.router = peer
                    self.outgoing = Outgoing(hello.window_messages, hello.window_bytes)
        await self.flush()
        return found

    async def settle_all(self) -> None:
        self.session.settle(self.session.incoming.received)
        await self.flush()

    async def send(self, frames: memoryview | bytes, count: int) -> None:
        self.outgoing.send(count, len(frames))
        self.sent += count
        await self.write(frames)

    async def write(self, data: memoryview | bytes) -> None:
        """Write any bytes, after those that are being written."""
        async with self._writing:
            await self._connected.send_all(data)

    async def close(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()

    async def join(self, group: PublicKey) -> None:
        """Send JOIN and wait for its acknowledgement."""
        join = encode_control(Join(group, False))
        wire = seal_unicast(self._key, self.router, join, ttl_s=0, expiry_min=expiry_min(time.time() + 3600))
        await self.send(frame(wire), 1)
        while not await self.receive():
            pass
        await self.settle_all()

    async def emptied(self) -> None:
        """Ask the node repeatedly until its queues are empty."""
        while True:
            body = encode_inquiry(Inquiry("status", os.urandom(4).hex()))
            expiry = expiry_min(time.time() + 3600)
            await self.send(frame(seal_unicast(self._key, self.router, body, ttl_s=0, expiry_min=expiry)), 1)
            found: list[Messages] = []
            while not found:
                found = await self.receive()
            await self.settle_all()
            _, data, spans = found[-1]
            answer = decode_inquiry(open_message(without_via(data[spans[-1][1] : spans[-1][2]])).body)
            if isinstance(answer, Answer) and json.loads(answer.text)["queue"]["messages"] == 0:
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
    wire = await _connected(order, order.seeds[0])
    with Path(order.path).open("rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    frames = mapped[order.first * order.frame_bytes :][: order.count * order.frame_bytes]
    _ready()
    began = time.monotonic()
    times = array("d")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_send, wire, order, frames, times)
        total = order.count * order.repeat
        while wire.settled < total:
            await wire.receive()
    return {
        "began": began, "ended": time.monotonic(), "sent": wire.sent, "refused": wire.refused[:10],
        "times": list(times),
    }  # fmt: skip


async def _connected(order: Order, seed: str) -> Wire:
    wire = Wire(SigningKey(bytes.fromhex(seed)), order.window_messages, order.window_bytes, order.durable)
    await wire.connect(order.url, PublicKey(bytes.fromhex(order.router)))
    return wire


async def _send(wire: Wire, order: Order, frames: memoryview, times: array[float]) -> None:
    size = order.frame_bytes
    step = order.chunk
    began = time.monotonic()
    for at in range(0, order.count, step):
        count = min(step, order.count - at)
        if order.rate_per_s:
            await trio.sleep(max(0.0, began + at / order.rate_per_s - time.monotonic()))
            times.extend([time.monotonic()] * count)
        for _ in range(order.repeat):
            while wire.outgoing.room()[0] < count or wire.outgoing.room()[1] < count * size:
                await trio.sleep(0.0002)
            await wire.send(frames[at * size : (at + count) * size], count)


class Tally:
    """The messages that one subscriber has received, by the number in each body."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self.seen = bytearray(order.first + order.count)
        self.got = self.doubled = self.out_of_order = 0
        self.times = array("d")
        self._last = -1

    def add(self, data: bytes, spans: list[tuple[int, int, int]]) -> None:
        seen, at, last = self.seen, self._order.number_at, self._last
        for _, start, _ in spans:
            # VIA changes the array head, not the place of the body.
            number = int.from_bytes(data[start + at : start + at + 8], "big")
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
    wires = [await _connected(order, seed) for seed in order.seeds]
    if not order.back:
        for wire in wires:
            for seed in order.group_seeds:
                await wire.join(SigningKey(bytes.fromhex(seed)).public)
        _ready()
        began = time.monotonic()
    if order.stall:
        await trio.sleep_forever()
    tallies = [Tally(order) for _ in wires]
    async with trio.open_nursery() as nursery:
        for wire, tally in zip(wires, tallies, strict=True):
            nursery.start_soon(_take_all, wire, tally, order.count)
    if order.back:
        await wires[0].emptied()
    return {
        "began": began, "ended": time.monotonic(), "times": list(tallies[0].times),
        "got": sum(one.got for one in tallies), "doubled": sum(one.doubled for one in tallies),
        "out_of_order": sum(one.out_of_order for one in tallies),
        "lost": sum(order.count - sum(one.seen) for one in tallies),
    }  # fmt: skip


async def _take_all(wire: Wire, tally: Tally, count: int) -> None:
    while tally.got < count:
        for _, data, spans in await wire.receive():
            tally.add(data, spans)
        await wire.settle_all()


async def idle(order: Order) -> dict[str, Any]:
    """Open `links` links and hold them until standard input closes."""
    wires = []
    for _ in range(order.links):
        wires.append(await _connected(order, os.urandom(32).hex()))
    _ready()
    await trio.to_thread.run_sync(sys.stdin.read)
    return {"links": len(wires)}


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
