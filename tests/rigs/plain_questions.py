"""The questions of a node that has no facts of its own, no services, no invitations, and no sealed events."""

from __future__ import annotations

from typing import Any

from router.node.questions.configuration import ConfigurationQuestions
from router.node.questions.invitations import InvitationQuestions
from router.node.questions.log import LogQuestions
from router.node.questions.metrics import MetricsQuestions
from router.node.questions.peers import PeerQuestions
from router.node.questions.question import Questions
from router.node.questions.reports import ReportQuestions
from router.node.questions.status import StatusQuestions


class WrittenLog:
    """A log for which no event waits."""

    def is_behind(self) -> bool:
        return False

    def behind_events(self) -> int:
        return 0


def plain_questions() -> tuple[Questions, ...]:
    """Return the questions that `load_questions` does not make itself."""

    def nothing(_: object) -> list[dict[str, Any]]:
        return []

    return (
        StatusQuestions(dict, nothing, nothing, lambda: None),
        PeerQuestions({}, nothing),
        InvitationQuestions(nothing, lambda keys: None),
        LogQuestions(int),
        MetricsQuestions(WrittenLog(), nothing, int, lambda: None, lambda: None),
        ConfigurationQuestions(str),
        ReportQuestions(lambda name, kind, text: False),
    )
