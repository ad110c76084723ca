"""A log names the leave of whoever it names as joined, and why one that has joined is owed nothing."""

from __future__ import annotations

from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.log.events import RouterChange
from router.core.neighbours.directory import JOIN, Neighbour
from router.core.routing.limits import CoreLimits, RejectionLimits
from router.core.routing.rejection_log import LINE_BYTES
from router.core.wire.control import Control, Join, Leave, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_unicast

EXPIRY = expiry_min(WALL_S + 600)
SCANT = RejectionLimits(apps_bytes_max=64 * LINE_BYTES, known_bytes_max=64 * LINE_BYTES, keep_s=1e9)
"""Budgets of eight lines, of which joins and leaves take four; they hardly fill again."""


def house(*neighbours: Neighbour, scant: bool = False) -> OneRouter:
    one = OneRouter(*neighbours, limits=CoreLimits(rejections=SCANT) if scant else None)
    one.router.begin(one.now())
    one.cycle()
    return one


def say(one: OneRouter, link: int, source: SigningKey, *controls: Control) -> None:
    for control in controls:
        one.bring(link, seal_unicast(source, ME.public, encode_control(control), ttl_s=0, expiry_min=EXPIRY))
        one.cycle()
        one.told(link), one.settled()


def states(one: OneRouter, event: str) -> list[dict[str, object]]:
    return [dict(row.fields) for row in one.events if isinstance(row, RouterChange) and row.event == event]


def group(number: int) -> PublicKey:
    return SigningKey(bytes((number,)) * 32).public


def test_the_leave_of_a_join_that_was_named_is_named_when_others_are_only_counted() -> None:
    one = house(scant=True)
    alice = one.link(ALICE.public)
    say(one, alice, ALICE, *(Join(group(number), False) for number in range(1, 20)))
    named = [row["group"] for row in states(one, "join")]
    assert 0 < len(named) < 19
    say(one, alice, ALICE, *(Leave(group(number)) for number in range(1, 20)))
    assert [row["group"] for row in states(one, "leave")] == named


def test_a_run_pays_for_leaves_with_their_joins() -> None:
    one = house(scant=True)
    alice = one.link(ALICE.public)
    for number in range(1, 30):
        say(one, alice, ALICE, Join(group(number), False), Leave(group(number)))
    lines = len(states(one, "join")) + len(states(one, "leave"))
    assert 2 <= lines * LINE_BYTES <= SCANT.apps_bytes_max / 8


def test_of_terms_that_change_the_subscription_stays_one_that_was_named() -> None:
    one = house(scant=True)
    alice = one.link(ALICE.public)
    say(one, alice, ALICE, *(Join(group(number), False) for number in range(1, 20)))
    say(one, alice, ALICE, Join(group(1), True), Leave(group(1)))
    assert [row["group"] for row in states(one, "leave")] == [group(1)]


def test_a_start_is_logged_before_the_groups_that_end_at_it() -> None:
    one = house()
    say(one, one.link(ALICE.public, durable=False), ALICE, Join(GROUP.public, False))
    again = OneRouter(disk=one.disk)
    again.router.begin(again.now())
    again.cycle()
    assert again.states() == ["start", "config", "leave"]


def test_whoever_may_join_only_while_it_is_here_leaves_by_name_when_it_goes() -> None:
    one = house(Neighbour(BOB.public))
    bob = one.link(BOB.public, durable=False)
    say(one, bob, BOB, Join(GROUP.public, False))
    one.router.link_down(bob, one.now())
    one.cycle()
    [left] = states(one, "leave")
    assert (left["subscriber"], left["because"]) == (BOB.public, "not-authorised") and not list(one.router.groups)


def test_an_uplink_that_joins_is_named_as_one_then_and_at_each_start() -> None:
    up = Neighbour(BOB.public, grants=frozenset({JOIN}))
    one = house(Neighbour(BOB.public, grants=up.grants, uplink=True))
    say(one, one.link(BOB.public, role="router", owner=False), BOB, Join(GROUP.public, False))
    assert [(row.get("peer"), row.get("uplink")) for row in states(one, "config")] == [(None, None), (BOB.public, True)]
    later = house(up)
    say(later, later.link(BOB.public, role="router", owner=False), BOB, Join(GROUP.public, False))
    assert [row.get("peer") for row in states(later, "config")] == [None]
    again = OneRouter(Neighbour(BOB.public, grants=up.grants, uplink=True), disk=later.disk)
    again.router.begin(again.now())
    again.cycle()
    assert [(row.get("peer"), row.get("uplink")) for row in states(again, "config")] == [
        (None, None),
        (BOB.public, True),
    ]
