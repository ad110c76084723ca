"""The questions of a service's rules to its own router, side by side, so that a slow answer holds up no other."""

from __future__ import annotations

import json

from router.client.asking import OF_SERVICE
from router.client.errors import ClientError
from router.client.node import ANSWER_S, Node
from router.core.neighbours.directory import WHY
from router.service.contract import Inquire, Told
from router.service.verbs.inquire import INQUIRIES_MAX

BUSY = f"{INQUIRIES_MAX} questions of this service wait for the router already; ask again later"
STATUS = "status"
SERVICE_S = 3.0
"""How long the answer of another service is waited for."""
STOPS = "the node stops: it takes what is settled, and nothing new"


class OwnInquiries:
    """Asks the router, while not too many questions wait. Those about fates go one after the other, as their answers
    bear no number."""

    def __init__(self) -> None:
        self._open = 0

    def __repr__(self) -> str:
        return f"<{self._open} questions to the router wait>"

    async def ask(self, node: Node, deed: Inquire) -> Told:
        """Return the answer of the router, or why there is none."""
        if node.is_stopping:
            return Told(deed.tag, deed.word, error=STOPS, is_stopping=True)
        if self._open >= INQUIRIES_MAX:
            return Told(deed.tag, deed.word, error=BUSY)
        self._open += 1
        try:
            answer = json.loads(await _answer_of(node, deed))
        except ClientError as error:
            is_stopping = node.is_stopping
            return Told(deed.tag, deed.word, error=STOPS if is_stopping else str(error), is_stopping=is_stopping)
        finally:
            self._open -= 1
        if isinstance(answer, dict) and "error" in answer:
            return Told(deed.tag, deed.word, error=str(answer["error"]))
        return Told(deed.tag, deed.word, answer)


async def _answer_of(node: Node, deed: Inquire) -> bytes:
    if deed.word == WHY:
        return await node.ask(deed.word, deed.argument)
    argument, patience_s = deed.argument, ANSWER_S
    if deed.word == OF_SERVICE:  # its status alone: other questions change something
        argument, patience_s = f"{argument.partition(' ')[0]} {STATUS}", SERVICE_S
    ended = await node.begin_asking(deed.word, argument, timeout_s=patience_s)
    return await ended()
