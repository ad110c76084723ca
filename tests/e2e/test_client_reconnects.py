"""An app whose node is killed and started again continues by itself; it chooses what publishing does meanwhile."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from rig import ROUTER, NodeProcess, Rig, new_key, rig
from rigs.patience import HANG_S

from router import Node, NodeUnavailable, connect
from router.rig.process import until


@asynccontextmanager
async def one_node(base: Path) -> AsyncIterator[tuple[Rig, NodeProcess]]:
    async with rig(base) as found:
        node = found.node("node")
        await node.start()
        yield found, node


async def until_up(app: Node, up: bool = True) -> None:
    async def is_so() -> bool:
        return app.is_up is up

    await until(f"the app is {'connected' if up else 'without its node'}", is_so)


async def test_the_loop_goes_on_where_it_was(tmp_path: Path) -> None:
    """Over three restarts, two of them after a kill, every message comes once and in order, and the app notices
    nothing."""
    async with one_node(tmp_path) as (_, node):
        group, key, got = new_key(), new_key(), list[bytes]()
        async with (
            connect(home=node.home, key=key) as listener,
            connect(home=node.home, when_down="queue") as speaker,
            trio.open_nursery() as nursery,
        ):
            heard = await listener.join(group, timeout_s=HANG_S)

            async def listen() -> None:
                async for message in heard:
                    got.append(message.body)

            nursery.start_soon(listen)
            speaking = speaker.group(group)
            sent = []
            for restart, how in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)):
                for n in range(10):
                    sent.append(b"%d %d" % (restart, n))
                    await speaking.publish(sent[-1])
                node.signal(how)
                await node.wait()
                await until_up(listener, False)
                await node.start()
                await until_up(listener)

            async def has_all() -> bool:
                return len(got) >= len(sent)

            await until("everything has come", has_all)
            nursery.cancel_scope.cancel()
        assert got == sent
        await node.until_drained()


async def test_publishing_raises(tmp_path: Path) -> None:
    """With `when_down="raise"`, the default, publishing raises at once, with the remedy, and nothing is sent later."""
    async with one_node(tmp_path) as (_, node):
        group, got = new_key(), list[bytes]()
        async with connect(home=node.home, key=new_key()) as listener, connect(home=node.home) as speaker:
            heard = await listener.join(group, timeout_s=HANG_S)
            speaking = speaker.group(group)
            await node.kill()
            await until_up(speaker, False)
            with pytest.raises(NodeUnavailable, match=r'node is away.*when_down="queue"'):
                await speaking.publish(b"lost")
            with pytest.raises(NodeUnavailable):
                await speaker.send(listener.key, b"lost")
            await node.start()
            await until_up(speaker)
            await until_up(listener)
            await speaking.publish(b"not lost")
            with trio.fail_after(HANG_S):
                async for message in heard:
                    got.append(message.body)
                    break
            assert got == [b"not lost"]


async def test_publishing_queues(tmp_path: Path) -> None:
    """With `when_down="queue"`, publishing waits for the node, even before its first start."""
    async with rig(tmp_path) as found:
        node, group = found.node("node"), new_key()
        key = new_key()
        async with connect(home=node.home, when_down="queue") as speaker, trio.open_nursery() as nursery:
            speaking = speaker.group(group)
            taken = list[bytes]()

            async def publish(body: bytes) -> None:
                await speaking.publish(body)
                taken.append(body)

            await node.start()
            async with connect(home=node.home, key=key) as listener:
                await listener.join(group, timeout_s=HANG_S)
            await node.kill()
            await until_up(speaker, False)
            for n in range(5):
                nursery.start_soon(publish, b"%d" % n)
            await trio.testing.wait_all_tasks_blocked()
            assert taken == []
            await node.start()

            async def all_taken() -> bool:
                return len(taken) == 5

            await until("all are in custody", all_taken)
        got = list[bytes]()
        async with connect(home=node.home, key=key) as listener:
            async for message in listener.group(group):
                got.append(message.body)
                if len(got) == 5:
                    break
        assert sorted(got) == [b"0", b"1", b"2", b"3", b"4"]


async def test_the_commands_do_the_same(tmp_path: Path) -> None:
    """`router pub` ends with code 3 and a sentence; `router pub --queue` waits for the node."""
    async with rig(tmp_path) as found:
        node = found.node("node")
        assert (await node.run("group", "new", "g")).code == 0
        failed = await node.run("pub", "g", "now")
        assert failed.code == 3
        assert "serve`" in failed.stderr and "start one with `router" in failed.stderr
        assert len(failed.stderr.splitlines()) <= 2

        await node.start()
        async with connect(home=node.home, as_name="reader") as reader:
            heard = await reader.join("g", timeout_s=HANG_S)
            await node.kill()
            waiting = found.process("pub", *ROUTER, "--home", str(node.home.path), "pub", "--queue", "g", "later")
            await waiting.launch()
            await node.start()
            assert (await waiting.line()).startswith("msg1")
            assert await waiting.wait() == 0
            async for message in heard:
                assert message.body == b"later"
                break
