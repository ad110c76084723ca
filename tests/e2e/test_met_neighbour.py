"""A neighbour that a core has met, because both want a group, does what it should not, on a real link: each time there
is a reason or a bound, and the apps of the core notice nothing (R-C24, R-C30, R-C35, R-D20)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from raw_link import RawLink, linked, multicast
from rig import QUICK, NodeProcess, new_key, rig
from rigs.patience import HANG_S
from rigs.ports import free_port

from router import Node, connect
from router.client.group import Group
from router.core.wire.codec import encode
from router.core.wire.control import Carried, Pull
from router.core.wire.crypto import MessageId, PublicKey, Signature, SigningKey
from router.core.wire.lifetime import UINT32_MAX, expiry_min
from router.core.wire.meeting import FILLER_BYTES, NONCE_BYTES, TAG_BYTES, TAGS_MAX, Meet, Meeting, Met
from router.core.wire.message import Unicast, message_id, open_message, seal_multicast, seal_unicast
from router.core.wire.reasons import NOT_SHARED
from router.rig.process import until
from router.settings.config_services import NewHomeService
from router.settings.home import Home
from services.pubsub.core.comparison.plan import CompareLimits
from services.pubsub.core.messages import (
    FILTER_BYTES,
    IDS_MAX,
    AskInterests,
    Compare,
    Compared,
    Filter,
    Have,
    Message,
    TellInterests,
    decode_message,
    encode_message,
)
from services.pubsub.core.sending.repair import RepairLimits

LIFE_S = 600
LIMITS, COMPARE_LIMITS = RepairLimits(), CompareLimits()
NEVER_THE_SAME = b"\x61\x00\x00\x01" + bytes(16)
BAD_FRAMES = {
    "ranges that run backwards": b"\x61\x05\x01\x09\x00\x01\x01\x08\x00",
    "a million ids announced": b"\x61\x00\x00\x02\xbd\x84\x40" + bytes(64),
    "ranges behind the end": b"\x61\x00\x00\x00\x05\x00\x00",
}


@dataclass
class Neighbour:
    """A router that a test drives by hand, with a pub/sub service of its own."""

    link: RawLink
    router: SigningKey
    service: SigningKey
    core: PublicKey
    """The core's pub/sub service."""
    t: bytes = b""
    met: bytes = b""
    """The MET that it said."""
    read: int = 0

    async def said(self, kind: type[Message]) -> Any:
        """Return what the core's service says next of a kind; the rest is left out."""
        while True:
            await self.link.until(f"the core says {kind.__name__}", lambda: len(self.link.got) > self.read)
            wire = self.link.got[self.read]
            self.read += 1
            message = open_message(wire)
            if isinstance(message, Unicast) and message.destination == self.service.public:
                self.core = message.source
                if isinstance(said := decode_message(message.body), kind):
                    return said

    def wire(self, body: bytes) -> bytes:
        expiry = expiry_min(time.time() + LIFE_S)
        return seal_unicast(self.service, self.core, body, ttl_s=60, expiry_min=expiry)

    async def say(self, body: bytes) -> None:
        assert await self.link.publish(self.wire(body)) == [None]

    async def meet(self, *groups: PublicKey) -> None:
        """Answer the core's MEET."""
        meet = await self.said(Meet)
        meeting = Meeting(self.router.public, self.link.router, meet.nonce, os.urandom(NONCE_BYTES))
        tags = meeting.tags(groups, os.urandom(FILLER_BYTES))
        self.met = encode_message(Met(meeting.second, meeting.first, tags))
        await self.say(self.met)
        theirs = await self.said(Met)
        assert meeting.shared(groups, theirs.tags) == [groups[0]]
        self.t = meeting.topic(groups[0])


@dataclass
class Scene:
    """A core with two apps in a group that it shares with the neighbour, and in one that it does not."""

    core: NodeProcess
    writer: Node
    shared: SigningKey
    alone: SigningKey
    reader: Group
    neighbour: Neighbour
    said: int = 0

    async def goes_on(self) -> None:
        """Check that the apps still hear each other, and in order."""
        self.said += 1
        body = b"%d" % self.said
        await self.writer.group(self.shared).publish(body)
        async for message in self.reader:
            if message.body.isdigit():
                assert message.body == body
                return

    async def refused(self, body: bytes, reason: str) -> None:
        """Let the neighbour say something, and wait until the core's service refuses it for this reason."""
        wire = self.neighbour.wire(body)
        await self.neighbour.link.publish(wire)
        await until(f"the core refuses it: {reason}", partial(self.is_refused, wire, reason))

    async def is_refused(self, wire: bytes, reason: str) -> bool:
        return f'"{reason}"' in (await self.writer.ask("why", message_id(wire).hex(), timeout_s=HANG_S)).decode()

    async def figures(self) -> dict[str, int]:
        found: dict[str, int] = json.loads(await self.writer.ask("service", "pubsub forwarding", timeout_s=HANG_S))
        return found


@asynccontextmanager
async def scene(base: Path) -> AsyncIterator[Scene]:
    shared, alone, router, service = new_key(), new_key(), new_key(), new_key()
    Home(base / "core").create(
        "core", (f"tls://127.0.0.1:{free_port()}",), {"pubsub": NewHomeService({"mode": "overlay"})}
    )
    async with rig(base) as found:
        core = found.node("core", "core", QUICK, listens=False)
        await core.start()
        core.url = next(one for one in core.told["listeners"] if one.startswith("tls"))
        async with connect(home=core.home) as writer, connect(home=core.home) as app:
            reader = await app.join(shared.public, timeout_s=HANG_S)
            await app.join(alone.public, timeout_s=HANG_S)
            async with linked(core, router, tls=True, role="router", pubsub=service.public) as link:
                one = Neighbour(link, router, service, core.address)
                await one.meet(shared.public)
                found_scene = Scene(core, writer, shared, alone, reader, one)

                async def is_met() -> bool:
                    return await link.publish(multicast(shared, os.urandom(8) + b"x")) == [None]

                await until("the core lets it bring messages of the shared group", is_met)
                yield found_scene


