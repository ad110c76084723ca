"""The judgement of this machine's clock, and the operator's word that the clock is right."""

from __future__ import annotations

from typing import Any

from router.core.wire.lifetime import SECOND_NS
from router.node.orders import ClockConfirmed
from router.node.questions.question import CycleView, Questions, Respond
from router.node.wall_clock import ClockState

CONFIRM = "confirm"


class ClockQuestions(Questions):
    """Tells whether the clock is trusted; with `confirm`, records that the operator trusts it."""

    def answers(self) -> dict[str, Respond]:
        return {"clock": self._clock}

    @staticmethod
    def _clock(asked: CycleView, argument: str) -> dict[str, Any]:
        if argument not in ("", CONFIRM):
            return {"error": f"the clock takes no request but {CONFIRM!r}, not {argument[:40]!r}"}
        if argument == CONFIRM:
            asked.hear(ClockConfirmed())
            return _facts(ClockState.CONFIRMED, asked.now().shown_ns, 0.0, "")
        return judgement(asked)


def judgement(asked: CycleView) -> dict[str, Any]:
    """Return whether this machine's clock is trusted, what it shows, and what is wrong with it."""
    now = asked.now()
    return _facts(asked.wall.state, now.shown_ns, now.ahead_ns / SECOND_NS, asked.wall.problem(now))


def _facts(state: ClockState, shown_ns: int, ahead_s: float, problem: str) -> dict[str, Any]:
    return {"state": state.value, "shown_ns": shown_ns, "ahead_s": ahead_s, "problem": problem}
