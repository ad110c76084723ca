"""The verbs between services and their router travel as they are described, by value."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import msgspec
import pytest

from router.core.wire.admin import Inquiry
from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.errors import RouterError
from router.service import contract as c
from router.service.roles import discovery as d
from router.service.roles import overlay as o
from router.service.verbs.advertise import SignAdvertisement
from router.service.verbs.caught_up import GroupCaughtUp
from router.service.verbs.log_event import LogEvents, NotedEvent
from router.service.verbs.pull_from import MINUTES_MAX, PullsFrom
from router.service.verbs.take_part import TakeParts
from router.service.verbs.verb import WRONG_ARGUMENT, News, Request, news_of

ONE, TWO, GROUP = (SigningKey(bytes((n,)) * 32).public for n in (1, 2, 3))
ID = MessageId(b"i" * 32)

NEWS: list[tuple[str, dict[str, Any], News]] = [
    ("linked", {"router": ONE.hex(), "service": TWO.hex()}, o.Linked(ONE, TWO)),
    ("linked", {"router": ONE.hex(), "service": ""}, o.Linked(ONE)),
    ("dropped", {"router": ONE.hex(), "group": GROUP.hex(), "count": 3}, o.Dropped(ONE, GROUP, 3)),
    (
        "published", {"group": GROUP.hex(), "ids": "AAAA", "expiries": [[7, 1]], "left_out": 2},
        o.Published(GROUP, bytes(3), ((7, 1),), 2),
    ),
    ("said-caught-up", {"group": GROUP.hex(), "at_s": 5, "app": ONE.hex()}, o.SaidCaughtUp(GROUP, 5, ONE)),
    ("caught-up", {"group": GROUP.hex(), "at_s": 5, "missing": 1, "of": 2}, GroupCaughtUp(GROUP, 5, 1, 2)),
    ("unreached", {"key": ONE.hex(), "text": "no", "let_in": True}, o.NeighbourUnreachable(ONE, "no", True)),
    (
        "neighbour-linked", {"key": ONE.hex(), "ip": "10.0.0.9", "is_up": True},
        d.NeighbourLinked(ONE, "10.0.0.9", True),
    ),
    ("listening", {"url": "tls://h:1", "problem": ""}, d.Listening("tls://h:1", "")),
]  # fmt: skip
REQUESTS: list[tuple[str, dict[str, Any], Request]] = [
    (
        "learn", {"key": ONE.hex(), "urls": ["tls://h:1"], "until_s": 7, "name": "é", "how": "lan"},
        c.AddNeighbour(ONE, ("tls://h:1",), 7, "é", "lan"),
    ),
    ("grant", {"key": ONE.hex(), "rights": ["join"], "until_s": 7, "uses": 2}, c.Grant(ONE, ("join",), 7, 2)),
    (
        "agree", {"key": ONE.hex(), "groups": [GROUP.hex()], "until_s": 7, "lan": True, "page": 0, "more": False},
        o.ShareGroups(ONE, (GROUP,), 7, True),
    ),
    ("answer", {"number": 4, "value": {"a": [1, None]}}, c.Answer(4, {"a": [1, None]})),
    ("listen", {"url": "tls://h:1"}, d.Listen("tls://h:1")),
    ("dial", {"key": ONE.hex()}, o.Dial(ONE)),
    ("take-part", {"groups": [GROUP.hex()], "parts": ["let go"]}, TakeParts((GROUP,), ("let go",))),
    ("held", {"group": GROUP.hex(), "after": 4, "since_s": 0}, o.ListHeld(GROUP, 4)),
    (
        "caught-up", {"group": GROUP.hex(), "at_s": 1, "missing": 2, "of": 3, "heard": [ONE.hex()]},
        o.CaughtUp(GROUP, 1, 2, 3, (ONE,)),
    ),
    (
        "advertise", {"addresses": ["a"], "groups": [GROUP.hex()], "ttl_s": 0, "life_s": 60},
        SignAdvertisement(("a",), (GROUP,), 0, 60),
    ),
    (
        "pull",
        {
            "router": ONE.hex(), "group": GROUP.hex(), "ids": [ID.hex()], "expiries": [9], "minutes": [2],
            "history": [True],
        },
        PullsFrom.of([o.PullFrom(ONE, GROUP, ID, 9, 2, True)]),
    ),
    (
        "note", {"epoch": "0" * 16, "first": 3, "events": [{"event": "rang", "message": ID.hex(), "fields": {"a": 1}}]},
        LogEvents("0" * 16, 3, (NotedEvent("rang", ID.hex(), None, {"a": 1}),)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("word", "said", "verb"), [*NEWS, *REQUESTS])
def test_a_verb_travels_as_its_word_and_one_json_object(word: str, said: dict[str, Any], verb: News | Request) -> None:
    travels = verb.inquiry()
    assert (travels.ask, json.loads(travels.argument)) == (word, said)
    assert type(verb).from_argument(json.dumps(said)) == verb


@pytest.mark.parametrize(("word", "said", "verb"), [one for one in NEWS if one[0] != "caught-up"])
def test_rules_hear_news_by_its_word(word: str, said: dict[str, Any], verb: News) -> None:
    assert news_of(Inquiry(word, json.dumps({**said, "added later": 1}))) == verb


def test_a_question_of_an_operator_travels_as_text() -> None:
    assert news_of(Inquiry("asked", "7 topics of news")) == c.Asked(7, "topics", "of news")
    assert c.Asked(7, "topics", "of  news").inquiry() == Inquiry("asked", "7 topics of  news")
    assert c.Asked(7, "topics").inquiry() == Inquiry("asked", "7 topics")
    with pytest.raises(ValueError, match="seven"):
        news_of(Inquiry("asked", "seven topics"))


def test_a_word_without_a_class_is_nothing_for_rules() -> None:
    assert news_of(Inquiry("weather")) is None


@pytest.mark.parametrize(
    ("verb", "said", "why"),
    [
        (c.Grant, {"key": "AB" * 32}, "lower case"),
        (c.Grant, {"key": "00"}, "64 hexadecimal"), (c.Grant, {"key": "zz" * 32}, "non-hexadecimal"),
        (c.Grant, {"key": ONE.hex(), "more": 1}, "unknown field"), (c.Grant, {}, "missing required field `key`"),
        (c.Grant, {"key": ONE.hex(), "rights": ["a"] * 9}, "length <= 8"), (o.Dial, {"key": 3}, "64 hexadecimal"),
        (o.ShareGroups, {"key": ONE.hex(), "until_s": -1}, ">= 0"),
        (o.ListHeld, {"group": GROUP.hex(), "after": -1}, ">= 0"),
        (c.AddNeighbour, {"key": ONE.hex(), "how": "by-chance"}, "by-chance"),
    ],
)  # fmt: skip
def test_a_request_of_another_form_is_rejected_with_the_cause(
    verb: type[Request], said: dict[str, Any], why: str
) -> None:
    with pytest.raises(WRONG_ARGUMENT, match=why):
        verb.from_argument(json.dumps(said))


def test_an_answer_that_is_no_json_does_not_travel() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        c.Answer(1, float("nan")).inquiry()


def test_pulls_with_too_many_minutes_name_none() -> None:
    of_many = PullsFrom.of([o.PullFrom(ONE, GROUP, ID, 9, MINUTES_MAX + 1), o.PullFrom(ONE, GROUP, ID, 9, MINUTES_MAX)])
    assert (of_many.expiries, of_many.minutes) == ((0, 9), (MINUTES_MAX, MINUTES_MAX))


def test_a_failed_request_is_answered_to_the_rules_that_wait_for_it() -> None:
    failed = {"error": "away"}
    pulls = PullsFrom.of([o.PullFrom(ONE, GROUP, ID)])
    assert pulls.answered(failed) == [o.PulledFrom(ONE, GROUP, ID, "later")]
    assert pulls.answered({"states": ["known"]}) == [o.PulledFrom(ONE, GROUP, ID, "known")]
    assert list(o.ListHeld(GROUP, 3).answered(failed)) == [o.HeldPage(GROUP, error="away", after=3)]
    assert o.Advertise(tag="x").answered(failed) == o.Signed("x", error="away")
    assert o.Advertise(tag="x").answered({"message": "ff"}) == o.Signed("x", b"\xff")
    assert o.Dial(ONE).answered(failed) == ()


@pytest.mark.parametrize(
    ("said", "answer", "is_done"),
    [
        (o.ShareGroups(ONE, (GROUP,), 7), {"agreed": True}, True),
        (o.ShareGroups(ONE, (GROUP,), 7), {"agreed": False}, False),
        (o.ShareGroups(ONE, (GROUP,), 7), {"error": "no room"}, False),
        (o.ShareGroups(ONE, (), 7, page=1), {"agreed": False}, False),
        (o.ShareGroups(ONE, (), 7, page=1), {"agreed": True}, None),
        (o.ShareGroups(ONE, (), 0), {"agreed": False}, True),
        (o.ShareGroups(ONE, (), 0), {"error": "no room"}, False),
        (o.ShareGroups(ONE, (GROUP,), 7, more=True), {"agreed": False}, None),
        (o.ShareGroups(ONE, (GROUP,), 7, more=True), {"error": "no room"}, False),
        (o.ShareGroups(ONE, (GROUP,), 7, lan=True), {"error": "no room"}, None),
    ],
)
def test_the_rules_hear_whether_the_router_agrees_on_what_they_said(
    said: o.ShareGroups, answer: dict[str, Any], is_done: bool | None
) -> None:
    heard = [] if is_done is None else [o.GroupsShared(ONE, is_done)]
    assert list(said.answered(answer)) == heard


def test_a_verb_is_found_by_its_class() -> None:
    class Rained(News, frozen=True):
        WORD: ClassVar[str] = "rained"

        millimetres: int

    assert news_of(Inquiry("rained", '{"millimetres":3}')) == Rained(3)
    with pytest.raises(msgspec.ValidationError):
        news_of(Inquiry("rained", '{"millimetres":"3"}'))


def test_two_news_of_one_word_are_named() -> None:
    class Overcast(News, frozen=True):
        WORD: ClassVar[str] = "overcast"

    class Cloudy(News, frozen=True):
        WORD: ClassVar[str] = "overcast"

    assert Overcast().inquiry() == Cloudy().inquiry()
    with pytest.raises(RouterError, match=r'Overcast of .* and Cloudy of .* have the word "overcast"; give one'):
        news_of(Inquiry("overcast", "{}"))
