"""The reports of services in processes of their own: what is wrong with them, and why they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from router.core.wire.admin import REPORT
from router.node.questions.question import CycleView, Questions, Respond


class ReportQuestions(Questions):
    """Passes a service's name, the kind of its report and the text to `on_report`, which returns whether it knows that
    service."""

    def __init__(self, on_report: Callable[[str, str, str], bool]) -> None:
        self._on_report = on_report

    def answers(self) -> dict[str, Respond]:
        return {REPORT: self._report}

    def _report(self, _: CycleView, argument: str) -> dict[str, Any]:
        name, kind, text = (*argument.split(" ", 2), "", "")[:3]
        return {"reported": self._on_report(name, kind, text)}
