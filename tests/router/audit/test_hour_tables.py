"""The tables by the hour about recipients, handovers and services, and the journey of each message."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from sabotage.logs import renumbered
from samples.audit_logs import APP, LATE, OTHER_APP, SECOND, START, A, B, C, Log, message_id, name
from samples.detour_logs import chain
from samples.judged_logs import ids, log_of

from router.audit.ask.answer import answer
from router.audit.ask.catalogue import all_questions
from router.audit.engine import AuditSpan, audit, evidence_of
from router.audit.export.logs import export
from router.audit.export.pseudonyms import Pseudonyms
from router.audit.listing import list_logs
from router.cli import main
from router.core.wire.crypto import SigningKey
from spark_analytics.judgement.hour_sql import FULL_S_MAX, WEEK_HOURS
from spark_analytics.judgement.slo import Slo
from spark_analytics.judgement.spoilt_hours import HOUR_NS

HOUR = START // HOUR_NS
HOUR_S = HOUR_NS // SECOND
LEFT_S = (HOUR + 1) * HOUR_S - START // SECOND
"""Seconds from START to the end of its hour."""
WEEK_S = WEEK_HOURS * HOUR_S
Rows = list[dict[str, Any]]


def written(directory: Path, *logs: Log, at: float = LATE, **asked: Any) -> Path:
    """Audit the logs; return the directory of the tables."""
    paths = [log.write(directory / "logs" / str(number)) for number, log in enumerate(logs)]
    audit(list_logs(paths), AuditSpan(START + int(at * SECOND), **asked), out=directory / "out")
    return directory / "out"


def rows(out: Path, table: str, order: str = "ALL") -> Rows:
    found = duckdb.execute(f"FROM read_parquet(?) ORDER BY {order}", [str(out / f"{table}.parquet")])
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def asked(out: Path, name: str, **parameters: str) -> Rows:
    question = all_questions()[name]
    return answer(out, question.filled(parameters), question.tables).dicts()


def test_slo_hour_counts_what_arrived_in_time_late_and_never(tmp_path: Path) -> None:
    log = Log()
    log.accepted(1, range(10), [APP, name(B)])
    log.outward("delivered", [(1, 7)], at=2)
    log.outward("delivered", [(8, 2)], at=9)
    log.outward("acked", [(1, 10)], at=1, recipient=name(B))
    log.outward("expired", [(10, 1)], at=61)
    log.accepted(11, ["open"], at=LATE, ttl=9999)
    log.accepted(12, ["later"], at=LEFT_S)
    log.outward("delivered", [(12, 1)], at=LEFT_S + 5, parcel=12)
    log.lines = renumbered(sorted(log.lines, key=lambda line: line.t))
    out = written(tmp_path, log, slo=Slo(950_000, 5 * SECOND))
    first, second = rows(out, "slo_hour")
    assert first == {
        "router": name(A), "hour": HOUR, "target_ppm": 950_000, "limit_ns": 5 * SECOND, "owed": 20, "within": 17,
        "late": 2, "missed": 1, "burn": 3.0,
    }  # fmt: skip
    assert (second["hour"], second["owed"], second["within"], second["burn"]) == (HOUR + 1, 1, 1, 0.0)
    [told] = asked(out, "slo and budget")
    assert (told["owed"], told["late"], told["missed"], told["within_percent"], told["target_percent"]) == (
        21, 2, 1, 85.71, 95.0,
    )  # fmt: skip
    assert (told["used_percent"], told["worst_burn"]) == (285.0, 3.0)


def test_slo_hour_leaves_out_what_asks_for_no_answer(tmp_path: Path) -> None:
    """Nobody can tell whether a message with a ttl of 0 arrived: it uses nothing of the budget, and keeps nothing."""
    log = Log()
    log.accepted(1, range(10), [name(B)])
    log.outward("acked", [(1, 10)], recipient=name(B))
    log.accepted(11, range(10, 14), [name(B)], at=2, ttl=0)
    log.outward("unconfirmed", [(11, 4)], at=2, recipient=name(B), parcel=11)
    log.accepted(15, ["alone"], [name(B)], at=LEFT_S, ttl=0)
    log.outward("unconfirmed", [(15, 1)], at=LEFT_S, recipient=name(B), parcel=15)
    log.state("stop", LEFT_S + LATE)
    out = written(tmp_path, log, at=LEFT_S + LATE)
    [hour] = rows(out, "slo_hour")
    assert [hour[one] for one in ("hour", "owed", "within", "missed", "burn")] == [HOUR, 10, 10, 0, 0.0]
    [told] = asked(out, "slo and budget")
    assert (told["owed"], told["missed"], told["within_percent"], told["used_percent"]) == (10, 0, 100.0, 0.0)


def test_queue_hour_tells_growth_when_it_is_full_and_the_week_before(tmp_path: Path) -> None:
    log = Log()
    log.state("config", 0, queue_messages_max="20")
    log.accepted(1, range(4), ttl=WEEK_S * 2)
    log.accepted(5, range(4, 9), at=LEFT_S, ttl=WEEK_S * 2)
    log.outward("delivered", [(1, 3)], at=LEFT_S + 60)
    log.accepted(10, range(9, 11), at=WEEK_S, ttl=WEEK_S * 2)
    log.accepted(12, range(11, 29), at=WEEK_S + 2 * HOUR_S, ttl=WEEK_S * 2)
    log.state("stop", WEEK_S + 3 * HOUR_S)
    out = written(tmp_path, log, at=WEEK_S + 3 * HOUR_S)
    found = rows(out, "queue_hour")
    names = ("hour", "added", "ended", "growth", "open", "open_max", "messages_max", "full_in_s", "week_open")
    assert [tuple(row[one] for one in names) for row in found] == [
        (HOUR, 4, 0, 4, 4, 4, 20, 4 * HOUR_S, None),
        (HOUR + 1, 5, 3, 2, 6, 9, 20, 7 * HOUR_S, None),
        (HOUR + WEEK_HOURS, 2, 0, 2, 8, 8, 20, 6 * HOUR_S, 4),
        (HOUR + WEEK_HOURS + 2, 18, 0, 18, 26, 26, 20, 0, 6),
    ]
    assert [row["more"] for row in asked(out, "queues unlike last week")] == [20, 4]
    assert [(row["open"], row["full_in_ns"]) for row in asked(out, "filling queues", limit="2")] == [
        (26, 0), (4, 4 * HOUR_NS),
    ]  # fmt: skip


def test_a_queue_without_a_known_limit_or_with_an_endless_one_is_never_full(tmp_path: Path) -> None:
    full_in_s = {"many": None, "9" * 18: FULL_S_MAX}
    logs = {limit: log_of(limit) for limit in full_in_s}
    for limit, log in logs.items():
        log.state("config", 0, queue_messages_max=limit)
        log.accepted(1, ids(log, 4), ttl=LATE * 2)
        log.state("stop", LATE)
    found = {row["router"]: row["full_in_s"] for row in rows(written(tmp_path, *logs.values()), "queue_hour")}
    assert {limit: found[name(log.key)] for limit, log in logs.items()} == full_in_s


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the tables of the logs of a router with services, and of two between which one floods the other."""
    services, a, b = Log(C), Log(A), Log(B)
    services.noted("dmq_accepted", 3, service="dmq")
    services.noted("dmq_accepted", 2, service="dmq", at=2)
    services.noted("dmq_accepted", 1, service="dmq", at=LEFT_S)
    services.noted("pubsub_refused", 7, "rate-limited", service="pubsub", at=LEFT_S + 1)
    services.state("link_up", LEFT_S + 2, peer=OTHER_APP, link=1)
    for log, peer in ((a, name(B)), (b, name(A))):
        log.state("link_up", 0, peer=peer, link=1, standing="peer")
    a._add("duplicate", 3, count=90, peer=name(B), link=2, reason="duplicate", bytes=55)
    b.accepted(1, range(5), [name(A)])
    b.outward("forwarded", [(1, 5)], recipient=name(A))
    for log in (services, a, b):
        log.state("stop", LATE)
    return written(tmp_path_factory.mktemp("noted"), services, a, b)


