"""The requests of a resident's rules to its router, one at a time, and the messages that follow them, as in the
product's host."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from router.client.custody.outbox import Submission
from router.core.wire.admin import Inquiry
from router.core.wire.crypto import PublicKey
from router.service import contract as c
from router.service.passing import PartsToSay, PullsToSay
from router.service.roles import overlay as o
from router.service.verbs.pull_from import PullsFrom
from router.service.verbs.verb import Request

Answered = Callable[[Mapping[str, Any]], None]

ANSWER_S = 10.0
LOST = {"error": "the connection was lost"}
SILENT = {"error": "the node did not answer in time"}


class Requests:
    """One question is open at a time, and answers come in the order of the questions. `say` sends a word, `hear` passes
    the answer to the rules, `hand_in` sends a message; `after(seconds, call)` is the resident's clock."""

    def __init__(
        self,
        say: Callable[[Inquiry], None],
        hear: Callable[[c.Heard], None],
        hand_in: Callable[[Submission], None],
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._say = say
        self._hear = hear
        self._hand_in = hand_in
        self._after = after
        self._pulls, self._parts = PullsToSay(), PartsToSay()
        self._waiting: deque[c.Deed | Submission] = deque()
        self._together: deque[Request] = deque()
        self._open: Answered | None = None
        self._asked = self._late = 0

    def __repr__(self) -> str:
        return f"<{len(self._waiting)} requests, {'one' if self._open else 'none'} of them open>"

    def put(self, one: c.Deed | Submission) -> None:
        match one:
            case o.PullFrom():
                is_first = self._pulls.add(one)
            case o.AckWanted() | o.TakePart():
                is_first = self._parts.add(one)
            case _:
                is_first = True
        if is_first:
            self._waiting.append(one)

    def go_on(self) -> None:
        """Make the next requests; called when the router is connected."""
        while self._open is None and (self._together or self._waiting):
            if self._together:
                self._request(self._together.popleft())
                continue
            one = self._waiting.popleft()
            match one:
                case Submission():
                    self._hand_in(one)
                case o.PullFrom():
                    self._together += map(PullsFrom.of, self._pulls.take())
                case o.AckWanted() | o.TakePart():
                    self._together += self._parts.take()
                case o.Advertise():
                    self._ask(one.request(_key), lambda said, one=one: self._hear(one.answered(said)))  # type: ignore[misc]
                case Request():
                    self._request(one)
                case c.Inquire("peers"):
                    self._hear(c.Told(one.tag, one.word, []))  # nodes of the world have uplinks and seeds alone
                case _:
                    raise AssertionError(f"this world knows no such deed: {one}")

    def _request(self, request: Request) -> None:
        def told(said: Mapping[str, Any]) -> None:
            given_up = request.given_up(str(said["error"])) if "error" in said else ()
            for heard in request.answered(said) or given_up:
                self._hear(heard)

        self._ask(request, told)

    def _ask(self, request: Request, told: Answered) -> None:
        self._open = told
        self._asked += 1
        self._after(ANSWER_S, lambda number=self._asked: self._give_up(number))  # type: ignore[misc]
        self._say(request.inquiry())

    def answered(self, text: bytes) -> None:
        if self._late:
            self._late -= 1
        else:
            self._end(json.loads(text))

    def _end(self, said: Mapping[str, Any]) -> None:
        told, self._open = self._open, None
        if told is not None:
            told(said)
            self.go_on()

    def _give_up(self, number: int) -> None:
        if number == self._asked and self._open is not None:
            self._late += 1
            self._end(SILENT)

    def lost(self) -> None:
        """End the open question, because the connection is lost; the others wait for the next one."""
        self._late = 0
        told, self._open = self._open, None
        if told is not None:
            told(LOST)


def _key(group: PublicKey | str) -> PublicKey:
    assert isinstance(group, PublicKey), "rules in this world name groups by their keys"
    return group
