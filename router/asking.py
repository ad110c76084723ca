"""An operator's questions to the node and its answers, one after the other: answers come in the order of asking."""

from __future__ import annotations

import trio

from .client_errors import NodeUnavailable, NotAnswered
from .composer import Composer, Lifetime
from .core.inquiry import Answer, Inquiry, encode_inquiry
from .publishing import Publishing

LIFETIME = Lifetime(ttl_s=0, expiry_min=60)


class Asking:
    """At most one question is open; others wait for their turn."""

    def __init__(self, composer: Composer, publishing: Publishing) -> None:
        self._composer = composer
        self._publishing = publishing
        self._turn = trio.Lock()
        self._heard = trio.Event()
        self._answer: Answer | None = None
        self._late = 0  # answers to questions that were given up

    def __repr__(self) -> str:
        return f"<asking the node: {'one question is open' if self._turn.locked() else 'nothing is open'}>"

    async def ask(self, inquiry: Inquiry, timeout_s: float) -> bytes:
        """The node's answer, JSON. Raises `NotAnswered`, `Refused`, `NodeUnavailable`."""
        await self._publishing.until_up()
        async with self._turn:
            self._answer, self._heard = None, trio.Event()
            router = self._publishing.link.router
            assert router is not None
            body = encode_inquiry(inquiry)
            with trio.move_on_after(timeout_s):
                await self._publishing.deliver(lambda: self._composer.unicast(router, body, LIFETIME))
                await self._heard.wait()
            if self._answer is not None:
                return self._answer.text
            self._publishing.check()
            if self._heard.is_set():
                raise NodeUnavailable(f'the connection was lost before the node answered "{inquiry.ask}"; ask again')
            self._late += 1
            raise NotAnswered(f'the node did not answer "{inquiry.ask}" within {timeout_s:g} s; is it overloaded?')

    def hear(self, answer: Answer) -> None:
        if self._late:
            self._late -= 1
        else:
            self._answer = answer
            self._heard.set()

    def lost(self) -> None:
        """The connection is lost, and with it what was not answered."""
        self._late = 0
        self._heard.set()
