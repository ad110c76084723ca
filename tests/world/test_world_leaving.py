"""The ends of queues in small worlds: leaving, clearing, lapsing, blocking, restarts, reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.core.neighbours.directory import Neighbour
from router.core.routing.limits import CoreLimits
from router.core.wire.reasons import Reason
from router.node.housekeeping import LAPSE_S
from world.app import Habits
from world.node import Settings
from world.readers import STALLS, away, back, ends, outward, reader_at, route_to
from world.world import Cable, World

ALL = "join store relay"


@pytest.mark.parametrize("stalled", [False, True])
def test_who_leaves_gets_no_more_and_the_books_say_so(stalled: bool) -> None:
    with World(15) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node, habits=replace(STALLS) if stalled else Habits()), world.app(node)
        reader.join(world.group("cats"))
        world.run(1)
        news, cats = writer.publish(world.group("news"), 30), writer.publish(world.group("cats"), 5)
        world.run(0.02)
        reader.leave(world.group("news"))
        world.run(2)
        reader.habits = Habits()
        reader.settle_all()
        world.run_until_quiet()
        said = ends(world, node, news, reader)
        assert set(said) <= {"delivered", "dropped", "never owed"} and "dropped" in said
        assert ends(world, node, cats, reader) == ["delivered"] * 5, "another group's messages stay"
        assert set(cats) <= set(reader.diary.handled)


@pytest.mark.parametrize("what", ["leave", "drop"])
def test_a_queue_that_has_ended_stays_ended_after_a_crash(what: str) -> None:
    """The node dies when the LEAVE, or the operator's order, is on disk, and before all of the queue is dropped."""
    with World(26) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node, habits=replace(STALLS)), world.app(node)
        reader.join(world.group("cats"))
        world.run(1)
        news, cats = writer.publish(world.group("news"), 120), writer.publish(world.group("cats"), 5)
        world.run_until_quiet()
        if what == "leave":
            reader.leave(world.group("news"))
        else:
            node.clear_queue(reader.key.public)
        for _ in range(1000):
            if node.disk.purges:
                break
            world.run(0.001)
        [(recipient, group)] = node.disk.purges
        assert (recipient, group) == (reader.key.public, world.group("news").public if what == "leave" else None)
        assert "pending" in ends(world, node, news, reader)
        reader.habits = Habits()
        world.crash(node)
        world.run_until_quiet()
        assert ends(world, node, news, reader) == ["dropped"] * 120
        assert ends(world, node, cats, reader) == ["delivered" if what == "leave" else "dropped"] * 5
        assert not node.disk.purges


@pytest.mark.parametrize("seed", range(6))
def test_leaving_and_joining_again_at_once_loses_nothing_that_comes_after(seed: int) -> None:
    """LEAVE and JOIN come in one read: messages accepted later are delivered, and the subscription survives a crash."""
    with World(seed) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node), world.app(node)
        for _ in range(3):
            reader.leave(world.group("news"))
            reader.join(world.group("news"))
            world.run(0.05)
            ids = writer.publish(world.group("news"), 5)
            world.run_until_quiet()
            assert ends(world, node, ids, reader) == ["delivered"] * 5
        world.crash(node)
        world.run_until_quiet()
        [one] = writer.publish(world.group("news"))
        world.run_until_quiet()
        assert one in reader.diary.handled


def test_the_operator_clears_a_queue() -> None:
    with World(16) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node), world.app(node)
        away(world, reader)
        ids = writer.publish(world.group("news"), 120) + writer.send(reader.key.public, 10)
        world.run_until_quiet()
        node.clear_queue(reader.key.public)
        world.run_until_quiet()
        assert ends(world, node, ids, reader) == ["dropped"] * 130
        assert not node.router.queues.by_recipient and not node.disk.owed
        assert len(writer.reports) == 8 == writer.habits.window_messages, "as many reports as the window takes"
        assert {(one.state, one.reason) for one in writer.reports} == {("dropped", Reason.LEFT)}
        back(world, reader)
        [one] = writer.publish(world.group("news"))
        world.run_until_quiet()
        assert reader.first_deliveries() == [one]


def test_a_throwaway_key_leaves_nothing_behind() -> None:
    with World(17) as world:
        node = world.node("node")
        reader = reader_at(world, node, habits=replace(STALLS), durable=False)
        writer = world.app(node)
        ids = writer.publish(world.group("news"), 30)
        world.run(0.2)
        seen = len(reader.diary.handled)
        away(world, reader)
        world.run_until_quiet()
        assert ends(world, node, ids, reader) == ["dropped"] * 30 and seen < 30
        assert not node.router.queues.by_recipient and not list(node.router.groups) and not node.disk.groups
        refused = writer.publish(world.group("news"))
        world.run_until_quiet()
        assert writer.diary.refused == {refused[0]: Reason.NO_SUBSCRIBERS}


