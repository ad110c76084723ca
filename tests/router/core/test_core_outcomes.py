"""What publishers and recipients are told, by value: names or numbers, and the limits of what is remembered."""

from __future__ import annotations

from core_samples import ALICE, BOB, GROUP
from one_router import OneRouter
from test_delivery import house, news, publish, settle, some

from router.core.link import Missed, Outcome, RecipientOutcome
from router.core.message import message_id
from router.core.outcomes import OutcomeLimits
from router.core.reasons import Reason
from router.core.router import Limits


def publisher(limits: OutcomeLimits) -> tuple[OneRouter, int, int]:
    """Alice asks for outcomes; Bob is in the group."""
    one, alice, bob = house(limits=Limits(outcomes=limits))
    one.router.link_down(alice, one.now())
    return one, one.link(ALICE.public, outcome=True), bob


def test_numbers_stand_for_names_where_the_configuration_says_so() -> None:
    one, alice, bob = publisher(OutcomeLimits(named=False))
    publish(one, alice, news(0))
    settle(one, bob, 2)
    states = [("queued", 1), ("delivered", 1)]
    assert one.said(alice) == [
        Outcome(message_id(news(0)), (RecipientOutcome(count, state),)) for state, count in states
    ]


def test_beyond_so_many_parcels_the_oldest_is_followed_no_further() -> None:
    one, alice, bob = publisher(OutcomeLimits(watched_max=1))
    for wire in some(2):
        publish(one, alice, wire)
    one.said(alice)
    settle(one, bob, 3)
    assert [item.id for item in one.said(alice) if isinstance(item, Outcome)] == [message_id(news(1))]
    assert repr(one.router._outcomes) == "<outcomes: 1 parcels followed, 0 recipients missed something>"


def test_so_many_recipients_and_reasons_of_each_are_remembered() -> None:
    for none in (OutcomeLimits(missed_max=0), OutcomeLimits(missed_kinds_max=0)):
        assert missed(none) == []
    assert missed(OutcomeLimits()) == [(GROUP.public, 3, Reason.TTL_EXPIRED)]


def missed(limits: OutcomeLimits) -> list[object]:
    """What Bob hears when he comes back too late for three messages."""
    one, alice, bob = publisher(limits)
    one.router.link_down(bob, one.now())
    publish(one, alice, *some(3, ttl_s=10))
    one.pass_time(20)
    back = one.link(BOB.public)
    one.cycle()
    return [(item.group, item.count, item.reason) for item in one.said(back) if isinstance(item, Missed)]


def test_what_was_missed_is_told_after_a_restart_and_told_once() -> None:
    one, alice, bob = publisher(OutcomeLimits())
    one.router.link_down(bob, one.now())
    publish(one, alice, *some(3, ttl_s=10))
    one.pass_time(20)
    told = []
    for _ in range(2):
        one = OneRouter(locals={ALICE.public, BOB.public}, disk=one.disk, seconds=one.seconds)
        back = one.link(BOB.public)
        told.append([(item.group, item.count) for item in one.said(back) if isinstance(item, Missed)])
    assert told == [[(GROUP.public, 3)], []]


def test_one_who_lapses_is_told_no_more() -> None:
    one, alice, bob = publisher(OutcomeLimits())
    one.router.link_down(bob, one.now())
    publish(one, alice, *some(3, ttl_s=10))
    one.pass_time(20)
    one.seconds += 40 * 86_400
    one.router.lapse(one.now())
    one.cycle()
    assert not one.disk.missed
