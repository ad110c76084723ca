"""A core moves to another address: its edges follow without anybody touching them, and nothing accepted is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from rig import NodeProcess, Rig, new_key, rig
from rigs.patience import HANG_S
from rigs.ports import free_port

from router import connect
from router.client.senders import GroupName
from router.core.wire.grouplink import GroupLink
from router.settings.home import Home

EACH = 20
"""How many messages are published before the core stops, while it is away, and at its new address."""


async def test_the_edges_of_a_core_follow_it_those_that_are_away_when_they_wake(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, edges = found.node("core", "core"), [found.node(name) for name in ("speaker", "reader", "sleeper")]
        await _follow(found, core, edges, away=edges[2:], unaware=[])


@pytest.mark.long
async def test_twelve_edges_follow_and_one_that_slept_through_the_announcement_asks_another_core(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path) as found:
        core, edges = found.node("core", "core"), [found.node(f"edge-{n}") for n in range(12)]
        other, last = found.node("other", "core"), edges[-1]
        core.knows(other.address, "other")
        other.knows(core.address, "core", url=core.url, uplink=True)
        other.serves(last)
        await other.start()
        await _follow(found, core, edges, away=edges[9:11], unaware=[last])
        assert core.url in (await last.run("peer", "list")).stdout


async def _follow(
    found: Rig, core: NodeProcess, edges: list[NodeProcess], away: list[NodeProcess], unaware: list[NodeProcess]
) -> None:
    """Move the core while the edges read and the first speaks. `away`: those that stop after they have heard of it;
    `unaware`: those that stopped before."""
    speaker, readers, there = edges[0], edges[1:], f"tls://127.0.0.1:{free_port()}"
    key = new_key()
    group = GroupLink(key.public, new_key().seed, key.seed)
    for edge in edges:
        core.serves(edge)
    for node in (core, *edges):
        await node.start()
    for reader in readers:
        async with connect(home=reader.home, as_name="reader") as app:
            await app.join(group, timeout_s=HANG_S)
        await core.until_joined(key.public, reader.address)
    await core.until_connected(speaker.address)
    configured = [edge.home.config_path.read_bytes() for edge in edges]
    for node in unaware:
        await node.stop()
    announced = await core.run("move", there)
    assert announced.code == 0 and there in announced.stdout, announced
    for edge in edges:
        if edge not in unaware:
            await edge.until_answer("it knows the new address", "peers", lambda rows: there in _said(rows, core))
    for node in away:
        await node.stop()
    async with connect(home=speaker.home, as_name="speaker") as app:
        for number in range(EACH):
            await app.group(group).publish(b"%d" % number)
        await _settle_down(speaker)
        await core.stop()
        await _carry(found, core, there)
        for number in range(EACH, 2 * EACH):
            await app.group(group).publish(b"%d" % number)
        await core.start()
        for edge in edges:
            if edge not in (*away, *unaware):
                await edge.until_connected(core.address)
        for node in (*away, *unaware):
            await node.start()
        for number in range(2 * EACH, 3 * EACH):
            await app.group(group).publish(b"%d" % number)
    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(_read_all, reader, group)
    assert [edge.home.config_path.read_bytes() for edge in edges] == configured, "nobody touched them"
    listed = (await speaker.run("peer", "list")).stdout
    assert f"by its own word also at {there}" in listed


async def _settle_down(speaker: NodeProcess) -> None:
    """Wait until the core has all that was published, so that its snapshot holds what waits for those away."""
    await speaker.until_drained()


async def _carry(found: Rig, core: NodeProcess, there: str) -> None:
    """Take the stopped core's home to a place where it listens at another address."""
    file = str(found.base / "snapshot")
    taken = await core.run("backup", file, "--plain")
    assert taken.code == 0, taken
    core.home = Home(found.base / "moved")
    made = await core.run("restore", file, "--yes")
    assert made.code == 0, made
    core.url, core.flags = there, ("--listen", there)


async def _read_all(reader: NodeProcess, group: GroupName) -> None:
    """Read until the last message; each has come once, in order."""
    found: list[int] = []
    async with connect(home=reader.home, as_name="reader") as app:
        with trio.fail_after(HANG_S):
            async for message in await app.join(group, timeout_s=HANG_S):
                await message.settle()
                found.append(int(message.body))
                if len(found) == 3 * EACH:
                    break
    assert found == [*range(3 * EACH)], reader.name


def _said(rows: list[dict[str, Any]], core: NodeProcess) -> list[str]:
    return next(row["said_urls"] for row in rows if row["address"] == core.address.hex())
