"""A later refusal holds back only the messages it concerns, by value: streams, the whole queue, and the flow of
others."""

from __future__ import annotations

from random import Random

import pytest
from rigs.one_router import OneRouter
from samples.core import ALICE, BOB, GROUP
from test_delivery import EXPIRY, OTHER, news, other_news, publish, settle, some, two_groups

from router.core.routing.limits import CoreLimits, DeliveryLimits
from router.core.wire.link_items import Redelivered
from router.core.wire.message import Multicast, open_message, seal_multicast, seal_unicast
from router.core.wire.reasons import Reason


@pytest.mark.parametrize("reason", [Reason.QUEUE_FULL_GROUP, Reason.INDEX_FULL])
def test_a_later_refusal_holds_back_only_its_own_stream(reason: Reason) -> None:
    one, alice, bob = two_groups()
    publish(one, alice, news(1), other_news(1), news(2))
    one.handed(bob)
    one.router.refused(bob, 3, reason, "")
    one.router.refused(bob, 5, reason, "")
    settle(one, bob, 5)
    publish(one, alice, news(3), other_news(2), news(4), other_news(3))
    assert one.handed(bob) == [other_news(2), other_news(3)], "the other group flows"
    publish(one, alice, news(5, ttl_s=0))
    assert one.settled()[alice][1] == [(8, Reason.RECIPIENT_OFFLINE_TTL0, "")], "and nothing overtakes in the one held"
    one.pass_time(1)
    assert one.handed(bob) == [news(1), news(2), news(3), news(4)], "in its order; nothing in flight comes twice"
    publish(one, alice, news(6))
    assert one.handed(bob) == [news(6)]
    settle(one, bob, 12)
    queue = one.router.queues.by_recipient[BOB.public]
    assert not queue.held and not queue.behind and not one.disk.owed


def test_what_is_held_does_not_keep_the_window_from_the_rest_of_the_backlog() -> None:
    one, alice, bob = two_groups()
    publish(one, alice, news(0), *(other_news(number) for number in range(7)))
    one.handed(bob)
    publish(one, alice, *some(30, 1), other_news(8))
    one.router.refused(bob, 3, Reason.RATE_LIMITED, "")
    settle(one, bob, 10)
    while one.router.has_more_to_fetch:
        one.cycle()
    assert one.handed(bob) == [other_news(8)], "behind thirty that wait"
    one.pass_time(1)
    assert one.handed(bob) == [news(0), *some(6, 1)]


def test_what_an_earlier_link_brought_and_is_held_on_this_one_comes_again_marked() -> None:
    one, alice, bob = two_groups()
    publish(one, alice, news(1), news(2), news(3))
    assert one.handed(bob) == [news(1), news(2), news(3)]
    one.router.link_down(bob, one.now())
    bob = one.link(BOB.public, messages=1)
    assert one.said(bob) == [Redelivered(3)] and one.handed(bob) == [news(1)]
    one.router.refused(bob, 1, Reason.RATE_LIMITED, "")
    settle(one, bob, 1)
    publish(one, alice, news(4))
    assert one.said(bob) == [] == one.handed(bob)
    one.pass_time(1)
    assert one.said(bob) == [Redelivered(4)] and one.handed(bob) == [news(1)], "one too many is harmless"


def test_after_a_restart_all_of_a_queue_in_which_a_stream_was_held_comes_again_marked() -> None:
    one, alice, bob = two_groups()
    publish(one, alice, *some(8))
    assert one.handed(bob) == some(8)
    one.router.refused(bob, 3, Reason.RATE_LIMITED, "")
    settle(one, bob, 3)
    publish(one, alice, other_news(1))
    for number in range(4, 11):
        one.router.refused(bob, number, Reason.RATE_LIMITED, "")
    settle(one, bob, 10)
    one.cycle()
    assert one.handed(bob) == [other_news(1)], "more than a window has been handed over, and nothing is settled"
    again = OneRouter(disk=one.disk, locals={BOB.public}, seconds=one.seconds)
    bob = again.link(BOB.public)
    assert again.said(bob) == [Redelivered(9)]
    assert again.handed(bob) == some(8)
    settle(again, bob, 8)
    again.cycle()
    assert again.handed(bob) == [other_news(1)]
    settle(again, bob, 9)
    assert not again.disk.book, "the queue is empty"


