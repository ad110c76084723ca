"""Handing over and settling, by value: windows, messages left on disk, back-off, deadlines, messages in flight."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.log.events import Noted, Outward
from router.core.neighbours.directory import Neighbour
from router.core.routing.effects import SendItem
from router.core.routing.limits import CoreLimits, DeliveryLimits
from router.core.routing.owed import Damaged
from router.core.routing.purges import Purge
from router.core.wire.control import Join, Report, decode_control, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.link_items import Missed, Redelivered
from router.core.wire.message import message_id, open_message, seal_multicast, seal_unicast
from router.core.wire.reasons import Reason

EXPIRY = expiry_min(WALL_S + 3600)
OTHER = SigningKey(b"o" * 32)


def news(number: int, *, ttl_s: int = 600, size: int = 4) -> bytes:
    return seal_multicast(GROUP, number.to_bytes(4, "big").ljust(size, b"."), ttl_s=ttl_s, expiry_min=EXPIRY)


def some(count: int, first: int = 0, **more: int) -> list[bytes]:
    return [news(first + number, **more) for number in range(count)]


def house(messages: int = 4, size: int = 1 << 20, limits: CoreLimits | None = None) -> tuple[OneRouter, int, int]:
    """Return a router on which Alice publishes, and Bob is in the group, with a small window; his JOIN_ACK is
    settled."""
    one = OneRouter(limits=limits)
    alice, bob = one.link(ALICE.public), one.link(BOB.public, messages=messages, size=size)
    join = encode_control(Join(GROUP.public, False))
    one.bring(bob, seal_unicast(BOB, ME.public, join, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    settle(one, bob, 1)
    one.told(bob), one.settled()
    one.events.clear()
    return one, alice, bob


def other_news(number: int) -> bytes:
    return seal_multicast(OTHER, number.to_bytes(4, "big"), ttl_s=600, expiry_min=EXPIRY)


def two_groups(limits: CoreLimits | None = None) -> tuple[OneRouter, int, int]:
    """Return a router like `house`, with Bob in a second group; his window is 8, and n continues from 2."""
    one, alice, bob = house(messages=8, limits=limits)
    join = encode_control(Join(OTHER.public, False))
    one.bring(bob, seal_unicast(BOB, ME.public, join, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    settle(one, bob, 2)
    one.told(bob), one.settled()
    one.events.clear()
    return one, alice, bob


def settle(one: OneRouter, link: int, n: int) -> None:
    one.router.settled(link, n, one.now())
    one.cycle()


def publish(one: OneRouter, link: int, *wires: bytes) -> None:
    one.bring(link, *wires)
    one.cycle()


# -- windows -----------------------------------------------------------------------------------------------------


def test_what_does_not_fit_the_window_comes_from_the_disk_as_it_opens() -> None:
    one, alice, bob = house(messages=4)
    wires = some(10)
    publish(one, alice, *wires[:6])
    publish(one, alice, *wires[6:])
    assert one.handed(bob) == wires[:4]
    settle(one, bob, 2)
    assert one.handed(bob) == [wires[4]]
    settle(one, bob, 6)
    assert one.handed(bob) == wires[5:9]
    settle(one, bob, 10)
    settle(one, bob, 11)
    assert one.handed(bob) == wires[9:] and not one.router.queues.by_recipient[BOB.public].behind
    publish(one, alice, news(11))
    assert one.handed(bob) == [news(11)], "straight from memory again"


def test_a_window_of_bytes_takes_one_message_of_any_size() -> None:
    one, alice, bob = house(size=300)
    wires = [news(1, size=2000), news(2), news(3)]
    publish(one, alice, *wires)
    assert one.handed(bob) == wires[:1]
    settle(one, bob, 2)
    assert one.handed(bob) == wires[1:]


def test_a_slow_reader_slows_nobody_else() -> None:
    one, alice, bob = house(messages=1)
    wires = some(5)
    publish(one, alice, *wires)
    assert len(one.handed(bob)) == 1
    assert one.settled() == {alice: (5, [])}, "the publisher is settled all the same"


def test_settling_what_was_never_sent_closes_the_link() -> None:
    one, alice, bob = house()
    publish(one, alice, *some(2))
    settle(one, bob, 9)
    one.router.refused(bob, 9, Reason.NO_ROUTE, "")
    one.cycle()
    assert one.closed() == [(bob, "malformed")] * 2
    assert one.outward()[-1][0] == "forwarded", "and nothing was settled"


# -- settling and refusing ---------------------------------------------------------------------------------------


def test_ranges_not_single_messages_are_logged() -> None:
    one, alice, bob = house(messages=8)
    publish(one, alice, *some(5))
    settle(one, bob, 4)
    settle(one, bob, 6)
    assert one.outward() == [("forwarded", ((1, 5),)), ("delivered", ((1, 3),)), ("delivered", ((4, 2),))]
    assert not one.disk.owed and one.disk.kept


def test_a_final_refusal_ends_it_and_a_later_one_waits() -> None:
    limits = CoreLimits(delivery=DeliveryLimits(retry_s_min=2, retry_s_max=6))
    one, alice, bob = house(messages=8, limits=limits)
    wires = some(4)
    publish(one, alice, *wires)
    one.handed(bob)
    one.router.refused(bob, 3, Reason.MALFORMED, "")
    one.router.refused(bob, 4, Reason.QUEUE_FULL_NODE, "")
    settle(one, bob, 5)
    assert one.outward()[1:] == [
        ("delivered", ((1, 1),)), ("refused", ((2, 1),)), ("deferred", ((3, 1),)), ("delivered", ((4, 1),)),
    ]  # fmt: skip
    publish(one, alice, news(9))
    assert one.handed(bob) == [], "the queue backs off"
    one.pass_time(1)
    assert one.handed(bob) == []
    one.pass_time(1)
    assert one.handed(bob) == [wires[2], news(9)], "from the oldest on"


def test_a_back_off_doubles_to_its_limit_and_a_success_ends_it() -> None:
    one, alice, bob = house(limits=CoreLimits(delivery=DeliveryLimits(retry_s_min=2, retry_s_max=6)))
    publish(one, alice, news(1))
    waited, n = [], 1
    for _ in range(4):
        while not one.handed(bob):
            one.pass_time(1)
        n += 1
        one.router.refused(bob, n, Reason.DISK_FULL, "")
        settle(one, bob, n)
        waited.append(one.router.queues.by_recipient[BOB.public].backoff_s)
    assert waited == [2, 4, 6, 6]
    for _ in range(10):
        one.pass_time(1)
    settle(one, bob, n + 1)
    assert one.router.queues.by_recipient[BOB.public].backoff_s == 0


def test_many_refused_at_once_double_the_pause_once() -> None:
    one, alice, bob = house(messages=8)
    publish(one, alice, *some(5))
    one.handed(bob)
    for k in range(2, 7):
        one.router.refused(bob, k, Reason.DISK_FULL, "")
    settle(one, bob, 6)
    one.pass_time(1)
    assert one.handed(bob) == some(5)


def test_ttl_0_does_not_overtake_what_waits() -> None:
    one, alice, bob = house()
    publish(one, alice, news(1))
    one.router.refused(bob, 2, Reason.DISK_FULL, "")
    settle(one, bob, 2)
    one.settled()
    publish(one, alice, news(2, ttl_s=0))
    assert one.settled()[alice][1] == [(2, Reason.RECIPIENT_OFFLINE_TTL0, "")]


def test_a_new_link_ends_the_back_off() -> None:
    one, alice, bob = house()
    publish(one, alice, news(1))
    one.router.refused(bob, 2, Reason.DISK_FULL, "")
    settle(one, bob, 2)
    one.router.link_down(bob, one.now())
    one.handed(bob)
    bob = one.link(BOB.public)
    assert one.handed(bob) == [news(1)]


# -- links come and go -------------------------------------------------------------------------------------------


def test_what_was_handed_to_an_earlier_link_comes_again_first_and_marked() -> None:
    one, alice, bob = house(messages=4)
    wires = some(6)
    publish(one, alice, *wires)
    settle(one, bob, 2)
    one.router.link_down(bob, one.now())
    one.cycle()
    publish(one, alice, news(9))
    one.handed(bob)
    assert one.dialled() and not one.said(bob)
    bob = one.link(BOB.public, messages=4)
    assert one.said(bob) == [Redelivered(4)] and one.handed(bob) == wires[1:5]
    settle(one, bob, 4)
    assert one.said(bob) == [] and one.handed(bob) == [wires[5], news(9)]


def test_an_app_hears_first_that_it_is_known() -> None:
    one = OneRouter(Neighbour(BOB.public))
    app = one.link(ALICE.public)
    one.link(BOB.public, role="router")
    assert [(effect.link, effect.item) for effect in one.done if isinstance(effect, SendItem)] == [
        (app, Redelivered(0))
    ]


def test_after_a_restart_one_window_may_come_again() -> None:
    one, alice, bob = house(messages=4)
    publish(one, alice, *some(10))
    after = OneRouter(disk=one.disk, seconds=9)
    after.cycle()
    assert after.dialled() == [BOB.public]
    bob = after.link(BOB.public, messages=3)
    assert after.said(bob) == [Redelivered(3)] and after.handed(bob) == some(3)


def test_what_was_handed_over_and_then_seemed_expired_comes_again_marked_once_the_clock_is_right() -> None:
    one, alice, bob = house(messages=4)
    publish(one, alice, news(1, ttl_s=10), news(2))
    assert one.handed(bob) == [news(1, ttl_s=10), news(2)]
    one.router.link_down(bob, one.now())
    one.seconds += 11
    bob = one.link(BOB.public, messages=4)
    assert one.said(bob) == [Redelivered(2)] and one.handed(bob) == [news(2)]
    publish(one, alice, news(3))
    assert one.handed(bob) == [news(3)]
    one.seconds -= 11
    one.router.clock_judged(-11, False, one.now())
    one.cycle()
    assert one.said(bob) == [Redelivered(1)] and one.handed(bob) == [news(1, ttl_s=10)]
    one.router.clock_judged(0, True, one.now())
    one.cycle()
    assert one.said(bob) == [] == one.handed(bob)


def test_what_seemed_expired_on_one_link_counts_for_the_next() -> None:
    one, alice, bob = house(messages=4)
    publish(one, alice, news(1, ttl_s=10), news(2))
    one.router.link_down(bob, one.now())
    one.seconds += 11
    bob = one.link(BOB.public, messages=4)
    settle(one, bob, 1)
    one.router.link_down(bob, one.now())
    one.seconds -= 11
    publish(one, alice, news(3))
    bob = one.link(BOB.public, messages=4)
    assert one.said(bob) == [Redelivered(1)] and one.handed(bob) == [news(1, ttl_s=10), news(3)]


def test_a_second_link_of_one_key_takes_the_flights_over() -> None:
    one, alice, bob = house(messages=4)
    publish(one, alice, *some(3))
    one.handed(bob)
    second = one.link(BOB.public)
    assert one.closed() == [(bob, "replaced")] and one.handed(second) == some(3)
    settle(one, bob, 4)
    assert one.outward()[-1][0] == "forwarded", "the old link settles nothing any more"
    settle(one, second, 3)
    assert one.outward()[-1] == ("delivered", ((1, 3),))


# -- deadlines, dropping -----------------------------------------------------------------------------------------


def test_expiry_skips_what_is_in_flight_and_looks_again() -> None:
    one, alice, bob = house(messages=2)
    publish(one, alice, *some(3, ttl_s=10), *some(3, 3, ttl_s=20))
    one.pass_time(15)
    assert one.outward()[1:] == [("expired", ((3, 1),))]
    one.pass_time(10)
    assert one.outward()[2:] == [("expired", ((4, 3),))], "a run, not three"
    settle(one, bob, 2)
    one.pass_time(30)
    assert one.outward()[3:] == [("delivered", ((1, 1),))], "the second is still in flight"
    one.router.link_down(bob, one.now())
    one.pass_time(31)
    assert one.outward()[4:] == [("expired", ((2, 1),))] and not one.disk.due
    bob = one.link(BOB.public)
    missed = [item for item in one.said(bob) if isinstance(item, Missed)]
    assert [(item.group, item.count, item.reason) for item in missed] == [(GROUP.public, 1, Reason.TTL_EXPIRED)]


def test_what_is_dropped_in_flight_is_not_settled_twice() -> None:
    one, alice, bob = house(messages=2)
    publish(one, alice, *some(4))
    one.router.clear_queue(BOB.public, one.now())
    publish(one, alice, *some(2, 10))
    one.clear()
    assert ("dropped", ((1, 4),)) in one.outward()
    [ordered] = [event for event in one.events if isinstance(event, Noted)]
    assert (ordered.event, dict(ordered.fields)) == ("queue_dropped", {"service": "router", "peer": BOB.public})
    one.router.refused(bob, 2, Reason.NO_ROUTE, "")
    one.router.refused(bob, 3, Reason.NO_ROUTE, "")
    one.handed(bob)
    settle(one, bob, 3)
    one.pass_time(1)
    assert one.handed(bob) == some(2, 10), "what came after the clearing is delivered"
    settle(one, bob, 5)
    assert one.outward()[-1] == ("delivered", ((5, 2),))
    link = one.router.links.get(bob)
    assert link is not None and not link.refused and not link.flights


def test_what_is_past_its_deadline_is_not_handed_over_however_late_the_sweep() -> None:
    """Such a message is passed over, and ends once, when the sweep comes."""
    one, alice, bob = house(messages=8)
    one.router.link_down(bob, one.now())
    publish(one, alice, news(1), *some(3, 2, ttl_s=10), news(5), news(6, ttl_s=10))
    one.seconds += 11
    bob = one.link(BOB.public, messages=8)
    assert one.handed(bob) == [news(1), news(5)]
    settle(one, bob, 2)
    one.router.link_down(bob, one.now())
    bob = one.link(BOB.public, messages=8)
    assert one.handed(bob) == []
    one.pass_time(0)
    one.pass_time(1)
    assert one.outward()[-2:] == [("expired", ((2, 3),)), ("expired", ((6, 1),))]
    assert [event for event, _ in one.outward()].count("expired") == 2
    assert not one.disk.owed and not one.router.queues.by_recipient[BOB.public].total.messages


def damaged(one: OneRouter, whole_row: bool) -> Damaged:
    """Return all but the first message of Bob's first parcel as damaged."""
    parcel = one.disk.parcels[1]
    runs = ((1, parcel.count),)
    return Damaged(
        BOB.public, 1, runs, parcel.size(1, parcel.count), parcel.signer[:8], parcel.neighbour[:8],
        parcel if whole_row else None,
    )  # fmt: skip


