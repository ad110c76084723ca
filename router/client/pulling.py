"""Ask the own node for missing messages, and have it ask other routers for those that it lacks (R-C30)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from itertools import zip_longest

from router.client.asking import Asking
from router.client.bell import Bell
from router.client.custody.asks import MissingMessage
from router.client.errors import ClientError
from router.client.interrupts import uninterrupted
from router.client.publishing import Publishing
from router.client.wires import Wires
from router.core.wire.control import Pull
from router.core.wire.crypto import MessageId, PublicKey
from router.service.verbs.pull_from import PullsFrom

log = logging.getLogger(__name__)

OWED = "owed"
IDS_MAX = 12  # in one question: an app's has 1,024 bytes
NAMED_MAX = 1024
"""Most messages that wait to be named to the node; further ones are asked for again later."""
ANSWER_S = 10.0

Judged = Callable[[MessageId, bool | None], None]
"""Called with a message of `judge`, and whether it is in this app's queue; None: the node did not answer."""


@uninterrupted
class Pulling:
    """Asks for missing messages. Those that the node has are carried to this app; those that it gets from another
    router come through the queue, to all subscribers."""

    def __init__(self, wires: Wires, asking: Asking, publishing: Publishing) -> None:
        self._wires = wires
        self._asking = asking
        self._publishing = publishing
        self._named: dict[tuple[PublicKey, PublicKey], list[MessageId]] = {}
        self._work = Bell()

    def __repr__(self) -> str:
        return f"<{sum(map(len, self._named.values()))} messages are to be named to the node>"

    def pull(self, wanted: MissingMessage) -> None:
        """Ask for a message; without a connection do nothing, because it will be asked for again."""
        if not self._publishing.link.is_up:
            return
        group, id, via = wanted
        self._wires.say(Pull(group, id))
        if via is not None:
            self._add(via, group, id)

    def judge(self, group: PublicKey, id: MessageId) -> None:
        """Ask whether a message that the node has is in the queue of this app; without a connection do nothing."""
        if (own := self._publishing.link.router) is not None and self._publishing.link.is_up:
            self._add(own, group, id)

    def _add(self, router: PublicKey, group: PublicKey, id: MessageId) -> None:
        if sum(map(len, self._named.values())) < NAMED_MAX:
            self._named.setdefault((router, group), []).append(id)
            self._work.ring()

    async def run(self, judged: Judged) -> None:
        """Name the missing messages to the node, until cancelled; `judged` gets its answers to `judge`."""
        while True:
            await self._work.wait()
            while self._named:
                (via, group), ids = next(iter(self._named.items()))
                del self._named[via, group]
                for at in range(0, len(ids), IDS_MAX):
                    await self._name(via, group, ids[at : at + IDS_MAX], judged)

    async def _name(self, via: PublicKey, group: PublicKey, ids: list[MessageId], judged: Judged) -> None:
        asked = PullsFrom(via, group, tuple(ids)).inquiry()
        states: list[str | None] = []
        try:
            states = json.loads(await self._asking.ask(asked, ANSWER_S)).get("states", [])
        except ClientError as error:
            log.debug("%d missing messages were not named to the node: %s", len(ids), error)
        else:
            log.debug("%d missing messages were named to the node: %s", len(ids), states)
        if via == self._publishing.link.router:
            for id, state in zip_longest(ids, states[: len(ids)]):
                judged(id, None if state is None else state == OWED)
