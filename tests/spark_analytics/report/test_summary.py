"""From an engine's tables and the evidence to the summary, by value, whatever the order of the rows."""

import json
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.judgement.chain import Seal
from spark_analytics.judgement.evidence import Evidence, File, Hole, Log
from spark_analytics.judgement.latency import bucket
from spark_analytics.judgement.log_files import Problem
from spark_analytics.judgement.schema import STATES
from spark_analytics.report.summary import WINDOWS_MAX, Windows, build, step_of, windows_of

A, B, C = ("aa" * 32, "bb" * 32, "cc" * 32)
DAY = 1440
START = 29_555_280  # 2026-03-12T12:00Z
AS_OF = (START + 30) * 60 * 10**9
WHOLE = Log(A, 1, 1, 9, True, 0, ())


def evidence(
    *logs: Log,
    files: tuple[File, ...] = (),
    holes: tuple[Hole, ...] = (),
    problems: tuple[Problem, ...] = (),
    limits: tuple[str, ...] = (),
) -> Evidence:
    return Evidence(files, holes, problems, logs, limits, (), frozenset())


def totals(router: str, **counts: int) -> dict[str, Any]:
    names = ("accepted", "copies", "owed", *STATES, "deliveries", "duplicates", "forwards", "redelivered", "deferred",
             "contradictions", "strays")  # fmt: skip
    return {"router": router, **dict.fromkeys(names, 0), **counts}


def summary(found: Evidence | None = None, **findings: list[dict[str, Any]]) -> dict[str, Any]:
    return build(findings, found or evidence(WHOLE), AS_OF, "any", {"seconds": 3})


def test_the_head_of_each_log_is_its_last_footer() -> None:
    seals = tuple(
        Seal(router, last - 4, last, None, digest, 1, True, f"{router}/{last}")
        for router, last, digest in ((B, 5, "b5"), (A, 10, "a10"), (A, 5, "a5"))
    )
    found = build({}, replace(evidence(WHOLE), seals=seals), AS_OF, "any", {})
    assert found["heads"] == [
        {"router": A, "event": 10, "digest": "a10"}, {"router": B, "event": 5, "digest": "b5"},
    ]  # fmt: skip


# -- windows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minutes", "step"),
    [(1, 1), (120, 1), (121, 2), (240, 2), (241, 5), (720, 10), (7 * DAY, 120), (30 * DAY, 360),
     (60 * DAY, 720), (61 * DAY, DAY), (240 * DAY, 2 * DAY), (3650 * DAY, 31 * DAY)],
)  # fmt: skip
def test_windows_are_of_a_round_number_of_minutes(minutes: int, step: int) -> None:
    assert step_of(0, minutes - 1) == step


@given(st.integers(0, 1 << 26), st.integers(0, 1 << 26))
def test_there_are_never_more_than_120_windows(start: int, minutes: int) -> None:
    step = step_of(start, start + minutes)
    assert (start + minutes) // step - start // step + 1 <= WINDOWS_MAX


def test_windows_reach_from_before_the_first_acceptance_to_long_after_the_last() -> None:
    assert windows_of(1003, 1249, AS_OF) == Windows(step=5, first=995, last=1245 + 120 * 5)


def test_where_nothing_was_accepted_windows_are_the_last_days() -> None:
    today = AS_OF // 10**9 // 60 // DAY * DAY
    assert windows_of(None, None, AS_OF) == Windows(DAY, today - 120 * DAY, today)


# -- the balance ------------------------------------------------------------------------------------------


