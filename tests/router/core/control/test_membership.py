"""JOIN and LEAVE by value: who may, how often, the requests to uplinks, and unexpected answers."""

from __future__ import annotations

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE, BOB, GROUP

from router.core.control import upstream
from router.core.control.pulls import MISS_COST
from router.core.control.upstream import JOIN_AGAIN_S
from router.core.log.events import RouterChange
from router.core.neighbours.directory import JOIN, Neighbour
from router.core.routing.effects import AnswerInquiry, LookUpPulled, NeighbourAnswered
from router.core.routing.groups import Subscription
from router.core.routing.limits import CoreLimits, MembershipLimits, PullLimits
from router.core.routing.purges import Purge
from router.core.wire.admin import Answer, Inquiry, encode_inquiry
from router.core.wire.control import (
    Carried,
    Control,
    Join,
    JoinAck,
    Leave,
    LeaveAck,
    Pull,
    Report,
    decode_control,
    encode_control,
)
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_multicast, seal_unicast
from router.core.wire.reasons import Reason

UP, CLIENT, PEER, STRANGER = (SigningKey(bytes((n,)) * 32) for n in (61, 62, 63, 64))
EXPIRY = expiry_min(WALL_S + 600)
CATS = SigningKey(b"c" * 32).public


def house(**more: object) -> OneRouter:
    known = (
        Neighbour(UP.public, uplink=True),
        Neighbour(CLIENT.public, grants=frozenset({JOIN})),
        Neighbour(PEER.public),
    )
    without = {"limits": CoreLimits(introductions_max=0)}
    return OneRouter(*known, strangers=True, **{**without, **more})  # type: ignore[arg-type]


