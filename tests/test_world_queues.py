"""What waits, for how long, how much of it, and how it ends: lifetimes, quotas, back-off, leaving, restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from world import Cable, World
from world_app import App, Habits
from world_node import Node, Settings

from router.core.acceptance import AcceptanceLimits
from router.core.crypto import SigningKey
from router.core.delivery import DeliveryLimits
from router.core.events import Outward
from router.core.queues import QueueLimits
from router.core.reasons import Reason
from router.core.rights import Neighbour
from router.core.router import Limits
from router.core.routes import Route
from router.store_terms import StoreLimits

ALL = "join store relay"
STALLS = Habits(settle_s=None)


def node_with(world: World, called: str = "node", **queues: int) -> Node:
    limits = Limits(queues=QueueLimits(**{"share_percent": 100, **queues}))
    return world.node(called, Settings(limits=limits))


def reader_at(
    world: World, node: Node, name: str = "news", habits: Habits | None = None, *, durable: bool = True
) -> App:
    app = world.app(node, habits=habits, durable=durable)
    app.join(world.group(name))
    world.run_until_quiet()
    assert world.group(name).public in app.joined
    return app


def away(world: World, app: App) -> None:
    app.stop()
    world.run(0.5)


def back(world: World, app: App) -> None:
    app.start()
    world.run_until_quiet()


def ends(world: World, node: Node, ids: list[bytes], app: App) -> list[str]:
    """How each message ended for the app; "pending" where it has not."""
    book = world.ledger(node)
    found = []
    for one in ids:
        of_app = book.of_id(one).get(app.key.public)
        found.append("never owed" if of_app is None else of_app[0] if of_app else "pending")
    return found


def outward(node: Node, event: str) -> list[Outward]:
    return [one for _, _, events in node.log for one in events if isinstance(one, Outward) and one.event == event]


# -- lifetimes ---------------------------------------------------------------------------------------------------


def test_the_ttl_ends_what_waits_and_the_rest_arrives() -> None:
    with World(1) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node), world.app(node)
        away(world, reader)
        short = writer.publish(world.group("news"), 5, ttl_s=10)
        long = writer.publish(world.group("news"), 5, ttl_s=60)
        soon = writer.publish(world.group("news"), 5, ttl_s=9999, life_s=30)  # the expiry is the earlier end
        world.run(20)
        assert ends(world, node, short + long + soon, reader) == ["expired"] * 5 + ["pending"] * 10
        world.run(75)
        back(world, reader)
        assert ends(world, node, short + long + soon, reader) == ["expired"] * 15 and not reader.diary.handled
        why = {one.reason for one in outward(node, "expired")}
        assert why == {Reason.TTL_EXPIRED, Reason.EXPIRY_PASSED}
        assert not node.router.queues.by_recipient[reader.key.public].total.messages


def test_the_time_a_node_was_down_counts() -> None:
    with World(2) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node), world.app(node)
        away(world, reader)
        ids = writer.publish(world.group("news"), 3, ttl_s=60)
        world.run(1)
        world.crash(node, 100)
        world.run_until_quiet(200)
        back(world, reader)
        assert ends(world, node, ids, reader) == ["expired"] * 3 and not reader.diary.handled


def test_what_is_in_flight_does_not_expire_under_the_hands_of_the_reader() -> None:
    with World(3) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node, habits=replace(STALLS)), world.app(node)
        ids = writer.publish(world.group("news"), 20, ttl_s=5)
        world.run(40)
        handed = len(reader.diary.handled)
        assert ends(world, node, ids, reader) == ["pending"] * handed + ["expired"] * (20 - handed) and 0 < handed < 20
        reader.settle_all()
        world.run_until_quiet()
        assert ends(world, node, ids[:handed], reader) == ["delivered"] * handed


def test_ttl_0_reaches_those_who_are_there_and_nobody_else() -> None:
    with World(4) as world:
        node = world.node("node")
        here, gone, slow = [reader_at(world, node) for _ in range(3)]
        away(world, gone)
        slow.habits = replace(STALLS)
        writer = world.app(node, habits=Habits(features=("outcome",)))
        filling = writer.publish(world.group("news"), 20)
        world.run(1)
        [one] = writer.publish(world.group("news"), ttl_s=0)
        world.run(1)
        assert one in here.diary.handled and one in writer.diary.settled
        assert ends(world, node, [one, one, one][:1], here) == ["unconfirmed"]
        assert ends(world, node, [one], gone) == ends(world, node, [one], slow) == ["refused"]
        told = {bytes(whom): (state, why) for whom, state, why in writer.outcomes[one] if not isinstance(whom, int)}
        assert told[here.key.public] == ("unconfirmed", None)
        assert told[gone.key.public] == ("refused", Reason.RECIPIENT_OFFLINE_TTL0)
        slow.habits = Habits()
        slow.settle_all()
        for app in (gone, slow):
            back(world, app)
            assert app.first_deliveries() == filling
        for app in (here, gone, slow):
            away(world, app)
        [two] = writer.publish(world.group("news"), ttl_s=0)
        world.run(1)
        assert writer.diary.refused == {two: Reason.RECIPIENT_OFFLINE_TTL0}
        assert one not in (parcel.ids for parcel in node.disk.parcels.values()), "its bytes are never stored"


def test_times_out_of_bounds_are_refused() -> None:
    with World(5) as world:
        node = world.node("node", Settings(limits=Limits(acceptance=AcceptanceLimits(lifetime_s_max=3600))))
        reader_at(world, node)
        writer = world.app(node)
        world.run_until_quiet()
        for life_s in (-60, 30, 3600, 3730, 9999):
            writer.publish(world.group("news"), life_s=life_s)
        world.run_until_quiet()
        past, too_far = Reason.EXPIRY_PASSED, Reason.EXPIRY_TOO_FAR
        assert [writer.diary.refused.get(one) for one in writer.diary.sent] == [
            past, None, None, too_far, too_far,
        ]  # fmt: skip


def test_the_horizon_shrinks_as_the_index_fills() -> None:
    """R-C5: with 100 ids of room; full, nothing is accepted, not even with ttl 0; then ids age out."""
    limits = Limits(acceptance=AcceptanceLimits(lifetime_s_max=6000, seen_index_max=100))
    with World(6) as world:
        node = world.node("node", Settings(limits=limits))
        reader_at(world, node)
        writer = world.app(node)
        world.run_until_quiet()

        def tried(count: int, life_s: int, ttl_s: int = 60) -> Reason | None:
            ids = writer.publish(world.group("news"), count, life_s=life_s, ttl_s=ttl_s)
            world.run_until_quiet()
            return writer.diary.refused.get(ids[-1])

        assert tried(50, 5900) is None
        assert tried(1, 5900) is None, "half full: the whole life still"
        assert tried(1, 5990) is Reason.EXPIRY_TOO_FAR
        assert tried(19, 3000) is None
        assert tried(1, 3700) is Reason.EXPIRY_TOO_FAR, "70 of 100: 60 % of it"
        assert tried(30, 60) is None
        assert tried(1, 30) is tried(1, 30, ttl_s=0) is Reason.INDEX_FULL
        assert len(writer.diary.settled) == 100 == node.router._acceptance.index_entries
        world.run(800)
        tried(1, 60)  # any transaction sweeps
        assert tried(1, 60) is None, "thirty ids have died ten minutes after their expiry"


# -- quotas ------------------------------------------------------------------------------------------------------


def test_a_full_queue_refuses_the_newcomer_and_keeps_what_it_has() -> None:
    with World(7) as world:
        node = node_with(world, recipient_messages_max=10)
        reader, writer = reader_at(world, node), world.app(node)
        away(world, reader)
        ids = writer.publish(world.group("news"), 15)
        world.run_until_quiet()
        assert writer.diary.refused == dict.fromkeys(ids[10:], Reason.QUEUE_FULL_RECIPIENT)
        back(world, reader)
        assert reader.first_deliveries() == ids[:10]
        more = writer.publish(world.group("news"), 3)
        world.run_until_quiet()
        assert reader.first_deliveries() == ids[:10] + more, "room that was given back is taken again"


@pytest.mark.parametrize(
    ("queues", "reason"),
    [
        ({"recipient_bytes_max": 3000}, Reason.QUEUE_FULL_RECIPIENT),
        ({"recipient_messages_max": 40, "share_percent": 25}, Reason.QUEUE_FULL_GROUP),
        ({"group_messages_max": 10}, Reason.QUEUE_FULL_GROUP),
        ({"neighbour_messages_max": 10}, Reason.QUEUE_FULL_GROUP),
        ({"node_messages_max": 10}, Reason.QUEUE_FULL_NODE),
        ({"node_bytes_max": 3000}, Reason.QUEUE_FULL_NODE),
    ],
)
def test_every_limit_has_its_reason(queues: dict[str, int], reason: Reason) -> None:
    with World(8) as world:
        node = world.node("node", Settings(limits=Limits(queues=replace(QueueLimits(share_percent=100), **queues))))
        reader, writer = reader_at(world, node), world.app(node)
        away(world, reader)
        ids = writer.publish(world.group("news"), 30, size=120)
        world.run_until_quiet()
        taken = list(writer.diary.settled)
        assert set(writer.diary.refused.values()) == {reason} and taken == ids[: len(taken)] and 8 < len(taken) < 15
        back(world, reader)
        assert reader.first_deliveries() == taken


def test_no_group_takes_more_than_its_share() -> None:
    with World(9) as world:
        node = node_with(world, recipient_messages_max=40, share_percent=25)
        reader, one, other = reader_at(world, node), world.app(node), world.app(node)
        reader.join(world.group("cats"))
        world.run_until_quiet()
        away(world, reader)
        one.publish(world.group("news"), 30)
        world.run_until_quiet()
        cats = other.publish(world.group("cats"), 8)
        world.run_until_quiet()
        assert len(one.diary.settled) == 10 and list(other.diary.settled) == cats
        one.publish(world.group("cats"), 1)
        world.run_until_quiet()
        assert len(one.diary.settled) == 10, "the neighbour's share is as full as the group's"


def test_a_multicast_leaves_out_only_who_is_full() -> None:
    with World(10) as world:
        node = node_with(world, recipient_messages_max=10)
        here, gone = reader_at(world, node), reader_at(world, node)
        writer = world.app(node, habits=Habits(features=("outcome",)))
        away(world, gone)
        ids = []
        for _ in range(5):
            ids += writer.publish(world.group("news"), 3)
            world.run(1)
        assert list(writer.diary.settled) == ids and here.first_deliveries() == ids
        assert ends(world, node, ids, gone) == ["pending"] * 10 + ["refused"] * 5
        last = {whom: (state, why) for whom, state, why in writer.outcomes[ids[-1]]}
        assert last[gone.key.public] == ("refused", Reason.QUEUE_FULL_RECIPIENT)
        assert last[here.key.public] == ("delivered", None)
        back(world, gone)
        assert gone.first_deliveries() == ids[:10]


def test_a_full_uplink_refuses_the_whole_multicast() -> None:
    with World(11) as world:
        core, edge = world.node("core"), node_with(world, "edge", recipient_messages_max=10)
        cable = world.link(edge, core, uplink=True, grants=ALL)
        reader, writer = reader_at(world, edge), world.app(edge)
        world.part(cable)
        ids = []
        for _ in range(5):
            ids += writer.publish(world.group("news"), 3)
            world.run(1)
        assert list(writer.diary.settled) == reader.first_deliveries() == ids[:10]


# -- refused later -----------------------------------------------------------------------------------------------


def test_what_was_refused_for_now_is_tried_again() -> None:
    """The core's queue for a reader is full; the edge keeps the rest and backs off until there is room."""
    with World(12) as world:
        core = node_with(world, "core", recipient_messages_max=10)
        limits = Limits(delivery=DeliveryLimits(retry_s_min=2.0, retry_s_max=8.0))
        edge = world.node("edge", Settings(limits=limits))
        world.link(edge, core, uplink=True, grants=ALL)
        reader, writer = reader_at(world, core), world.app(edge)
        away(world, reader)
        ids = writer.publish(world.group("news"), 25)
        world.run(30)
        assert list(writer.diary.settled) == ids, "the edge has them in its keeping"
        tries = outward(edge, "deferred")
        assert 15 * 3 <= len(tries) <= 15 * 8, "a back-off that doubles up to 8 s"
        back(world, reader)
        world.run_until_quiet()
        assert sorted(reader.first_deliveries()) == sorted(ids)
        assert world.ledger(edge).ended("acked") == {(one, core.address) for one in ids}


