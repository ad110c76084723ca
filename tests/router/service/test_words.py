"""The words between a service and its router, by value."""

from __future__ import annotations

import json

import pytest

from router.core.wire import admin
from router.core.wire.crypto import SigningKey
from router.service import contract as c
from router.service import words

ONE, TWO, GROUP = (SigningKey(bytes((n,)) * 32).public for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("word", "said", "heard"),
    [
        (admin.LINKED, {"router": ONE.hex(), "service": TWO.hex()}, c.Linked(ONE, TWO)),
        (admin.LINKED, {"router": ONE.hex(), "service": ""}, c.Linked(ONE)),
        (admin.DROPPED, {"router": ONE.hex(), "group": GROUP.hex(), "count": 3}, c.Dropped(ONE, GROUP, 3)),
        (
            admin.PUBLISHED,
            {"group": GROUP.hex(), "ids": "AAAA", "expiries": [[7, 1]], "left_out": 2},
            c.Published(GROUP, bytes(3), ((7, 1),), 2),
        ),
        (admin.SAID_CAUGHT_UP, {"group": GROUP.hex(), "at_s": 5, "app": ONE.hex()}, c.SaidCaughtUp(GROUP, 5, ONE)),
        (admin.UNREACHED, {"key": ONE.hex(), "text": "no", "let_in": True}, c.Unreached(ONE, "no", True)),
        (admin.LISTENING, {"url": "tls://h:1", "problem": ""}, c.Listening("tls://h:1", "")),
    ],
)
def test_what_rules_hear_of_a_word(word: str, said: dict[str, object], heard: c.Heard) -> None:
    assert words.heard(admin.Inquiry(word, json.dumps(said))) == heard


def test_an_operators_question_has_a_number_and_words_of_no_service_are_not_heard() -> None:
    assert words.heard(admin.Inquiry(admin.ASKED, "7 topics of news")) == c.Asked(7, "topics", "of news")
    assert words.heard(admin.Inquiry(admin.ASKED, "seven topics")) is None
    assert words.heard(admin.Inquiry("weather")) is None


def test_a_deed_that_the_router_is_not_asked_has_no_word() -> None:
    assert words.request_of(c.Wake(1.0)) is None
    assert words.request_of(c.Dial(ONE)) == ("dial", {"key": ONE.hex()})


def test_a_lost_connection_ends_all_links_that_the_rules_know_of_once() -> None:
    linked = words.LinkedRouters()
    for heard in (c.Linked(ONE, TWO), c.Linked(TWO, ONE), c.Linked(ONE)):
        linked.note(heard)
    assert linked.lost() == [c.Linked(TWO)] and linked.lost() == []
