"""The tables by the hour and the topology: groups and links with their bytes, reasons, and when links were up.

The logs of most cases are audited at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from samples.audit_logs import APP, LATE, SECOND, START, B, Log, message_id, name
from samples.judged_logs import ids, log_of

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from spark_analytics.judgement.gold_sql import AWAY_NS, LINK_NS_MAX
from spark_analytics.judgement.schema import BYTES_MAX
from spark_analytics.judgement.spoilt_hours import HOUR_NS

HOUR = START // HOUR_NS
HOUR_S = HOUR_NS // SECOND
LEFT_S = (HOUR + 1) * HOUR_S - START // SECOND
"""Seconds from START to the end of its hour."""


Tables = dict[str, list[dict[str, Any]]]
Case = Callable[[Log], None]
CASES: dict[str, Case] = {}
"""What writes the logs that are audited together, by its name: each is of a router of its own."""


def case(write: Case) -> Case:
    CASES[write.__name__] = write
    return write


def written(logs: Iterable[Log], directory: Path, at: float = LATE, **span: Any) -> Tables:
    """Audit the logs; return the rows of each table, in order."""
    out = directory / "out"
    paths = [log.write(directory / "logs" / str(number)) for number, log in enumerate(logs)]
    audit(list_logs(paths), AuditSpan(START + int(at * SECOND), **span), out=out)
    found = {}
    for table in ("group_hour", "link_hour", "topology", "reason_hour", "abuse_hour"):
        rows = duckdb.execute("FROM read_parquet(?) ORDER BY ALL", [str(out / f"{table}.parquet")])
        names = [column[0] for column in rows.description or ()]
        found[table] = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
    return found


@pytest.fixture(scope="module")
def of_all(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, Mapping[str, str]]:
    """Return the tables of all cases, and the router of each case."""
    logs = {case: log_of(case) for case in CASES}
    for case, write in CASES.items():
        write(logs[case])
    found = written(logs.values(), tmp_path_factory.mktemp("cases"))
    return found, {case: name(log.key) for case, log in logs.items()}


@pytest.fixture
def tables(of_all: tuple[Tables, Mapping[str, str]]) -> Callable[[Case], Tables]:
    """Return what gives the rows of a case's router."""

    def of_case(write: Case) -> Tables:
        found, routers = of_all
        router = routers[write.__name__]
        return {table: [row for row in rows if row["router"] == router] for table, rows in found.items()}

    return of_case


def link(log: Log, event: str, at: float, number: int = 1, standing: str = "peer", peer: str = name(B)) -> None:
    log.state(event, at, peer=peer, link=number, standing=standing)


def spans(found: dict[str, list[dict[str, Any]]]) -> list[tuple[float, float | None]]:
    """Return when links were up, in seconds after START."""
    return [
        ((row["since_ns"] - START) / SECOND, None if (end := row["until_ns"]) is None else (end - START) / SECOND)
        for row in found["topology"]
    ]


@case
def groups(log: Log) -> None:
    log.accepted(1, ids(log, 3), [APP, name(B)], sizes=[10, 20, 30])
    log.outward("delivered", [(1, 2)])
    log.outward("acked", [(1, 3)], recipient=name(B))
    log.accepted(4, ["nobody"], [], at=2, peer=APP)
    log.accepted(5, ["copied"], [name(B)], at=3, kind="copy", peer=None, sizes=[70])
    log.accepted(6, ["unicast"], at=4, kind="unicast", group=None, source=APP, destination=APP)
    log.accepted(7, ["later"], at=LEFT_S, sizes=[5])
    log.state("stop", LATE)