@pytest.mark.parametrize("whole_row", [True, False])
def test_what_the_disk_has_spoilt_ends_and_the_rest_goes_on(whole_row: bool) -> None:
    """Each damaged message ends once and leaves the queue; Bob is told as far as its content is known."""
    one, alice, bob = house(messages=1)
    publish(one, alice, *some(4))
    publish(one, alice, news(9))
    assert one.handed(bob) == [news(0)]
    one.router.lose([damaged(one, whole_row)], one.now())
    one.cycle()
    [lost] = [event for event in one.events if isinstance(event, Outward) and event.event == "dropped"]
    assert (lost.recipient, lost.ranges, lost.reason) == (BOB.public, ((2, 3),), Reason.STORE_DAMAGED)
    assert lost.parcel == 1
    settle(one, bob, 2)
    assert one.handed(bob) == [news(9)]
    settle(one, bob, 3)
    queue = one.router.queues.by_recipient[BOB.public].total
    assert (queue.messages, queue.bytes) == (0, 0) or not whole_row
    told = [(item.count, item.reason) for item in one.said(bob) if isinstance(item, Missed)]
    assert told == ([(3, Reason.STORE_DAMAGED)] if whole_row else [])


def test_what_is_in_flight_from_memory_is_not_lost_by_the_disk() -> None:
    one, alice, bob = house(messages=4)
    publish(one, alice, *some(4))
    one.handed(bob)
    one.router.lose([damaged(one, True)], one.now())
    settle(one, bob, 5)
    assert one.outward()[1:] == [("delivered", ((1, 4),))]


