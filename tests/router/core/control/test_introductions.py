"""Introductions by value: an edge asks its apps and passes on what they sign, and an uplink learns the way to them."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB

from router.core.control.introductions import AGAIN_S, FRESH_S, LOOK_S
from router.core.neighbours.directory import RELAY, STORE, Neighbour
from router.core.routing.limits import CoreLimits, RouteLimits
from router.core.wire.admin import INTRODUCE, Answer, Inquiry, decode_inquiry, encode_inquiry
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_unicast
from router.core.wire.reasons import Reason

UP, EDGE, OTHER_EDGE, ASKER = (SigningKey(bytes((n,)) * 32) for n in (61, 62, 63, 64))
DAYS = 86_400
KEEPS = (
    Neighbour(EDGE.public, grants=frozenset({STORE, RELAY})),
    Neighbour(OTHER_EDGE.public, grants=frozenset({RELAY})),
)


def introduction(app: SigningKey, router: SigningKey, days: int = 6) -> bytes:
    body = encode_inquiry(Answer(b"{}"))
    return seal_unicast(app, router.public, body, ttl_s=0, expiry_min=expiry_min(WALL_S + days * DAYS))


def edge(**more: object) -> OneRouter:
    return OneRouter(Neighbour(UP.public, uplink=True), locals=(ALICE.public, BOB.public), **more)  # type: ignore[arg-type]


def asked(one: OneRouter, link: int) -> list[Inquiry | Answer]:
    """Return what an app was asked."""
    return [decode_inquiry(open_message(wire).body) for wire in one.told(link)]


def answer(one: OneRouter, link: int, wire: bytes) -> bytes:
    one.bring(link, wire)
    one.cycle()
    return wire


def test_an_edge_passes_on_what_its_apps_sign_as_it_is_and_once_a_link() -> None:
    one = edge()
    up, app = one.link(UP.public, role="router"), one.link(ALICE.public)
    assert asked(one, app) == [Inquiry(INTRODUCE)]
    signed = answer(one, app, introduction(ALICE, ME))
    assert one.told(up) == [signed]
    one.pass_time(LOOK_S + 1)
    assert one.told(up) == [] and asked(one, app) == []
    one.router.link_down(app, one.now())
    one.router.link_down(up, one.now())
    again = one.link(UP.public, role="router")
    assert one.told(again) == [signed], "it is kept here, and an uplink that comes back is told"
    one.pass_time(AGAIN_S)
    assert one.told(again) == [signed], "it may have taken our right away and given it back"
    one.pass_time(6 * DAYS)
    one.router.link_down(again, one.now())
    assert one.told(one.link(UP.public, role="router")) == [], "it has ended"


def test_an_edge_asks_for_a_later_end_before_the_first_comes() -> None:
    one = edge()
    one.link(UP.public, role="router")
    app = one.link(ALICE.public)
    assert asked(one, app) == [Inquiry(INTRODUCE)]
    answer(one, app, introduction(ALICE, ME))
    one.pass_time(DAYS + LOOK_S)
    assert asked(one, app) == [Inquiry(INTRODUCE)]


@pytest.mark.parametrize("what", ["throwaway", "no uplink", "not asked", "full"])
def test_an_edge_passes_on_nothing_else(what: str) -> None:
    limits = CoreLimits(introductions_max=0) if what == "full" else None
    one = OneRouter(locals=(ALICE.public,)) if what == "no uplink" else edge(limits=limits)
    up = one.link(UP.public, role="router")
    app = one.link(ASKER.public, durable=False) if what == "throwaway" else one.link(ALICE.public)
    if what != "not asked":
        assert asked(one, app) == []
    answer(one, app, introduction(ASKER if what == "throwaway" else ALICE, ME))
    if what == "not asked":
        assert len(one.told(up)) == 1
        answer(one, app, introduction(ALICE, ME, days=7))
    assert one.told(up) == []


def test_a_service_is_introduced_only_if_others_may_reach_it() -> None:
    one = edge(services={BOB.public: "echo"})
    one.link(UP.public, role="router")
    one.router.directory.public = frozenset()
    service = one.link(BOB.public)
    assert asked(one, service) == []
    one.router.directory.public = frozenset({BOB.public})
    one.pass_time(LOOK_S + 1)
    assert asked(one, service) == [Inquiry(INTRODUCE)]


def core(**more: object) -> tuple[OneRouter, int, int]:
    one = OneRouter(*KEEPS, locals=(ASKER.public,), **more)  # type: ignore[arg-type]
    return one, one.link(EDGE.public, role="router"), one.link(ASKER.public)


def send(one: OneRouter, link: int, to: SigningKey, n: int = 0) -> list[Reason]:
    wire = seal_unicast(ASKER, to.public, b"hello %d" % n, ttl_s=600, expiry_min=expiry_min(WALL_S + 3600))
    one.bring(link, wire)
    one.cycle()
    return [reason for _, reason, _ in one.settled().get(link, (0, []))[1]]


def bring_again(one: OneRouter, link: int, wire: bytes) -> list[tuple[int, Reason, str]]:
    one.settled()
    one.bring(link, wire)
    one.cycle()
    return one.settled()[link][1]


def test_an_uplink_reaches_who_was_introduced_also_after_a_restart() -> None:
    one, edge_link, app = core()
    assert send(one, app, ALICE) == [Reason.NO_ROUTE]
    one.bring(edge_link, introduction(ALICE, EDGE))
    one.cycle()
    assert one.settled()[edge_link] == (1, []) and one.accepted() == [], "nobody is owed it"
    assert send(one, app, ALICE, 1) == [] and len(one.handed(edge_link)) == 1
    again = OneRouter(*KEEPS, locals=(ASKER.public,), disk=one.disk)
    assert send(again, again.link(ASKER.public), ALICE, 2) == [], "it waits for the edge"


def test_an_uplink_reaches_who_is_away_for_seven_days_and_an_hour_and_not_for_ever() -> None:
    one, edge_link, _ = core()
    oldest = introduction(ALICE, EDGE, days=FRESH_S // DAYS)  # a later one is asked for once less is left
    one.bring(edge_link, oldest)
    one.cycle()
    one.pass_time(7 * DAYS + 3600)
    assert [reason for _, reason, _ in bring_again(one, edge_link, oldest)] == [Reason.EXPIRY_PASSED]
    assert one.router.routes.neighbour_of(ALICE.public, one.now().judged_s) == EDGE.public
    one.pass_time(3600 + 60)
    assert one.router.routes.neighbour_of(ALICE.public, one.now().judged_s) is None


def test_a_message_that_is_no_introduction_teaches_a_way_until_its_own_end() -> None:
    one, edge_link, _ = core()
    until_min = expiry_min(WALL_S + 3600)
    one.bring(edge_link, seal_unicast(ALICE, ASKER.public, b"hello", ttl_s=600, expiry_min=until_min))
    one.cycle()
    assert one.router.routes.neighbour_of(ALICE.public, WALL_S + 3000) == EDGE.public
    assert one.router.routes.neighbour_of(ALICE.public, WALL_S + 3700) is None


def test_an_uplink_believes_the_edge_to_which_an_app_has_spoken_and_no_other() -> None:
    one, _, app = core()
    other = one.link(OTHER_EDGE.public, role="router")
    forged = bytearray(introduction(BOB, OTHER_EDGE))
    forged[-1] ^= 1
    one.bring(other, introduction(ALICE, EDGE), bytes(forged), introduction(ASKER, OTHER_EDGE))
    one.cycle()
    assert [reason for _, reason, _ in one.settled()[other][1]] == [Reason.BAD_SIGNATURE, Reason.NOT_LOCAL_SOURCE]
    assert send(one, app, BOB) == [Reason.NO_ROUTE]
    assert one.router.routes.neighbour_of(ALICE.public, WALL_S) is None


def test_an_uplink_learns_it_again_after_the_right_came_back() -> None:
    one, edge_link, app = core()
    signed = introduction(ALICE, EDGE)
    one.bring(edge_link, signed)
    one.cycle()
    one.router.neighbours_changed([Neighbour(EDGE.public, grants=frozenset({STORE}))], one.now())
    assert send(one, app, ALICE) == [Reason.NO_ROUTE]
    one.router.neighbours_changed(KEEPS, one.now())
    one.bring(edge_link, signed)
    one.cycle()
    assert send(one, app, ALICE, 1) == []


def test_an_uplink_learns_no_more_than_its_limit() -> None:
    one, edge_link, app = core(limits=CoreLimits(routes=RouteLimits(per_neighbour_max=1)))
    one.bring(edge_link, introduction(ALICE, EDGE), introduction(BOB, EDGE))
    one.cycle()
    assert send(one, app, ALICE) == [] and send(one, app, BOB, 1) == [Reason.NO_ROUTE]
