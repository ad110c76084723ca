"""Outcomes for publishers and recipients, by value: names or numbers, and the limits of what is remembered."""

from __future__ import annotations

from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP
from test_delivery import house, news, publish, settle, some

from router.core.neighbours.directory import JOIN, RELAY, STORE, WHY, Neighbour
from router.core.routing.limits import CoreLimits, OutcomeLimits
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.link_items import Missed, Outcome, RecipientOutcome
from router.core.wire.message import message_id, seal_unicast
from router.core.wire.reasons import Reason


def publisher(limits: OutcomeLimits) -> tuple[OneRouter, int, int]:
    """Return a router on which Alice asks for outcomes, and Bob is in the group."""
    one, alice, bob = house(limits=CoreLimits(outcomes=limits))
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


def test_the_service_that_keeps_messages_for_other_nodes_is_not_counted_among_their_readers() -> None:
    """Where names are told it is one of them: then everybody sees what it is."""
    keeper = SigningKey(b"k" * 32)
    for named, told in ((True, [RecipientOutcome(keeper.public, "queued")]), (False, [])):
        limits = CoreLimits(outcomes=OutcomeLimits(named=named))
        one = OneRouter(services={bytes(keeper.public): "pubsub"}, locals={ALICE.public}, limits=limits)
        service, alice = one.link(keeper.public), one.link(ALICE.public, outcome=True)
        join = encode_control(Join(GROUP.public, True))
        one.bring(service, seal_unicast(keeper, ME.public, join, ttl_s=0, expiry_min=expiry_min(WALL_S + 600)))
        one.cycle()
        publish(one, alice, news(0))
        [said] = [item for item in one.said(alice) if isinstance(item, Outcome)]
        assert list(said.recipients) == told, named
        settle(one, service, 2)
        assert len(one.said(alice)) == named


REMOTE = SigningKey(b"q" * 32)


def heard_by_a_remote_app(*neighbours: Neighbour, locals: tuple[bytes, ...] = ()) -> tuple[OneRouter, int, int]:
    """Return the outcomes for a key that claims to be an app, but not on the owner's socket, and that publishes for
    Bob."""
    one = OneRouter(*neighbours, strangers=True, locals={BOB.public, *locals})
    bob, remote = one.link(BOB.public), one.link(REMOTE.public, owner=False, outcome=True)
    join = encode_control(Join(GROUP.public, False))
    one.bring(bob, seal_unicast(BOB, ME.public, join, ttl_s=0, expiry_min=expiry_min(WALL_S + 600)))
    one.cycle()
    one.bring(remote, news(0))
    one.cycle()
    return one, remote, bob


def test_only_local_apps_hear_names_and_only_who_may_ask_why_hears_numbers() -> None:
    """A link's own claims give it no right: a publisher may not learn who reads."""
    named = RecipientOutcome(BOB.public, "queued")
    for neighbours, locals, told in (
        ((Neighbour(REMOTE.public, grants=frozenset({JOIN, STORE, RELAY})),), (), []),
        ((Neighbour(REMOTE.public),), (), []),
        ((Neighbour(REMOTE.public, grants=frozenset({JOIN, WHY})),), (), [RecipientOutcome(1, "queued")]),
        ((), (REMOTE.public,), [named]),
    ):
        one, remote, _ = heard_by_a_remote_app(*neighbours, locals=locals)
        said = [row for item in one.said(remote) if isinstance(item, Outcome) for row in item.recipients]
        assert said == told, neighbours


def test_who_may_no_longer_ask_why_hears_nothing_more() -> None:
    one, remote, bob = heard_by_a_remote_app(Neighbour(REMOTE.public, grants=frozenset({JOIN, WHY})))
    one.said(remote)
    one.router.neighbours_changed([Neighbour(REMOTE.public, grants=frozenset({JOIN}))], one.now())
    settle(one, bob, 2)
    assert one.said(remote) == []


def test_beyond_so_many_parcels_the_oldest_is_followed_no_further() -> None:
    one, alice, bob = publisher(OutcomeLimits(watched_max=1))
    for wire in some(2):
        publish(one, alice, wire)
    one.said(alice)
    settle(one, bob, 3)
    assert [item.id for item in one.said(alice) if isinstance(item, Outcome)] == [message_id(news(1))]


def test_parcels_of_which_all_has_ended_are_forgotten() -> None:
    one, alice, bob = publisher(OutcomeLimits())
    left = []
    for at in range(3):
        publish(one, alice, *some(3, 3 * at))
        left.append(repr(one.router.outcomes))
        settle(one, bob, 1 + 3 * (at + 1))
        left.append(repr(one.router.outcomes))
    publish(one, alice, *some(3, 9))
    settle(one, bob, 12)
    left.append(repr(one.router.outcomes))
    assert left == [
        f"<outcomes: {count} parcels followed, 0 recipients missed something>" for count in (1, 0, 1, 0, 1, 0, 1)
    ]


def test_so_many_recipients_and_reasons_of_each_are_remembered() -> None:
    for none in (OutcomeLimits(missed_max=0), OutcomeLimits(missed_kinds_max=0)):
        assert missed(none) == []
    assert missed(OutcomeLimits()) == [(GROUP.public, 3, Reason.TTL_EXPIRED)]


def missed(limits: OutcomeLimits) -> list[object]:
    """Return the report to Bob, who comes back too late for three messages."""
    one, alice, bob = publisher(limits)
    one.router.link_down(bob, one.now())
    publish(one, alice, *some(3, ttl_s=10))
    one.pass_time(20)
    back = one.link(BOB.public)
    one.cycle()
    return [(item.group, item.count, item.reason) for item in one.said(back) if isinstance(item, Missed)]


def test_what_services_of_routers_say_to_each_other_counts_as_missed_by_nobody() -> None:
    """They ask again by themselves; the operator of the router that was away is told of what people sent."""
    keeper, app = SigningKey(b"k" * 32), SigningKey(b"p" * 32)
    known = Neighbour(REMOTE.public, grants=frozenset({JOIN, STORE, RELAY}))
    one = OneRouter(known, services={bytes(keeper.public): "pubsub"}, locals={bytes(app.public)})
    expiry = expiry_min(WALL_S + 600)
    one.router.link_down(one.link(REMOTE.public, role="router"), one.now())
    for sender, count in ((keeper, 3), (app, 2)):
        link = one.link(sender.public)
        for number in range(count):
            one.bring(link, seal_unicast(sender, REMOTE.public, b"%d" % number, ttl_s=10, expiry_min=expiry))
    one.cycle()
    one.pass_time(20)
    back = one.link(REMOTE.public, role="router")
    one.cycle()
    told = [(item.count, item.reason) for item in one.said(back) if isinstance(item, Missed)]
    assert told == [(2, Reason.TTL_EXPIRED)]


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


def test_of_one_who_is_shut_out_nothing_is_remembered() -> None:
    one, alice, bob = publisher(OutcomeLimits())
    one.router.link_down(bob, one.now())
    publish(one, alice, *some(3, ttl_s=10))
    one.pass_time(20)
    assert one.disk.missed and one.disk.away
    one.router.neighbours_changed([Neighbour(BOB.public, blocked=True)], one.now())
    one.cycle()
    assert not one.disk.missed and not one.disk.away


def test_one_who_lapses_is_told_no_more() -> None:
    one, alice, bob = publisher(OutcomeLimits())
    one.router.link_down(bob, one.now())
    publish(one, alice, *some(3, ttl_s=10))
    one.pass_time(20)
    one.seconds += 40 * 86_400
    one.router.lapse(one.now())
    one.cycle()
    assert not one.disk.missed
