"""The parts of services in groups by value: many in one request, told a bounded number at once, and no answer lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rigs.one_router import ME, WALL_S, OneRouter
from samples.core import ALICE

from router.core.control import speaker
from router.core.control.wanted import AGAIN_S, OPEN_MAX
from router.core.routing.limits import CoreLimits, MembershipLimits
from router.core.wire.admin import SERVICE_BYTES_MAX, Answer, Inquiry, decode_inquiry, encode_inquiry, is_inquiry
from router.core.wire.control import Join, Leave, encode_control
from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import open_message, seal_unicast
from router.core.wire.pubsub import decode_wanted, is_wanted
from router.core.wire.reasons import Reason
from router.service.verbs.groups_wanted import GroupsWanted
from router.service.verbs.take_part import Part, TakeParts
from router.service.verbs.verb import WRONG_ARGUMENT, news_of

SERVICE = SigningKey(bytes((61,)) * 32)
GROUPS = [SigningKey(number.to_bytes(32, "big")).public for number in range(1, 601)]
EXPIRY = expiry_min(WALL_S + 600)


class House(OneRouter):
    """A router with an app, and a pub/sub service that connects when a test wants it to."""

    def __init__(self, **how: Any) -> None:
        super().__init__(services={bytes(SERVICE.public): "pubsub"}, locals=[ALICE.public], **how)
        self.alice = self.link(ALICE.public)

    def say(self, link: int, source: SigningKey, *bodies: bytes) -> None:
        later = [EXPIRY + at for at in range(len(bodies))]  # so that their ids differ
        said = zip(bodies, later, strict=True)
        self.bring(link, *[seal_unicast(source, ME.public, one, ttl_s=0, expiry_min=at) for one, at in said])
        self.cycle()

    def join(self, *groups: PublicKey) -> None:
        self.say(self.alice, ALICE, *[encode_control(Join(group, False)) for group in groups])

    def come(self, messages: int = 2_000) -> int:
        return self.link(SERVICE.public, messages=messages, size=4 << 20)

    def take_parts(self, link: int, part: Part, *groups: PublicKey) -> None:
        self.say(link, SERVICE, encode_inquiry(TakeParts(groups, (part,) * len(groups)).inquiry()))

    def heard(self, link: int) -> tuple[list[PublicKey], int, list[Any]]:
        """Return the groups that a service was told as wanted, in how many messages, and the router's answers."""
        groups, count, answers = list[PublicKey](), 0, list[Any]()
        for body in [open_message(wire).body for wire in self.told(link)]:
            said = decode_inquiry(body, SERVICE_BYTES_MAX) if is_inquiry(body) else None
            news = news_of(said) if isinstance(said, Inquiry) else None
            if is_wanted(body):
                groups.append(decode_wanted(body).group)
            elif isinstance(news, GroupsWanted):
                groups += news.groups
            elif isinstance(said, Answer):
                answers.append(json.loads(said.text))
            count += is_wanted(body) or isinstance(news, GroupsWanted)
        return groups, count, answers


def big(groups_per_client_max: int = 1_000) -> CoreLimits:
    return CoreLimits(membership=MembershipLimits(groups_per_client_max=groups_per_client_max))


def test_a_service_that_comes_is_told_of_many_groups_at_once_and_of_more_as_it_takes_part() -> None:
    one = House()
    one.join(*GROUPS)
    service = one.come()
    told, count, _ = one.heard(service)
    assert (told, count) == (GROUPS[:OPEN_MAX], 1), "one message for them, and no more before it answers"
    one.pass_time(1)
    assert one.heard(service) == ([], 0, [])
    one.take_parts(service, "ids", *told)
    then, count, answers = one.heard(service)
    assert (then, count, answers) == (GROUPS[OPEN_MAX : 2 * OPEN_MAX], 1, [{"refused": 0}])
    for group in told:
        held = one.router.groups.get(group, SERVICE.public)
        assert held is not None and held.local and one.router.groups.told_ids(group) == SERVICE.public
    one.take_parts(service, "whole", *then)
    assert not [group for group in then if one.router.groups.told_ids(group)]


def test_what_is_not_acknowledged_is_repeated_and_does_not_multiply() -> None:
    """4,096 groups that were joined at once were told anew every 5 s, faster than the service took part in them."""
    one = House()
    service = one.come()
    one.join(*GROUPS)
    assert one.heard(service)[:2] == (GROUPS[:OPEN_MAX], OPEN_MAX), "each by a SUB of its own"
    one.pass_time(AGAIN_S)
    assert one.heard(service)[:2] == (GROUPS[:OPEN_MAX], OPEN_MAX)
    one.take_parts(service, "ids", *GROUPS[:OPEN_MAX])
    assert one.heard(service)[0] == GROUPS[OPEN_MAX : 2 * OPEN_MAX]