async def test_what_a_met_neighbour_may_not_do(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        link = one.neighbour.link
        await _fingerprints_that_never_agree(one)
        await one.goes_on()
        await _groups_that_are_not_shared(one)
        await one.goes_on()
        await _meetings(one)
        await one.goes_on()
        await _frames(one)
        await one.goes_on()
        await _ids_that_nobody_has(one)
        await one.goes_on()
        assert await link.publish(multicast(one.shared, b"still met")) == [None]
        await _too_many_frames(one)
        await one.goes_on()
        assert not link.is_closed


async def _fingerprints_that_never_agree(one: Scene) -> None:
    """Each frame of the comparison that the core has begun is answered as if nothing were alike: it ends by its rounds.

    The core then has something to say of other things only."""
    me, refused, last = one.neighbour, len(one.neighbour.link.refused), 0
    for _ in range(COMPARE_LIMITS.rounds_max):
        asked = await me.said(Compare)
        other = NEVER_THE_SAME[:-16] + os.urandom(16)  # the same answer again would be a duplicate
        last = await me.link.send(me.wire(encode_message(Compared(asked.t, asked.lo, asked.hi, other))))
    await me.link.until("every answer is settled", lambda: me.link.settled >= last)
    assert len(me.link.refused) == refused
    await one.refused(encode_message(Compared(me.t, 0, UINT32_MAX, NEVER_THE_SAME)), "pubsub:meet-first")


async def _groups_that_are_not_shared(one: Scene) -> None:
    """JOIN, PULL, a carried message, ids, a comparison."""
    link = one.neighbour.link
    hidden = await one.writer.group(one.alone).publish(b"of nobody else")
    assert not await link.join(one.alone.public)
    await link.send(link.says(Pull(one.alone.public, hidden)))
    assert await link.publish(multicast(one.alone, b"let in?")) == [NOT_SHARED]
    await one.refused(encode_message(Have(bytes(16), (MessageId(bytes(32)),))), "pubsub:meet-first")
    asked = Compare(bytes(16), 0, UINT32_MAX, NEVER_THE_SAME)
    await one.refused(encode_message(asked), "pubsub:meet-first")
    assert not [said for said in link.heard if isinstance(said, Carried)], "the PULL was not answered"


async def _meetings(one: Scene) -> None:
    """A MET again, one with too many tags, and the forged filter of another."""
    me = one.neighbour
    await me.say(me.met)
    too_many = [each.to_bytes(TAG_BYTES, "big") for each in range(TAGS_MAX + 1)]
    met = decode_message(me.met)
    assert isinstance(met, Met)
    body = encode([6, {"n": met.nonce, "to": met.to, "tags": too_many}])
    await one.refused(body, "malformed")
    forged = Filter(int(time.time() * 1000), b"\xff" * FILTER_BYTES, Signature(bytes(64)))
    await me.say(encode_message(AskInterests(forged, ())))
    assert (await me.said(TellInterests)).view[0].filter != forged


async def _frames(one: Scene) -> None:
    """Bad frames, another version, and more frames than are answered."""
    me = one.neighbour
    for frame in BAD_FRAMES.values():
        await one.refused(encode_message(Compare(me.t, 0, UINT32_MAX, frame)), "pubsub:not-compared")
    await me.say(encode_message(Compare(me.t, 0, UINT32_MAX, b"\x62\x00")))
    assert (await me.said(Compared)).m == b"\x61"


async def _too_many_frames(one: Scene) -> None:
    """More frames at once than are answered: the rest are refused until later."""
    me, again = one.neighbour, range(int(COMPARE_LIMITS.frames_burst) + 20)
    wires = [me.wire(encode_message(Compare(me.t, 0, UINT32_MAX, NEVER_THE_SAME, at))) for at in again]
    await me.link.publish(*wires)

    async def is_one_refused() -> bool:
        for wire in reversed(wires[-60:]):
            if await one.is_refused(wire, "pubsub:limit"):
                return True
        return False

    await until("the core refuses some", is_one_refused)


async def _ids_that_nobody_has(one: Scene) -> None:
    """10,000 ids are announced, and messages name ids that were invented."""
    me, link = one.neighbour, one.neighbour.link
    invented = [MessageId(os.urandom(32)) for _ in range(10_000)]
    bodies = [encode_message(Have(me.t, tuple(invented[at : at + IDS_MAX]))) for at in range(0, 10_000, IDS_MAX)]
    await link.publish(*map(me.wire, bodies))
    expiry = expiry_min(time.time() + LIFE_S)
    naming = [
        seal_multicast(one.shared, b"names %d x" % at, ttl_s=60, expiry_min=expiry, seen=tuple(invented[at * 4 :][:4]))
        for at in range(100)
    ]
    await link.publish(*naming)
    figures: dict[str, int] = {}

    async def has_asked() -> bool:
        figures.clear()
        figures.update(await one.figures())
        return figures["asked_for"] > 0

    await until("the core asks for some of them", has_asked)
    assert 0 < figures["missing"] <= 2 * LIMITS.source_burst
    assert figures["asked_for"] <= LIMITS.open_max