def test_service_hour_counts_the_events_of_services(noted: Path) -> None:
    names = ("hour", "service", "event", "reason", "count", "lines")
    assert [tuple(row[one] for one in names) for row in rows(noted, "service_hour")] == [
        (HOUR, "dmq", "dmq_accepted", None, 5, 2),
        (HOUR + 1, "dmq", "dmq_accepted", None, 1, 1),
        (HOUR + 1, "pubsub", "pubsub_refused", "rate-limited", 7, 1),
    ]
    assert [(row["event"], row["times"], row["things"]) for row in asked(noted, "what services did")] == [
        ("dmq_accepted", 3, 6), ("pubsub_refused", 1, 7),
    ]  # fmt: skip


def test_journey_tells_routers_in_order_and_latency_by_the_bounds_of_clocks(tmp_path: Path) -> None:
    out = written(tmp_path, *chain(), at=LATE + 200)
    found = rows(out, "journey", "hops")
    names = ("router", "neighbour", "origin", "hops", "owed", "arrived", "settled_ns")
    assert [tuple(row[one] for one in names) for row in found] == [
        (name(A), None, name(A), 0, 2, 2, SECOND // 2),
        (name(B), name(A), name(A), 1, 1, 1, None),
        (name(C), name(B), name(A), 2, 1, 1, 3 * SECOND),
    ]
    assert {row["id"] for row in found} == {message_id("far")}
    assert [(row["least_ns"], row["most_ns"]) for row in found] == [(0, 0), (0, 2 * SECOND), (0, 4 * SECOND)]
    told = asked(out, "where is", id=message_id("far")[:8])
    assert [(row["router"], row["hops"], row["t"]) for row in told] == [
        (name(A), 0, START + 10 * SECOND), (name(B), 1, START + 111 * SECOND), (name(C), 2, START - 28 * SECOND),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the logs of a chain with a direct link, and the tables of their audit are."""
    directory = tmp_path_factory.mktemp("direct")
    a, b, c = chain(direct=True)
    a.noted("dmq_accepted", 3, at=LATE + 1, service="dmq")
    b.state("config", LATE + 1, queue_messages_max=20)
    written(directory, a, b, c, at=LATE + 200)
    return directory


def test_detours_and_latency_end_to_end_are_by_the_pair_of_routers(direct: Path) -> None:
    out = direct / "out"
    [detour] = asked(out, "detours")
    assert detour == {
        "sender": name(A), "router": name(C), "messages": 2, "least": 1, "most": 2, "detours": 1,
        "example": message_id("far"),
    }  # fmt: skip
    by_router = {row["router"]: row for row in asked(out, "latency end to end")}
    assert by_router[name(B)]["p99_at_most_ns"] == 2 * SECOND
    assert by_router[name(C)]["messages"] == 2 and by_router[name(C)]["p99_settled_ns"] <= 7 * SECOND


def test_messages_that_began_at_several_routers_have_hops_and_no_latency(tmp_path: Path) -> None:
    a, b, _ = chain()
    d = Log(SigningKey(b"d" * 32))
    d.accepted(1, ["far"], [APP], at=3, peer=APP)
    d.state("stop", LATE)
    found = {row["router"]: row for row in rows(written(tmp_path, a, b, d, at=LATE + 200), "journey")}
    assert (found[name(B)]["origin"], found[name(B)]["hops"], found[name(B)]["most_ns"]) == (name(A), 1, None)
    assert (found[name(d.key)]["origin"], found[name(d.key)]["hops"]) == (name(d.key), 0)


def test_an_export_has_the_same_journeys_and_hours_under_other_names(direct: Path, tmp_path: Path) -> None:
    out = direct / "out"
    secret = Pseudonyms(bytes(range(32)))
    export(*evidence_of(list_logs([direct / "logs"])), tmp_path / "export", lambda: secret)
    given = AuditSpan(START + (LATE + 200) * SECOND)
    audit(list_logs([tmp_path / "export"]), given, out=tmp_path / "again")
    named = dict.fromkeys(("router", "neighbour", "origin", "recipient"), secret.key) | {"id": secret.id}
    for table in ("journey", "queue_hour", "slo_hour", "custody_hour", "service_hour"):
        renamed = [
            {column: named[column](value) if column in named and value else value for column, value in row.items()}
            | ({"service": "withheld"} if "service" in row else {})
            for row in rows(out, table)
        ]
        assert sorted(map(str, renamed)) == sorted(map(str, rows(tmp_path / "again", table))) != [], table


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    """Return the journeys in the logs of a router with copies and of one with parts of a parcel, by id."""
    copies, parts = Log(), Log(B)
    copies.accepted(1, ["m"], [APP], at=10, peer=name(C))
    copies.outward("delivered", [(1, 1)], at=12)
    copies.accepted(2, ["m"], [name(C)], at=11, kind="copy", peer=message_id("service"))
    copies.outward("acked", [(2, 1)], at=12, recipient=name(C), parcel=2)
    copies.accepted(3, ["alone"], [name(C)], at=13, kind="copy", peer=message_id("service"))
    parts.accepted(1, range(3), [APP, OTHER_APP])
    parts.outward("delivered", [(1, 3)], at=1)
    parts.outward("delivered", [(2, 1)], at=4, recipient=OTHER_APP)
    parts.outward("delivered", [(1, 1)], at=0.5, recipient=OTHER_APP)
    for log in (copies, parts):
        log.state("stop", LATE)
    return {row["id"]: row for row in rows(written(tmp_path_factory.mktemp("settled"), copies, parts), "journey")}


def test_a_copy_is_not_an_arrival_of_its_own_in_a_journey(settled: Mapping[str, dict[str, Any]]) -> None:
    both, alone = settled[message_id("m")], settled[message_id("alone")]
    assert (both["t"], both["owed"], both["arrived"], both["neighbour"]) == (START + 10 * SECOND, 2, 2, None)
    assert (alone["t"], alone["owed"], alone["lost"]) == (START + 13 * SECOND, 1, 1)


def test_a_part_of_a_parcel_has_its_own_time_until_it_was_settled(settled: Mapping[str, dict[str, Any]]) -> None:
    found = [settled[message_id(number)]["settled_ns"] for number in range(3)]
    assert found == [SECOND, 4 * SECOND, SECOND]


def test_custody_hour_tells_when_messages_vanished(tmp_path: Path) -> None:
    a, b = Log(A), Log(B)
    for number, at in enumerate((0, 1, LEFT_S + 5), 1):
        a.accepted(number, [number], [name(B)], at=at, kind="unicast", group=None, source=APP, destination=APP)
        a.outward("acked", [(number, 1)], at=at + 2, recipient=name(B), parcel=number)
    b.accepted(1, [1], at=1, peer=name(A), kind="unicast", group=None, source=APP, destination=APP)
    for log in (a, b):
        log.state("stop", 40 * HOUR_S)
    a.lines = renumbered(sorted(a.lines, key=lambda line: line.t))
    out = written(tmp_path, a, b, at=40 * HOUR_S)
    names = ("hour", "acked", "followed", "broken", "unknown")
    assert [tuple(row[one] for one in names) for row in rows(out, "custody_hour")] == [
        (HOUR, 2, 1, 1, 0), (HOUR + 1, 1, 0, 1, 0),
    ]  # fmt: skip
    assert [row["broken"] for row in asked(out, "custody by hour")] == [1, 1]


def test_floods_are_shown_beside_what_the_sender_s_log_wrote(noted: Path) -> None:
    rows_of = {row["sender"]: (row["messages"], row["handed"]) for row in asked(noted, "floods")}
    assert rows_of == {name(B): (90, 5), None: (7, None)}


def test_an_unknown_service_level_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["audit", str(tmp_path), "--slo", "99.9"], env={"ROUTER_HOME": "/nonexistent"})
    assert done.exit_code == 2 and "write SHARE:TIME, as 99.9:5s" in done.stderr