def test_group_hour_counts_messages_bytes_and_what_arrived(tables: Callable[[Case], Tables]) -> None:
    found = tables(groups)["group_hour"]
    assert [row["hour"] for row in found] == [HOUR, HOUR + 1]
    assert found[0] == {
        "router": name(log_of("groups").key), "hour": HOUR, "group_key": message_id("group"), "messages": 4,
        "bytes": 69, "copies": 1, "copied_bytes": 70, "publishers": 2, "recipients": 2, "owed": 6, "delivered": 2,
        "acked": 3,
    }  # fmt: skip
    assert (found[1]["messages"], found[1]["bytes"], found[1]["owed"]) == (1, 5, 1)


@case
def each_way(log: Log) -> None:
    link(log, "link_up", 0)
    log.accepted(1, ids(log, 4), [name(B), APP], sizes=[10, 20, 30, 40])
    log.outward("forwarded", [(1, 4)], recipient=name(B))
    log.outward("forwarded", [(2, 2)], recipient=name(B))
    log.outward("forwarded", [(1, 4)])
    log.accepted(5, ["alike", "alike too"], [name(B)], kind="copy", peer=None, sizes=[7, 7])
    log.outward("forwarded", [(5, 1)], recipient=name(B), parcel=5)
    log.accepted(7, ["brought"], at=2, peer=name(B), sizes=[100])
    log._add("duplicate", 3, count=2, peer=name(B), link=2, reason="duplicate", bytes=55)
    link(log, "link_down", 60)
    log.state("stop", 120)


def test_link_hour_counts_each_way_in_messages_and_bytes(tables: Callable[[Case], Tables]) -> None:
    """A part of a parcel has the bytes of its own messages; what is written again counts again."""
    [row] = tables(each_way)["link_hour"]
    assert row == {
        "router": name(log_of("each_way").key), "neighbour": name(B), "hour": HOUR, "ups": 1, "downs": 1,
        "up_ns": 60 * SECOND, "span_ns": 120 * SECOND, "sent": 7, "sent_bytes": 157, "received": 1,
        "received_bytes": 100, "copies": 1,
        "duplicates": 2, "duplicate_bytes": 55, "is_spoilt": False,
    }  # fmt: skip


@case
def of_apps(log: Log) -> None:
    link(log, "link_up", 0, standing="local", peer=APP)
    log.state("link_up", 1, standing="stranger", times=7)
    log.state("stop", LATE)


def test_links_of_apps_and_sums_over_links_are_no_topology(tables: Callable[[Case], Tables]) -> None:
    found = tables(of_apps)
    assert (found["topology"], found["link_hour"]) == ([], [])


@case
def several(log: Log) -> None:
    for event, at, number in (("up", 10, 1), ("up", 20, 2), ("down", 30, 1), ("down", 40, 2), ("up", 50, 3)):
        link(log, f"link_{event}", at, number)
    log.state("stop", LATE)


def test_several_connections_to_a_neighbour_are_one_link(tables: Callable[[Case], Tables]) -> None:
    assert spans(tables(several)) == [(10, 40), (50, None)]


@case
def killed(log: Log) -> None:
    log.state("start", 0)
    link(log, "link_up", 10)
    log.state("link", 70, peer=name(B))
    log.state("start", 500)
    link(log, "link_up", 510)
    log.state("stop", 1000)


def test_a_link_ends_with_what_a_killed_router_wrote_last(tables: Callable[[Case], Tables]) -> None:
    assert spans(tables(killed)) == [(10, 70), (510, None)]


@case
def without_beginning(log: Log) -> None:
    log.state("config", 5)
    link(log, "link_down", 30)
    log.state("stop", 100)


def test_a_link_without_its_beginning_is_up_from_the_start_of_the_log(tables: Callable[[Case], Tables]) -> None:
    found = tables(without_beginning)
    assert spans(found) == [(5, 30)]
    [row] = found["link_hour"]
    assert (row["up_ns"], row["span_ns"]) == (25 * SECOND, 95 * SECOND)


