"""The bench's attackers: one process with many links by keys unknown to the node, or by those of `members`, all
attacking in the same way.

All links together write at most `bytes_per_s`, including records and handshakes. A link that the node closes is dialled
again with another key. Real strangers have their own machines; here the process takes only the CPU that others leave.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from router.bench.clients import DIAL_S, link_of
from router.core.link.machine import RemoteProtocolError
from router.core.wire.codec import FRAME_BYTES_MAX, encode, frame
from router.core.wire.control import Pull, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.meeting import NONCE_BYTES
from router.core.wire.message import message_id, seal_multicast, seal_unicast
from router.rig.app_link import LinkOver, SentCounts
from router.transport.contract import ConnectFailed, StreamBroken

HANDSHAKE_BYTES = 4_000  # bytes of a TLS connection with two certificates, and both hellos
RECORD_BYTES = 22 + 40  # bytes that TLS and TCP add to one small write
AGAIN_S = 0.05
NICE = 19
LIFE_S = 86_400  # strangers may give no later expiry than two days ahead
BODY_BYTES = 1_000
MAKE_AHEAD = 200
PULLS_PER_S = 110.0  # an answer of the greatest length costs some 9 ms to sign: a node that signs each has no time left
PULLS, MEETS, SERVICE_JUNK = "pulls", "meets", "service junk"
MEET = 5
"""The type of a MEET of pub/sub services (`cddl/`)."""
OF_MEMBERS = frozenset({PULLS})
"""The attacks of keys that may join groups here."""
OF_ROUTERS = frozenset({PULLS})
"""The attacks by links of routers, which may ask for many messages; else the links are those of apps."""
OF_PUBSUB = frozenset({MEETS, SERVICE_JUNK})
"""The attacks on the public pub/sub service."""


@dataclass
class Siege:
    """The task of the process; passed as JSON. `public`: the service that strangers may send to. `members`: the seeds
    of keys that the node lets join groups, taken in turn; none: each link has a key of its own."""

    attack: str
    url: str
    router: str
    public: str
    links: int = 64
    bytes_per_s: float = 2_500_000.0
    members: tuple[str, ...] = ()


class SharedRate:
    """Share a number of bytes a second among all links."""

    def __init__(self, bytes_per_s: float) -> None:
        self._per_s = bytes_per_s
        self._free_at = 0.0
        self.spent = 0

    async def take(self, size: int) -> None:
        self.spent += size
        now = time.monotonic()
        self._free_at = max(now, self._free_at) + size / self._per_s
        await trio.sleep(max(0.0, self._free_at - now))


class Stranger:
    """One link of an attacker. `turn`: the number of the link, by which its key is chosen among `members`."""

    def __init__(self, siege: Siege, pace: SharedRate, counts: Counter[str], turn: int) -> None:
        self.router, self.public = (PublicKey(bytes.fromhex(one)) for one in (siege.router, siege.public))
        self._url = siege.url
        self._pace = pace
        self._counts = counts
        seeds = [bytes.fromhex(one) for one in siege.members]
        self.key = SigningKey(seeds[turn % len(seeds)] if seeds else os.urandom(32))
        self.first = SigningKey(seeds[0]) if seeds else self.key
        self.link = link_of(self.key, 64, 1 << 20, role="router" if siege.attack in OF_ROUTERS else "app")
        self.settles = True
        self._sent = SentCounts()

    async def connect(self) -> None:
        await self._pace.take(HANDSHAKE_BYTES)
        await self.link.connect(self._url, self.router, DIAL_S)
        self._counts["links"] += 1

    @property
    def frame_bytes_max(self) -> int:
        """Return the longest frame that the node takes on this link."""
        hello = self.link.end.session.hello
        return min(FRAME_BYTES_MAX, hello.frame_bytes_max if hello else FRAME_BYTES_MAX)

    async def raw(self, data: bytes) -> None:
        """Write any bytes."""
        await self._pace.take(len(data) + RECORD_BYTES)
        await self.link.write([data])
        self._counts["writes"] += 1

    async def messages(self, wires: list[bytes]) -> None:
        """Hand in messages as the window allows."""
        while self.link.outbox.full:
            await self.link.moved.park()
        await self._pace.take(sum(map(len, map(frame, wires))) + RECORD_BYTES)
        await self.link.hand_in(wires, self._sent)
        self._counts["messages"] += len(wires)

    async def is_taken(self, wire: bytes) -> bool:
        """Hand in a message; return whether the node has taken it."""
        before, refused = self._sent.settled, len(self._sent.refusals)
        await self.messages([wire])
        while self._sent.settled == before:
            await self.link.moved.park()
        return len(self._sent.refusals) == refused

    async def hear(self) -> None:
        """Read, answer pings, and settle while that is wanted, until the node closes."""
        while True:
            read = await self.link.receive()
            if self.settles:
                await self.link.settle(read)

    def unicast(self, to: PublicKey, body: bytes, key: SigningKey | None = None, ttl_s: int = 0) -> bytes:
        return seal_unicast(key or self.key, to, body, ttl_s=ttl_s, expiry_min=expiry_min(time.time() + LIFE_S))


def _wide(count: int) -> bytes:
    """Return an array of `count` empty maps."""
    return b"\x9a" + count.to_bytes(4, "big") + b"\xa0" * count


async def wide_item(stranger: Stranger) -> None:
    """Send a link item that holds tens of thousands of others."""
    while True:
        size = min(126_000, stranger.frame_bytes_max - 16)
        await stranger.raw(frame(b"\x82\x09" + _wide(size)))


async def wide_body(stranger: Stranger) -> None:
    """Send a signed unicast to the router, of the greatest length, whose body is such an array."""
    wire = stranger.unicast(stranger.router, b"\x82\x08" + _wide(stranger.frame_bytes_max - 300))
    while True:
        await stranger.raw(frame(wire))


async def single_bytes(stranger: Stranger) -> None:
    """Send a valid message of the greatest length, one byte at a time."""
    data = frame(stranger.unicast(stranger.public, os.urandom(stranger.frame_bytes_max - 300)))
    while True:
        for byte in data:
            await stranger.raw(bytes((byte,)))


async def again(stranger: Stranger) -> None:
    """Send bytes with which no message begins: the link is closed, and dialled again with another key."""
    await stranger.raw(b"\x5a" + (stranger.frame_bytes_max - 5).to_bytes(4, "big"))
    while True:
        await stranger.raw(b"\x84")


async def forgeries(stranger: Stranger) -> None:
    """Send messages whose signature is not by the key that they name."""
    head = stranger.unicast(stranger.public, os.urandom(BODY_BYTES))[:-64]
    while True:
        await stranger.messages([head + os.urandom(64) for _ in range(16)])


async def idle(stranger: Stranger) -> None:
    """Send nothing but answers to pings."""
    await trio.sleep_forever()


async def ids(stranger: Stranger) -> None:
    """Send valid messages to a public service, with ttl 0 and an expiry days ahead, so that each is an id to
    remember."""
    while True:
        await stranger.messages([stranger.unicast(stranger.public, os.urandom(16)) for _ in range(16)])


async def sources(stranger: Stranger) -> None:
    """Send valid messages, each signed by another key, as if it had come from far away."""
    while True:
        await stranger.messages(
            [stranger.unicast(stranger.public, b"", SigningKey(os.urandom(32)), ttl_s=3600) for _ in range(16)]
        )


async def junk(stranger: Stranger) -> None:
    """Send small messages that are refused before their signature is checked, because their destination is unknown."""
    while True:
        nowhere = [stranger.unicast(PublicKey(os.urandom(32)), b"") for _ in range(MAKE_AHEAD)]
        for at in range(0, MAKE_AHEAD, 32):
            await stranger.messages(nowhere[at : at + 32])


async def meets(stranger: Stranger) -> None:
    """Send the pub/sub service valid MEETs, each of which it would have to answer."""
    while True:
        nonces = [os.urandom(NONCE_BYTES) for _ in range(16)]
        await stranger.messages([stranger.unicast(stranger.public, encode([MEET, {"n": one}])) for one in nonces])


async def service_junk(stranger: Stranger) -> None:
    """Send the pub/sub service what it cannot read."""
    while True:
        await stranger.messages([stranger.unicast(stranger.public, os.urandom(64)) for _ in range(16)])


async def pulls(stranger: Stranger) -> None:
    """Join a group, settle nothing, and ask again and again for a message of the greatest length: no answer has room in
    the window. The first member publishes it, and the others are owed it."""
    group, stranger.settles = stranger.first, False
    await stranger.link.want(group.public)
    until_min = expiry_min(time.time() + LIFE_S)
    wire = seal_multicast(group, bytes(stranger.frame_bytes_max - 1_000), ttl_s=3600, expiry_min=until_min)
    if stranger.key.public != group.public:
        await trio.sleep_forever()
    while not await stranger.is_taken(wire):
        await trio.sleep(AGAIN_S)
    pull = encode_control(Pull(group.public, message_id(wire)))
    while True:
        await stranger.messages([stranger.unicast(stranger.router, pull, ttl_s=0)])
        await trio.sleep(1 / PULLS_PER_S)


ATTACKS: dict[str, Callable[[Stranger], Awaitable[None]]] = {
    "wide items": wide_item, "wide bodies": wide_body, "single bytes": single_bytes, "closed and back": again,
    "forgeries": forgeries, "idle links": idle, "far ids": ids, "throw-away sources": sources, "junk": junk,
    PULLS: pulls, MEETS: meets, SERVICE_JUNK: service_junk,
}  # fmt: skip


async def _besiege(siege: Siege, pace: SharedRate, counts: Counter[str], turn: int, begun: trio.Event) -> None:
    """Keep one of the links: whenever the node closes it, dial again, with another key unless it has to be a member's.
    `begun` is set at the first link."""
    while True:
        stranger = Stranger(siege, pace, counts, turn)
        try:
            await stranger.connect()
            begun.set()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stranger.hear)
                await ATTACKS[siege.attack](stranger)
        except* (StreamBroken, RemoteProtocolError, ConnectFailed, LinkOver, trio.ClosedResourceError):
            counts["closed"] += 1
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await stranger.link.close()
        await trio.sleep(AGAIN_S)


async def besiege(siege: Siege) -> dict[str, Any]:
    """Attack from the first line of standard input to the second; print a line when the first link is there."""
    pace, counts = SharedRate(siege.bytes_per_s), Counter[str]()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    began, cpu_s, begun = time.monotonic(), time.process_time(), trio.Event()
    async with trio.open_nursery() as nursery:
        for turn in range(siege.links):
            nursery.start_soon(_besiege, siege, pace, counts, turn, begun)
        await begun.wait()
        print(json.dumps({"begun": True}), flush=True)
        await trio.to_thread.run_sync(partial(sys.stdin.readline))
        nursery.cancel_scope.cancel()
    took = time.monotonic() - began
    cpu = (time.process_time() - cpu_s) / took
    return {"seconds": took, "mbit_per_s": pace.spent * 8e-6 / took, "attackers_cores": cpu, **counts}


if __name__ == "__main__":
    os.nice(NICE)
    print(json.dumps(trio.run(besiege, Siege(**json.loads(sys.argv[1])))), flush=True)
