"""Messages without an end although their time is over that are not lost: in flight, or at a router that lets nothing
expire."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from samples.audit_logs import APP, LATE, START, A, B, Log, audited, name
from samples.judged_logs import Judged, ids, judged

from router.audit.database import database
from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs

Write = Callable[[Log], None]


def handed_over(log: Log, link: int = 2, count: int = 2) -> None:
    """Write a log of three messages, the first of which are written to a link that has just come up."""
    log.state("start")
    log.state("link_up", peer=APP, link=link)
    log.accepted(1, ids(log, 3))
    log.outward("forwarded", [(1, count)])


def link_gone(event: str) -> Write:
    def write(log: Log) -> None:
        handed_over(log)
        log.state(event, 5, peer=APP, link=2)

    return write


def another_link(log: Log) -> None:
    handed_over(log, link=3)


def another_run(log: Log) -> None:
    """Bring up a link with the number of one of an earlier run."""
    handed_over(log)
    log.state("start", 5)
    log.state("link_up", 6, peer=APP, link=2)


def doubting(*doubts: bool) -> Write:
    def write(log: Log) -> None:
        log.state("start")
        log.accepted(1, ids(log, 3))
        for at, doubted in enumerate(doubts):
            log.state("clock_step", 100 + at, by_s=7200, doubted=doubted)

    return write


def started(log: Log) -> None:
    log.accepted(1, ids(log, 3))
    log.state("start", LATE)


CASES: dict[str, tuple[Write, float, dict[str, int]]] = {
    "written to a link that is up": (handed_over, LATE, {"pending": 2, "unaccounted": 1}),
    "the link is down": (link_gone("link_down"), LATE, {"unaccounted": 3}),
    "the router has started": (link_gone("start"), LATE, {"unaccounted": 3}),
    "another link is up": (another_link, LATE, {"unaccounted": 3}),
    "another link of that number": (another_run, LATE, {"unaccounted": 3}),
    "the clock is doubted": (doubting(True), LATE, {"pending": 3}),
    "the clock is believed again": (doubting(True, False), LATE, {"unaccounted": 3}),
    "a start gives time": (started, LATE + 599, {"pending": 3}),
    "its time is over": (started, LATE + 600, {"unaccounted": 3}),
}
"""What a router wrote, until when, and the states of its three messages."""


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    def until(write: Write, end: float) -> Callable[[Log, Path], object]:
        def whole(log: Log, directory: Path) -> None:
            write(log)
            log.state("join", end)
            log.write(directory)

        return whole

    cases = {case: until(write, end) for case, (write, end, _) in CASES.items()}
    return judged(cases, tmp_path_factory.mktemp("waiting"), 2 * LATE)


@pytest.mark.parametrize("case", CASES)
def test_what_waits_although_its_time_is_over(case: str, waiting: Judged) -> None:
    expected = CASES[case][2]
    assert waiting.states(case) == {"owed": 3, **expected}
    lost = waiting.rows("lost", case)
    assert sum(row["count"] for row in lost) == expected.get("unaccounted", 0)


def test_the_tables_agree_about_what_is_in_flight(tmp_path: Path) -> None:
    log = Log()
    handed_over(log)
    log.state("join", LATE)
    audited_into = tmp_path / "out"
    audit(list_logs([log.write(tmp_path / "log")]), AuditSpan(START + LATE * 10**9), out=audited_into)
    with database(10**9) as tables:
        [row] = tables.rows(f"SELECT sum(pending) AS p, sum(unaccounted) AS u FROM '{audited_into}/message.parquet'")
    assert (row["p"], row["u"]) == (2, 1)


def test_custody_is_judged_by_the_takers_own_clock(tmp_path: Path) -> None:
    """B's clock is a day ahead, and its log was copied before A heard of the second message, so its custody is
    unknown."""
    day = 86_400
    one, two = Log(), Log(B)
    one.accepted(1, [1, 2], [name(B)])
    one.outward("acked", [(1, 1)], at=10, recipient=name(B))
    one.outward("acked", [(2, 1)], at=50, recipient=name(B))
    one.state("stop", LATE)
    two.accepted(1, [1], [APP], at=day + 9, peer=name(A))
    two.state("join", day + 20)
    ahead = tmp_path / "ahead"
    one.write(ahead / "one")
    two.write(ahead / "two")
    [row] = audited(ahead, at=2 * day)["custody"]
    assert (row["followed"], row["broken"], row["unknown"]) == (1, 0, 1)
    two.state("stop", day + 60)
    two.write(ahead / "two")
    [row] = audited(ahead, at=2 * day)["custody"]
    assert (row["followed"], row["broken"], row["unknown"]) == (1, 1, 0)