def test_link_hour_splits_time_by_the_hour_and_ends_a_week_after_the_link(tmp_path: Path) -> None:
    days = 30 * 86_400
    log = Log()
    link(log, "link_up", 0)
    link(log, "link_down", LEFT_S + 100)
    log.state("stop", days)
    found = written([log], tmp_path, days)["link_hour"]
    assert [(row["hour"], row["up_ns"], row["span_ns"]) for row in found[:3]] == [
        (HOUR, LEFT_S * SECOND, LEFT_S * SECOND),
        (HOUR + 1, 100 * SECOND, HOUR_NS),
        (HOUR + 2, 0, HOUR_NS),
    ]
    assert sum(row["span_ns"] for row in found) == (LEFT_S + 100) * SECOND + AWAY_NS


def test_link_hour_has_a_bounded_number_of_rows_for_a_link(tmp_path: Path) -> None:
    """A clock that stood at 1970 when the link came up does not make half a million hours."""
    log = Log()
    log._add("link_up", 1 - START // SECOND, mono=0, fields={"peer": name(B), "link": 1})
    log.state("stop", 0)
    found = written([log], tmp_path, 10)
    assert spans(found) == [(1 - START / SECOND, None)]
    assert len(found["link_hour"]) <= LINK_NS_MAX // HOUR_NS + 2


@case
def turned_away(log: Log) -> None:
    log.accepted(1, ids(log, 3))
    log.outward("expired", [(1, 3)], at=61, reason="ttl-expired")
    log._add("refused", 2, count=5, peer=APP, link=2, reason="bad-signature", bytes=900)
    log.turned("refused", 2, "bad-signature", at=3)
    log.turned("refused", 1, "bad-signature", at=LEFT_S)
    log.state("stop", LATE)


def test_reason_hour_has_ends_and_what_was_turned_away_with_its_bytes(tables: Callable[[Case], Tables]) -> None:
    found = tables(turned_away)
    names = ("hour", "event", "reason", "at_door", "count", "bytes", "lines")
    assert [tuple(row[name] for name in names) for row in found["reason_hour"]] == [
        (HOUR, "expired", "ttl-expired", False, 3, None, 1),
        (HOUR, "refused", "bad-signature", True, 7, 900, 2),
        (HOUR + 1, "refused", "bad-signature", True, 1, 0, 1),
    ]
    assert sum(row["bytes"] for row in found["abuse_hour"]) == 900


def test_the_span_of_the_audit_bounds_what_is_counted_by_the_hour(tmp_path: Path) -> None:
    log = Log()
    link(log, "link_up", 0)
    log.accepted(1, ["before"], [name(B)], at=1)
    log.outward("forwarded", [(1, 1)], at=2, recipient=name(B))
    log.accepted(2, ["within"], [name(B)], at=15)
    log.outward("forwarded", [(2, 1)], at=16, recipient=name(B), parcel=2)
    log.state("stop", 100)
    found = written([log], tmp_path, since_ns=START + 10 * SECOND, until_ns=START + 20 * SECOND)
    [row], [group] = found["link_hour"], found["group_hour"]
    assert (row["sent"], row["up_ns"], row["ups"], group["messages"]) == (1, 10 * SECOND, 0, 1)


@case
def endless_sizes(log: Log) -> None:
    link(log, "link_up", 0)
    log.accepted(1, ids(log, 300), [name(B)], sizes=[9_999_999_999] * 299 + [1])
    for first in (1, 2):
        log.outward("forwarded", [(first, 299)], recipient=name(B))
    for at in range(20):
        log._add("duplicate", 2 + at, count=1, peer=name(B), link=2, reason="duplicate", bytes=10**18 - 1)
    log.state("stop", 100)


def test_sizes_that_no_real_log_has_do_not_stop_an_audit(tables: Callable[[Case], Tables]) -> None:
    found = tables(endless_sizes)
    [row], [group] = found["link_hour"], found["group_hour"]
    assert (row["sent_bytes"], row["duplicate_bytes"], group["bytes"]) == (
        2 * BYTES_MAX,
        20 * BYTES_MAX,
        BYTES_MAX,
    )
