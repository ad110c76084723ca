"""A core that is killed, moved, restored elsewhere and given other keys, again and again, while its edge goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from rig import NodeProcess, Rig, new_key, rig
from rigs.patience import HANG_S
from rigs.ports import free_port

from router import connect
from router.settings import keyring
from router.settings.home import Home

STEPS = 6
LIFE_S = 86_400


class Core:
    """The core, and what becomes of it: each deed leaves it running."""

    def __init__(self, found: Rig, node: NodeProcess, edge: NodeProcess, chance: Random) -> None:
        self.base, self.node, self.edge, self.chance = found.base, node, edge, chance
        self.homes = 0

    async def rotated_while_it_runs(self) -> None:
        assert (await self.node.run("keys", "rotate-node", "--again")).code == 0

    async def rotated_while_it_is_stopped(self) -> None:
        await self.node.stop()
        assert (await self.node.run("keys", "rotate-node", "--again")).code == 0
        await self.node.start()

    async def killed_while_it_is_rotated(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.node.run, "keys", "rotate-node", "--again")
            await trio.sleep(self.chance.random() * 2)  # from before the order to after the new start
            await self.node.kill()
            nursery.cancel_scope.cancel()
        await self.node.start()

    async def moved(self) -> None:
        there = f"tls://127.0.0.1:{free_port()}"
        assert (await self.node.run("move", there)).code == 0

        def knows(rows: list[dict[str, Any]]) -> bool:
            return any(there in one.get("said_urls", ()) for one in rows)

        await self.edge.until_answer("it knows the new address", "peers", knows)
        await self.node.stop()
        self.node.url, self.node.flags = there, ("--listen", there)
        await self.node.start()

    async def restored(self) -> None:
        self.homes += 1
        file = str(self.base / f"snapshot-{self.homes}")
        await self.node.stop()
        assert (await self.node.run("backup", file, "--plain")).code == 0
        self.node.home = Home(self.base / f"home-{self.homes}")
        assert (await self.node.run("restore", file, "--yes")).code == 0
        await self.node.start()


DEEDS = (
    Core.rotated_while_it_runs,
    Core.rotated_while_it_is_stopped,
    Core.killed_while_it_is_rotated,
    Core.moved,
    Core.restored,
)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
async def test_its_edge_follows_it_through_all_of_that_and_nothing_accepted_is_lost(seed: int, tmp_path: Path) -> None:
    chance, group = Random(seed), new_key()
    async with rig(tmp_path, 4 * HANG_S) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        for node in (core, edge):
            await node.start()
        await core.until_connected(edge.address)
        async with connect(home=core.home, as_name="reader") as reader:
            await reader.join(group, timeout_s=HANG_S)
        one, sent, got = Core(found, core, edge, chance), list[bytes](), Counter[bytes]()
        async with connect(home=edge.home, as_name="writer", when_down="queue") as writer:
            for step in range(STEPS):
                for number in range(3):
                    sent.append(b"%d %d" % (step, number))
                    await writer.group(group).publish(sent[-1], ttl_s=LIFE_S)
                deed = chance.choice(DEEDS)
                print(f"step {step}: {deed.__name__}")
                await deed(one)
                if chance.random() < 0.7:
                    await edge.until_connected(keyring.load(core.home, keyring.NODE).public)
            await edge.until_connected(keyring.load(core.home, keyring.NODE).public)
            await edge.until_drained()
        async with connect(home=core.home, as_name="reader") as reader:
            with trio.fail_after(HANG_S):
                async for message in reader:
                    assert message.redelivered or message.body not in got
                    got[message.body] += 1
                    if set(got) == set(sent):
                        break
