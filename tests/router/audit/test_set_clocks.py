"""Tables of a router whose clock was set wrong by hours for some seconds, as its log says: bounded, and marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from msgspec.structs import replace
from samples.audit_logs import APP, SECOND, START, A, B, Log, name

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
    log.accepted(1, range(10), [APP], 10, ttl=7 * 3600)
    since = len(log.lines)
    log.state("clock_step", 20, by_s=by_s, doubted=True)
    log.state("link_down", 21, peer=name(B), link=1, standing="peer")
    log.accepted(11, range(10, 65), [APP], 22, ttl=7 * 3600)
    shift(log, since, by_s)
    log.state("clock_step", 25, by_s=-by_s, doubted=False)
    log.state("link_up", 26, peer=name(B), link=2, standing="peer")
    log.outward("delivered", [(1, 10)], 30)
    log.outward("delivered", [(11, 55)], 31, parcel=11)
    log.state("link_up", 40, peer=APP, link=3, standing="local")
    log.state("stop", END)


def written(directory: Path, *logs: Log) -> Path:
    paths = [log.write(directory / "logs" / str(number)) for number, log in enumerate(logs)]
    audit(list_logs(paths), AuditSpan(START + END * SECOND), out=directory / "out")
    return directory / "out"


def rows(out: Path, table: str) -> Rows:
    found = duckdb.execute("FROM read_parquet(?) ORDER BY ALL", [str(out / f"{table}.parquet")])
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def asked(out: Path, said: str) -> Rows:
    question = all_questions()[said]
    return answer(out, question.filled({}), question.tables).dicts()


@pytest.mark.parametrize("by_s", [HOURS_S, -HOURS_S])
def test_hours_across_which_the_clock_jumped_are_marked_and_no_depth_is_negative(by_s: int, tmp_path: Path) -> None:
    log = Log()
    wrong_for_seconds(log, by_s)
    out = written(tmp_path, log)
    first, last = sorted((START // HOUR_NS, (START + by_s * SECOND) // HOUR_NS))
    for table in ("link_hour", "queue_hour"):
        found = rows(out, table)
        assert {row["hour"] for row in found if row["is_spoilt"]} <= {*range(first, last + 1)}
        assert all(row["is_spoilt"] == (first <= row["hour"] <= last) for row in found) and found
    assert min(row["open"] for row in rows(out, "queue_minute")) == 0
    assert min(row["open"] for row in rows(out, "queue_hour")) == 0
    assert all(0 <= row["up_ns"] <= row["span_ns"] for row in rows(out, "link_hour"))
    assert asked(out, "filling queues") == []
    [told] = asked(out, "link availability")
    assert (told["up_percent"], told["spoilt"]) == (100.0, sum(row["is_spoilt"] for row in rows(out, "link_hour")))
    changes = {row["event"]: row["subjects"] for row in asked(out, "route changes")}
    assert changes == {"link_up": 1, "link_down": 1}, "links of apps are none"


def test_an_absurd_jump_marks_a_bounded_number_of_hours(tmp_path: Path) -> None:
    log = Log()
    wrong_for_seconds(log, HOURS_S)
    log.state("clock_step", END, by_s=-(10**17), doubted=False)
    log.state("clock_step", END, by_s="-" * 30, doubted=False)
    out = written(tmp_path, log)
    hours = [row["hour"] for row in rows(out, "link_hour") if row["is_spoilt"]]
    assert [hour - START // HOUR_NS for hour in hours] == [0, 1, 2, 3, 6], "and the hour of the jump"


def test_a_wait_over_a_start_and_a_jump_is_left_out_and_counted(tmp_path: Path) -> None:
    """Within a boot the monotonic clock tells it."""
    log = Log()
    log.accepted(1, range(3), at=10, ttl=7 * 3600)
    log.outward("delivered", [(1, 1)], 12)
    log.state("clock_step", 20, by_s=7200, doubted=False)
    log.outward("delivered", [(2, 1)], 7230, mono=0, boot="1" * 32)
    log.accepted(11, [9], at=7300, mono=1, boot="1" * 32)
    log.outward("delivered", [(11, 1)], 7301, parcel=11, mono=SECOND, boot="2" * 32)
    log.state("stop", END)
    out = written(tmp_path, log)
    assert sum(row["count"] for row in rows(out, "hop_latency")) == 2
    assert max(row["max_ns"] for row in rows(out, "hop_latency")) == 2 * SECOND
    counted = [(row["check"], row["count"]) for row in rows(out, "data_quality")]
    assert counted == [("wait over a clock step", 1)]


@pytest.mark.parametrize("by_s", [0, -7200])
def test_a_journey_that_began_under_a_clock_set_wrong_has_no_latency(by_s: int, tmp_path: Path) -> None:
    here, there = Log(), Log(B)
    here.accepted(1, [1], [name(B)], 10)
    here.outward("acked", [(1, 1)], 11, recipient=name(B))
    since = len(here.lines)
    here.state("clock_step", 20, by_s=by_s, doubted=False)
    here.accepted(2, [2], [name(B)], 22, ttl=9000)
    shift(here, since, by_s)
    here.state("clock_step", 24, by_s=-by_s, doubted=False)
    here.outward("acked", [(2, 1)], 25, recipient=name(B), parcel=2)
    there.accepted(1, [1], [], 10, peer=name(A))
    there.accepted(2, [2], [], 24, peer=name(A))
    for log in (here, there):
        log.state("stop", END)
    found = [row for row in rows(written(tmp_path, here, there), "journey") if row["router"] == name(B)]
    assert [row["is_spoilt"] for row in found] == [by_s != 0] * 2
    assert [row["most_ns"] is None for row in found] == [by_s != 0] * 2
