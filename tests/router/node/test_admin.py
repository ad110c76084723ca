"""Inquiries are answered by the question that declares their word; no two declare the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from router.core.wire.admin import Inquiry
from router.core.wire.errors import RouterError
from router.node.admin import ANSWER_BYTES_MAX, Inquiries
from router.node.questions.question import CycleView, Questions, Respond

NOTHING: Any = None


class EchoQuestions(Questions):
    """Repeats the argument, `times` times."""

    def __init__(self, word: str, times: int = 1) -> None:
        self._word = word
        self._times = times

    def answers(self) -> dict[str, Respond]:
        return {self._word: self._repeat}

    def _repeat(self, _: CycleView, argument: str) -> str:
        return argument * self._times


def test_inquiries_ask_the_question_with_the_word() -> None:
    inquiries = Inquiries([EchoQuestions("one"), EchoQuestions("two", 2)])
    assert inquiries.answer(NOTHING, Inquiry("one", "a")) == b'"a"'
    assert inquiries.answer(NOTHING, Inquiry("two", "a")) == b'"aa"'
    assert json.loads(inquiries.answer(NOTHING, Inquiry("it's", "a"))) == {
        "error": 'this node does not know the inquiry "it\'s"'
    }
    assert repr(inquiries) == "<inquiries: one, two>" and repr(Inquiries([])) == "<inquiries: none>"


def test_inquiries_reject_two_questions_with_one_word() -> None:
    with pytest.raises(RouterError, match="EchoQuestions answers same, and so does another"):
        Inquiries([EchoQuestions("same"), EchoQuestions("other"), EchoQuestions("same", 2)])


def test_inquiries_answer_an_error_in_place_of_too_long_an_answer() -> None:
    inquiries = Inquiries([EchoQuestions("long", ANSWER_BYTES_MAX - 2)])
    assert len(inquiries.answer(NOTHING, Inquiry("long", "a"))) == ANSWER_BYTES_MAX
    answer = json.loads(inquiries.answer(NOTHING, Inquiry("long", "ab")))
    assert answer == {"error": f"the answer has {2 * ANSWER_BYTES_MAX - 2} bytes, more than fits a message"}


def test_a_question_whose_word_the_router_hears_is_rejected() -> None:
    with pytest.raises(RouterError, match="EchoQuestions answers same, and so does another class or verb; give one"):
        Inquiries((EchoQuestions("same"),), frozenset(("same",)))