def test_a_steady_stream_does_not_starve_what_was_refused_for_now() -> None:
    with World(13) as world:
        core = node_with(world, "core", group_messages_max=5)
        edge = world.node("edge", Settings(limits=Limits(delivery=DeliveryLimits(retry_s_max=2.0))))
        world.link(edge, core, uplink=True, grants=ALL)
        reader, writer = reader_at(world, core), world.app(edge)
        reader.join(world.group("cats"))
        world.run_until_quiet()
        away(world, reader)
        news = writer.publish(world.group("news"), 8)
        world.run(1)
        back(world, reader)
        cats = []
        for _ in range(100):
            cats += writer.publish(world.group("cats"), 2)
            world.run(0.1)
        assert set(news) <= set(reader.diary.handled)
        world.run_until_quiet()
        assert set(cats) <= set(reader.diary.handled)


def test_below_the_free_disk_nothing_new_is_taken_but_what_is_there_moves() -> None:
    with World(14) as world:
        node = world.node("node")
        reader, writer = reader_at(world, node), world.app(node)
        away(world, reader)
        ids = writer.publish(world.group("news"), 5)
        world.run_until_quiet()
        node.disk_full = True
        world.run(2)
        back(world, reader)
        assert reader.first_deliveries() == ids
        for ttl_s in (0, 60):
            [one] = writer.publish(world.group("news"), ttl_s=ttl_s)
            world.run_until_quiet()
            assert writer.diary.refused[one] is Reason.DISK_FULL