def test_what_is_in_flight_of_a_parcel_that_cannot_be_read_ends_once() -> None:
    one, alice, bob = house(messages=4)
    publish(one, alice, *some(4))
    one.handed(bob)
    whole = damaged(one, False)
    one.router.lose([whole._replace(runs=((0, 4),), size=one.disk.parcels[1].size(0, 4))], one.now())
    one.cycle()
    settle(one, bob, 5)
    assert one.outward()[1:] == [("dropped", ((1, 4),))] and not one.disk.owed
    assert not one.router.queues.by_recipient.get(BOB.public)


def test_what_is_to_be_cleared_is_not_handed_over_any_more() -> None:
    """Bob leaves one of two groups while he is behind, and gets none of its messages meanwhile."""
    one, alice, bob = two_groups()
    one.router.link_down(bob, one.now())
    publish(one, alice, news(1), other_news(1), news(2))
    one.router.purges.begin(Purge(BOB.public, GROUP.public, one.router.next_arrival))
    publish(one, alice, news(3))
    bob = one.link(BOB.public, messages=8)
    assert one.handed(bob) == [other_news(1), news(3)]
    assert one.disk.purges == {(BOB.public, GROUP.public): 4}
    one.clear()
    assert one.outward()[-2:] == [("dropped", ((1, 1),)), ("dropped", ((3, 1),))]
    assert not one.disk.purges and not one.router.purges


