"""The questions of a service's rules to its own router, in their order: answers come in the order of asking."""

from __future__ import annotations

import json

from router.client.errors import ClientError
from router.client.node import Node
from router.service.contract import Inquire, Told
from router.service.verbs.inquire import INQUIRIES_MAX

BUSY = f"{INQUIRIES_MAX} questions of this service wait for the router already; ask again later"


class OwnInquiries:
    """Asks the router one question after the other, while not too many wait."""

    def __init__(self) -> None:
        self._open = 0

    def __repr__(self) -> str:
        return f"<{self._open} questions to the router wait>"

    async def ask(self, node: Node, deed: Inquire) -> Told:
        """Return the answer of the router, or why there is none."""
        if self._open >= INQUIRIES_MAX:
            return Told(deed.tag, deed.word, error=BUSY)
        self._open += 1
        try:
            answer = json.loads(await node.ask(deed.word, deed.argument))
        except ClientError as error:
            return Told(deed.tag, deed.word, error=str(error))
        finally:
            self._open -= 1
        if isinstance(answer, dict) and "error" in answer:
            return Told(deed.tag, deed.word, error=str(answer["error"]))
        return Told(deed.tag, deed.word, answer)
