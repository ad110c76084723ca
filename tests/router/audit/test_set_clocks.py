"""Tables of a router whose clock was set wrong by hours for some seconds, as its log says: bounded, and marked.

The logs of all cases are audited at once: a case is a router of its own, or two of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from msgspec.structs import replace
from samples.audit_logs import APP, SECOND, START, B, Log, name
from samples.judged_logs import ids, log_of

from router.audit.ask.answer import answer
from router.audit.ask.catalogue import all_questions
from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from spark_analytics.judgement.spoilt_hours import HOUR_NS

HOURS_S = 3 * 3600
END = 6 * 3600
Rows = list[dict[str, Any]]


def shift(log: Log, since: int, by_s: int) -> None:
    """Let the wall clock be off in the lines from `since` on."""
    log.lines[since:] = [replace(line, t=line.t + by_s * SECOND) for line in log.lines[since:]]


def wrong_for_seconds(log: Log, by_s: int) -> None:
    """Set the clock at 20, and right at 25: in between a link breaks, and messages arrive."""
    log.state("start", 0)
    log.state("config", 0, queue_messages_max=1000, clock_moves_s_max=600)
    log.state("link_up", 1, peer=name(B), link=1, standing="peer")
    messages = ids(log, 65)
    log.accepted(1, messages[:10], [APP], 10, ttl=7 * 3600)
    since = len(log.lines)
    log.state("clock_step", 20, by_s=by_s, doubted=True)
    log.state("link_down", 21, peer=name(B), link=1, standing="peer")
    log.accepted(11, messages[10:], [APP], 22, ttl=7 * 3600)
    shift(log, since, by_s)
    log.state("clock_step", 25, by_s=-by_s, doubted=False)
    log.state("link_up", 26, peer=name(B), link=2, standing="peer")
    log.outward("delivered", [(1, 10)], 30)
    log.outward("delivered", [(11, 55)], 31, parcel=11)
    log.state("link_up", 40, peer=APP, link=3, standing="local")
    log.state("stop", END)


def absurd(log: Log) -> None:
    wrong_for_seconds(log, HOURS_S)
    log.state("clock_step", END, by_s=-(10**17), doubted=False)
    log.state("clock_step", END, by_s="-" * 30, doubted=False)


def over_a_start(log: Log) -> None:
    messages = ids(log, 4)
    log.accepted(1, messages[:3], at=10, ttl=7 * 3600)
    log.outward("delivered", [(1, 1)], 12)
    log.state("clock_step", 20, by_s=7200, doubted=False)
    log.outward("delivered", [(2, 1)], 7230, mono=0, boot="1" * 32)
    log.accepted(11, messages[3:], at=7300, mono=1, boot="1" * 32)
    log.outward("delivered", [(11, 1)], 7301, parcel=11, mono=SECOND, boot="2" * 32)
    log.state("stop", END)


def began_under(by_s: int, here: Log, there: Log) -> None:
    """Let two journeys begin here and go on there: the clock is set in between."""
    first, second = ids(here, 2)
    here.accepted(1, [first], [name(there.key)], 10)
    here.outward("acked", [(1, 1)], 11, recipient=name(there.key))
    since = len(here.lines)
    here.state("clock_step", 20, by_s=by_s, doubted=False)
    here.accepted(2, [second], [name(there.key)], 22, ttl=9000)
    shift(here, since, by_s)
    here.state("clock_step", 24, by_s=-by_s, doubted=False)
    here.outward("acked", [(2, 1)], 25, recipient=name(there.key), parcel=2)
    there.accepted(1, [first], [], 10, peer=name(here.key))
    there.accepted(2, [second], [], 24, peer=name(here.key))
    for log in (here, there):
        log.state("stop", END)


STEPS_S = (HOURS_S, -HOURS_S)
BEGUN_UNDER_S = (0, -7200)


class Clocks(NamedTuple):
    """The audit of all these logs at once, and each case's router."""

    out: Path
    routers: Mapping[str, str]

    def rows(self, table: str, case: str) -> Rows:
        found = duckdb.execute("FROM read_parquet(?) ORDER BY ALL", [str(self.out / f"{table}.parquet")])
        names = [column[0] for column in found.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        return [row for row in rows if row["router"] == self.routers[case]]

    def asked(self, said: str, case: str) -> Rows:
        question = all_questions()[said]
        rows = answer(self.out, question.filled({"limit": "1000"}), question.tables).dicts()
        return [row for row in rows if row["router"] == self.routers[case]]


@pytest.fixture(scope="module")
def clocks(tmp_path_factory: pytest.TempPathFactory) -> Clocks:
    directory, logs = tmp_path_factory.mktemp("clocks"), dict[str, Log]()

    def log(case: str) -> Log:
        return logs.setdefault(case, log_of(case))

    for by_s in STEPS_S:
        wrong_for_seconds(log(f"by {by_s}"), by_s)
    absurd(log("absurd"))
    over_a_start(log("over a start"))
    for by_s in BEGUN_UNDER_S:
        began_under(by_s, log(f"from {by_s}"), log(f"under {by_s}"))
    paths = [one.write(directory / "logs" / str(number)) for number, one in enumerate(logs.values())]
    audit(list_logs(paths), AuditSpan(START + END * SECOND), out=directory / "out")
    return Clocks(directory / "out", {case: name(one.key) for case, one in logs.items()})


@pytest.mark.parametrize("by_s", STEPS_S)
def test_hours_across_which_the_clock_jumped_are_marked_and_no_depth_is_negative(by_s: int, clocks: Clocks) -> None:
    case = f"by {by_s}"
    first, last = sorted((START // HOUR_NS, (START + by_s * SECOND) // HOUR_NS))
    for table in ("link_hour", "queue_hour"):
        found = clocks.rows(table, case)
        assert {row["hour"] for row in found if row["is_spoilt"]} <= {*range(first, last + 1)}
        assert all(row["is_spoilt"] == (first <= row["hour"] <= last) for row in found) and found
    assert min(row["open"] for row in clocks.rows("queue_minute", case)) == 0
    assert min(row["open"] for row in clocks.rows("queue_hour", case)) == 0
    assert all(0 <= row["up_ns"] <= row["span_ns"] for row in clocks.rows("link_hour", case))
    assert clocks.asked("filling queues", case) == []
    [told] = clocks.asked("link availability", case)
    assert (told["up_percent"], told["spoilt"]) == (
        100.0,
        sum(row["is_spoilt"] for row in clocks.rows("link_hour", case)),
    )
    changes = {row["event"]: row["subjects"] for row in clocks.asked("route changes", case)}
    assert changes == {"link_up": 1, "link_down": 1}, "links of apps are none"


def test_an_absurd_jump_marks_a_bounded_number_of_hours(clocks: Clocks) -> None:
    hours = [row["hour"] for row in clocks.rows("link_hour", "absurd") if row["is_spoilt"]]
    assert [hour - START // HOUR_NS for hour in hours] == [0, 1, 2, 3, 6], "and the hour of the jump"


def test_a_wait_over_a_start_and_a_jump_is_left_out_and_counted(clocks: Clocks) -> None:
    """Within a boot the monotonic clock tells it."""
    waits = clocks.rows("hop_latency", "over a start")
    assert sum(row["count"] for row in waits) == 2
    assert max(row["max_ns"] for row in waits) == 2 * SECOND
    counted = [(row["check"], row["count"]) for row in clocks.rows("data_quality", "over a start")]
    assert counted == [("wait over a clock step", 1)]


@pytest.mark.parametrize("by_s", BEGUN_UNDER_S)
def test_a_journey_that_began_under_a_clock_set_wrong_has_no_latency(by_s: int, clocks: Clocks) -> None:
    found = clocks.rows("journey", f"under {by_s}")
    assert [row["is_spoilt"] for row in found] == [by_s != 0] * 2
    assert [row["most_ns"] is None for row in found] == [by_s != 0] * 2
