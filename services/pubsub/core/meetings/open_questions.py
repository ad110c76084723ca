"""The questions that this node has asked others: whether an answer comes in time, comes late, or was not asked for.

A late answer is of no use any more, but no misdeed: under load an honest router answers late.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from router.core.wire.crypto import PublicKey

OF_ONE_MAX = 64
"""Most questions to one router that are remembered; of more, the oldest is forgotten."""


class AnswerTime(Enum):
    """When an answer comes."""

    IN_TIME = "in time"
    LATE = "late"
    NOT_ASKED = "not asked for"


class OpenQuestions:
    """Questions to at most `routers_max` routers; an answer is in time for `answer_s`, and late for `late_s` more."""

    def __init__(self, answer_s: float, late_s: float, routers_max: int) -> None:
        self._answer_s = answer_s
        self._late_s = late_s
        self._routers_max = routers_max
        self._asked: dict[PublicKey, deque[float]] = {}

    def __repr__(self) -> str:
        return f"<questions to {len(self._asked)} routers>"

    def add(self, router: PublicKey, now_s: float) -> None:
        """Record that a router is asked."""
        asked = self._asked.pop(router, None) or deque(maxlen=OF_ONE_MAX)
        self._asked[router] = asked
        asked.append(now_s)
        if len(self._asked) > self._routers_max:
            del self._asked[next(iter(self._asked))]

    def end(self, router: PublicKey, now_s: float) -> AnswerTime:
        """Record that a router has answered, which ends one question."""
        asked = self._asked.get(router, deque())
        while asked and asked[0] + self._answer_s + self._late_s <= now_s:
            asked.popleft()
        if not asked:
            self._asked.pop(router, None)
            return AnswerTime.NOT_ASKED
        if asked[-1] + self._answer_s > now_s:
            asked.pop()
            return AnswerTime.IN_TIME
        asked.popleft()
        return AnswerTime.LATE
