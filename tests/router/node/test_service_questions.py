"""Operators' questions to a service that cannot be told them: the answer says which of both causes it is."""

from __future__ import annotations

import json

import pytest
from rigs.one_router import OneRouter
from samples.core import ALICE

from router.core.control import speaker
from router.core.wire.admin import decode_inquiry
from router.core.wire.crypto import SigningKey
from router.core.wire.message import open_message
from router.node.service_questions import ServiceQuestions

PUBSUB = SigningKey(bytes((61,)) * 32)


def test_question_is_answered_by_why_the_service_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaker, "UNSAID_MAX", 0)
    one = OneRouter(services={bytes(PUBSUB.public): "pubsub"}, locals=[ALICE.public])
    alice, questions = one.link(ALICE.public), ServiceQuestions()

    def said() -> str:
        questions.ask(one.router, alice, "pubsub how are you", one.now())
        one.cycle()
        answers = [decode_inquiry(open_message(wire).body) for wire in one.told(alice)]
        return "".join(json.loads(each.text)["error"] for each in answers)  # type: ignore[union-attr]

    assert said() == "the service pubsub is not running; `router status` says why"
    one.link(PUBSUB.public, messages=1)
    asked = 0
    while not (found := said()):
        asked += 1
    assert asked == 1 + 64, "its window and the slack"
    assert found == "the service pubsub takes no more questions for now; `router status` says why"
