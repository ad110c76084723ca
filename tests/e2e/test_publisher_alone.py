"""Three cores of which two know the one in the middle: it dies, and what an app publishes at one, in a group that
nobody reads there, reaches a reader at the other, on real sockets: before the node knows that its uplink is gone, and
then. How long it took is printed, and decides nothing; the goal is 25 s."""

from __future__ import annotations

import time
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from overlay_nodes import core
from rig import NodeProcess, Rig, new_key, rig
from rigs.machines import bridged
from rigs.patience import HANG_S

from router import SigningKey, connect
from router.rig.machines import NamespaceMachine

GROUP = SigningKey(bytes((91,)) * 32)


async def until_it_knows(node: NodeProcess, other: NodeProcess) -> None:
    wanted = other.address.hex()
    await node.until_answer(
        "the finding of the other", "peers", lambda rows: wanted in {one["address"] for one in rows}
    )


class Scene(NamedTuple):
    """Three cores: two that know the one in the middle, and its cable, where it is on a machine of its own."""

    middle: NodeProcess
    one: NodeProcess
    other: NodeProcess
    cable: NamespaceMachine | None = None


def around(found: Rig, *machines: NamespaceMachine) -> Scene:
    """Return the cores, which are not started yet, on these machines or on this one; the middle one comes first."""
    names = "middle", "one", "other"
    middle, one, other = (core(found, name, machine) for name, machine in zip_longest(names, machines))
    for node in (one, other):
        node.knows(middle.address, url=middle.url, uplink=True)
        middle.knows(node.address, grants=("join", "store", "relay"))
    return Scene(middle, one, other, machines[0] if machines else None)


async def crosses(scene: Scene) -> float:
    """Let the middle one die, once the ends know each other, and publish at one end before and after it knows of that;
    return the seconds from the death until the reader at the other end has both messages."""
    middle, one, other, cable = scene
    for node in (middle, one, other):
        await node.start()
    with trio.fail_after(HANG_S):
        async with connect(home=other.home, key=new_key()) as reader, connect(home=one.home) as writer:
            messages = (await reader.join(GROUP, timeout_s=HANG_S)).messages()
            await until_it_knows(one, other)
            await until_it_knows(other, one)
            if cable is None:
                await middle.freeze()
            else:
                cable.pull()
            died_s = time.monotonic()
            await writer.group(GROUP).publish(b"to the dying", raw=True)
            owed = {row["recipient"] for row in (await one.run("queue", "--json")).json}
            assert middle.address.hex() in owed, "and a slow machine may have missed its uplink by now"
            if cable is None:
                await middle.kill()
                died_s = time.monotonic()
            await one.until_connected(middle.address, up=False)
            await writer.group(GROUP).publish(b"to somebody", raw=True)
            assert {(await anext(messages)).body for _ in range(2)} == {b"to the dying", b"to somebody"}
            return time.monotonic() - died_s


async def test_message_of_one_that_does_not_read_crosses_when_the_core_between_is_dead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with rig(tmp_path) as found:
        took_s = await crosses(around(found))
    with capsys.disabled():
        print(f"\nacross {took_s:.1f} s after the death")


@pytest.mark.long  # The same on machines; nothing tells the end of a link but that no answer comes.
async def test_message_of_one_that_does_not_read_crosses_when_the_core_between_loses_its_cable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with bridged() as bridge:
        async with rig(tmp_path) as found:
            took_s = await crosses(around(found, *(bridge.machine() for _ in range(3))))
    with capsys.disabled():
        print(f"\nacross {took_s:.1f} s after the cable was pulled")


@pytest.mark.long  # By value in test_core_hints, test_joins and test_pubsub_hints.
async def test_message_of_one_that_does_not_read_crosses_by_the_hint_of_its_link_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with rig(tmp_path) as found:
        one, other = core(found, "one"), core(found, "other")
        for node in (one, other):
            await node.start()
        with trio.fail_after(HANG_S):
            await other.run("group", "new", "friends")
            link = (await other.run("group", "share", "friends", "--json")).json["link"]
            await one.run("group", "add", link)
            async with connect(home=other.home, key=new_key()) as reader:
                messages = (await reader.join("friends", timeout_s=HANG_S)).messages()
                began_s = time.monotonic()
                await one.run("pub", "friends", "to somebody")
                assert (await anext(messages)).body == b"to somebody"
                took_s = time.monotonic() - began_s
    with capsys.disabled():
        print(f"\nacross by a hint after {took_s:.1f} s")
