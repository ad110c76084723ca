"""Routers known by meetings: what an agreement permits them, and nothing else (R-C24)."""

from __future__ import annotations

import json

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP, IDS

from router.core.control.share_groups import LACKS_PAGES
from router.core.neighbours.agreements import AGREED_S_MAX, Agreements
from router.core.neighbours.directory import JOIN, Directory, Neighbour, Standing
from router.core.routing.effects import LookUpPulled, SendOwn
from router.core.wire.admin import Answer, Inquiry, decode_inquiry, encode_inquiry
from router.core.wire.codec import encode
from router.core.wire.control import Join, Pull, encode_control
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_multicast, seal_unicast
from router.core.wire.now import Now
from router.core.wire.reasons import NOT_SHARED, Reason
from router.service.verbs.share_groups import ShareGroups

PUBSUB, BELL, MET, PEER, FAR, UP = (SigningKey(bytes((n,)) * 32) for n in (61, 62, 63, 64, 65, 66))
CATS = SigningKey(b"c" * 32)
EXPIRY = expiry_min(WALL_S + 600)


def house(**more: object) -> OneRouter:
    known = Neighbour(PEER.public), Neighbour(UP.public, uplink=True)
    services = {bytes(PUBSUB.public): "pubsub", bytes(BELL.public): "bell"}
    one = OneRouter(*known, services=services, locals=[ALICE.public], **more)  # type: ignore[arg-type]
    one.router.directory.public = frozenset({bytes(PUBSUB.public)})
    return one


