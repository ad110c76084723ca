"""Node and command are killed at each step of a rotation on a live node; the next start, or the command again, finishes
it, and what was under way arrives."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
import trio
from rig import NodeProcess, new_key, rig
from rigs.patience import HANG_S

from router import connect
from router.actors.process import program
from router.rig.process import EndedCommand, run_command, until
from router.settings import keyring, node_rotation, renewed_keys

KILLED = Path(__file__).parents[1] / "rigs" / "killed_at_step.py"
STEPS_MIN = 6
NAME = "service-echo"


def killed_at(step: int) -> list[str]:
    """Return the command in place of `router` that is killed before that step."""
    return [sys.executable, "-P", str(KILLED), str(step)]


async def run_killed(node: NodeProcess, step: int, *arguments: str) -> EndedCommand:
    return await run_command([*killed_at(step), "--home", str(node.home.path), *arguments])


async def is_killed_by(node: NodeProcess, is_done: Callable[[], bool], *arguments: str) -> bool:
    """Run a command that has the node begin anew until that is done, or until the node is killed by it; return the
    latter."""
    ended = list[EndedCommand]()

    async def command() -> None:
        ended.append(await node.run(*arguments))

    async def is_over() -> bool:
        return not node.is_running or (bool(ended) and is_done())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(command)
        await until("the end of the rotation, or of the node", is_over)
        nursery.cancel_scope.cancel()
    if node.is_running:
        assert ended[0].code == 0, ended[0].stderr
        return False
    assert await node.wait() == -signal.SIGKILL
    return True


@pytest.mark.long
async def test_a_node_that_is_killed_at_each_step_of_its_rotation_is_followed_and_loses_nothing(tmp_path: Path) -> None:
    group, sent = new_key(), list[bytes]()
    async with rig(tmp_path, 4 * HANG_S) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        for node in (core, edge):
            await node.start()
        await core.until_connected(edge.address)
        async with connect(home=core.home, as_name="reader") as reader:
            await reader.join(group, timeout_s=HANG_S)
        await core.stop()
        for step in count():
            old = keyring.load(core.home, keyring.NODE).public
            core.served_by = killed_at(step)
            await core.start()
            await edge.until_connected(old)
            async with connect(home=edge.home, as_name="writer") as writer:
                sent.append(b"%d" % step)
                await writer.group(group).publish(sent[-1], ttl_s=86_400)

            def is_done(old: bytes = bytes(old)) -> bool:
                return not node_rotation.has_begun(core.home) and keyring.load(core.home, keyring.NODE).public != old

            was_killed = await is_killed_by(core, is_done, "keys", "rotate-node", "--again")
            if was_killed:
                has_begun, core.served_by = node_rotation.has_begun(core.home), program("router")
                await core.start()
                assert (keyring.load(core.home, keyring.NODE).public != old) is has_begun
                assert not node_rotation.has_begun(core.home)
            await edge.until_connected(keyring.load(core.home, keyring.NODE).public)
            await edge.until_drained()
            if not was_killed:
                assert step >= STEPS_MIN
                break
            await core.stop()
        async with connect(home=core.home, as_name="reader") as reader:
            with trio.fail_after(HANG_S):
                got = [(await anext(aiter(reader))).body for _ in sent]
        assert got == sent


@pytest.mark.long
@pytest.mark.parametrize("who", ["command", "node"])
async def test_a_service_whose_rotation_is_killed_at_each_step_answers_by_its_new_key(who: str, tmp_path: Path) -> None:
    async with rig(tmp_path, 4 * HANG_S) as found:
        node = found.node("node")
        block = '[[node.services]]\nname = "echo"\nmodule = "services.echo"\nrun = "inside"\n'
        node.home.config_path.write_text(block)
        await node.start()
        await node.stop()
        for step in count():
            old, keys, was_killed = keyring.load(node.home, NAME).public, node.home.key_path.parent, False
            if who == "node":
                node.served_by = killed_at(step)
                await node.start()

                def is_done(old: bytes = bytes(old), keys: Path = keys) -> bool:
                    return keyring.load(node.home, NAME).public != old and not renewed_keys.begun(keys)

                was_killed = await is_killed_by(node, is_done, "keys", "rotate", "echo", "--again")
                node.served_by = program("router")
                if was_killed:
                    await node.start()
            else:
                await node.start()
                done = await run_killed(node, step, "keys", "rotate", "echo", "--again")
                if was_killed := done.code < 0:
                    has_begun = NAME in renewed_keys.begun(keys)
                    assert keyring.load(node.home, NAME).public == old
                    said = await node.run("keys", "rotate", "echo", *(() if has_begun else ("--again",)), "--json")
                    assert said.code == 0, said.stderr
            async with connect(home=node.home, as_name="asker") as asker:
                await asker.send(old, b"%d" % step, plain=True)
                with trio.fail_after(HANG_S):
                    answer = await anext(asker.unicasts())
                await answer.settle()
            new = keyring.load(node.home, NAME).public
            assert (answer.source, answer.body) == (new, b"echo: %d" % step) and new != old

            async def is_finished(keys: Path = keys) -> bool:
                return not renewed_keys.begun(keys)

            await until("the rotation is finished", is_finished)
            await node.stop()
            if not was_killed:
                assert step >= (2 if who == "command" else STEPS_MIN - 1)
                break
