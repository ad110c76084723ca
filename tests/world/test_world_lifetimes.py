"""The time that a message waits, in small worlds: ttl and expiry, ttl 0, the horizon of the index, kept bytes."""

from __future__ import annotations

from dataclasses import replace

from router.core.routing.limits import CoreLimits, IndexLimits
from router.core.wire.reasons import Reason
from router.disk.limits import StoreLimits
from world.app import Habits
from world.node import Settings
from world.readers import STALLS, away, back, ends, outward, reader_at
from world.world import World


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
        node = world.node("node", Settings(limits=CoreLimits(index=IndexLimits(lifetime_s_max=3600))))
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
    """The index has room for 100 ids (R-C5): when it is full, nothing is accepted, not even with ttl 0; then ids age
    out."""
    limits = CoreLimits(index=IndexLimits(entries_max=100, lifetime_s_max=6000, strangers_percent=0))
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
        assert tried(1, 5990) is Reason.INDEX_FULL, "for now: it may come later"
        assert tried(19, 3000) is None
        assert tried(1, 3700) is Reason.INDEX_FULL, "70 of 100: 60 % of it"
        assert tried(30, 60) is None
        assert tried(1, 30) is tried(1, 30, ttl_s=0) is Reason.INDEX_FULL
        assert tried(1, 9000) is Reason.EXPIRY_TOO_FAR, "for good: longer than ever"
        assert len(writer.diary.settled) == 100 == node.router.index.entries
        world.run(800)
        assert tried(1, 60) is None, "thirty ids have died ten minutes after their expiry"


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
        assert not node.disk.parcels and len(node.disk.ids) == 20
        assert again in writer.diary.settled and reader.diary.handled[again] == 1
        world.run(1300)
        assert not node.disk.ids and not node.router.index.entries, "nobody said a word since"
