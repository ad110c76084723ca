"""An edge with two uplinks, one of which is killed: while it publishes, nothing is lost or doubled for a subscriber
behind both cores; a unicast to who was behind the dead one goes by the other."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from disk import read_disk
from raw_link import linked
from rig import NodeProcess, new_key, rig

from router import MessageId, connect

MESSAGES = 300
KILLED_AFTER = 100
BACK_AFTER = 200


async def test_one_of_two_uplinks_is_killed_while_publishing(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        first, second = found.node("first-core", "core"), found.node("second-core", "core")
        here, there = found.node("here"), found.node("there")
        for edge in (here, there):
            first.serves(edge)
            second.serves(edge)
        for node in (first, second, here, there):
            await node.start()
        group, subscriber = new_key(), new_key()
        async with linked(there, subscriber, durable=True) as app:
            assert await app.join(group.public)
            for core in (first, second):
                await core.until_joined(group.public, there.address)
                await core.until_connected(here.address)

            taken: list[MessageId] = []
            reached = {KILLED_AFTER: trio.Event(), BACK_AFTER: trio.Event()}

            def on_custody(id: MessageId) -> None:
                taken.append(id)
                if len(taken) in reached:
                    reached[len(taken)].set()

            async def kill_and_bring_back() -> None:
                await reached[KILLED_AFTER].wait()
                await first.kill()
                await reached[BACK_AFTER].wait()
                await first.start()

            async with trio.open_nursery() as nursery, connect(home=here.home) as publisher:
                nursery.start_soon(kill_and_bring_back)
                speaking = publisher.group(group)
                async with speaking.publisher(20, on_custody=on_custody) as hand_in:
                    for n in range(MESSAGES):
                        await hand_in.publish(b"%d" % n)
            await app.until("everything has come", lambda: len(app.got) >= MESSAGES)
            for node in (here, first, second, there):
                await node.until_drained()
            async with connect(home=here.home) as publisher:
                taken.append(await publisher.group(group).publish(b"the last"))
            await app.until("the last has come", lambda: taken[-1] in app.ids)
            assert sorted(app.ids) == sorted(taken)
            assert len(app.ids) == MESSAGES + 1
        await compare(tmp_path, taken, first, second, here, there)


@pytest.mark.long  # By value in test_plans.
async def test_unicast_goes_by_the_uplink_that_is_there_when_the_one_that_led_on_is_dead(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        first, second, here = found.node("first-core", "core"), found.node("second-core", "core"), found.node("here")
        reader, writer = new_key(), new_key()
        for core in (first, second):
            core.serves(here)
            core.knows(reader.public, grants=("join", "store", "relay"))
        for node in (first, second, here):
            await node.start()
        for core in (first, second):
            await core.until_connected(here.address)
        async with linked(here, writer) as writing:
            async with linked(first, reader, tls=True) as reading:
                question, answer = writing.unicast(reader.public, b"by?"), reading.unicast(writer.public, b"the first")
                assert await writing.publish(question) == [None]
                await reading.until_got(question)
                assert await reading.publish(answer) == [None]
                await writing.until_got(answer)
            await first.kill()
            await here.until_connected(first.address, up=False)
            async with linked(second, reader, tls=True) as reading:
                last = writing.unicast(reader.public, b"the second")
                assert await writing.publish(last) == [None]
                await reading.until_got(last)


async def compare(base: Path, taken: list[MessageId], *nodes: NodeProcess) -> None:
    """Check that each router accepted each message once."""
    for node in nodes:
        assert await node.stop() == 0
        disk = read_disk(node.home, node.address, base / "scratch")
        assert sorted(disk.accepted) == sorted(taken), node.name
