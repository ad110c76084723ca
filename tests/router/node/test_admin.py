"""Inquiries are answered by the question that declares their word; no two declare the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from router.core.wire.admin import Inquiry, next_page, rows_in
from router.core.wire.errors import RouterError
from router.core.wire.list_page import ANSWER_BYTES_MAX, ROWS_MAX, page_of
from router.node.admin import Inquiries
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


class ListQuestions(Questions):
    """Lists so many numbers, each with a text of that length."""

    def __init__(self, count: int, length: int) -> None:
        self._rows = [(number, "x" * length) for number in range(count)]

    def answers(self) -> dict[str, Respond]:
        return {"list": self._list}

    def _list(self, _: CycleView, argument: str) -> Any:
        return page_of(self._rows, argument, list)


@pytest.mark.parametrize(
    ("count", "length", "pages"), [(0, 0, 1), (3, 9, 1), (ROWS_MAX, 0, 1), (ROWS_MAX + 1, 0, 2), (9, 400_000, 5)]
)
def test_inquiries_give_a_list_that_is_longer_than_an_answer_page_by_page(count: int, length: int, pages: int) -> None:
    """A list that was cut without a word would hide who has joined a group; one that was refused, all neighbours."""
    inquiries, argument, rows, asked = Inquiries([ListQuestions(count, length)]), "", list[Any](), 0
    while asked == 0 or argument:
        text = inquiries.answer(NOTHING, Inquiry("list", argument))
        assert len(text) <= ANSWER_BYTES_MAX
        answer = json.loads(text)
        rows, asked, argument = rows + rows_in(answer), asked + 1, next_page(answer)
        assert isinstance(answer, list) == (pages == 1)
        assert pages == 1 or answer["left_out"] == count - len(rows)
    assert [number for number, _ in rows] == list(range(count)) and asked == pages


def test_inquiries_refuse_a_page_that_is_no_number_and_end_behind_the_last_one() -> None:
    inquiries = Inquiries([ListQuestions(3, 0)])
    for argument in ("x", "-1", "1.0", "٣", "9" * 19):
        assert "by its number" in json.loads(inquiries.answer(NOTHING, Inquiry("list", argument)))["error"]
    answer = json.loads(inquiries.answer(NOTHING, Inquiry("list", "9" * 18)))
    assert answer == {"page": [], "left_out": 0} and next_page(answer) == ""
    assert json.loads(inquiries.answer(NOTHING, Inquiry("list", "2"))) == {"page": [[2, ""]], "left_out": 0}


def test_a_question_whose_word_the_router_hears_is_rejected() -> None:
    with pytest.raises(RouterError, match="EchoQuestions answers same, and so does another class or verb; give one"):
        Inquiries((EchoQuestions("same"),), frozenset(("same",)))
