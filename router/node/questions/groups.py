"""The groups that are joined at this node, and who has joined them."""

from __future__ import annotations

from typing import Any

from router.node.questions.kept_names import KeptNames
from router.node.questions.question import ROWS_MAX, CycleView, Questions, Respond


class GroupQuestions(Questions):
    """Lists the subscriptions. `names`, `keys`: what groups and kept keys are called here."""

    def __init__(self, names: KeptNames, keys: KeptNames) -> None:
        self._names = names
        self._keys = keys

    def answers(self) -> dict[str, Respond]:
        return {"groups": self._list}

    def _list(self, asked: CycleView, _: str) -> list[dict[str, Any]]:
        names, keys = self._names.at(asked.now()), self._keys.at(asked.now())
        return [
            {
                "group": one.group.hex(),
                "name": names.get(bytes(one.group), ""),
                "subscriber": one.subscriber.hex(),
                "subscriber_name": keys.get(bytes(one.subscriber), ""),
                "local": one.local,
            }
            for one in list(asked.router.groups)[:ROWS_MAX]
        ]
