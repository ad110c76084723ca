"""A core moves to another address: its edges follow without anybody touching them, and nothing accepted is lost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
from rig import NodeProcess, Rig, new_key, rig
from rigs.patience import HANG_S
from rigs.ports import free_port

from router import connect
from router.client.node import Node
from router.client.senders import GroupName
from router.core.wire.grouplink import GroupLink
from router.settings.home import Home

EACH = 20
"""How many messages are published before the core stops, while it is away, and at its new address."""


async def test_the_edges_of_a_core_follow_it_those_that_are_away_when_they_wake(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, edges = found.node("core", "core"), [found.node(name) for name in ("speaker", "reader", "sleeper")]
        await _follow(found, core, edges, Away(aware=edges[2:]))


@pytest.mark.long
async def test_twelve_edges_follow_one_by_another_core_and_one_because_the_old_address_leads_on(tmp_path: Path) -> None:
    async with rig(tmp_path, 2 * HANG_S) as found:
        core, edges = found.node("core", "core"), [found.node(f"edge-{n}") for n in range(12)]
        other, last = found.node("other", "core"), edges[-1]
        core.knows(other.address, "other")
        other.knows(core.address, "core", url=core.url, uplink=True)
        other.serves(last)
        await other.start()
        await _follow(found, core, edges, Away(edges[9:10], [last], edges[10:11]))


class Away(NamedTuple):
    """Edges that are away when the core moves: `aware` stopped after they had heard of it, the others before: `asking`
    have another core, `led_on` find the old address leading to the new one."""

    aware: list[NodeProcess]
    asking: Sequence[NodeProcess] = ()
    led_on: Sequence[NodeProcess] = ()

    @property
    def unaware(self) -> list[NodeProcess]:
        return [*self.asking, *self.led_on]


async def _follow(found: Rig, core: NodeProcess, edges: list[NodeProcess], away: Away) -> None:
    """Move the core while the first edge speaks and the others read."""
    speaker, readers, there = edges[0], edges[1:], f"tls://127.0.0.1:{free_port()}"
    here, key = core.url, new_key()
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
    for node in away.unaware:
        await node.stop()
    announced = await core.run("move", there)
    assert announced.code == 0 and there in announced.stdout, announced
    for edge in edges:
        if edge not in away.unaware:
            await edge.until_answer("it knows the new address", "peers", lambda rows: there in _said(rows, core))
    for node in away.aware:
        await node.stop()
    async with connect(home=speaker.home, as_name="speaker") as app, trio.open_nursery() as nursery:
        await _publish(app, group, range(EACH))
        await speaker.until_drained()  # at the core, whose snapshot then holds what waits for those away
        await core.stop()
        await _carry(found, core, there)
        await _publish(app, group, range(EACH, 2 * EACH))
        await core.start()
        for edge in edges:
            if edge not in (*away.aware, *away.unaware):
                await edge.until_connected(core.address)
        for node in (*away.aware, *away.asking):
            await node.start()
            await node.until_connected(core.address)
        if away.led_on:
            await nursery.start(_lead_on, here, there)
        for node in away.led_on:
            await node.start()
            await node.until_connected(core.address)
            await node.until_answer("it knows the new address", "peers", lambda rows: there in _said(rows, core))
        await _publish(app, group, range(2 * EACH, 3 * EACH))
        async with trio.open_nursery() as reading:
            for reader in readers:
                reading.start_soon(_read_all, reader, group)
        nursery.cancel_scope.cancel()
    assert [edge.home.config_path.read_bytes() for edge in edges] == configured, "nobody touched them"
    for edge in edges:
        assert f"by its own word also at {there}" in (await edge.run("peer", "list", "--all")).stdout


async def _publish(app: Node, group: GroupName, numbers: range) -> None:
    for number in numbers:
        await app.group(group).publish(b"%d" % number)


async def _carry(found: Rig, core: NodeProcess, there: str) -> None:
    """Take the stopped core's home to a place where it listens at another address."""
    file = str(found.base / "snapshot")
    taken = await core.run("backup", file, "--plain")
    assert taken.code == 0, taken
    core.home = Home(found.base / "moved")
    made = await core.run("restore", file, "--yes")
    assert made.code == 0, made
    core.url, core.flags = there, ("--listen", there)


async def _lead_on(here: str, there: str, task_status: trio.TaskStatus[None]) -> None:
    """Pass on what comes to the old port, byte by byte, as a port forwarding does."""

    async def pass_on(came: trio.SocketStream) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", _port(there)) as gone, trio.open_nursery() as both:
            both.start_soon(_pump, came, gone)
            both.start_soon(_pump, gone, came)

    [listener] = await trio.open_tcp_listeners(_port(here), host="127.0.0.1")
    task_status.started()
    await trio.serve_listeners(pass_on, [listener])


async def _pump(source: trio.SocketStream, to: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        async for data in source:
            await to.send_all(data)
        await to.send_eof()


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


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
