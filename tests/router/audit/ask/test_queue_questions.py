"""The question which queues were full: what they refused comes first, and a share of the limit is full, no length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from samples.audit_logs import APP, LATE, OTHER_APP, SECOND, START, B, Log, name

from router.audit.ask.answer import answer
from router.audit.ask.catalogue import all_questions
from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from spark_analytics.judgement.spoilt_hours import HOUR_NS

LIMIT = 10
THIRD = name(B)
Rows = list[tuple[Any, ...]]


def asked(directory: Path, log: Log, **parameters: str) -> Rows:
    """Return recipient, refused, longest, limit and share of each row of the answer about the log."""
    log.state("stop", LATE)
    audit(list_logs([log.write(directory / "logs")]), AuditSpan(START + LATE * SECOND), out=directory / "out")
    question = all_questions()["full queues"]
    found = answer(directory / "out", question.filled(parameters), question.tables).dicts()
    assert {row["hour"] for row in found} <= {START // HOUR_NS}
    names = ("recipient", "refused", "longest", "allowed", "share_percent")
    return [tuple(row[one] for one in names) for row in found]


@pytest.fixture
def log() -> Log:
    """Return a log with three queues: one that refused, one that was full within a minute, one that never was."""
    made = Log()
    made.state("config", 0, queue_messages_max=LIMIT)
    made.accepted(1, range(12), [APP])
    made.outward("refused", [(11, 2)], at=0, reason="queue-full-recipient", depth=LIMIT)
    made.outward("delivered", [(1, 10)], at=2, depth=LIMIT)
    made.accepted(13, range(12, 22), [OTHER_APP], at=3)
    made.outward("delivered", [(13, 10)], at=4, recipient=OTHER_APP, parcel=13, depth=9)
    made.accepted(23, range(22, 25), [THIRD], at=5)
    made.outward("delivered", [(23, 3)], at=6, recipient=THIRD, parcel=23, depth=3)
    return made


def test_queues_that_refused_come_first_and_short_ones_are_not_there(log: Log, tmp_path: Path) -> None:
    assert asked(tmp_path / "usual", log) == [(APP, 2, 10, LIMIT, 100.0), (OTHER_APP, 0, 9, LIMIT, 90.0)]


def test_the_share_is_a_parameter(log: Log, tmp_path: Path) -> None:
    assert asked(tmp_path, log, percent="30")[2:] == [(THIRD, 0, 3, LIMIT, 30.0)]


def test_three_of_a_million_are_no_full_queue(tmp_path: Path) -> None:
    log = Log()
    log.state("config", 0, queue_messages_max=1_000_000)
    log.accepted(1, range(3))
    assert asked(tmp_path, log) == []


def test_what_was_refused_at_the_door_has_no_recipient(log: Log, tmp_path: Path) -> None:
    log._add("refused", 7, count=25, peer=OTHER_APP, link=2, reason="queue-full-recipient", bytes=55)
    log._add("refused", 7, count=99, peer=OTHER_APP, link=2, reason="rate-limited", bytes=55)
    assert asked(tmp_path, log)[:2] == [(None, 25, None, None, None), (APP, 2, 10, LIMIT, 100.0)]


@pytest.mark.parametrize("limit", [0, "many"])
def test_without_a_limit_only_what_was_refused_tells_that_a_queue_was_full(tmp_path: Path, limit: int | str) -> None:
    log = Log()
    log.state("config", 0, queue_messages_max=limit)
    log.accepted(1, range(4), [APP, THIRD])
    log.outward("refused", [(1, 3)], at=0, reason="queue-full-group")
    log.outward("refused", [(1, 4)], at=9, reason="left", recipient=THIRD)
    assert (APP, 3) in [row[:2] for row in asked(tmp_path, log)]
