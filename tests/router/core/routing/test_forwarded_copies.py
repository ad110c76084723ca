"""Copies that the pub/sub service sends on: each is for one router, checked once, and gone after a minute (R-C29)."""

from __future__ import annotations

import json

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, GROUP

from router.core.log.events import Outward
from router.core.neighbours.directory import Neighbour
from router.core.routing.limits import AcceptanceLimits, CoreLimits, OutcomeLimits
from router.core.wire.admin import Inquiry, encode_inquiry
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.link_items import Outcome, RecipientOutcome
from router.core.wire.message import message_id, seal_multicast, seal_unicast, with_via
from router.core.wire.reasons import Reason

PUBSUB, ONE, TWO, PEER = (SigningKey(bytes((n,)) * 32) for n in (61, 62, 63, 64))
EXPIRY = expiry_min(WALL_S + 86_400)


def multicast(body: bytes = b"hello", ttl_s: int = 86_400) -> bytes:
    return seal_multicast(GROUP, body, ttl_s=ttl_s, expiry_min=EXPIRY, seen=())


class House:
    """A router with a pub/sub service, and two routers known by meetings that share the group."""

    def __init__(self, *, connected: bool = True, runs: bool = False, **more: object) -> None:
        services = {bytes(PUBSUB.public): "pubsub"}
        met = [Neighbour(key.public, learned="sampled", urls=("tls://203.0.113.7:1",)) for key in (ONE, TWO)]
        self.one = OneRouter(*met, Neighbour(PEER.public), services=services, locals=[ALICE.public], **more)  # type: ignore[arg-type]
        self.service = self.one.link(PUBSUB.public, outcome=True, runs=runs, messages=512, size=1 << 20)
        self.alice = self.one.link(ALICE.public)
        for key in (ONE, TWO):
            said = {"key": key.public.hex(), "groups": [GROUP.public.hex()], "until_s": WALL_S + 7200}
            body = encode_inquiry(Inquiry("agree", json.dumps(said)))
            self.hand(self.service, seal_unicast(PUBSUB, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
        join = encode_control(Join(GROUP.public, True))
        self.hand(self.service, seal_unicast(PUBSUB, ME.public, join, ttl_s=0, expiry_min=EXPIRY))
        self.links = [self.one.link(key.public, role="router") for key in (ONE, TWO)] if connected else []
        self.one.said(self.service)

    def hand(self, link: int, *wires: bytes) -> list[Reason]:
        self.one.bring(link, *wires)
        self.one.cycle()
        return [reason for _, reason, _ in self.one.settled()[link][1]]

    def outcomes(self) -> list[Outcome]:
        return [item for item in self.one.said(self.service) if isinstance(item, Outcome)]


def test_a_known_message_is_sent_on_unverified_and_an_unknown_one_is_verified() -> None:
    house = House()
    wire, other = multicast(), multicast(b"other")
    house.hand(house.alice, wire)
    job = house.one.bring(house.service, with_via(wire, ONE.public), with_via(other, ONE.public))
    assert (len(job.vouched), len(job.fresh), len(job.positions)) == (1, 1, 3)
    house.one.cycle()
    assert house.one.handed(house.links[0]) == [wire, other], "in the order in which they were handed in"


def test_a_changed_signature_makes_another_id_and_is_refused() -> None:
    house = House()
    wire = multicast()
    house.hand(house.alice, wire)
    forged = wire[:-1] + bytes([wire[-1] ^ 1])
    assert house.hand(house.service, with_via(forged, ONE.public)) == [Reason.BAD_SIGNATURE]
    assert house.one.handed(house.links[0]) == []


@pytest.mark.parametrize("named", [True, False])
def test_the_service_hears_of_each_copy_what_became_of_it(named: bool) -> None:
    """The recipient is named by the router's key even where outcomes give counts only, because the service has named
    it."""
    house = House(limits=CoreLimits(outcomes=OutcomeLimits(named=named)))
    wire = multicast()
    house.hand(house.alice, wire)
    assert house.hand(house.service, *(with_via(wire, key.public) for key in (ONE, TWO))) == []
    assert house.outcomes() == [], "that they are in custody is settled, and no news"
    house.one.router.settled(house.links[0], 1, house.one.now())
    house.one.router.refused(house.links[1], 1, Reason.NO_SUBSCRIBERS, "")
    house.one.router.settled(house.links[1], 1, house.one.now())
    house.one.cycle()
    acked, refused = (
        RecipientOutcome(ONE.public, "acked"), RecipientOutcome(TWO.public, "refused", Reason.NO_SUBSCRIBERS)
    )  # fmt: skip
    assert house.outcomes() == [Outcome(message_id(wire), (each,)) for each in (acked, refused)]


def test_a_multicast_that_another_router_knew_is_settled_and_the_service_that_sent_a_copy_hears_so() -> None:
    """The log has the end of every copy alike, as it is in the other router's custody in both cases."""
    house, wires = House(), [multicast(b"%d" % n) for n in range(3)]
    house.hand(house.alice, *wires)
    house.hand(house.service, *(with_via(wire, ONE.public) for wire in wires))
    house.outcomes()
    for k in (2, 3):
        house.one.router.refused(house.links[0], k, Reason.DUPLICATE, "")
    house.one.router.settled(house.links[0], 3, house.one.now())
    house.one.events.clear()
    house.one.cycle()
    ended = [one for one in house.one.events if isinstance(one, Outward) and one.recipient == ONE.public]
    assert [(one.event, one.reason, one.ranges[0][1]) for one in ended] == [("acked", None, 1), ("acked", None, 2)]
    whys = [each.reason for outcome in house.outcomes() for each in outcome.recipients]
    assert whys == [None, Reason.DUPLICATE, Reason.DUPLICATE]


def test_a_unicast_refused_as_a_duplicate_or_a_multicast_by_an_app_is_refused() -> None:
    """Only a router may say that it knew a multicast; an app that refuses one has not taken it."""
    house = House()
    house.hand(house.alice, seal_unicast(ALICE, PEER.public, b"hello", ttl_s=60, expiry_min=EXPIRY))
    link = house.one.link(PEER.public, role="router")
    house.one.router.refused(link, 1, Reason.DUPLICATE, "")
    house.one.router.settled(link, 1, house.one.now())
    house.one.cycle()
    house.one.bring(house.links[0], multicast())
    house.one.cycle()
    served = house.one.router.links.get(house.service)
    assert served is not None
    house.one.router.refused(house.service, served.outgoing.sent, Reason.DUPLICATE, "")
    house.one.router.settled(house.service, served.outgoing.sent, house.one.now())
    house.one.cycle()
    ended = [(one.event, one.recipient, one.reason) for one in house.one.events if isinstance(one, Outward)]
    assert ("refused", PEER.public, Reason.DUPLICATE) in ended
    assert ("refused", PUBSUB.public, Reason.DUPLICATE) in ended


@pytest.mark.parametrize(("role", "end"), [("router", "acked"), ("app", "refused")])
def test_a_known_key_that_says_it_is_an_app_has_taken_no_multicast_that_it_refuses(role: str, end: str) -> None:
    house, wire = House(connected=False), multicast()
    link = house.one.link(ONE.public, role=role, owner=False)
    house.hand(house.alice, wire)
    house.hand(house.service, with_via(wire, ONE.public))
    house.one.router.refused(link, 1, Reason.DUPLICATE, "")
    house.one.router.settled(link, 1, house.one.now())
    house.one.cycle()
    ended = [one.event for one in house.one.events if isinstance(one, Outward) and one.recipient == ONE.public]
    assert ended[-1] == end


@pytest.mark.parametrize("hears_known", [True, False])
def test_a_router_that_wants_to_hear_it_is_told_which_of_its_multicasts_were_known_here(hears_known: bool) -> None:
    house = House(connected=False)
    one, other = (house.one.link(key.public, role="router", hears_known=hears_known) for key in (ONE, TWO))
    first, second = multicast(b"first"), multicast(b"second")
    house.hand(one, first)
    for link in (one, other):  # the second comes over both links before it is decided, and is known to the later one
        house.one.bring(link, first, second)
    house.one.cycle()
    known = [(k, Reason.DUPLICATE, "") for k in (1, 2)] if hears_known else []
    assert house.one.settled() == {one: (3, [(2, Reason.DUPLICATE, "")] if hears_known else []), other: (2, known)}


@pytest.mark.parametrize("runs", [False, True])
def test_copies_that_end_alike_are_told_of_together_where_the_service_understands_it(runs: bool) -> None:
    house = House(runs=runs)
    wires = [multicast(b"%d" % n) for n in range(3)]
    house.hand(house.alice, *wires)
    house.hand(house.service, *(with_via(wire, ONE.public) for wire in wires))
    house.one.router.refused(house.links[0], 2, Reason.NO_SUBSCRIBERS, "")
    house.one.router.settled(house.links[0], 3, house.one.now())
    house.one.cycle()
    acked, refused = (
        RecipientOutcome(ONE.public, "acked"), RecipientOutcome(ONE.public, "refused", Reason.NO_SUBSCRIBERS)
    )  # fmt: skip
    first, second, third = map(message_id, wires)
    assert house.outcomes() == [Outcome(first, (acked,)), Outcome(second, (refused,)), Outcome(third, (acked,))]
    house = House(runs=runs)
    house.hand(house.alice, *wires)
    house.hand(house.service, *(with_via(wire, ONE.public) for wire in wires))
    house.one.router.settled(house.links[0], 3, house.one.now())
    house.one.cycle()
    apart = [Outcome(id, (acked,)) for id in (first, second, third)]
    assert house.outcomes() == ([Outcome(first, (acked,), (second, third))] if runs else apart)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_copy_for_a_met_router_that_is_away_ends_after_a_minute_with_a_reason(restarted: bool) -> None:
    house = House()
    one, wire = house.one, multicast()
    one.router.link_down(house.links[0], one.now())
    one.cycle()
    assert house.hand(house.service, with_via(wire, ONE.public), with_via(wire, PEER.public)) == []
    one.pass_time(59)
    assert house.outcomes() == []
    if restarted:
        house = House(connected=False, disk=one.disk, seconds=one.seconds)
        one = house.one
    one.events.clear()
    one.pass_time(1)
    ended = [(each.event, each.recipient, each.reason) for each in one.events if isinstance(each, Outward)]
    assert ended == [("expired", ONE.public, Reason.NEXT_AWAY)], "that for a configured peer waits on"
    away = RecipientOutcome(ONE.public, "expired", Reason.NEXT_AWAY)
    told = [] if restarted else [Outcome(message_id(wire), (away,))]
    assert house.outcomes() == told, "outcomes are told to the run that took the message"
    back = one.link(ONE.public, role="router")
    assert one.handed(back) == [] and one.said(back) == [], "it has missed nothing: others were sent the message"


def test_a_short_ttl_and_a_past_expiry_end_a_copy_by_their_own_names() -> None:
    house = House(limits=CoreLimits(acceptance=AcceptanceLimits(copy_s_max=3600)))
    one = house.one
    one.router.link_down(house.links[0], one.now())
    soon = seal_multicast(GROUP, b"soon", ttl_s=3600, expiry_min=expiry_min(WALL_S + 120), seen=())
    house.hand(house.service, *(with_via(each, ONE.public) for each in (multicast(b"short", 30), soon)))
    one.events.clear()
    one.pass_time(200)
    ended = [each.reason for each in one.events if isinstance(each, Outward)]
    assert ended == [Reason.TTL_EXPIRED, Reason.EXPIRY_PASSED]


def test_a_router_that_is_not_known_and_not_connected_is_no_next_one() -> None:
    house = House()
    assert house.hand(house.service, with_via(multicast(), GROUP.public)) == [Reason.NO_ROUTE]
    assert house.outcomes() == []


def test_who_is_not_local_sends_nothing_on() -> None:
    """A neighbour's VIA is removed, and the message goes to the subscribers alone (R-C6)."""
    house = House()
    assert house.hand(house.links[0], with_via(multicast(), TWO.public)) == []
    assert house.one.handed(house.links[1]) == [] and house.one.accepted()[-1][2] == (PUBSUB.public,)


def test_two_nodes_with_one_service_key_do_not_speak_for_each_other() -> None:
    """A message of the other node's service is a replay here, whichever router brings it (R-C3); nothing else is
    affected."""
    house = House()
    twin = seal_unicast(PUBSUB, ME.public, b"x", ttl_s=60, expiry_min=EXPIRY)
    to_service = seal_unicast(PUBSUB, PUBSUB.public, b"x", ttl_s=60, expiry_min=EXPIRY)
    assert house.hand(house.links[0], twin, to_service) == [Reason.NOT_LOCAL_SOURCE] * 2
    assert house.hand(house.links[0], multicast()) == []


def test_a_router_that_only_a_hint_names_is_dialled_within_the_budget() -> None:
    house = House()
    key = SigningKey(b"h" * 32).public
    for how, doubted in (("hint", True), ("", False)):
        said = {"key": key.hex(), "urls": ["tls://203.0.113.9:1"], "until_s": WALL_S + 60, "how": how}
        body = encode_inquiry(Inquiry("learn", json.dumps(said)))
        assert house.hand(house.service, seal_unicast(PUBSUB, ME.public, body, ttl_s=0, expiry_min=EXPIRY)) == []
        known = house.one.router.directory.neighbours[key]
        assert known.doubted is doubted and known.learned == (how or "pubsub")
