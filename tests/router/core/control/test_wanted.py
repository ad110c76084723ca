"""SUB and UNSUB by value: what the pub/sub service of this node is told, how often, and its answers (R-C27)."""

from __future__ import annotations

from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.control.wanted import AGAIN_S
from router.core.log.events import RouterChange
from router.core.neighbours.directory import JOIN, STORE, Neighbour
from router.core.wire.control import Control, Join, JoinAck, Leave, LeaveAck, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_multicast, seal_unicast
from router.core.wire.pubsub import Wanted, decode_wanted, is_wanted

SERVICE, UP, CLIENT = (SigningKey(bytes((n,)) * 32) for n in (61, 62, 63))
CATS = SigningKey(b"c" * 32).public
NEWS = GROUP.public
EXPIRY = expiry_min(WALL_S + 600)


def house(**more: object) -> OneRouter:
    known = Neighbour(UP.public, uplink=True), Neighbour(CLIENT.public, grants=frozenset({JOIN, STORE}))
    return OneRouter(*known, services={bytes(SERVICE.public): "pubsub"}, locals=[ALICE.public], **more)  # type: ignore[arg-type]


def say(one: OneRouter, link: int, source: SigningKey, control: Control) -> None:
    one.bring(link, seal_unicast(source, ME.public, encode_control(control), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()


def told(one: OneRouter, link: int) -> list[tuple[PublicKey, bool]]:
    """Return the SUBs (True) and UNSUBs sent over the link, without answers to JOINs."""
    bodies = [open_message(wire).body for wire in one.told(link)]
    found = [decode_wanted(body) for body in bodies if is_wanted(body)]
    assert all(isinstance(each, Wanted) for each in found)
    return [(each.group, each.wanted) for each in found]


def test_a_group_that_becomes_wanted_is_told_until_it_is_acknowledged() -> None:
    one = house()
    service, alice = one.link(SERVICE.public), one.link(ALICE.public)
    say(one, alice, ALICE, Join(NEWS, True))
    assert told(one, service) == [], "a local subscription asks for no overlay (R-C14)"
    say(one, alice, ALICE, Join(NEWS, False))
    assert told(one, service) == [(NEWS, True)]
    one.pass_time(AGAIN_S - 1)
    assert told(one, service) == []
    one.pass_time(1)
    assert told(one, service) == [(NEWS, True)]
    say(one, service, SERVICE, LeaveAck(NEWS, True))
    one.pass_time(AGAIN_S)
    assert told(one, service) == [(NEWS, True)], "the answer to an UNSUB is none to a SUB"
    say(one, service, SERVICE, JoinAck(NEWS, True))
    one.pass_time(10 * AGAIN_S)
    assert told(one, service) == []
    say(one, alice, ALICE, Leave(NEWS))
    assert told(one, service) == [(NEWS, False)]
    one.pass_time(AGAIN_S)
    assert told(one, service) == [(NEWS, False)]
    say(one, service, SERVICE, LeaveAck(NEWS, True))
    one.pass_time(AGAIN_S)
    assert told(one, service) == []


def test_the_services_own_subscription_makes_no_group_wanted_and_keeps_none_here() -> None:
    """R-C12 and R-C13: it is neither the last subscriber, nor the one that makes a group local."""
    one = house()
    up, service, alice = one.link(UP.public, role="router"), one.link(SERVICE.public), one.link(ALICE.public)
    for local in (True, False):
        say(one, service, SERVICE, Join(NEWS, local))
        assert told(one, service) == [] and not one.router.groups.is_wanted(NEWS)
    say(one, service, SERVICE, Join(NEWS, True))
    one.told(up)
    one.bring(alice, seal_multicast(GROUP, b"hello", ttl_s=60, expiry_min=EXPIRY, seen=()))
    one.cycle()
    assert one.accepted()[-1][2] == (SERVICE.public, UP.public)


def test_at_each_connection_it_hears_of_all_that_is_wanted_and_of_what_it_is_to_let_go_of() -> None:
    one = house()
    alice = one.link(ALICE.public)
    say(one, alice, ALICE, Join(NEWS, False))
    service = one.link(SERVICE.public)
    assert told(one, service) == [(NEWS, True)]
    say(one, service, SERVICE, JoinAck(NEWS, True))
    say(one, service, SERVICE, Join(NEWS, True))
    say(one, alice, ALICE, Join(CATS, False))
    say(one, service, SERVICE, Join(CATS, True))
    one.told(service)
    one.router.link_down(service, one.now())
    one.cycle()
    say(one, alice, ALICE, Leave(CATS))
    again = one.link(SERVICE.public)
    assert told(one, again) == [(NEWS, True), (CATS, False)]
    restarted = house(disk=one.disk)
    assert told(restarted, restarted.link(SERVICE.public)) == [(NEWS, True), (CATS, False)], "also after a crash"


def test_what_it_let_go_of_while_it_went_away_is_told_again() -> None:
    one = house()
    service, alice = one.link(SERVICE.public), one.link(ALICE.public)
    say(one, alice, ALICE, Join(NEWS, False))
    say(one, alice, ALICE, Leave(NEWS))
    assert told(one, service) == [(NEWS, True), (NEWS, False)]
    one.router.link_down(service, one.now())
    assert told(one, one.link(SERVICE.public)) == [(NEWS, False)]


def test_its_refusal_is_logged_and_others_acknowledgements_are_not_its() -> None:
    one = house()
    service, alice, client = one.link(SERVICE.public), one.link(ALICE.public), one.link(CLIENT.public, role="router")
    say(one, alice, ALICE, Join(NEWS, False))
    say(one, client, CLIENT, JoinAck(NEWS, True))
    say(one, alice, ALICE, JoinAck(NEWS, True))
    one.told(service)
    one.pass_time(AGAIN_S)
    assert told(one, service) == [(NEWS, True)]
    say(one, service, SERVICE, JoinAck(NEWS, False))
    fields = [dict(event.fields) for event in one.events if isinstance(event, RouterChange) and event.event == "join"]
    assert fields[-1] == {"subscriber": ME.public, "group": NEWS, "refused_by": SERVICE.public}
    one.pass_time(AGAIN_S)
    assert told(one, service) == []


def test_a_window_that_is_full_puts_it_off() -> None:
    one = house()
    service, alice = one.link(SERVICE.public, messages=2), one.link(ALICE.public)
    groups = [SigningKey(bytes((n,)) * 32).public for n in range(100, 104)]
    for group in groups:
        say(one, alice, ALICE, Join(group, False))
    assert told(one, service) == [(group, True) for group in groups[:2]]
    one.router.settled(service, 2, one.now())
    one.pass_time(1)
    assert told(one, service) == [(group, True) for group in groups[2:]]


def test_without_a_pubsub_service_nobody_is_told() -> None:
    one = OneRouter(services={bytes(SERVICE.public): "bell"})
    service, bob = one.link(SERVICE.public), one.link(BOB.public)
    say(one, bob, BOB, Join(NEWS, False))
    one.pass_time(AGAIN_S)
    assert told(one, service) == []
