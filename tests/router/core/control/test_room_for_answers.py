"""Room for answers: what has none is not worked out, and terms that changed meanwhile are said later."""

from __future__ import annotations

from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE

from router.core.control.reception import NO_ROOM
from router.core.control.speaker import UNSAID_BYTES_MAX
from router.core.neighbours.directory import JOIN, RELAY, Neighbour
from router.core.routing.effects import AnswerInquiry
from router.core.wire.admin import Answer, Inquiry, decode_inquiry, encode_inquiry
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_unicast
from router.core.wire.redemption import AskTerms, Terms, decode_redemption, encode_redemption

CLIENT = SigningKey(b"\x3f" * 32)
EXPIRY = expiry_min(WALL_S + 600)
WINDOW, SLACK = 2, 64


def bring(one: OneRouter, link: int, source: SigningKey, body: bytes) -> None:
    one.bring(link, seal_unicast(source, ME.public, body, ttl_s=0, expiry_min=EXPIRY))
    one.cycle()


def fill(one: OneRouter, link: int) -> None:
    """Put as many answers in flight as a neighbour that settles nothing is sent."""
    found = one.router.links.get(link)
    assert found is not None
    while one.router._kernel.speaker.say(found, AskTerms(), one.now()):
        pass
    one.cycle()
    one.told(link)
    assert found.outgoing.in_flight == WINDOW + SLACK


def test_a_question_whose_answer_has_no_room_is_refused_and_not_looked_up() -> None:
    one = OneRouter(Neighbour(CLIENT.public))
    client = one.link(CLIENT.public, role="router", messages=WINDOW)
    bring(one, client, CLIENT, encode_inquiry(Inquiry("why", "00" * 32)))
    assert [each for each in one.done if isinstance(each, AnswerInquiry)]
    fill(one, client)
    one.settled()
    one.done.clear()
    bring(one, client, CLIENT, encode_inquiry(Inquiry("why", "00" * 32)))
    assert [(reason, text) for _, reason, text in one.settled()[client][1]] == [NO_ROOM]
    assert not [each for each in one.done if isinstance(each, AnswerInquiry)]
    assert NO_ROOM[0].later


def test_terms_that_had_no_room_are_said_once_there_is() -> None:
    one = OneRouter(Neighbour(CLIENT.public, grants=frozenset({JOIN})))
    client = one.link(CLIENT.public, role="router", messages=WINDOW)
    bring(one, client, CLIENT, encode_redemption(AskTerms()))
    link = one.router.links.get(client)
    assert link is not None and link.terms is not None
    fill(one, client)
    one.router.neighbours_changed([Neighbour(CLIENT.public, grants=frozenset({JOIN, RELAY}))], one.now())
    one.cycle()
    assert one.told(client) == []
    one.router.settled(client, link.outgoing.sent, one.now())
    one.router.tick(one.now())
    one.cycle()
    [said] = [decode_redemption(open_message(wire).body) for wire in one.told(client)]
    assert isinstance(said, Terms) and set(said.rights) == {JOIN, RELAY}
    one.router.tick(one.now())
    one.cycle()
    assert one.told(client) == []


def test_answers_to_an_app_of_this_node_wait_unsigned_within_a_bound_and_none_is_lost() -> None:
    one = OneRouter(locals=[ALICE.public])
    alice = one.link(ALICE.public, messages=WINDOW)
    fill(one, alice)
    link = one.router.links.get(alice)
    assert link is not None
    speaker, half = one.router._kernel.speaker, Answer(bytes(UNSAID_BYTES_MAX // 2))
    assert [speaker.say(link, half, one.now()) for _ in range(3)] == [True, True, False]
    one.settled()
    bring(one, alice, ALICE, encode_inquiry(Inquiry("status", "")))
    assert [(reason, text) for _, reason, text in one.settled()[alice][1]] == [NO_ROOM]
    assert one.told(alice) == [], "nothing is signed for a full window"
    told = []
    for _ in range(2):
        one.router.settled(alice, link.outgoing.sent, one.now())
        one.cycle()
        told += one.told(alice)
    assert [decode_inquiry(open_message(wire).body, 1 << 20) for wire in told] == [half] * 2