# -- reports -----------------------------------------------------------------------------------------------------


def letter(to: PublicKey, ttl_s: int = 10) -> bytes:
    return seal_unicast(ALICE, to, b"dear", ttl_s=ttl_s, expiry_min=EXPIRY)


@pytest.mark.parametrize("behind", [False, True])
def test_the_source_of_a_unicast_hears_how_it_ended(behind: bool) -> None:
    """The source is told directly, or through the neighbour that brought the message."""
    peer = Neighbour(b"p" * 32)
    one = OneRouter(peer, locals={BOB.public})
    source = one.link(peer.key, role="router") if behind else one.link(ALICE.public)
    publish(one, source, letter(BOB.public))
    one.pass_time(20)
    [wire] = one.told(source)
    message = open_message(wire)
    report = Report(message_id(letter(BOB.public)), BOB.public, "expired", Reason.TTL_EXPIRED, WALL_S + 20)
    assert decode_control(message.body) == report
    assert (message.source, message.destination, message.ttl_s) == (ME.public, ALICE.public, 0)  # type: ignore[union-attr]


def test_no_report_about_a_report_or_where_nobody_listens() -> None:
    one = OneRouter(locals={BOB.public})
    alice = one.link(ALICE.public)
    publish(one, alice, letter(BOB.public))
    one.router.link_down(alice, one.now())
    one.pass_time(20)
    assert not one.told(alice) and ("expired", ((1, 1),)) in one.outward()
