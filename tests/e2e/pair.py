"""Two well-behaved apps that exchange messages undisturbed, while a test misbehaves beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio
from raw_link import RawLink, linked
from rig import NodeProcess, Rig, new_key, rig
from rigs.patience import HANG_S

from router import connect
from router.core.wire.crypto import SigningKey
from router.rig.process import until

HELLO_S = 1.0
FRAME_BYTES_MAX = 64 * 1024
STRICT = {"limits.hello_s": HELLO_S, "limits.frame_bytes_max": FRAME_BYTES_MAX}


@dataclass
class Pair:
    """A speaker and a listener on one node. The speaker sends the next message when the listener has got the last
    one."""

    node: NodeProcess
    group: SigningKey = field(default_factory=new_key)
    heard: list[bytes] = field(default_factory=list)
    longest_s: float = 0.0

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        home = self.node.home
        async with connect(home=home) as listener, connect(home=home) as speaker:
            listening, speaking = await listener.join(self.group, timeout_s=HANG_S), speaker.group(self.group)
            task_status.started()
            n = 0
            while True:
                began = trio.current_time()
                with trio.fail_after(HANG_S):
                    await speaking.publish(b"%d" % n)
                    async for message in listening:
                        self.heard.append(message.body)
                        break
                self.longest_s = max(self.longest_s, trio.current_time() - began)
                n += 1

    async def goes_on(self) -> None:
        """Wait for three more messages, and check that all came once and in order."""
        before = len(self.heard)

        async def has_more() -> bool:
            return len(self.heard) >= before + 3

        await until("the pair goes on", has_more)
        assert self.heard == [b"%d" % n for n in range(len(self.heard))]


@asynccontextmanager
async def undisturbed(node: NodeProcess) -> AsyncIterator[Pair]:
    async with trio.open_nursery() as nursery:
        pair = Pair(node)
        await nursery.start(pair.run)
        await pair.goes_on()
        yield pair
        await pair.goes_on()
        nursery.cancel_scope.cancel()


@dataclass
class Scene:
    """A core with an undisturbed pair, a client, and a group that the client may speak to."""

    rig: Rig
    core: NodeProcess
    pair: Pair
    client: SigningKey
    group: SigningKey
    listener: RawLink


@asynccontextmanager
async def scene(base: Path) -> AsyncIterator[Scene]:
    async with rig(base) as found:
        core, client, group = found.node("core", "core", STRICT), new_key(), new_key()
        core.knows(client.public, "client", grants=("join", "store"))
        await core.start()
        async with undisturbed(core) as pair, linked(core, new_key()) as listener:
            assert await listener.join(group.public)
            yield Scene(found, core, pair, client, group, listener)