def test_a_fleet_adds_up() -> None:
    found = summary(
        evidence(WHOLE, WHOLE._replace(router=B)),
        span=[{"min_minute": START, "max_minute": START + 29}],
        totals=[
            totals(B, owed=5, acked=3, pending=2, duplicates=1, redelivered=2, accepted=4, deferred=1),
            totals(A, owed=7, delivered=6, expired=1, deliveries=6, forwards=8, contradictions=0, accepted=7),
        ],
        distinct=[{"messages": 9, "accepted_again": 2}],
        ends=[{"router": A, "seq": 9, "t": AS_OF - 10**9}, {"router": B, "seq": 9, "t": AS_OF + 5}],
    )
    assert {name: found[name] for name in ("messages", "accepted_again", "owed", "residual", "duplicates")} == {
        "messages": 9, "accepted_again": 2, "owed": 12, "residual": 0, "duplicates": 1,
    }  # fmt: skip
    assert {state: found[state] for state in STATES if found[state]} == {
        "delivered": 6, "acked": 3, "expired": 1, "pending": 2,
    }  # fmt: skip
    assert (found["as_of"], found["watermark"]) == ("2026-03-12T12:30:00+00:00", "2026-03-12T12:29:59+00:00")
    assert found["span"] == {"from": "2026-03-12T12:00:00+00:00", "until": "2026-03-12T12:30:00+00:00"}
    assert (found["step_minutes"], [row["router"] for row in found["by_router"]]) == (1, [A, B])
    assert (found["engine"], found["run"]) == ("any", {"seconds": 3})


def test_what_is_in_no_state_is_printed() -> None:
    found = summary(totals=[totals(A, owed=5, delivered=3)])
    assert (found["residual"], found["verdict"]) == (2, "bad")


def test_the_watermark_is_of_whole_logs_only() -> None:
    logs = evidence(WHOLE, WHOLE._replace(router=B, whole=False))
    ends = [{"router": A, "seq": 9, "t": AS_OF - 10**9}, {"router": B, "seq": 1, "t": 5}]
    assert summary(logs, ends=ends)["watermark"] == "2026-03-12T12:29:59+00:00"
    assert summary(logs, ends=ends[1:])["watermark"] is None


def test_nothing_at_all() -> None:
    found = build({}, evidence(), AS_OF, "any", {})
    assert (found["owed"], found["residual"], found["watermark"], found["verdict"]) == (0, 0, None, "attention")
    assert found["span"] == {"from": None, "until": None}
    assert found["latency_ms"] == {"p50": None, "p95": None, "p99": None, "max": None}
    assert build({"span": [{"min_minute": None, "max_minute": None}]}, evidence(), AS_OF, "any", {}) == found


# -- latency ----------------------------------------------------------------------------------------------


def test_percentiles_in_milliseconds_over_windows_and_hops() -> None:
    rows = [
        {"event": "delivered", "window": START, "bucket": bucket(2_000_000), "count": 98, "max_ns": 2_000_000},
        {"event": "delivered", "window": START + 1, "bucket": bucket(9_000_000), "count": 2, "max_ns": 9_000_100},
        {"event": "acked", "window": START, "bucket": bucket(77), "count": 1, "max_ns": 77},
    ]
    hops = [{"router": A, "recipient": None, **rows[0]}, {"router": A, "recipient": B, **rows[2]}]
    found = summary(latency=rows, hops=hops)
    assert found["latency_ms"] == {"p50": 2.007039, "p95": 2.007039, "p99": 9.0001, "max": 9.0001}
    assert found["custody_ms"] == {"p50": 7.7e-05, "p95": 7.7e-05, "p99": 7.7e-05, "max": 7.7e-05}
    assert [(row["window"], row["event"], row["p50"], row["max"], row["count"]) for row in found["latency"]] == [
        (START, "acked", 7.7e-05, 7.7e-05, 1), (START, "delivered", 2.0, 2.0, 98),
        (START + 1, "delivered", 9.0001, 9.0001, 2),
    ]  # fmt: skip
    assert [(row["recipient"], row["event"], row["p99"], row["count"]) for row in found["hops"]] == [
        (None, "delivered", 2.0, 98), (B, "acked", 7.7e-05, 1),
    ]  # fmt: skip


# -- queues -----------------------------------------------------------------------------------------------


def queue(opens: dict[int, int], limit: Any = "1000", due_s: int | None = None, until: int = 9) -> dict[str, Any]:
    rows = [
        {"router": A, "recipient": C, "window": START + at, "added": 1, "ended": 0, "open": many, "depth_max": None}
        for at, many in opens.items()
    ]
    due = [] if due_s is None else [{"router": A, "recipient": C, "due_ns": AS_OF + due_s * 10**9 + 7}]
    found = summary(
        span=[{"min_minute": START, "max_minute": START + until}], queues=rows, due=due,
        configs=[{"router": A, "fields": {"queue_messages_max": limit}}],
    )  # fmt: skip
    [one] = found["queues"]
    return dict(one)


