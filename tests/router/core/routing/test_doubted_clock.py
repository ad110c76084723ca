"""A verdict that depends on a clock is final only if the clocks concerned agree; otherwise it is *later*."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.neighbours.directory import JOIN, RELAY, STORE, Neighbour
from router.core.wire.control import Carried, Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_multicast, seal_unicast
from router.core.wire.reasons import Reason

EDGE = SigningKey(b"e" * 32)
DAY_S = 86_400
LIFE_S = 7 * DAY_S


def news(at_s: float, body: bytes = b"x", ttl_s: int = 3600) -> bytes:
    """Return a message as an app publishes it whose clock is `at_s` ahead of the true time."""
    return seal_multicast(GROUP, body, ttl_s=ttl_s, expiry_min=expiry_min(WALL_S + at_s + ttl_s))


def core(offset_s: float | None = 0.0) -> tuple[OneRouter, int, int]:
    """Return a router with a reader, Bob, and an edge whose clock is that far ahead of the router's."""
    one = OneRouter(Neighbour(EDGE.public, grants=frozenset({JOIN, STORE, RELAY})))
    bob, edge = one.link(BOB.public), one.link(EDGE.public, role="router", offset_s=offset_s)
    join = encode_control(Join(GROUP.public, False))
    one.bring(bob, seal_unicast(BOB, ME.public, join, ttl_s=0, expiry_min=expiry_min(WALL_S + 60)))
    one.cycle()
    one.settled(), one.told(bob)
    return one, bob, edge


def refused(one: OneRouter, number: int, *wires: bytes) -> list[Reason]:
    one.bring(number, *wires)
    one.cycle()
    return [reason for _, reason, _ in one.settled()[number][1]]


def test_a_clock_that_jumps_two_days_ahead_refuses_nothing_for_good() -> None:
    """700 messages come before the jump, 700 after it; the neighbour's clock has not been measured since."""
    one, _, edge = core()
    assert refused(one, edge, *(news(0, b"%d" % at) for at in range(8))) == []
    one.ahead_s = 2 * DAY_S
    one.router.clock_judged(2 * DAY_S, True, one.now())
    for at in range(100, 800):
        assert refused(one, edge, news(0, b"%d" % at)) == [], "what was believed last is gone by"
    assert refused(one, edge, news(LIFE_S + DAY_S, b"far")) == [Reason.CLOCK_DOUBTED]
    assert refused(one, edge, news(-DAY_S, b"passed")) == [Reason.CLOCK_DOUBTED], "the clocks are not compared again"
    one.ahead_s = 0
    one.pass_time(1)
    assert not [state for state, _ in one.outward() if state == "expired"]


def test_what_is_accepted_meanwhile_ends_no_sooner_whichever_time_is_the_true_one() -> None:
    one, _, edge = core()
    one.ahead_s = 2 * DAY_S
    wire = seal_multicast(GROUP, b"x", ttl_s=60, expiry_min=expiry_min(WALL_S + 3 * DAY_S))
    assert refused(one, edge, wire) == []
    one.ahead_s = 0
    [parcel] = one.disk.parcels.values()
    assert list(parcel.deadlines) == [WALL_S + 2 * DAY_S + 60] and parcel.at_s == WALL_S + 2 * DAY_S


def test_what_is_accepted_after_a_step_back_outlives_its_undoing() -> None:
    one, _, edge = core()
    one.seconds -= 2 * DAY_S
    one.later_s = 2 * DAY_S
    wire = seal_multicast(GROUP, b"x", ttl_s=60, expiry_min=expiry_min(WALL_S + DAY_S))
    assert refused(one, edge, wire) == []
    [parcel] = one.disk.parcels.values()
    assert list(parcel.deadlines) == [WALL_S + 60], "as if the clock had not stepped"


