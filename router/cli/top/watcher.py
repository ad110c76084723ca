"""Ask the running node once a second what `router top` shows, over one connection."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import trio
from msgspec.structs import replace

from router.cli.top.screen import Moment
from router.client.errors import ClientError
from router.client.node import Node, connect
from router.core.wire.admin import rows_in
from router.overview.facts import NodeFacts, with_answer
from router.overview.forecasts import Forecasts
from router.overview.hour import Hour
from router.overview.notices import LATELY_S, Situation
from router.overview.rates import RateCounter
from router.settings.home import Home
from router.settings.names import Names

ROWS_OFTEN_MAX = 256
"""Rows of an answer up to which its question is asked each time; a longer one is asked for each tenth time only, since
the node makes it between two batches of messages."""
RARELY, CALM = 10, 5
AGAIN_S = 1.0
"""Seconds after which a node that does not answer is asked again."""
_KEY_FIELDS = {"peers": "address", "queue": "recipient"}


class Watcher:
    """What the node has told so far."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._facts = NodeFacts()
        self._forecasts, self._hour, self._rates = Forecasts(), Hour(), RateCounter()
        self._rests = Counter[str]()

    def __repr__(self) -> str:
        return f"<watcher: {self._rates!r}>"

    async def look(self, node: Node) -> Moment:
        """Ask what is due, and return what is known now. Raise `ClientError`."""
        for word in ("metrics", "queue", "peers", "status"):
            self._rests[word] -= 1
            if self._rests[word] < 0:
                await self._ask(node, word)
        self._facts = replace(self._facts, problem="")
        return self.moment()

    async def _ask(self, node: Node, word: str) -> None:
        answer = rows_in(json.loads(await node.ask(word)))
        if isinstance(answer, dict) and "error" in answer:
            raise ClientError(str(answer["error"]))
        if field := _KEY_FIELDS.get(word):
            answer = [self._named(row, field) for row in answer if row[field] != node.key.hex()]
            self._rests[word] = RARELY - 1 if len(answer) > ROWS_OFTEN_MAX else 0
        elif word == "status":
            self._rests[word] = CALM - 1
        try:
            self._facts = with_answer(self._facts, word, answer)
        except msgspec.ValidationError as error:
            raise ClientError(f"the node's answer to {word} is of another version ({error})") from None
        if word == "metrics":
            self._hour.add(self._facts.metrics, trio.current_time())
            self._rates.add(self._facts.metrics, trio.current_time())
        elif word == "queue":
            self._forecasts.add(self._facts.queues, trio.current_time())

    def _named(self, row: dict[str, Any], field: str) -> dict[str, Any]:
        return {**row, "name": row["name"] or self._names.of_address(row[field])}

    def fail(self, problem: str) -> Moment:
        """Return what was known last, with why the node does not answer; it is asked for all when it does."""
        self._facts = replace(self._facts, problem=problem)
        self._rests.clear()
        return self.moment()

    def moment(self) -> Moment:
        now_s = trio.current_time()
        situation = Situation(
            self._facts,
            {one.recipient: self._forecasts.of(one) for one in self._facts.queues},
            self._hour.ended(now_s, LATELY_S),
            self._hour.accepted(now_s, LATELY_S),
        )
        return Moment(situation, self._rates.rates(), time.time())


async def watch(
    home: Home,
    every_s: float,
    show: Callable[[Moment], None],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Show what there is to show every so many seconds, without an end; started once it was shown.

    Raise `ClientError` if the node does not answer at the first time; later, the moment says why it does not."""
    watcher, was_there = Watcher(Names.of(home)), False
    while True:
        try:
            async with connect(home=home) as node:
                while True:
                    began_s = trio.current_time()
                    show(await watcher.look(node))
                    if not was_there:
                        was_there = True
                        task_status.started()
                    await trio.sleep_until(began_s + every_s)
        except ClientError as error:
            if not was_there:
                raise
            show(watcher.fail(error.text))
        await trio.sleep(AGAIN_S)


async def one_moment(home: Home, every_s: float) -> Moment:
    """Return the second of two moments, which has rates. Raise `ClientError`."""
    watcher = Watcher(Names.of(home))
    async with connect(home=home) as node:
        await watcher.look(node)
        await trio.sleep(every_s)
        return await watcher.look(node)
