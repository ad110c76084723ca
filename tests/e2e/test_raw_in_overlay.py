"""What is published raw in a group of which nodes have the keys goes on, and the overlay refuses nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio
from overlay_nodes import ask_pubsub, core, edge
from rig import NodeProcess, new_key, rig
from rigs.patience import HANG_S

from router import connect
from router.client.group import Group
from router.core.wire.grouplink import GroupLink
from router.rig.process import until
from router.settings import keyring

EACH = 3


async def test_raw_messages_of_a_known_group_pass_the_overlay_without_a_refusal(tmp_path: Path) -> None:
    """The services of both nodes take part in the group, whose keys are in both homes, as a topic's are."""
    key = new_key()
    link = GroupLink(key.public, new_key().seed, key.seed)
    async with rig(tmp_path) as found:
        nodes = hub, leaf = core(found, "hub"), edge(found, "leaf")
        hub.serves(leaf)
        for node in nodes:
            keyring.add_group(node.home, "topic", link)
            await node.start()
        await leaf.until_connected(hub.address)
        async with connect(home=hub.home, as_name="a") as one, connect(home=leaf.home, as_name="b") as other:
            with trio.fail_after(HANG_S):
                groups = [await app.join("topic", raw=True) for app in (one, other)]
                await hub.until_joined(key.public, leaf.address)
                for node in nodes:  # before that, its service is given nothing
                    await node.until_joined(key.public, keyring.load(node.home, "service-pubsub").public)
                for number in range(EACH):
                    for group in groups:
                        await group.publish(b"%d" % number)
                for group in groups:
                    await _read(group)
            for node in nodes:
                await until(f"the service of {node.name} was given all", partial(_has_all, node))
                assert (await node.ask("status"))["reasons"] == {}, node.name


async def _has_all(node: NodeProcess) -> bool:
    return bool((await ask_pubsub(node, "forwarding"))["received"] == 2 * EACH)


async def _read(group: Group) -> None:
    """Read what the other one has published: no app hears itself."""
    read = 0
    async for _ in group:
        read += 1
        if read == EACH:
            return
