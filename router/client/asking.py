"""An operator's questions to the node and its answers, one at a time: answers come in the order of asking."""

from __future__ import annotations

import trio

from router.client.composer import Composer
from router.client.custody.outbox import Submission
from router.client.errors import ClientError, NodeUnavailable, NotAnswered, Refused
from router.client.publishing import Publishing
from router.core.wire.admin import Answer, Inquiry, encode_inquiry
from router.core.wire.reasons import Reason


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


class Asking:
    """Keep at most one question open; others wait. A lost connection ends it, and no question is asked twice."""

    def __init__(self, composer: Composer, publishing: Publishing) -> None:
        self._composer = composer
        self._publishing = publishing
        self._turn = trio.Lock()
        self._open: PendingQuestion | None = None
        self._late = 0  # answers to questions that were given up

    def __repr__(self) -> str:
        return f"<asking the node: {'one question is open' if self._open else 'nothing is open'}>"

    async def ask(self, inquiry: Inquiry, timeout_s: float) -> bytes:
        """Return the node's answer as JSON. Raise `NotAnswered`, `Refused` or `NodeUnavailable`."""
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
        if question.error is not None:
            raise question.error
        if question.answer is None:
            raise NotAnswered(f'the node did not answer "{inquiry.ask}" within {timeout_s:g} s; is it overloaded?')
        return question.answer.text

    def hear(self, answer: Answer) -> None:
        if self._late:
            self._late -= 1
        elif self._open is not None:
            self._open.answered(answer)

    def lost(self) -> None:
        """Fail the open question, because the connection is lost."""
        self._late = 0
        if self._open is not None:
            self._open.fail(NodeUnavailable("the connection was lost before the node answered; ask again"))