@pytest.mark.parametrize(
    ("opens", "full_in_s"),
    [
        ({4: 100, 6: 150, 7: 160, 8: 190, 9: 300}, 700 * 300 // 200),  # 200 more in the last five minutes
        ({0: 100, 9: 300}, 700 * 300 // 200),  # nothing happened between: the level stayed
        ({9: 300}, 700 * 300 // 300),  # it was empty until the last one
        ({9: 77}, 923 * 300 // 77),  # within an hour, of which five minutes tell
        ({9: 76}, None),
        ({4: 300, 9: 300}, None),
        ({4: 300, 9: 200}, None),
        ({0: 100, 1: 300}, None),  # it stands still
        ({9: 1000}, 0),
        ({9: 1200}, 0),
    ],
)
def test_when_a_queue_will_be_full_at_this_rate(opens: dict[int, int], full_in_s: int | None) -> None:
    assert queue(opens)["full_in_s"] == full_in_s


@pytest.mark.parametrize(("until", "full_in_s"), [(4, 850 * 300 // 150), (3, None), (0, None)])
def test_logs_of_less_than_five_minutes_tell_of_no_growth(until: int, full_in_s: int | None) -> None:
    assert queue({until: 150}, until=until)["full_in_s"] == full_in_s


def test_a_queue_is_told_of_after_what_was_accepted_in_the_time_asked_for() -> None:
    """With --since on a quiet evening nothing was accepted in the requested time; there is still no forecast into the
    past."""
    rows = [
        {"router": A, "recipient": C, "window": START + at, "added": 1, "ended": 0, "open": many, "depth_max": None}
        for at, many in ((1, 150), (2, 180))
    ]
    configs = [{"router": A, "fields": {"queue_messages_max": "1000"}}]
    for first, last, full_in_s in ((START - 9, START - 5, 820 * 300 // 180), (None, None, 820 * (DAY + 1) * 60 // 180)):
        [one] = summary(span=[{"min_minute": first, "max_minute": last}], queues=deepcopy(rows), configs=configs)[
            "queues"
        ]
        assert one["full_in_s"] == full_in_s


def test_a_queue_says_what_is_known_of_it() -> None:
    found = queue({8: 10, 9: 20}, due_s=720)
    assert (found["router"], found["recipient"], found["open"], found["limit"], found["oldest_due_s"]) == (
        A, C, 20, 1000, 720,
    )  # fmt: skip
    assert found["windows"][0] == {"window": START + 8, "added": 1, "ended": 0, "open": 10, "depth_max": None}
    assert queue({9: 20}, due_s=-5)["oldest_due_s"] == 0
    assert queue({9: 20}, limit=None) | {"windows": []} == {
        "router": A, "recipient": C, "open": 20, "limit": None, "full_in_s": None, "oldest_due_s": None, "windows": [],
    }  # fmt: skip


def test_wider_windows_forecast_alike() -> None:
    """The windows have 10 minutes, with 40 more messages in each."""
    rows = {0: 0, 10: 40, 20: 80, 30: 120, 40: 160, 1190: 160}
    assert queue(rows, until=1199)["full_in_s"] is None
    assert queue({1150: 0, 1190: 160}, until=1199)["full_in_s"] == (1000 - 160) * 4 * 600 // 160


# -- the rest ---------------------------------------------------------------------------------------------


def table(random: Random, **columns: list[Any]) -> list[dict[str, Any]]:
    """Generate at most 12 rows with different keys; the last column is no part of the key."""
    rows = {tuple(random.choice(values) for values in columns.values()) for _ in range(12)}
    return [dict(zip(columns, row, strict=True)) for row in {row[:-1]: row for row in rows}.values()]


def some_findings(seed: int) -> dict[str, list[dict[str, Any]]]:
    random = Random(seed)
    keys, windows, count = [A, B, C], [START, START + 1, START + 5], [1, 2, 3]
    return {
        "span": [{"min_minute": START, "max_minute": START + 9}],
        "totals": [totals(one, owed=9, delivered=8, unaccounted=1, duplicates=1) for one in keys],
        "windows": [{"router": one, "window": at, "owed": 3} for one in keys for at in windows],
        "reasons": table(random, router=keys, event=["expired"], reason=["left", "ttl-expired"],
                         at_door=[False], count=[2]),
        "routes": table(random, router=keys, window=windows, event=["join", "leave"], count=[2]),
        "flaps": table(random, router=keys, subject=[*keys, None], changes=count),
        "abuse": table(random, router=keys, hour=[4], peer=[*keys, None], prefix=[None], signer=[None, C], reason=["x"],
                       event=["refused"], count=count, lines=[1]),
        "custody": [{"router": A, "recipient": one, "acked": 5, "followed": 4, "broken": 1, "unknown": 0,
                     "lower_ns": None, "upper_ns": 5} for one in (B, C)],
        "queues": table(random, router=keys, recipient=keys, window=windows, added=[1], ended=[0], open=[4],
                        depth_max=[None]),
        "latency": table(random, event=["acked", "delivered"], window=windows, bucket=count, count=[3], max_ns=[4]),
        "hops": table(random, router=keys, recipient=[None, C], event=["acked"], bucket=count, count=[3], max_ns=[4]),
        "unaccounted": table(random, router=keys, parcel=[7, 9], recipient=keys, signer=[C], count=[1], id=[A]),
        "quality": table(random, check=["negative wait"], router=[None, A], count=[4]),
        "future": [{"router": one, "lines": 2, "latest_t": 9} for one in (A, C)],
    }  # fmt: skip


@given(st.integers(0, 1 << 32))
def test_any_order_of_rows_gives_the_same_summary(seed: int) -> None:
    findings = some_findings(seed)
    shuffled = {name: Random(seed).sample(rows, len(rows)) for name, rows in list(findings.items())[::-1]}
    found = [build(rows, evidence(WHOLE), AS_OF, "any", {}) for rows in (findings, shuffled)]
    assert json.dumps(found[0]) == json.dumps(found[1])


def test_most_first_where_that_matters() -> None:
    flaps = [{"router": A, "subject": one, "changes": many} for one, many in ((B, 2), (None, 7), (C, 7))]
    found = summary(flaps=flaps)["flaps"]
    assert [(row["subject"], row["changes"]) for row in found] == [(None, 7), (C, 7), (B, 2)]


def test_the_evidence_is_told() -> None:
    hole = Hole(A, 3, 4, "no file given holds them")
    files = (File("a/1", A, "good", 1, 2, 9), File("a/2", A, "bad", 3, 4, 9), File("a/t", A, "tail", 5, 6, 2))
    texts = tuple(f"text {number}" for number in range(30))
    problems = tuple(Problem("a/2", number, "odd") for number in range(250))
    log = Log(A, 1, 1, 6, False, 0, texts)
    found = summary(evidence(log, files=files, holes=(hole,), problems=problems, limits=("x",)))
    assert found["holes"] == [{"router": A, "first_seq": 3, "last_seq": 4, "why": "no file given holds them"}]
    assert [row["path"] for row in found["files"]] == ["a/2", "a/t"]
    assert (found["problems"][1], len(found["problems"]), found["problems_more"]) == ("a/2:1: odd", 200, 50)
    assert (len(found["logs"][0]["problems"]), found["logs"][0]["problems"][-1]) == (21, "and 10 more")
    assert found["limits"] == ["x"]


def test_clocks_are_those_that_custody_bounds() -> None:
    counts = {"acked": 1, "followed": 1, "broken": 0, "unknown": 0}
    bounded = {"router": A, "recipient": B, **counts, "lower_ns": -5, "upper_ns": 9}
    unbounded = {"router": A, "recipient": C, **counts, "lower_ns": None, "upper_ns": None}
    assert summary(custody=[unbounded, bounded])["clocks"] == [
        {"router": A, "recipient": B, "lower_ns": -5, "upper_ns": 9}
    ]
