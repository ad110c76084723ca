"""Bad input of every kind against a real node: refused with a reason for machines and a sentence for people, while two
well-behaved apps exchange messages and notice nothing."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from bad_bytes import BAD_MESSAGES, bad_bytes
from raw_link import RawLink, linked, multicast, say_bytes
from rig import ROUTER, NodeProcess, Rig, new_key, rig, run_command, until

from router import ClientError, connect
from router.core.control import Join
from router.core.crypto import SigningKey
from router.core.link import Goodbye, Hello
from router.core.reasons import Reason

HELLO_S = 1.0
PATIENCE_S = 20.0  # no message of the pair takes longer, on the busiest machine
FRAME_BYTES_MAX = 64 * 1024


@dataclass
class Pair:
    """A speaker and a listener on one node. The speaker says the next thing when the listener has heard the last."""

    node: NodeProcess
    group: SigningKey = field(default_factory=new_key)
    heard: list[bytes] = field(default_factory=list)
    longest_s: float = 0.0

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        home = self.node.home
        async with connect(home=home) as listener, connect(home=home) as speaker:
            listening, speaking = await listener.join(self.group), speaker.group(self.group)
            task_status.started()
            n = 0
            while True:
                began = trio.current_time()
                with trio.fail_after(PATIENCE_S):
                    await speaking.publish(b"%d" % n)
                    async for message in listening:
                        self.heard.append(message.body)
                        break
                self.longest_s = max(self.longest_s, trio.current_time() - began)
                n += 1

    async def goes_on(self) -> None:
        """Three more messages have come, and all so far once and in order."""
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
        core, client, group = found.node("core", "core", **SMALL), new_key(), new_key()
        core.knows(client.public, "client", grants=("join", "store"))
        await core.start()
        async with undisturbed(core) as pair, linked(core, new_key()) as listener:
            assert await listener.join(group.public)
            yield Scene(found, core, pair, client, group, listener)


SMALL = {"limits__hello_s": HELLO_S, "limits__frame_bytes_max": FRAME_BYTES_MAX, "limits__lifetime_s_max": 7 * 86_400}


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "unix"])
async def test_bad_messages_are_refused_one_by_one(tls: bool, tmp_path: Path, subtests: pytest.Subtests) -> None:
    async with scene(tmp_path) as found:
        key = found.client if tls else new_key()
        async with linked(found.core, key, tls=tls) as link:
            for bad in BAD_MESSAGES:
                with subtests.test(bad.name):
                    good = [multicast(found.group, os.urandom(8)) for _ in range(2)]
                    before = (await found.core.ask("status"))["reasons"]
                    reasons = await link.publish(good[0], bad.make(link, found.group), good[1])
                    assert reasons == [None, bad.reason, None]
                    await found.listener.until("the good ones come", lambda g=good: g == found.listener.got[-2:])
                    after = (await found.core.ask("status"))["reasons"]
                    if bad.reason is not None:
                        assert after[bad.reason.word] == before.get(bad.reason.word, 0) + 1
                    await found.pair.goes_on()
            with subtests.test("replayed"):
                good = [multicast(found.group, b"once")]
                assert await link.publish(*good, *good) == [None, None]
                assert await link.publish(*good) == [None]
                assert await link.publish(multicast(found.group, b"the end")) == [None]
                await found.listener.until("the end comes", lambda: found.listener.got[-1][-71:-66] != b"")
                assert found.listener.got.count(good[0]) == 1
            assert (len(link.got), link.ended) == (0, None)


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "unix"])
async def test_what_no_neighbour_may_say_ends_its_connection(
    tls: bool, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    async with scene(tmp_path) as found:
        for bad in bad_bytes(FRAME_BYTES_MAX):
            with subtests.test(bad.name):
                key = found.client if tls else new_key()
                async with linked(found.core, key, tls=tls) as link:
                    good = multicast(found.group, bad.name.encode())
                    await link.send(good)
                    await link.stream.send_all(bad.data)
                    ended = await link.until_closed()
                    assert ended is not None
                    assert ended.reason == bad.reason
                    assert ended.text
                await found.listener.until("what came before is delivered", lambda g=good: g in found.listener.got)
                await found.pair.goes_on()
            with subtests.test(f"{bad.name}, instead of a hello"):
                *_, last = await say_bytes(found.core, bad.data, key=new_key(), tls=tls)
                assert isinstance(last, Goodbye)
                await found.pair.goes_on()
        with subtests.test("a frame that is cut off"):
            async with linked(found.core, found.client, tls=True) as link:
                await link.stream.send_all(b"\x59\x01\x00" + bytes(100))
            await found.core.until_connected(found.client.public, up=False)
            await found.pair.goes_on()