# -- leaving, clearing, going away -------------------------------------------------------------------------------


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


@pytest.mark.parametrize("seed", range(6))
def test_leaving_and_joining_again_at_once_loses_nothing_that_comes_after(seed: int) -> None:
    """LEAVE and JOIN in one read: what is accepted after them is delivered, and the subscription survives a crash."""
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
        node = world.node("node", Settings(limits=Limits(away_s_max=100)))
        reader, writer = reader_at(world, node), world.app(node)
        away(world, reader)
        ids = writer.publish(world.group("news"), 5)
        world.run(50)
        back(world, reader)  # in time: the clock starts again
        away(world, reader)
        more = writer.publish(world.group("news"), 5)
        world.run(20)
        world.crash(node)
        world.run(95)
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


# -- restarts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["link", "node"])
def test_whoever_is_owed_something_is_dialled(lost: str) -> None:
    """A mere peer is not kept connected; what waits for it makes the node dial, after a restart as well."""
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


def route_to(key: SigningKey, node: Node) -> Route:
    return Route(key.public, node.address, 2_000_000_000)


def test_reports_never_break_a_link() -> None:
    """Hundreds of unicasts end at once; their source hears of as many as its window takes."""
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


def test_kept_bytes_go_and_ids_stay() -> None:
    with World(24) as world:
        node = world.node("node", Settings(store=StoreLimits(keep_s=30)))
        reader, writer = reader_at(world, node), world.app(node)
        ids = writer.publish(world.group("news"), 20, life_s=600)
        world.run_until_quiet()
        assert node.disk.kept and reader.first_deliveries() == ids
        world.run(60)
        again = writer.put(writer.diary.sent[ids[0]])
        world.run_until_quiet()
        assert not node.disk.parcels.keys() & set(range(1, 20)) and len(node.disk.ids) == 20
        assert again in writer.diary.settled and reader.diary.handled[again] == 1
