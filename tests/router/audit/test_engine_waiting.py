"""Messages without an end although their time is over that are not lost: in flight, or at a router that lets nothing
expire."""

from __future__ import annotations

from pathlib import Path

from samples.audit_logs import APP, LATE, START, A, B, Log, audited, name, states

from router.audit.database import database
from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs


def handed_over(log: Log, link: int = 2, count: int = 2) -> None:
    """Return a log of three messages, the first of which are written to a link that has just come up."""
    log.state("start")
    log.state("link_up", peer=APP, link=link)
    log.accepted(1, range(3))
    log.outward("forwarded", [(1, count)])


def test_what_is_written_to_a_link_that_is_up_is_in_flight(tmp_path: Path) -> None:
    log = Log()
    handed_over(log)
    log.state("join", LATE)
    found = audited(log.write(tmp_path))
    assert states(found) == {"owed": 3, "pending": 2, "unaccounted": 1}
    assert found["lost"][0]["count"] == 1


def test_when_the_link_is_down_nothing_is_in_flight(tmp_path: Path) -> None:
    for number, event in enumerate(("link_down", "start")):
        log = Log()
        handed_over(log)
        log.state(event, 5, peer=APP, link=2)
        log.state("join", LATE)
        assert states(audited(log.write(tmp_path / str(number)))) == {"owed": 3, "unaccounted": 3}, event


def test_another_link_being_up_is_no_excuse(tmp_path: Path) -> None:
    log = Log()
    handed_over(log, link=3)
    log.state("join", LATE)
    assert states(audited(log.write(tmp_path))) == {"owed": 3, "unaccounted": 3}


def test_a_link_number_of_an_earlier_run_is_another_link(tmp_path: Path) -> None:
    log = Log()
    handed_over(log)
    log.state("start", 5)
    log.state("link_up", 6, peer=APP, link=2)
    log.state("join", LATE)
    assert states(audited(log.write(tmp_path))) == {"owed": 3, "unaccounted": 3}


def test_while_the_clock_is_doubted_nothing_expires(tmp_path: Path) -> None:
    steps = {"doubted": [True], "believed again": [True, False]}
    for number, (what, doubts) in enumerate(steps.items()):
        log = Log()
        log.state("start")
        log.accepted(1, range(3))
        for at, doubted in enumerate(doubts):
            log.state("clock_step", 100 + at, by_s=7200, doubted=doubted)
        log.state("join", LATE)
        expected = "pending" if doubts[-1] else "unaccounted"
        assert states(audited(log.write(tmp_path / str(number)))) == {"owed": 3, expected: 3}, what


def test_after_a_start_there_is_time_to_let_expire(tmp_path: Path) -> None:
    for number, (end, state) in enumerate(((599, "pending"), (600, "unaccounted"))):
        log = Log()
        log.accepted(1, range(3))
        log.state("start", LATE)
        log.state("join", LATE + end)
        found = audited(log.write(tmp_path / str(number)), at=2 * LATE)
        assert states(found) == {"owed": 3, state: 3}


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
