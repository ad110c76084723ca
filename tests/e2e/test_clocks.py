"""Nodes with wrong clocks: no acknowledged message is refused for good, or ended, by a clock that others contradict,
and the node's operator and apps are warned."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from disk import read_disk
from raw_link import linked, multicast
from rig import NodeProcess, new_key, rig

from router import Refused
from router.core.wire.reasons import Reason
from router.rig.process import until

DAY_S = 86_400


async def until_clock(node: NodeProcess, *states: str) -> None:
    async def is_so() -> bool:
        with suppress(Refused):  # the asking app has the true clock, which the node does not follow yet
            return (await node.ask("clock"))["state"] in states
        return False

    await until(f"the clock of {node.name} is {' or '.join(states)}", is_so)


async def test_a_core_that_jumps_two_days_ahead_and_back_refuses_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        core.move_clock(0)
        await core.start()
        await edge.start()
        await core.until_connected(edge.address)
        group, reader = new_key(), new_key()
        wires = [multicast(group, b"%d" % at) for at in range(300)]
        async with linked(core, reader, durable=True) as app, linked(edge, new_key()) as publisher:
            assert await app.join(group.public)
            assert await publisher.publish(*wires[:100]) == [None] * 100
            core.move_clock(2 * DAY_S)
            assert await publisher.publish(*wires[100:200]) == [None] * 100
            await until_clock(core, "doubted", "disputed")
            assert await publisher.publish(*wires[200:]) == [None] * 100
            await app.until_got(*wires[200:])
            core.move_clock(0)
            await until_clock(core, "believed")
            await app.until_got(*wires)
            assert len(app.got) == len(wires)
        counters = (await edge.ask("status"))["counters"]
        assert (counters["acked"], counters["refused"], counters["expired"]) == (300, 0, 0)
        assert "days ahead of" in core.said() and "router clock confirm" in core.said()


async def test_an_edge_that_is_two_days_behind_says_so_and_takes_nothing_that_its_core_must_refuse(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        edge.move_clock(-2 * DAY_S)
        await core.start()
        await edge.start()
        await until_clock(edge, "disputed")
        group, reader = new_key(), new_key()
        async with linked(core, reader) as app, linked(edge, new_key()) as publisher:
            assert await app.join(group.public)
            wire = multicast(group, b"of that machine's time", expiry_s=3600 - 2 * DAY_S)
            assert await publisher.publish(wire) == [Reason.CLOCK_DOUBTED]
            text = publisher.refused[1][1]
            assert "this node's clock is 2.0 days behind its neighbours' clocks: set it" in text
            longer = multicast(group, b"longer", ttl_s=3 * DAY_S, expiry_s=DAY_S)
            assert await publisher.publish(longer) == [None], "both clocks allow it"
            await app.until_got(longer)
            [there] = [one for one in await edge.ask("peers") if one["address"] == core.address.hex()]
            assert "its clock is 2.0 days ahead of ours" in there["problem"]
            assert "2.0 days behind its neighbours' clocks" in (await edge.run("status")).stdout
            assert "2.0 days behind its neighbours' clocks" in edge.said()
            edge.move_clock(0)
            await until_clock(edge, "believed")
            fresh = multicast(group, b"fresh")
            assert await publisher.publish(fresh) == [None]
            await app.until_got(fresh)
        counters = (await edge.ask("status"))["counters"]
        assert counters["acked"] == 2
        assert await core.stop() == 0 and await edge.stop() == 0


async def test_what_was_acknowledged_before_the_clocks_were_compared_is_kept(tmp_path: Path) -> None:
    """The edge is 8 days ahead and meets its core only after taking a message, which is too far in the future there and
    refused only for now."""
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        edge.move_clock(8 * DAY_S)
        await edge.start()
        group = new_key()
        async with linked(edge, new_key()) as publisher:
            wire = multicast(group, b"x", expiry_s=8 * DAY_S + 3600)
            assert await publisher.publish(wire) == [None]
        await core.start()
        await until_clock(edge, "disputed")

        async def is_deferred() -> bool:
            return "clock-doubted" in (await edge.ask("status"))["reasons"]

        await until("the core has told it to come again", is_deferred)
        assert await edge.queued(core.address) == 1, "it is not refused for good"
        assert "expiry-too-far" not in (await edge.ask("status"))["reasons"]


async def test_a_node_that_begins_a_year_behind_and_is_set_right_needs_no_confirmation(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        node = found.node("node")
        node.move_clock(0)
        await node.start()
        assert await node.stop() == 0

        async def begins_behind() -> bool:
            with suppress(Refused):  # the asking app has the true clock
                return "behind the last time that this node knew" in (await node.ask("clock"))["problem"]
            return "behind the last time that this node knew" in node.said()

        async def is_set() -> bool:
            with suppress(Refused):
                facts = await node.ask("clock")
                return (facts["state"], facts["problem"]) == ("believed", "")
            return False

        node.move_clock(-365 * DAY_S)
        await node.start()
        await until("the node knows that its clock is behind", begins_behind)
        assert await node.stop() == 0
        await node.start()  # the later time outlives a restart
        node.move_clock(0)
        await until("the clock that is set right is believed", is_set)


async def test_a_doubt_outlives_a_restart_until_the_operator_speaks(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        node = found.node("node", settings={"limits.clock_step_s_max": 60})
        node.move_clock(0)
        await node.start()
        group, reader = new_key(), new_key()
        async with linked(node, reader, durable=True) as app:
            assert await app.join(group.public)
        async with linked(node, new_key()) as publisher:
            assert await publisher.publish(multicast(group, b"x", ttl_s=90)) == [None]
        node.move_clock(1800)
        await until_clock(node, "doubted")
        for _ in range(2):
            await node.kill()
            await node.start()
            assert (await node.ask("clock"))["state"] == "doubted"
            assert await node.queued(reader.public) == 1
        assert (await node.run("clock", "--json")).json["state"] == "doubted"
        said = await node.run("clock", "confirm")
        assert said.code == 0 and "confirmed" in said.stdout
        await node.until_drained(reader.public)
        assert (await node.ask("status"))["counters"]["expired"] == 1
        await node.kill()
        await node.start()
        assert (await node.ask("clock"))["state"] == "confirmed"
        assert await node.stop() == 0
        read_disk(node.home, node.address, tmp_path / "scratch")
