"""The groups that are joined at this node, and who has joined them."""

from __future__ import annotations

from typing import Any

from router.node.questions.question import ROWS_MAX, CycleView, Questions, Respond


class GroupQuestions(Questions):
    """Lists the subscriptions."""

    def answers(self) -> dict[str, Respond]:
        return {"groups": self._list}

    def _list(self, asked: CycleView, _: str) -> list[dict[str, Any]]:
        rows = [(one.group.hex(), one.subscriber.hex(), one.local) for one in asked.router.groups]
        return [{"group": group, "subscriber": key, "local": local} for group, key, local in rows[:ROWS_MAX]]
