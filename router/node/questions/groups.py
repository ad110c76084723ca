"""The groups that are joined at this node, and who has joined them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from router.node.questions.question import ROWS_MAX, CycleView, Questions, Respond

NAMES_S = 10.0
"""Seconds for which the names of groups are not read again."""


class GroupQuestions(Questions):
    """Lists the subscriptions. `read_names` returns the names of groups by their keys, from the disk."""

    def __init__(self, read_names: Callable[[], Mapping[bytes, str]] = dict) -> None:
        self._read_names = read_names
        self._names: Mapping[bytes, str] = {}
        self._read_s = -inf

    def answers(self) -> dict[str, Respond]:
        return {"groups": self._list}

    def _list(self, asked: CycleView, _: str) -> list[dict[str, Any]]:
        now_s = asked.now().mono_s
        if now_s - self._read_s >= NAMES_S:
            self._names, self._read_s = self._read_names(), now_s
        return [
            {
                "group": one.group.hex(),
                "name": self._names.get(bytes(one.group), ""),
                "subscriber": one.subscriber.hex(),
                "local": one.local,
            }
            for one in list(asked.router.groups)[:ROWS_MAX]
        ]