@pytest.mark.parametrize(
    ("ahead_s", "life_s", "reason"),
    [
        (8 * DAY_S, 3600, Reason.CLOCK_DOUBTED),  # the next router would call it too far
        (2 * DAY_S, 3600, None),  # that bears two days
        (-2 * DAY_S, 3600, Reason.CLOCK_DOUBTED),  # the next router would call it passed
        (-2 * DAY_S, 3 * DAY_S, None),
        (-2 * DAY_S, -3600, Reason.EXPIRY_PASSED),  # by either
        (2 * DAY_S, 9 * DAY_S, Reason.EXPIRY_TOO_FAR),
    ],
)
def test_no_custody_of_what_the_next_router_must_refuse(ahead_s: int, life_s: int, reason: Reason | None) -> None:
    """The sender is an edge whose clock its neighbours dispute, or an app on the same machine."""
    one = OneRouter(Neighbour(EDGE.public, uplink=True))
    _, alice = one.link(EDGE.public, role="router"), one.link(ALICE.public)
    one.ahead_s = ahead_s
    wire = seal_multicast(GROUP, b"x", ttl_s=max(0, life_s), expiry_min=expiry_min(WALL_S + ahead_s + life_s))
    one.bring(alice, wire)
    one.cycle()
    refusals = one.settled()[alice][1]
    assert [one for _, one, _ in refusals] == ([reason] if reason else [])
    if reason is Reason.CLOCK_DOUBTED:
        way = "8.0 days ahead of" if ahead_s > 0 else "2.0 days behind"
        assert f"this node's clock is {way} its neighbours' clocks" in refusals[0][2]
        assert "set it" in refusals[0][2] and len(refusals[0][2].encode()) <= 200


@pytest.mark.parametrize("ahead_s", [8 * DAY_S, -2 * DAY_S])
def test_what_stays_on_this_machine_goes_by_its_clock(ahead_s: int) -> None:
    """The messages are a JOIN, the operator's inquiry, and one app's message for another on this machine, also from its
    queue."""
    one = OneRouter(Neighbour(EDGE.public))
    one.ahead_s = ahead_s
    alice, bob = one.link(ALICE.public), one.link(BOB.public, messages=1)
    expiry, join = expiry_min(WALL_S + ahead_s + 3600), encode_control(Join(GROUP.public, False))
    assert refused(one, bob, seal_unicast(BOB, ME.public, join, ttl_s=0, expiry_min=expiry)) == []
    one.told(bob)
    one.router.settled(bob, 1, one.now())
    wires = [seal_multicast(GROUP, b"%d" % at, ttl_s=3600, expiry_min=expiry) for at in range(3)]
    assert refused(one, alice, *wires) == []
    got = one.handed(bob)
    for n in (2, 3):
        one.router.settled(bob, n, one.now())
        one.cycle()
        got += one.handed(bob)
    assert got == wires
    letter = seal_unicast(ALICE, EDGE.public, b"x", ttl_s=3600, expiry_min=expiry)
    assert refused(one, alice, letter) == [Reason.CLOCK_DOUBTED], "but not what another router is to take"


@pytest.mark.parametrize(("offset_s", "at_s"), [(-2 * DAY_S, -2 * DAY_S), (8 * DAY_S, 8 * DAY_S), (None, -2 * DAY_S)])
def test_what_a_router_brings_whose_clock_is_another_is_not_refused_for_good(offset_s: int | None, at_s: int) -> None:
    """The message is valid by the edge's clock: one of the two clocks is wrong, and the edge keeps the message until
    that is corrected."""
    one, _, edge = core(offset_s)
    assert refused(one, edge, news(at_s)) == [Reason.CLOCK_DOUBTED] and Reason.CLOCK_DOUBTED.later
    [link] = [link for link in one.router.links if link.key == EDGE.public]
    link.offset_ns = 0
    final = [Reason.EXPIRY_PASSED if at_s < 0 else Reason.EXPIRY_TOO_FAR]
    assert refused(one, edge, news(at_s)) == final, "both clocks say so"


def test_a_few_seconds_between_two_clocks_lose_nothing() -> None:
    """A message that has just expired here may still be valid at its sender."""
    one, _, edge = core(-90)
    one.seconds = 60 - WALL_S % 60 + 30.0
    wire = seal_multicast(GROUP, b"x", ttl_s=60, expiry_min=expiry_min(WALL_S + 30))
    assert refused(one, edge, wire) == [Reason.CLOCK_DOUBTED]
    one.seconds += 90
    assert refused(one, edge, wire) == [Reason.EXPIRY_PASSED]


