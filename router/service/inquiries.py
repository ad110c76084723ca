"""The questions of a service's rules to its own router, in their order: answers come in the order of asking."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable

import trio

from router.client.errors import ClientError
from router.client.node import Node
from router.service.contract import Heard, Inquire, Told
from router.service.verbs.inquire import INQUIRIES_MAX

BUSY = f"{INQUIRIES_MAX} questions of this service wait for the router already; ask again later"


class Inquiries:
    """Asks the router one question after the other; `hear` lets the rules hear the answers."""

    def __init__(self, hear: Callable[[Heard], None]) -> None:
        self._hear = hear
        self._waiting = deque[Inquire]()
        self._came = trio.Event()

    def __repr__(self) -> str:
        return f"<{len(self._waiting)} questions to the router wait>"

    def ask(self, deed: Inquire) -> None:
        """Ask after the questions that wait; if those are too many, answer that they are."""
        if len(self._waiting) >= INQUIRIES_MAX:
            self._hear(Told(deed.tag, deed.word, error=BUSY))
        else:
            self._waiting.append(deed)
            self._came.set()

    async def run(self, node: Node) -> None:
        """Ask what waits, until cancelled."""
        while True:
            await self._came.wait()
            self._came = trio.Event()
            while self._waiting:
                deed = self._waiting[0]
                self._hear(await _answer(node, deed))
                self._waiting.popleft()


async def _answer(node: Node, deed: Inquire) -> Told:
    try:
        answer = json.loads(await node.ask(deed.word, deed.argument))
    except ClientError as error:
        return Told(deed.tag, deed.word, error=str(error))
    if isinstance(answer, dict) and "error" in answer:
        return Told(deed.tag, deed.word, error=str(answer["error"]))
    return Told(deed.tag, deed.word, answer)