def test_what_is_wrong_with_the_whole_node_there_holds_back_everything() -> None:
    one, alice, bob = two_groups()
    publish(one, alice, news(1))
    one.handed(bob)
    one.router.refused(bob, 3, Reason.DISK_FULL, "")
    settle(one, bob, 3)
    publish(one, alice, other_news(1))
    assert one.handed(bob) == []


def test_more_held_streams_than_the_limit_hold_back_everything() -> None:
    one, alice, bob = two_groups(CoreLimits(delivery=DeliveryLimits(streams_held_max=1)))
    publish(one, alice, news(1), other_news(1))
    one.handed(bob)
    one.router.refused(bob, 3, Reason.RATE_LIMITED, "")
    one.router.refused(bob, 4, Reason.RATE_LIMITED, "")
    settle(one, bob, 4)
    publish(one, alice, seal_unicast(ALICE, BOB.public, b"", ttl_s=60, expiry_min=EXPIRY))
    assert one.handed(bob) == []
    one.pass_time(1)
    assert len(one.handed(bob)) == 3


def test_a_stream_of_which_nothing_is_owed_any_more_is_forgotten() -> None:
    one, alice, bob = two_groups()
    publish(one, alice, news(1, ttl_s=5), other_news(1))
    one.handed(bob)
    one.router.refused(bob, 3, Reason.RATE_LIMITED, "")
    settle(one, bob, 3)
    assert one.router.queues.by_recipient[BOB.public].held
    one.pass_time(6)
    assert not one.router.queues.by_recipient[BOB.public].held


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_refused_for_now_all_comes_once_and_in_its_order(seed: int) -> None:
    """Bob refuses at random, and then everything of that stream until the first refused message comes again."""
    chance = Random(seed)
    limits = CoreLimits(delivery=DeliveryLimits(retry_s_min=1, retry_s_max=3, streams_held_max=chance.choice((1, 8))))
    one, alice, bob = two_groups(limits)
    sent: dict[bytes, list[bytes]] = {GROUP.public: [], OTHER.public: []}
    taken: dict[bytes, list[bytes]] = {GROUP.public: [], OTHER.public: []}
    refused: dict[bytes, bytes] = {}
    n, waiting = 2, list[bytes]()
    for step in range(400):
        if step < 200 and chance.random() < 0.5:
            group = chance.choice((GROUP, OTHER))
            wires = [
                seal_multicast(group, b"%d" % (len(sent[group.public]) + at), ttl_s=6000, expiry_min=EXPIRY)
                for at in range(chance.randint(1, 5))
            ]
            sent[group.public] += wires
            publish(one, alice, *wires)
        waiting += one.handed(bob)
        for wire in waiting[: chance.randint(0, 8)]:
            waiting.remove(wire)
            n += 1
            message = open_message(wire)
            assert isinstance(message, Multicast)
            if refused.get(message.group, wire) == wire and (step > 250 or chance.random() < 0.8):
                taken[message.group].append(wire)
                refused.pop(message.group, None)
            else:
                refused.setdefault(message.group, wire)
                why = chance.choice((Reason.QUEUE_FULL_GROUP, Reason.RATE_LIMITED, Reason.DISK_FULL))
                one.router.refused(bob, n, why, "")
        settle(one, bob, n)
        if chance.random() < 0.02:
            one.router.link_down(bob, one.now())
            bob, n = one.link(BOB.public, messages=8, size=1 << 20), 0
            waiting.clear()
            refused.clear()
        if chance.random() < 0.3 or step > 250:
            one.pass_time(1)
    assert taken == sent
    assert not one.disk.owed and not one.router.queues.node.messages