def say(one: OneRouter, link: int, source: SigningKey, control: Control) -> None:
    body = encode_control(control)
    one.bring(link, seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()


def told(one: OneRouter, link: int) -> list[Control]:
    return [decode_control(open_message(wire).body) for wire in one.told(link)]


@pytest.mark.parametrize(
    ("key", "role", "answer"),
    [
        (ALICE, "app", [JoinAck(GROUP.public, True)]), (CLIENT, "router", [JoinAck(GROUP.public, True)]),
        (PEER, "router", [JoinAck(GROUP.public, False)]), (STRANGER, "router", []),
    ],
)  # fmt: skip
def test_who_may_join_and_what_the_others_hear(key: SigningKey, role: str, answer: list[Control]) -> None:
    """A refused key that we know is answered with a failure, a stranger not at all (R-C15)."""
    one = house()
    link = one.link(key.public, role=role)
    one.told(link)
    say(one, link, key, Join(GROUP.public, False))
    assert told(one, link) == answer
    assert one.router.groups.members(GROUP.public) == ((key.public,) if answer and answer[0].success else ())  # type: ignore[union-attr]


def test_control_is_honoured_only_from_the_links_own_key() -> None:
    one = house()
    alice, peer = one.link(ALICE.public), one.link(PEER.public, role="router")
    say(one, alice, ALICE, Join(GROUP.public, False))
    say(one, peer, ALICE, Leave(GROUP.public))
    say(one, peer, STRANGER, Join(CATS, False))
    assert list(one.router.groups) == [Subscription(GROUP.public, ALICE.public, False, True)]
    assert told(one, peer) == []
    n, refusals = one.settled()[peer]
    assert n == 2 and [reason for _, reason, _ in refusals] == [Reason.NOT_LOCAL_SOURCE, Reason.NOT_AUTHORISED]


def test_only_apps_of_the_owner_ask_for_the_nodes_answers() -> None:
    one = house()
    alice, peer = one.link(ALICE.public), one.link(PEER.public, role="router")
    for link, key in ((alice, ALICE), (peer, PEER)):
        one.bring(link, seal_unicast(key, ME.public, encode_inquiry(Inquiry("status", "")), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    told = one.settled()
    assert told[alice] == (1, []) and [reason for _, reason, _ in told[peer][1]] == [Reason.NOT_AUTHORISED]
    assert [effect.link for effect in one.done if isinstance(effect, AnswerInquiry)] == [alice]


def test_operators_words_belong_to_the_owner_s_socket() -> None:
    """A configured local key that connects otherwise may only ask `why`; a neighbour that connects by the socket is
    local."""
    service = SigningKey(b"s" * 32)
    one = house(locals={service.public})
    elsewhere = one.link(service.public, owner=False)
    words = ("drop", "reload", "log", "status", "peers", "queue", "groups", "why")
    asks = [encode_inquiry(Inquiry(word, "ab")) for word in words]
    one.bring(elsewhere, *(seal_unicast(service, ME.public, ask, ttl_s=0, expiry_min=EXPIRY) for ask in asks))
    one.cycle()
    assert [(k, why) for k, why, _ in one.settled()[elsewhere][1]] == [(k, Reason.NOT_AUTHORISED) for k in range(1, 8)]
    by_socket = one.link(service.public)
    one.bring(by_socket, *(seal_unicast(service, ME.public, ask, ttl_s=0, expiry_min=EXPIRY) for ask in asks))
    one.cycle()
    assert one.settled()[by_socket] == (8, [])
    asked = [effect for effect in one.done if isinstance(effect, AnswerInquiry)]
    assert [(effect.link, effect.inquiry.ask, effect.neighbour, effect.service) for effect in asked] == [
        (elsewhere, "why", None, service.public), *((by_socket, word, None, None) for word in words),
    ]  # fmt: skip


def test_routers_ask_and_answer_why_and_nothing_else() -> None:
    """The node that answers checks the grant; strangers and other nodes' apps may not even ask, and only the router
    asked may answer, once for each question."""
    one = house()
    links = {key: one.link(key.public, role="router") for key in (PEER, CLIENT, STRANGER)}
    for key in (PEER, STRANGER):
        assert one.router.ask(key.public, Inquiry("why", "cd 0"), one.now())
    for key, link in links.items():
        for said in (Inquiry("why", "ab 1"), Inquiry("log", "0"), Answer(b"{}")):
            one.bring(link, seal_unicast(key, ME.public, encode_inquiry(said), ttl_s=0, expiry_min=EXPIRY))
    one.cycle()
    refused = {link: [k for k, _, _ in refusals] for link, (_, refusals) in one.settled().items()}
    assert refused == {links[PEER]: [2], links[CLIENT]: [2, 3], links[STRANGER]: [1, 2, 3]}
    known = [key.public for key in (PEER, CLIENT)]
    asked = [effect for effect in one.done if isinstance(effect, AnswerInquiry)]
    assert [(effect.neighbour, effect.inquiry) for effect in asked] == [(key, Inquiry("why", "ab 1")) for key in known]
    heard = [effect for effect in one.done if isinstance(effect, NeighbourAnswered)]
    assert heard == [NeighbourAnswered(PEER.public, b"{}")]
    answer = seal_unicast(PEER, ME.public, encode_inquiry(Answer(b"{}")), ttl_s=0, expiry_min=EXPIRY)
    one.bring(links[PEER], answer)
    one.cycle()
    assert [reason for _, reason, _ in one.settled()[links[PEER]][1]] == [Reason.NOT_AUTHORISED]
    assert [effect for effect in one.done if isinstance(effect, NeighbourAnswered)] == heard


def test_a_neighbour_s_router_is_asked() -> None:
    one = house()
    link = one.link(PEER.public, role="router")
    assert one.router.ask(PEER.public, Inquiry("why", "ab 1"), one.now())
    one.cycle()
    [wire] = one.told(link)
    assert open_message(wire).body == encode_inquiry(Inquiry("why", "ab 1"))
    app = one.link(ALICE.public)
    assert not one.router.ask(ALICE.public, Inquiry("why", "ab 1"), one.now()) and not one.told(app)
    assert not one.router.ask(CLIENT.public, Inquiry("why", "ab 1"), one.now()), "it is away"


def test_joining_and_leaving_are_idempotent() -> None:
    one = house()
    alice = one.link(ALICE.public)
    for control in (Leave(GROUP.public), Join(GROUP.public, False), Join(GROUP.public, False), Leave(GROUP.public)):
        say(one, alice, ALICE, control)
    joined, left = JoinAck(GROUP.public, True), LeaveAck(GROUP.public, True)
    assert told(one, alice) == [left, joined, joined, left]
    assert one.states()[1:] == ["join", "leave"] and not one.disk.groups


def test_leave_then_join_in_one_cycle_stays_joined_on_disk() -> None:
    one = house()
    alice = one.link(ALICE.public)
    say(one, alice, ALICE, Join(GROUP.public, False))
    wires = [
        seal_unicast(ALICE, ME.public, encode_control(control), ttl_s=0, expiry_min=EXPIRY)
        for control in (Leave(GROUP.public), Join(GROUP.public, True))
    ]
    one.bring(alice, *wires)
    one.cycle()
    assert list(one.disk.groups.values()) == [Subscription(GROUP.public, ALICE.public, True, True)]


def test_groups_per_client_are_limited() -> None:
    one = house(limits=CoreLimits(membership=MembershipLimits(groups_per_client_max=1), introductions_max=0))
    alice = one.link(ALICE.public)
    for group in (GROUP.public, CATS, GROUP.public):
        say(one, alice, ALICE, Join(group, False))
    assert [ack.success for ack in told(one, alice) if isinstance(ack, JoinAck)] == [True, False, True]


# -- uplinks -----------------------------------------------------------------------------------------------------


def test_an_uplink_is_asked_for_what_is_wanted_until_it_answers() -> None:
    one = house()
    alice = one.link(ALICE.public)
    say(one, alice, ALICE, Join(GROUP.public, False))
    say(one, alice, ALICE, Join(CATS, True))
    up = one.link(UP.public, role="router")
    assert told(one, up) == [Join(GROUP.public, False)]
    one.pass_time(JOIN_AGAIN_S)
    assert told(one, up) == [Join(GROUP.public, False)]
    say(one, up, UP, JoinAck(GROUP.public, True))
    one.pass_time(JOIN_AGAIN_S * 2)
    assert told(one, up) == []
    say(one, alice, ALICE, Join(CATS, False))
    say(one, alice, ALICE, Leave(GROUP.public))
    say(one, alice, ALICE, Leave(GROUP.public))
    assert told(one, up) == [Join(CATS, False), Leave(GROUP.public)]
    one.router.link_down(up, one.now())
    up = one.link(UP.public, role="router")
    assert told(one, up) == [Join(CATS, False)], "again at every link-up"


def test_joins_wait_for_room_in_the_window() -> None:
    one = house()
    alice = one.link(ALICE.public)
    groups = [SigningKey(bytes((n,)) * 32).public for n in range(1, 8)]
    for group in groups:
        say(one, alice, ALICE, Join(group, False))
    up = one.link(UP.public, role="router", messages=3)
    assert told(one, up) == [Join(group, False) for group in groups[:3]]
    one.router.settled(up, 3, one.now())
    one.pass_time(1)
    assert told(one, up) == [Join(group, False) for group in groups[3:6]]


def test_few_joins_are_open_at_an_uplink_and_the_others_follow_its_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """All were sent at once, and all again every 5 s as long as the uplink was at it."""
    monkeypatch.setattr(upstream, "OPEN_MAX", 2)
    one = house()
    alice = one.link(ALICE.public)
    groups = [SigningKey(bytes((n,)) * 32).public for n in range(1, 6)]
    for group in groups:
        say(one, alice, ALICE, Join(group, False))
    up = one.link(UP.public, role="router")
    assert told(one, up) == [Join(group, False) for group in groups[:2]]
    one.pass_time(JOIN_AGAIN_S)
    assert told(one, up) == [Join(group, False) for group in groups[:2]], "these again, and no others"
    say(one, up, UP, JoinAck(groups[0], True))
    say(one, up, UP, JoinAck(groups[1], False))
    assert told(one, up) == [Join(group, False) for group in groups[2:4]], "also after a refusal"
    say(one, alice, ALICE, Leave(groups[4]))
    say(one, up, UP, JoinAck(groups[2], True))
    assert told(one, up) == [Leave(groups[4])]
    assert one.router.upstream.joined_at(UP.public) == (2, 4)


def test_an_answer_that_nobody_asked_for_changes_nothing() -> None:
    one = house()
    up, stranger = one.link(UP.public, role="router"), one.link(STRANGER.public, role="router")
    before = one.states()
    for success in (True, False):
        say(one, up, UP, JoinAck(GROUP.public, success))
        say(one, stranger, STRANGER, JoinAck(GROUP.public, success))
    assert one.states() == before and repr(one.router.upstream) == "<0 groups joined at neighbours, 0 JOINs open>"


def test_a_refused_join_is_noted() -> None:
    one = house()
    alice, up = one.link(ALICE.public), one.link(UP.public, role="router")
    say(one, alice, ALICE, Join(GROUP.public, False))
    say(one, up, UP, JoinAck(GROUP.public, False))
    assert one.states()[-1] == "join"
    told(one, up)
    one.pass_time(60)
    assert told(one, up) == [], "it is not asked again on this link"


def test_a_message_that_is_not_wanted_is_answered_by_a_leave() -> None:
    one = house()
    up = one.link(UP.public, role="router")
    one.bring(up, *[seal_multicast(GROUP, bytes((n,)), ttl_s=60, expiry_min=EXPIRY) for n in range(3)])
    one.cycle()
    assert told(one, up) == [Leave(GROUP.public)]
    assert {reason for _, reason, _ in one.settled()[up][1]} == {Reason.NO_SUBSCRIBERS}


def test_answers_to_one_who_settles_nothing_end_at_the_slack() -> None:
    one = house()
    alice = one.link(ALICE.public, messages=2)
    for n in range(200):
        say(one, alice, ALICE, Join(GROUP.public, bool(n % 2)))
    link = one.router.links.get(alice)
    assert link is not None and len(told(one, alice)) == 2 + 64 == link.outgoing.in_flight


# -- other words -------------------------------------------------------------------------------------------------


def test_a_pull_is_for_those_who_may_join_and_not_too_often() -> None:
    one = house(limits=CoreLimits(pulls=PullLimits(routers_per_s=2.0 * MISS_COST)))
    alice, peer = one.link(ALICE.public), one.link(PEER.public, role="router")
    pull = Pull(GROUP.public, MessageId(b"i" * 32))
    for _ in range(3):
        say(one, alice, ALICE, pull)
    say(one, peer, PEER, pull)
    asked = [effect for effect in one.done if isinstance(effect, LookUpPulled)]
    assert asked == [LookUpPulled(alice, GROUP.public, pull.message)] * 2


@pytest.mark.parametrize("ttl_s", [0, 60])
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", Reason.MALFORMED), (b"x", Reason.MALFORMED), (b"\x82\x07", Reason.MALFORMED),
        (b"\x82\x01\xa0", Reason.MALFORMED), (b"\x82\x00\x00", Reason.MALFORMED),
        (b"\x82\x18\x63\x00", Reason.UNSUPPORTED),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(body: bytes, why: Reason, ttl_s: int) -> None:
    one = house()
    alice = one.link(ALICE.public)
    one.bring(alice, seal_unicast(ALICE, ME.public, body, ttl_s=ttl_s, expiry_min=EXPIRY))
    one.cycle()
    n, refusals = one.settled()[alice]
    assert n == 1 and [(k, reason) for k, reason, _ in refusals] == [(1, why)] and not one.told(alice)
    assert one.turned() == [("refused", why, 1)]


def test_reports_and_carried_messages_need_no_answer() -> None:
    one = house()
    alice = one.link(ALICE.public)
    say(one, alice, ALICE, Report(MessageId(b"i" * 32), BOB.public, "expired", 3, 0))
    say(one, alice, ALICE, Carried(seal_multicast(GROUP, b"", ttl_s=60, expiry_min=EXPIRY)))
    assert told(one, alice) == []


def test_what_ends_is_looked_for_once() -> None:
    """Each clearing reads a queue once: for a key that has gone, and not for groups without waiting messages."""
    one = house(locals={ALICE.public, BOB.public})
    alice, bob = one.link(ALICE.public), one.link(BOB.public, messages=1)
    groups = [SigningKey(bytes((n,)) * 32) for n in range(100, 110)]
    for key, link in ((ALICE, alice), (BOB, bob)):
        for group in groups:
            say(one, link, key, Join(group.public, False))
    one.bring(alice, *(seal_multicast(group, b"", ttl_s=60, expiry_min=EXPIRY) for group in groups[:3]))
    one.cycle()
    for group in groups[2:]:
        say(one, bob, BOB, Leave(group.public))
    assert [(clear.recipient, clear.group) for clear in waiting(one)] == [(BOB.public, groups[2].public)]
    one.clear()
    known = one.router.directory.neighbours.values()
    one.router.neighbours_changed([*known, Neighbour(BOB.public, blocked=True)], one.now())
    assert [(clear.recipient, clear.group) for clear in waiting(one)] == [(BOB.public, None)]


def waiting(one: OneRouter) -> list[Purge]:
    return [Purge(*key, before) for key, before in one.router.purges._before.items()]


def test_a_join_that_is_decided_after_its_link_has_gone_joins_nothing() -> None:
    """The JOIN was verified meanwhile; nobody would ever end a throwaway key's subscription."""
    one = house()
    alice = one.link(ALICE.public, durable=False)
    one.bring(
        alice, seal_unicast(ALICE, ME.public, encode_control(Join(GROUP.public, False)), ttl_s=0, expiry_min=EXPIRY)
    )
    one.router.link_down(alice, one.now())
    one.cycle()
    assert not list(one.router.groups) and not one.disk.groups


def test_the_groups_of_a_key_that_is_gone_end_in_one_order() -> None:
    one = house()
    alice = one.link(ALICE.public, durable=False)
    for group in (CATS, GROUP.public):
        say(one, alice, ALICE, Join(PublicKey(group), False))
    one.router.link_down(alice, one.now())
    one.cycle()
    left = [
        dict(event.fields)["group"]
        for event in one.events
        if isinstance(event, RouterChange) and event.event == "leave"
    ]
    assert left == sorted((CATS, GROUP.public))


def test_a_client_that_joins_locally_keeps_nothing_of_others_from_the_uplinks() -> None:
    one = house()
    up, client, alice = (
        one.link(key.public, role=role) for key, role in ((UP, "router"), (CLIENT, "router"), (ALICE, "app"))
    )
    say(one, client, CLIENT, Join(GROUP.public, True))
    one.handed(up)
    one.bring(alice, news := seal_multicast(GROUP, b"news", ttl_s=60, expiry_min=EXPIRY))
    one.cycle()
    assert one.handed(up) == [news]
    assert one.handed(client) == [news]
