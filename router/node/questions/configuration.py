"""The order to read the configuration again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from router.node.questions.question import CycleView, Questions, Respond


class ConfigurationQuestions(Questions):
    """Has the neighbours read again by `reload`, which returns what is wrong with them, "" if nothing is."""

    def __init__(self, reload: Callable[[], str]) -> None:
        self._reload = reload

    def answers(self) -> dict[str, Respond]:
        return {"reload": self._reloaded}

    def _reloaded(self, _asked: CycleView, _: str) -> dict[str, Any]:
        problem = self._reload()
        return {"error": problem} if problem else {"reloaded": True}
