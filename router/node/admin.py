"""Have an operator's inquiries answered by the questions of the node, as JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from router.core.control.verb_tables import no_part_for
from router.core.wire.admin import Inquiry, numbered
from router.core.wire.errors import RouterError
from router.core.wire.list_page import ANSWER_BYTES_MAX, json_of
from router.core.wire.now import Now
from router.node.questions.question import CycleView, Questions, Respond
from router.node.service_questions import SERVICE, ServiceQuestions


class Inquiries:
    """Answers each inquiry by the question that declares its word, or has a service answer it. Raises `RouterError` if
    two declare the same, or the router itself hears one of `taken`."""

    def __init__(self, questions: Iterable[Questions], taken: Collection[str] = ()) -> None:
        self._words: dict[str, Respond] = {}
        self.of_services = ServiceQuestions()
        for one in questions:
            answers = one.answers()
            if twice := answers.keys() & {*self._words, *taken}:
                said = f"{type(one).__name__} answers {', '.join(sorted(twice))}, and so does another class or verb"
                raise RouterError(f"{said}; give one of them another word")
            self._words |= answers

    def __repr__(self) -> str:
        return f"<inquiries: {', '.join(sorted(self._words)) or 'none'}>"

    def ask(self, asked: CycleView, link: int, inquiry: Inquiry, now: Now, mark: int | None = None) -> None:
        """Answer an operator, or a service that asks as one: under the number `mark` of its question, if it has one."""
        router = asked.router
        if inquiry.ask == SERVICE:
            self.of_services.ask(router, link, inquiry.argument, now, mark)
        else:
            router.answer(link, numbered(mark, self.answer(asked, inquiry)), now)

    def answer(self, asked: CycleView, inquiry: Inquiry) -> bytes:
        """Return the answer as JSON; `{"error": sentence}` to an unknown inquiry or one that fails."""
        respond = self._words.get(inquiry.ask)
        if respond is None:
            said = no_part_for(inquiry.ask)  # a request that no part hears comes as far as here
            answer: Any = {"error": said or f"this node does not know the inquiry {inquiry.ask!r}"}
        else:
            answer = respond(asked, inquiry.argument)
        text = json_of(answer).encode()
        if len(text) > ANSWER_BYTES_MAX:
            text = json.dumps({"error": f"the answer has {len(text)} bytes, more than fits a message"}).encode()
        return text
