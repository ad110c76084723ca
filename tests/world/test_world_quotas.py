"""The limits of waiting messages, in small worlds: each limit and its reason, the recipients left out, and the
retries."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from router.core.routing.limits import CoreLimits, DeliveryLimits, QueueLimits
from router.core.wire.reasons import Reason
from world.app import Habits
from world.node import Settings
from world.readers import away, back, ends, node_with, outward, reader_at
from world.world import World

ALL = "join store relay"


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
        node = world.node("node", Settings(limits=CoreLimits(queues=replace(QueueLimits(share_percent=100), **queues))))
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


# -- refused for now ------------------------------------------------------------------------------------------------


def test_what_was_refused_for_now_is_tried_again() -> None:
    """The core's queue for a reader is full; the edge keeps the rest and backs off until there is room."""
    with World(12) as world:
        core = node_with(world, "core", recipient_messages_max=10)
        limits = CoreLimits(delivery=DeliveryLimits(retry_s_min=2.0, retry_s_max=8.0))
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
        edge = world.node("edge", Settings(limits=CoreLimits(delivery=DeliveryLimits(retry_s_max=2.0))))
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
