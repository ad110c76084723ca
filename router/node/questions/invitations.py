"""The invitations that this node was given, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from router.core.router import Router
from router.node.questions.question import CycleView, Questions, Respond

InvitedRows = Callable[[Router], list[dict[str, Any]]]
"""Returns one row for each invitation that this node was given."""


class InvitationQuestions(Questions):
    """Lists the invitations. `hurry` has these neighbours dialled soon."""

    def __init__(self, rows: InvitedRows, hurry: Callable[[Iterable[bytes]], None]) -> None:
        self._rows = rows
        self._hurry = hurry

    def answers(self) -> dict[str, Respond]:
        return {"invited": self._list}

    def _list(self, asked: CycleView, _: str) -> list[dict[str, Any]]:
        """Return the invitations. A command that waits for an answer repeats this question, so the inviters are dialled
        soon."""
        rows = self._rows(asked.router)
        self._hurry(bytes.fromhex(one["inviter"]) for one in rows if one["outcome"] == "waiting")
        return rows
