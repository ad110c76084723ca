"""What became of a message, in numbers: the router is asked, again and again while a script waits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c

from ..http.door import HttpDoor
from ..http.request import Answer, Later, Reply, Request, as_json, refusal, shown
from .shares import has_share
from .tokens import Token, unknown_token

WAIT_S_MAX = 60
"""Seconds for which a script may wait for a message to reach everybody."""
OPEN_MAX = 128
"""Most questions about messages at once; of these each token has its share (`has_share`)."""
AGAIN_S_MIN, AGAIN_S_MAX = 1.0, 8.0
"""Seconds between two questions about the same message: each pause is twice as long as the one before."""
TAG = "fate/"
OPEN_STATES = ("queued", "in-flight", "pending", "unknown")
"""The states of recipients that may still change."""
REACHED_STATES = ("delivered", "acked", "unconfirmed", "settled")
UNKNOWN = ("no message whose id begins with ", "this node knows no such message ")
"""How the router begins to say that it does not know a message; all else it says when it cannot tell at this time."""
_ID = re.compile(r"[0-9a-f]{64}\Z")


class _Question(Struct):
    door: str
    peer: str
    id: str
    token: Token
    until_s: float
    again_s: float = 0.0
    pause_s: float = AGAIN_S_MIN


class Fates:
    """The questions that are open, by their tags."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._open: dict[str, _Question] = {}

    def __repr__(self) -> str:
        return f"<{counted(len(self._open), 'question')} about messages>"

    def __len__(self) -> int:
        return len(self._open)

    def reply(self, request: Request, token: Token, id: str, doors: Mapping[str, HttpDoor], now: c.Now) -> Reply:
        """Ask the router, and answer later."""
        if not _ID.match(id):
            return refusal(400, "no-id", f'"{shown(id)}" is no id of a message, which has 64 digits from 0 to f')
        try:
            wait_s = wait_s_of(request.parameters().get("wait", "0"))
        except ValueError as error:
            return refusal(400, "wait", str(error))
        ended = [] if self._has_room(token) else list(self._end_those_of_gone(doors, now))
        if not self._has_room(token):
            full = self._full(token)
            return Later((*ended, *doors[request.door].answer(request.peer, full, now))) if ended else full
        tag = f"{TAG}{next(self._numbers)}"
        self._open[tag] = _Question(request.door, request.peer, id, token, now.mono_s + wait_s)
        return Later((*ended, c.Inquire("why", id, tag)))

    def _of(self, token: Token) -> int:
        return sum(one.token.name == token.name for one in self._open.values())

    def _has_room(self, token: Token) -> bool:
        return has_share(self._of(token), len(self._open), OPEN_MAX)

    def _full(self, token: Token) -> Answer:
        own = counted(self._of(token), "question")
        said = f'the token "{token.name}" has {own} about messages open, of {len(self._open)} that all tokens have'
        return refusal(503, "questions-full", f"{said}, and may have no more; ask again later", ("Retry-After", "5"))

    def _end_those_of_gone(self, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """End the questions of clients that have gone, or say no more and may have, in favour of others."""
        for tag, one in [(tag, one) for tag, one in self._open.items() if doors[one.door].may_have_gone(one.peer)]:
            del self._open[tag]
            yield from doors[one.door].answer_later(one.peer, self._full(one.token), now)

    def end(self, tokens: frozenset[str], doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """End all questions but those by these tokens, given by their digests."""
        for tag, one in [(tag, one) for tag, one in self._open.items() if one.token.digest not in tokens]:
            del self._open[tag]
            said = unknown_token(f'the token "{one.token.name}" was ended while its question was open')
            yield from doors[one.door].answer_later(one.peer, said, now)

    def told(self, heard: c.Told, doors: Mapping[str, HttpDoor], now: c.Now) -> Iterator[c.Deed]:
        """Answer, or ask again in a while if somebody waits for more."""
        question = self._open.get(heard.tag)
        if question is None:
            return
        answer, is_open = _answer(question, heard)
        if is_open and now.mono_s < question.until_s and question.peer in doors[question.door]:
            question.again_s = min(now.mono_s + question.pause_s, question.until_s)
            question.pause_s = min(2 * question.pause_s, AGAIN_S_MAX)
            return
        del self._open[heard.tag]
        yield from doors[question.door].answer_later(question.peer, answer, now)

    def tick(self, now: c.Now) -> Iterator[c.Deed]:
        """Ask again what is due."""
        for tag, question in self._open.items():
            if question.again_s and question.again_s <= now.mono_s:
                question.again_s = 0.0
                yield c.Inquire("why", question.id, tag)


def _answer(question: _Question, heard: c.Told) -> tuple[Answer, bool]:
    """Return the answer, and whether it may change soon."""
    if heard.is_stopping:
        return refusal(503, "draining", heard.error), False
    if heard.error.startswith(UNKNOWN):
        return refusal(404, "not-known", f"this node does not tell of that message: {heard.error}"), False
    if heard.error:
        said = f"the router does not tell of messages at this time: {heard.error}"
        return refusal(503, "router-away", said, ("Retry-After", "5")), True
    found: Mapping[str, Any] = heard.answer
    names = {**question.token.publish, **question.token.read}
    name = next((name for name, key in names.items() if key == found.get("group")), "")
    if not name:
        said = f'the token "{question.token.name}" has no right in the group of that message, or there is none'
        return refusal(404, "not-known", said), False
    states, why = Counter[str](found["states"]), Counter[str]()
    for row in found["recipients"]:
        if row["state"] in OPEN_STATES and row.get("reason"):
            why[row["reason"]] += 1
    waiting = sum(states[state] for state in OPEN_STATES)
    carried = found.get("carried", 0)  # by the service that carries groups to other nodes, and reads nothing
    value = {
        "id": question.id,
        "group": name,
        "accepted_at": found["accepted_at"],
        "recipients": sum(states.values()) - carried,
        "reached": sum(states[state] for state in REACHED_STATES) - carried,
        "waiting": waiting,
        "states": dict(states),
        "reasons": dict(why),
    }
    return as_json(value), waiting > 0


def wait_s_of(text: str) -> float:
    """Return the seconds that the parameter `wait` asks for. Raises `ValueError` with a sentence."""
    try:
        wait_s = float(text)
    except ValueError:
        wait_s = -1.0
    if not 0 <= wait_s <= WAIT_S_MAX:  # neither is "nan"
        raise ValueError(f'wait is a number of seconds from 0 to {WAIT_S_MAX:g}, not "{shown(text)}"')
    return wait_s
