"""An operator's view of a neighbour that does not admit this node: connected without any right, or blocked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio
from raw_link import linked, multicast
from rig import NodeProcess, new_key, rig

from router.core.routing.admission import TAKEN
from router.node.connection import DISPLACED, NOT_NOW, TURNED_AWAY
from router.node.cycle import REFUSES_US
from router.rig.process import POLL_S, until

JOINED = "it has let us join 0 of 1 groups; its operator grants `join`"


async def until_seen(edge: NodeProcess, core: NodeProcess, state: str, problem: str | None) -> None:
    async def is_so() -> bool:
        rows: list[dict[str, Any]] = await edge.ask("peers")
        row = next(row for row in rows if row["address"] == core.address.hex())
        return (row["state"], row["problem"]) == (state, problem)

    await until(f"{core.name} is {state}: {problem}", is_so)


async def test_an_uplink_that_grants_nothing_and_one_that_blocks_us(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        edge.knows(core.address, core.name, url=core.url, uplink=True)
        await core.start()
        await edge.start()
        await until_seen(edge, core, "connected", None)
        group = new_key()
        async with linked(edge, new_key(), durable=True) as app:
            await app.join(group.public)
            await until_seen(edge, core, "connected", JOINED)
            shown = (await edge.run("peers")).stdout
            assert f"core: {JOINED}" in shown
            async with linked(edge, new_key()) as speaker:
                await speaker.publish(multicast(group, b"hello"))
            await until_seen(edge, core, "connected", REFUSES_US)
            granting = await core.run("peer", "add", edge.address.hex(), "--name", "edge", "--grant", "join,store")
            assert granting.code == 0
            await until_seen(edge, core, "connected", None)
            async with linked(edge, new_key()) as speaker:
                await speaker.publish(multicast(group, b"hello"))
            taking = await core.run("peer", "add", "edge", "--revoke", "join")
            assert taking.code == 0
            await until_seen(edge, core, "connected", JOINED)
            assert await core.ask("groups") == []
            assert (await core.run("peer", "add", "edge", "--grant", "join,store")).code == 0
            await core.until_joined(group.public, edge.address)
        assert (await core.run("peer", "block", "edge")).code == 0
        await until_seen(edge, core, "away", TURNED_AWAY)
        while TURNED_AWAY not in (await edge.run("peer", "list")).stdout:  # it may just dial again
            await trio.sleep(POLL_S)
        said = edge.stderr.read_text()
        assert said.count(f"core: {TURNED_AWAY}") == 1, said


async def test_one_for_whom_strangers_leave_no_place_now_gets_in_later(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core = found.node("core", "core", settings={"node.accept": "anyone", "limits.strangers_connections_max": 1})
        edge = found.node("edge", settings={"link.dial_backoff_s_max": 1})
        edge.knows(core.address, core.name, url=core.url, uplink=True)
        await core.start()
        async with linked(core, new_key(), tls=True):
            await edge.start()
            await until_seen(edge, core, "away", NOT_NOW + TAKEN)
            assert edge.stderr.read_text().count(TAKEN) == 1
        await until_seen(edge, core, "connected", None)


async def test_a_new_address_and_a_block_are_heard_by_the_dialler(tmp_path: Path) -> None:
    """Redials are an hour apart, so only a message from the other node can tell the dialler."""
    async with rig(tmp_path) as found:
        core = found.node("core", "core")
        edge = found.node("edge", settings={"link.dial_backoff_s_min": 3600, "link.dial_backoff_s_max": 3600})
        core.knows(edge.address, "edge", grants=("join",))
        edge.knows(core.address, "core", url="tls://127.0.0.1:1", uplink=True)
        await core.start()
        await edge.start()

        async def has_failed() -> bool:
            return any(row["problem"] for row in await edge.ask("peers"))

        await until("the first dial has failed", has_failed)
        assert (await edge.run("peer", "add", "core", core.url)).code == 0
        await edge.until_connected(core.address)
        assert (await edge.run("peer", "block", "core")).code == 0
        await edge.until_connected(core.address, up=False)
        await core.until_connected(edge.address, up=False)
        assert (await edge.run("peer", "add", "core")).code == 0
        await edge.until_connected(core.address)


async def test_two_nodes_with_one_key_are_told_so(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, edge, copy = found.node("core", "core"), found.node("edge"), found.node("copy")
        core.serves(edge)
        await core.start()
        await edge.start()
        await core.until_connected(edge.address)
        copy.home.config_path.write_bytes(edge.home.config_path.read_bytes())
        key = next(edge.home.path.glob("**/node.key"))
        (copy.home.path / key.relative_to(edge.home.path)).write_bytes(key.read_bytes())
        await copy.start()

        async def is_said() -> bool:
            return any(f"core: {DISPLACED}" in node.stderr.read_text() for node in (edge, copy))

        await until("one of the two has heard of the other", is_said)