def agree(one: OneRouter, link: int, service: SigningKey, *groups: SigningKey, seconds: int = 600) -> None:
    said = {"key": MET.public.hex(), "groups": [each.public.hex() for each in groups], "until_s": WALL_S + seconds}
    body = encode_inquiry(Inquiry("agree", json.dumps(said)))
    one.bring(link, seal_unicast(service, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    one.settled()


def bring(one: OneRouter, link: int, *wires: bytes) -> list[Reason]:
    """Return the reasons for which messages were refused."""
    one.bring(link, *wires)
    one.cycle()
    return [reason for _, reason, _ in one.settled()[link][1]]


def multicast(group: SigningKey, body: bytes = b"hello") -> bytes:
    return seal_multicast(group, body, ttl_s=60, expiry_min=EXPIRY, seen=())


def unicast(to: bytes, body: bytes = b"hello", ttl_s: int = 60) -> bytes:
    return seal_unicast(MET, to, body, ttl_s=ttl_s, expiry_min=EXPIRY)  # type: ignore[arg-type]


def test_an_agreement_makes_a_router_met_until_it_lapses() -> None:
    one = house()
    service = one.link(PUBSUB.public)
    agree(one, service, PUBSUB, GROUP)
    link = one.link(MET.public, role="router")
    assert not one.closed() and one.router.links.standing_of(MET.public) is Standing.MET
    one.pass_time(600)
    assert one.closed() == [(link, "not-authorised")], "it is nobody any more"
    agree(one, service, PUBSUB, GROUP, seconds=10 * AGREED_S_MAX)
    one.link(MET.public, role="router")
    one.pass_time(AGREED_S_MAX)
    assert one.router.links.to(MET.public) is None, "an agreement holds for two hours, whatever is asked"


def test_the_class_changes_on_an_open_link() -> None:
    one = house(strangers=True)
    link = one.link(MET.public, role="router")
    assert one.router.links.standing_of(MET.public) is Standing.STRANGER
    service = one.link(PUBSUB.public)
    agree(one, service, PUBSUB, GROUP)
    assert one.router.links.standing_of(MET.public) is Standing.MET and not one.closed()
    agree(one, service, PUBSUB)
    assert one.closed() == [(link, "shutdown")], "a stranger signs on anew"


def test_it_brings_multicasts_of_the_agreed_groups_bare_and_carried_and_no_others() -> None:
    one = house()
    service, alice = one.link(PUBSUB.public), one.link(ALICE.public)
    one.link(UP.public, role="router")
    for group in (GROUP, CATS):
        body = encode_control(Join(group.public, False))
        assert bring(one, alice, seal_unicast(ALICE, ME.public, body, ttl_s=0, expiry_min=EXPIRY)) == []
    agree(one, service, PUBSUB, GROUP)
    met = one.link(MET.public, role="router")
    assert bring(one, met, multicast(GROUP)) == []
    assert one.accepted()[-1][2] == (ALICE.public,), "never to an uplink"
    assert bring(one, met, multicast(CATS)) == [NOT_SHARED]
    assert bring(one, met, unicast(ME.public, encode([0, multicast(GROUP, b"two")]), 0)) == []
    assert one.accepted()[-1][2] == (ALICE.public,)
    assert bring(one, met, unicast(ME.public, encode([0, multicast(CATS, b"two")]), 0)) == [NOT_SHARED]
    agree(one, service, PUBSUB, CATS)
    assert bring(one, met, multicast(GROUP, b"three")) == [NOT_SHARED], "what was agreed on before is over"


def test_it_sends_to_public_services_and_is_answered_pulls_and_no_more() -> None:
    one = house()
    service = one.link(PUBSUB.public)
    one.link(ALICE.public)
    one.link(PEER.public, role="router")
    agree(one, service, PUBSUB, GROUP)
    met = one.link(MET.public, role="router")
    assert bring(one, met, unicast(PUBSUB.public)) == []
    for to in (ALICE.public, BELL.public, PEER.public, FAR.public):
        assert bring(one, met, unicast(to)) == [Reason.NOT_AUTHORISED]
    assert bring(one, met, unicast(ME.public, encode_inquiry(Inquiry("status")), 0)) == [Reason.NOT_AUTHORISED]
    for group, answered in ((GROUP, 1), (CATS, 0)):
        bring(one, met, unicast(ME.public, encode_control(Pull(group.public, MessageId(IDS[0]))), 0))
        assert len([each for each in one.done if isinstance(each, LookUpPulled)]) == answered
        one.done.clear()
    bring(one, met, unicast(ME.public, encode_control(Join(GROUP.public, True)), 0))
    assert not one.router.groups.members(GROUP.public)


@pytest.mark.parametrize(
    ("known", "standing"),
    [
        ((), Standing.MET),
        ((Neighbour(MET.public),), Standing.PEER),
        ((Neighbour(MET.public, grants=frozenset({JOIN})),), Standing.CLIENT),
        ((Neighbour(MET.public, blocked=True),), None),
        ((Neighbour(MET.public, learned="discovery"),), Standing.MET),
        ((Neighbour(MET.public, grants=frozenset({JOIN}), learned="discovery"),), Standing.CLIENT),
    ],
)
def test_the_configuration_beats_what_was_met_and_blocked_beats_all(
    known: tuple[Neighbour, ...], standing: Standing | None
) -> None:
    directory = Directory(ME.public, accept_strangers=True)
    directory.replace_neighbours(known)
    directory.agreements.agree(b"s" * 32, MET.public, [GROUP.public], 10, 0)
    assert directory.standing(MET.public, owner=False) is standing
    assert directory.standing(MET.public, owner=True) is (standing and Standing.LOCAL)


def test_each_service_agrees_for_itself_and_who_lapses_first_is_forgotten() -> None:
    never = frozenset[bytes]().__contains__
    agreements, one, two = Agreements(2), b"1" * 32, b"2" * 32
    for by, group in ((one, GROUP), (two, CATS)):
        assert agreements.agree(by, MET.public, [group.public], 100, 0) == []
    assert agreements.has(MET.public, GROUP.public) and agreements.has(MET.public, CATS.public)
    agreements.agree(one, MET.public, [], 100, 0)
    assert not agreements.has(MET.public, GROUP.public) and agreements.has(MET.public, CATS.public)
    agreements.agree(one, FAR.public, [GROUP.public], 50, 0)
    assert agreements.agree(one, BOB.public, [GROUP.public], 70, 0) == [FAR.public]
    assert agreements.lapse(69, never) == [] and agreements.lapse(100, never) == [MET.public, BOB.public]
    assert not agreements.is_met(MET.public) and repr(agreements) == "<agreements with 0 routers>"


SHOWN_AND_JUDGED = pytest.mark.parametrize(
    ("service_ahead_s", "ahead_s"),
    [(0, 0), (0, AGREED_S_MAX), (AGREED_S_MAX, AGREED_S_MAX), (-AGREED_S_MAX, -AGREED_S_MAX), (-86_400, -86_400)],
)
"""How far the clock that a service reads is ahead, and how far the clock that the node doubts."""


@SHOWN_AND_JUDGED
def test_an_agreement_made_while_the_clock_is_doubted_holds_its_time(service_ahead_s: int, ahead_s: float) -> None:
    """It was over as it was made where the clock was doubted by two hours, and the service met nobody for an hour."""
    one = house()
    service = one.link(PUBSUB.public)
    one.ahead_s = ahead_s
    agree(one, service, PUBSUB, GROUP, seconds=service_ahead_s + AGREED_S_MAX)
    assert one.router.directory.agreements.has(MET.public, GROUP.public)
    one.pass_time(AGREED_S_MAX - 1)
    assert one.router.directory.agreements.has(MET.public, GROUP.public)
    one.pass_time(1)
    assert not one.router.directory.agreements.is_met(MET.public)


@SHOWN_AND_JUDGED
def test_a_neighbour_learned_while_the_clock_is_doubted_is_known(service_ahead_s: int, ahead_s: float) -> None:
    one = house()
    service = one.link(PUBSUB.public)
    one.ahead_s = ahead_s
    for lasts_s, known in ((7200, True), (-service_ahead_s - WALL_S, False)):
        until_s = WALL_S + service_ahead_s + lasts_s
        said = {"key": MET.public.hex(), "urls": ["tls://far.example:4101"], "until_s": until_s}
        body = encode_inquiry(Inquiry("learn", json.dumps(said)))
        one.bring(service, seal_unicast(PUBSUB, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
        one.cycle()
        one.settled()
        assert (bytes(MET.public) in one.router.directory.neighbours) is known


def test_an_agreement_holds_its_time_although_the_wall_clock_is_set() -> None:
    """The service counts the two hours by the monotonic clock, and meets the router before they are over."""
    one = house()
    agree(one, one.link(PUBSUB.public), PUBSUB, GROUP, seconds=AGREED_S_MAX)
    one.router.tick(one.now()._replace(wall_ns=one.now().wall_ns + 86_400 * 1_000_000_000))
    one.cycle()
    assert one.router.directory.agreements.has(MET.public, GROUP.public)


def test_the_end_of_a_kept_agreement_is_counted_by_the_wall_clock_while_the_node_is_down() -> None:
    agreements, by = Agreements(), bytes(PUBSUB.public)
    before, after = Now(1_000 * 10**9, 500 * 10**9), Now(1_600 * 10**9, 7 * 10**9)
    agreements.agree(by, MET.public, [GROUP.public], 700, before.mono_s, lan=True)
    rows = [(key, value) for key, value in agreements.rows(before).items() if value is not None]
    again = Agreements()
    again.load(rows, [by], after)
    assert again.lapse(after.mono_s + 99, lambda _: False) == []
    assert again.lapse(after.mono_s + 100, lambda _: False) == [MET.public]


def page(
    one: OneRouter, link: int, groups: list[SigningKey], number: int = 0, *, more: bool = False
) -> dict[str, object]:
    """Say a page of groups, and return the answer."""
    keys = tuple([each.public for each in groups])
    said = ShareGroups(MET.public, keys, WALL_S + 600, page=number, more=more)
    one.done.clear()
    one.bring(link, seal_unicast(PUBSUB, ME.public, encode_inquiry(said.inquiry()), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    [answer] = [decode_inquiry(open_message(each.wire).body) for each in one.done if isinstance(each, SendOwn)]
    assert isinstance(answer, Answer)
    found: dict[str, object] = json.loads(answer.text)
    return found


def test_groups_that_come_in_pages_replace_those_before_once_all_are_there() -> None:
    one = house()
    service = one.link(PUBSUB.public)
    agree(one, service, PUBSUB, GROUP)

    def shared() -> set[bytes]:
        return set(one.router.directory.agreements.shared(MET.public).groups)

    assert page(one, service, [CATS], more=True) == {"agreed": True}
    assert shared() == {GROUP.public}, "what was agreed on before holds until the last page is there"
    assert page(one, service, [FAR], 1, more=True) == {"agreed": True}
    assert page(one, service, [UP], 2) == {"agreed": True} and shared() == {CATS.public, FAR.public, UP.public}
    assert page(one, service, [], 1) == {"agreed": True} and len(shared()) == 3, "a page without groups changes none"


def test_a_page_whose_pages_before_did_not_come_changes_nothing() -> None:
    one = house()
    service = one.link(PUBSUB.public)
    assert page(one, service, [], 1) == {"agreed": False}, "there is nothing that could last longer"
    agree(one, service, PUBSUB, GROUP)
    for pages in ([(1, False)], [(0, True), (2, False)], [(0, True), (0, True), (2, False)]):
        *before, (last, more) = pages
        for number, follows in before:
            assert page(one, service, [CATS], number, more=follows) == {"agreed": True}
        assert page(one, service, [FAR], last, more=more) == {"error": LACKS_PAGES}
        assert set(one.router.directory.agreements.shared(MET.public).groups) == {GROUP.public}