def test_after_a_crash_throwaway_keys_and_strangers_are_forgotten_too() -> None:
    with World(18) as world:
        node = world.node("node", Settings(strangers=True, join_open=True))
        reader = reader_at(world, node, durable=False, habits=replace(STALLS))
        stranger, writer = world.app(node, owner=False, habits=replace(STALLS)), world.app(node)
        stranger.join(world.group("news"))
        world.run(1)
        ids = writer.publish(world.group("news"), 5)
        world.run(1)
        stranger.running = reader.running = False
        world.crash(node)
        world.run_until_quiet()
        for app in (reader, stranger):
            assert set(ends(world, node, ids, app)) == {"dropped"}
        assert not list(node.router.groups) and not node.disk.groups and not node.router.queues.by_recipient


def test_who_stays_away_too_long_lapses() -> None:
    with World(19) as world:
        node = world.node("node", Settings(limits=CoreLimits(away_s_max=100)))
        reader, writer = reader_at(world, node), world.app(node)
        away(world, reader)
        ids = writer.publish(world.group("news"), 5)
        world.run(50)
        back(world, reader)  # in time: its away period starts again
        away(world, reader)
        more = writer.publish(world.group("news"), 5)
        world.run(20)
        world.crash(node)
        world.run(95 + LAPSE_S)
        assert ends(world, node, ids + more, reader) == ["delivered"] * 5 + ["dropped"] * 5
        assert reader.key.public not in node.disk.locals and not node.disk.away and not node.disk.groups


def test_a_blocked_neighbour_is_closed_and_keeps_nothing() -> None:
    with World(20) as world:
        core, edge = world.node("core"), world.node("edge")
        world.link(edge, core, uplink=True, grants=ALL)
        reader_at(world, edge)
        writer = world.app(core)
        world.run_until_quiet()
        core.reconfigure([Neighbour(edge.address, "edge", frozenset(ALL.split()), blocked=True)])
        world.run(2)
        assert core.router.links.to(edge.address) is None and not list(core.router.groups)
        [one] = writer.publish(world.group("news"))
        world.run(1)
        assert writer.diary.refused == {one: Reason.NO_SUBSCRIBERS}


def test_a_neighbour_that_becomes_an_uplink_is_joined_at_once() -> None:
    with World(21) as world:
        core, edge = world.node("core"), world.node("edge")
        world.link(edge, core, grants=ALL)
        reader_at(world, edge)
        world.run_until_quiet()
        assert not list(core.router.groups)
        edge.reconfigure([Neighbour(core.address, "core", uplink=True)])
        world.run_until_quiet()
        assert core.router.groups.members(world.group("news").public) == (edge.address,)


def test_a_right_that_comes_and_goes_is_followed_at_once() -> None:
    """Without the right, nothing is read and nothing waits on an open link; with it, everything published from then on
    is read."""
    with World(24) as world:
        core, edge = world.node("core"), world.node("edge")
        world.link(edge, core, uplink=True, grants=ALL)
        reader = reader_at(world, edge)
        writer = world.app(core)
        world.run_until_quiet()
        first = writer.publish(world.group("news"), 3)
        world.run_until_quiet()
        core.reconfigure([Neighbour(edge.address, "edge", frozenset({"why"}))])
        world.run_until_quiet()
        assert not list(core.router.groups) and edge.router.upstream.joined_at(core.address) == (0, 1)
        [one] = writer.publish(world.group("news"))
        world.run_until_quiet()
        assert writer.diary.refused == {one: Reason.NO_SUBSCRIBERS}
        world.crash(core)
        world.run_until_quiet()
        assert not list(core.router.groups), "nor after a restart"
        core.reconfigure([Neighbour(edge.address, "edge", frozenset(ALL.split()))])
        world.run_until_quiet()
        assert edge.router.upstream.joined_at(core.address) == (1, 1)
        more = writer.publish(world.group("news"), 3)
        world.run_until_quiet()
        assert set(reader.diary.handled) == {*first, *more}


# -- restarts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["link", "node"])
def test_whoever_is_owed_something_is_dialled(lost: str) -> None:
    """No connection to a mere peer is kept; a message waiting for it makes the node dial, after a restart as well."""
    with World(22) as world:
        one, other = world.node("one"), world.node("other")
        cable: Cable = world.link(one, other)
        sender, target = world.app(one), world.app(other)
        world.run_until_quiet()
        world.part(cable)
        one.router.routes.learn(route_to(target.key, other), world.time.now().wall_s)
        one.disk.routes[target.key.public] = route_to(target.key, other)
        ids = sender.send(target.key.public, 5)
        world.run(5)
        if lost == "node":
            world.crash(one)
        cable.whole = True
        world.run(3)
        if lost == "link":
            sender.send(target.key.public, 1)
            one.router._delivery.dial_if_owed(other.address)
        world.run_until_quiet()
        assert set(ids) <= set(target.diary.handled)


def test_reports_never_break_a_link() -> None:
    """Hundreds of unicasts end at once; their source gets as many reports as its window allows."""
    with World(23) as world:
        node = world.node("node")
        sender, target = world.app(node), world.app(node)
        world.run_until_quiet()
        away(world, target)
        ids = sender.send(target.key.public, 300, ttl_s=20)
        world.run(60)
        assert ends(world, node, ids, target) == ["expired"] * 300
        assert {one.state for one in sender.reports} == {"expired"} and 8 <= len(sender.reports) <= 300
        assert len(outward(node, "expired")) < 100, "ranges, not one event a message"