def test_a_service_leaves_what_nobody_wants_any_more() -> None:
    one = House()
    service = one.come()
    one.join(*GROUPS[:3])
    one.take_parts(service, "ids", *GROUPS[:3])
    one.say(one.alice, ALICE, encode_control(Leave(GROUPS[1])))
    one.take_parts(service, "none", GROUPS[1])
    assert SERVICE.public not in one.router.groups.members(GROUPS[1])
    one.heard(service)
    one.pass_time(AGAIN_S)
    assert one.heard(service)[:2] == ([], 0), "it has acknowledged all"


def test_the_limit_of_groups_for_one_client_is_none_of_a_service() -> None:
    """From the 1,001st group on the pub/sub service was refused, and said that it took part."""
    one = House(limits=big(3))
    service = one.come()
    one.join(*GROUPS[:3])
    bob = SigningKey(b"B" * 32)
    one.router.directory.locals.add(bob.public)
    other = one.link(bob.public)
    one.say(other, bob, *[encode_control(Join(group, False)) for group in GROUPS[3:6]])
    one.take_parts(service, "ids", *GROUPS[:6])
    assert one.heard(service)[2] == [{"refused": 0}]
    assert all(SERVICE.public in one.router.groups.members(group) for group in GROUPS[:6])
    one.join(GROUPS[4])
    assert ALICE.public not in one.router.groups.members(GROUPS[4]), "an app has that limit"


def test_no_answer_is_lost_while_the_window_is_full_of_what_is_not_settled() -> None:
    """From the 65th on answers were dropped without a word. As they carry no number, each later question then took the
    answer of the one before it, or waited 30 s for its own."""
    one = House()
    service = one.come(messages=10)
    one.join(*GROUPS[:10])
    assert one.heard(service)[1] == 10
    for group in GROUPS[100:300]:
        one.take_parts(service, "ids", group)
    first = one.heard(service)[2]
    assert len(first) == 64, "the slack of its window"
    one.router.settled(service, 10 + 64, one.now())
    one.cycle()
    second = one.heard(service)[2]
    one.router.settled(service, 10 + 64 + len(second), one.now())
    one.cycle()
    third = one.heard(service)[2]
    assert len(first) + len(second) + len(third) == 200 and third


def test_a_question_to_a_service_waits_while_its_window_is_full() -> None:
    """It was dropped without a word, and whoever had asked waited for ever."""
    one = House()
    service = one.come(messages=1)
    one.join(GROUPS[0])
    for group in GROUPS[100:180]:
        one.take_parts(service, "ids", group)
    one.told(service)
    assert one.router.tell_service(SERVICE.public, Inquiry("ask", "7 how are you"), one.now())
    one.cycle()
    assert not one.told(service)
    for settled in (65, 90):
        one.router.settled(service, min(settled, _sent(one, service)), one.now())
        one.cycle()
    said = [decode_inquiry(open_message(wire).body, SERVICE_BYTES_MAX) for wire in one.told(service)]
    assert said[-1] == Inquiry("ask", "7 how are you"), "after the answers that had waited before it"


def _sent(one: House, number: int) -> int:
    link = one.router.links.get(number)
    assert link is not None
    return link.outgoing.sent


def test_a_request_whose_answer_has_no_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaker, "UNSAID_MAX", 3)
    one = House()
    service = one.come(messages=1)
    one.join(GROUPS[0])
    for group in GROUPS[:68]:
        one.take_parts(service, "ids", group)
    one.settled()
    one.take_parts(service, "ids", GROUPS[68])
    [(_, refusals)] = one.settled().values()
    assert [reason for _, reason, _ in refusals] == [Reason.RATE_LIMITED]
    assert SERVICE.public not in one.router.groups.members(GROUPS[68])
    one.router.settled(service, 10, one.now())
    one.take_parts(service, "ids", GROUPS[68])
    assert SERVICE.public in one.router.groups.members(GROUPS[68])


def test_parts_that_are_none_are_told_so() -> None:
    one = House()
    service = one.come()
    for argument in ('{"groups": [], "parts": []}', json.dumps({"groups": [GROUPS[0].hex()], "parts": ["ids", "ids"]})):
        with pytest.raises(WRONG_ARGUMENT):
            TakeParts.from_argument(argument)
        one.say(service, SERVICE, encode_inquiry(Inquiry(TakeParts.WORD, argument)))
        assert "take-part: " in one.heard(service)[2][0]["error"]
