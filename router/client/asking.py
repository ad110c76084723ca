"""Questions to the node and its answers: side by side, each with its number and its time; one after the other at a
router that repeats no numbers, since its answers come in the order of asking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count

import trio

from router.client.composer import Composer
from router.client.custody.outbox import Submission
from router.client.errors import ClientError, NodeUnavailable, NotAnswered, Refused
from router.client.interrupts import uninterrupted
from router.client.publishing import Publishing
from router.core.wire.admin import Answer, Inquiry, encode_inquiry, with_number, without_number
from router.core.wire.reasons import Reason

BESIDE_MAX = 16
"""Most questions that are open side by side; the next ones wait."""

WHY = "why"
OF_SERVICE = "service"
"""The word of a question that a service answers; its name begins the argument."""


class PendingQuestion:
    """One question under way, and the sink of its submission."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.error: ClientError | None = None
        self.over = trio.Event()

    def refused(self, reason: Reason, text: str) -> None:
        self.fail(Refused(reason, text))

    def ended(self) -> None:
        """Do nothing: the node has the question, its answer follows."""

    def failed(self, error: ClientError) -> None:
        self.fail(error)

    def answered(self, answer: Answer) -> None:
        self.answer = answer
        self.over.set()

    def fail(self, error: ClientError) -> None:
        self.error = error
        self.over.set()


@uninterrupted
class Asking:
    """Keep at most `BESIDE_MAX` questions open; others wait. A lost connection ends them, and none is asked twice."""

    def __init__(self, composer: Composer, publishing: Publishing) -> None:
        self._composer = composer
        self._publishing = publishing
        self._turn, self._whys = trio.Lock(), trio.Lock()
        self._open: PendingQuestion | None = None
        self._late = 0  # answers to questions that were given up
        self._places = trio.Semaphore(BESIDE_MAX)
        self._numbers = count(1)
        self._beside: dict[int, tuple[PendingQuestion, Submission]] = {}

    def __repr__(self) -> str:
        return f"<asking the node: {len(self._beside) + bool(self._open)} questions are open>"

    async def begin_beside(self, inquiry: Inquiry, timeout_s: float) -> Callable[[], Awaitable[bytes]]:
        """Send a question behind those before it, and return what waits for its answer; if the router does not repeat
        numbers, wait for the answer here. Raise as `ask`."""
        await self._publishing.until_up()
        if self._publishing.link.answers_by_number:
            number = await self.begin(inquiry)
            return lambda: self.ended(number, timeout_s)
        text = await self.ask(inquiry, timeout_s)

        async def answer() -> bytes:
            return text

        return answer

    async def begin(self, inquiry: Inquiry) -> int:
        """Send a question with a number, behind those before it; return the number, for `ended`. Wait while
        `BESIDE_MAX` are open. Raise `NodeUnavailable`."""
        await self._places.acquire()
        try:
            await self._publishing.until_up()
            number, router = next(self._numbers), self._publishing.link.router
            assert router is not None
            numbered = Inquiry(inquiry.ask, with_number(number, inquiry.argument))
            frame = self._composer.control(router, encode_inquiry(numbered))
        except BaseException:
            self._places.release()
            raise
        question = PendingQuestion()
        run = Submission(frame, question, again=False)
        self._beside[number] = question, run
        self._publishing.put(run)
        return number

    async def ended(
        self, number: int, timeout_s: float, inquiry: Inquiry | None = None, until_s: float | None = None
    ) -> bytes:
        """Return the answer to that question as JSON. `until_s`: when its time is over, if it began before. Raise
        `NotAnswered`, `Refused` or `NodeUnavailable`."""
        question, run = self._beside[number]
        try:
            with trio.move_on_at(trio.current_time() + timeout_s if until_s is None else until_s):
                await question.over.wait()
        finally:
            del self._beside[number]
            if not question.over.is_set():
                self._publishing.take_back(run)
            self._places.release()
        return _answer_of(question, timeout_s, inquiry)

    async def ask(self, inquiry: Inquiry, timeout_s: float) -> bytes:
        """Return the node's answer as JSON. Raise `NotAnswered`, `Refused` or `NodeUnavailable`."""
        await self._publishing.until_up()
        if not self._publishing.link.answers_all_by_number:
            return await self._ask_alone(inquiry, timeout_s)
        if inquiry.ask != WHY:
            return await self._ask_beside(inquiry, timeout_s)
        async with self._whys:  # a node searches for one app at a time
            return await self._ask_beside(inquiry, timeout_s)

    async def _ask_beside(self, inquiry: Inquiry, timeout_s: float) -> bytes:
        """Ask beside other questions; its time is over even if it waits for a place until then."""
        until_s = trio.current_time() + timeout_s
        with trio.move_on_at(until_s):
            number = await self.begin(inquiry)
            return await self.ended(number, timeout_s, inquiry, until_s)
        raise _not_answered(timeout_s, inquiry)

    async def _ask_alone(self, inquiry: Inquiry, timeout_s: float) -> bytes:
        async with self._turn:
            await self._publishing.until_up()
            router = self._publishing.link.router
            assert router is not None
            question = self._open = PendingQuestion()
            frame = self._composer.control(router, encode_inquiry(inquiry))
            run = Submission(frame, question, again=False)
            self._publishing.put(run)
            try:
                with trio.move_on_after(timeout_s):
                    await question.over.wait()
            finally:
                self._open = None
                if not question.over.is_set() and not self._publishing.take_back(run):
                    self._late += 1
        return _answer_of(question, timeout_s, inquiry)

    def hear(self, answer: Answer) -> None:
        number, text = without_number(answer.text.decode(errors="replace")) if answer.text[:1] == b"#" else (None, "")
        if number is not None:
            if number in self._beside:
                self._beside[number][0].answered(Answer(text.encode()))
        elif self._late:
            self._late -= 1
        elif self._open is not None:
            self._open.answered(answer)

    def lost(self) -> None:
        """Fail the open question, because the connection is lost."""
        self._late = 0
        for question in (self._open, *(one for one, _ in self._beside.values())):
            if question is not None:
                question.fail(NodeUnavailable("the connection was lost before the node answered; ask again"))


def _answer_of(question: PendingQuestion, timeout_s: float, inquiry: Inquiry | None = None) -> bytes:
    if question.error is not None:
        raise question.error
    if question.answer is None:
        raise _not_answered(timeout_s, inquiry)
    return question.answer.text


def _not_answered(timeout_s: float, inquiry: Inquiry | None) -> NotAnswered:
    ask, argument = ("", "") if inquiry is None else (inquiry.ask, inquiry.argument)
    who, then = "the node", "; is it overloaded?"
    if ask == OF_SERVICE:
        who, then = f"the service {argument.partition(' ')[0]}", "; `router status` says how it is"
    which = f' "{ask}"' if ask and ask != OF_SERVICE else ""
    return NotAnswered(f"{who} did not answer{which} within {timeout_s:g} s{then}")