def test_what_another_router_carries_is_judged_by_the_same_clocks() -> None:
    one, _, edge = core()
    carried = encode_control(Carried(news(-2 * DAY_S)))
    wire = seal_unicast(EDGE, ME.public, carried, ttl_s=0, expiry_min=expiry_min(WALL_S + 3600))
    [link] = [link for link in one.router.links if link.key == EDGE.public]
    link.offset_ns = -2 * DAY_S * 10**9
    assert refused(one, edge, wire) == [Reason.CLOCK_DOUBTED]


def test_what_was_accepted_before_is_settled_whatever_the_clocks_say() -> None:
    one, _, edge = core()
    wire = news(0)
    assert refused(one, edge, wire) == []
    one.ahead_s, one.seconds = -2 * DAY_S, 2 * DAY_S
    assert refused(one, edge, wire) == []
    assert ("duplicate", Reason.DUPLICATE, 1) in one.turned()


# -- what else hangs on the clock ---------------------------------------------------------------------------------


def test_routes_and_those_who_are_away_are_not_ended_by_a_jump() -> None:
    one, _, edge = core()
    one.bring(edge, seal_unicast(ALICE, BOB.public, b"x", ttl_s=60, expiry_min=expiry_min(WALL_S + 3600)))
    one.cycle()
    assert one.router.routes.neighbour_of(ALICE.public, WALL_S) == EDGE.public
    one.router.link_down(1, one.now())
    one.ahead_s = 400 * DAY_S
    one.pass_time(1)
    one.router.lapse(one.now())
    one.cycle()
    assert one.router.routes.neighbour_of(ALICE.public, WALL_S) == EDGE.public
    assert one.router.groups.members(GROUP.public), "Bob has been away for a second"


def test_when_a_clock_is_believed_again_who_is_away_is_counted_anew() -> None:
    one, _, _ = core()
    one.router.link_down(1, one.now())
    one.seconds = 400 * DAY_S
    one.router.clock_judged(400 * DAY_S, False, one.now())
    one.router.lapse(one.now())
    one.cycle()
    assert one.router.groups.members(GROUP.public)
    one.seconds += 31 * DAY_S
    one.router.lapse(one.now())
    one.cycle()
    assert not one.router.groups.members(GROUP.public)


def test_what_this_router_says_is_sealed_by_the_time_it_goes_by() -> None:
    """An uplink accepts the JOIN of an edge whose clock is 8 days ahead."""
    uplink = SigningKey(b"u" * 32)
    one = OneRouter(Neighbour(uplink.public, uplink=True))
    one.ahead_s = 8 * DAY_S
    up, bob = one.link(uplink.public, role="router", offset_s=-8 * DAY_S), one.link(BOB.public)
    join = encode_control(Join(GROUP.public, False))
    one.bring(bob, seal_unicast(BOB, ME.public, join, ttl_s=0, expiry_min=expiry_min(WALL_S + 60)))
    one.cycle()
    [wire] = one.told(up)
    assert open_message(wire).expiry_min == expiry_min(WALL_S + 3600)


def test_what_was_passed_over_as_dead_is_handed_over_when_the_clock_is_set_back() -> None:
    """The messages were past their time by a clock two days ahead, which was corrected before anything expired."""
    one = OneRouter(Neighbour(EDGE.public, grants=frozenset({JOIN, STORE, RELAY})))
    edge, writer = one.link(EDGE.public, role="router"), one.link(ALICE.public)
    join = encode_control(Join(GROUP.public, False))
    one.bring(edge, seal_unicast(EDGE, ME.public, join, ttl_s=0, expiry_min=expiry_min(WALL_S + 60)))
    one.cycle()
    one.router.link_down(edge, one.now())
    wire = news(0)
    assert refused(one, writer, wire) == []
    one.seconds += 2 * DAY_S
    edge = one.link(EDGE.public, role="router")
    assert one.handed(edge) == [], "its time is over"
    one.seconds -= 2 * DAY_S
    one.router.clock_judged(-2 * DAY_S, False, one.now())
    one.cycle()
    assert one.handed(edge) == [wire]
