"""The table `finding`: every finding of a summary with its words, what it is about, how much, and where it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from samples.summaries import findings as rich_findings
from test_sentences import CASES, CUSTODY, ID
from test_summary import AS_OF, WHOLE, A, B, C, evidence, summary, totals

from spark_analytics.report import finding_table
from spark_analytics.report.alarms import ALARMING, matters
from spark_analytics.report.finding_table import COLUMNS, finding_rows
from spark_analytics.report.sentences import KINDS
from spark_analytics.report.summary import build

CLAIM = {"accepted_seq": 7, "id": ID}


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in finding_rows(found)]


def about(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("finding", "router", "peer", "count", "seq", "id")
    return [tuple(row[name] for name in names) for row in rows_of(found)]


@pytest.mark.parametrize("case", sorted(CASES))
def test_rows_are_the_findings_of_the_summary_and_alarms_have_their_words(case: str) -> None:
    found = summary(**CASES[case][0])
    every = [one for kind in KINDS for one in kind.rule(found)]
    rows = rows_of(found)
    texts = sorted((one["level"], one["text"], one["remedy"]) for one in every)
    assert sorted((row["level"], row["text"], row["remedy"]) for row in rows) == texts
    for row in rows:
        assert isinstance(row["count"], int | None) and isinstance(json.loads(row["evidence"]), list)
        assert row["count"] is None or f"{row['count']:,}" in row["text"]
    told = {(row["finding"], row["router"], row["peer"]) for row in rows if row["level"] in ALARMING}
    assert matters(found).keys() <= told


def test_findings_of_a_rich_summary_are_all_there_the_worst_first() -> None:
    found = build(rich_findings(), evidence(WHOLE), AS_OF, "any", {})
    rows = rows_of(found)
    assert {one["text"] for one in found["findings"] if "The same in" not in one["text"]} <= {
        row["text"] for row in rows
    }
    assert [row["level"] for row in rows] == [
        level for level in ("bad", "warning", "info") for row in rows if row["level"] == level
    ]


def test_nothing_to_tell_is_no_row() -> None:
    assert finding_rows(summary(totals=[totals(A, owed=5, delivered=5)])) == []


def test_a_row_counts_what_its_text_counts_and_names_the_first_event_and_id() -> None:
    lost = [{"router": A, "parcel": 7, "recipient": C, "signer": B, "count": 2, "id": ID}]
    ended = totals(A, owed=9, unaccounted=2, dropped=4, evicted=3)
    service = {"router": A, "service": "dmq", "messages": 9, "owed": 9, "done": 4, "ended": 0, "pending": 1,
               "unknown": 0, "unaccounted": 0, "doubled": 3}  # fmt: skip
    claimed = [{"claim": "never-linked", "router": A, "peer": B, "count": 6, "first": {"seq": 8, **CLAIM}}]
    tables: dict[str, Any] = {
        "unaccounted": lost,
        "services": [service],
        "claims": claimed,
        "custody": [CUSTODY | {"broken": 5}],
    }
    found = summary(totals=[ended], broken=[{"router": A, "recipient": B, "id": "2e" * 32, "seq": 9}], **tables)
    assert about(found) == [
        ("unaccounted", A, "", 2, None, ID),
        ("broken", A, B, 5, 9, "2e" * 32),
        ("claims:never-linked", A, B, 6, 8, ID),
        ("services", A, "dmq", 3, None, None),
        ("ended-badly", A, "", 4, None, None),
        ("ended-badly", A, "", 3, None, None),
        ("services", A, "dmq", 9, None, None),
    ]


def test_a_circle_of_routers_is_one_finding_and_one_alarm() -> None:
    circle = [
        {"claim": "in-a-circle", "router": one, "peer": peer, "count": 2, "first": {"seq": seq, **CLAIM}}
        for one, peer, seq in ((A, B, 3), (B, C, 4), (C, A, 5))
    ]
    found = summary(claims=circle)
    assert about(found) == [("claims:in-a-circle", A, B, 2, 3, ID)]
    [(key, matter)] = matters(found).items()
    assert key == ("claims:in-a-circle", A, B) and matter.text.startswith("3 routers say in a circle")


def test_clocks_are_told_of_the_router_that_the_text_names_first() -> None:
    apart = [CUSTODY | {"upper_ns": 3 * 10**9}, CUSTODY | {"router": B, "recipient": A, "upper_ns": -5 * 10**9}]
    assert [row[:3] for row in about(summary(custody=apart))] == [("clocks", B, A)]


def test_beyond_the_limit_the_worst_stay_and_a_row_counts_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_table, "FINDINGS_MAX", 2)
    each = [totals(f"{number:064x}", owed=3, unaccounted=1, dropped=2) for number in range(3)]
    rows = rows_of(summary(totals=each))
    assert [(row["level"], row["finding"], row["count"]) for row in rows] == [
        ("bad", "unaccounted", 1), ("bad", "unaccounted", 1), ("bad", "more", 4),
    ]  # fmt: skip
    assert rows[-1]["text"] == "There are 4 further findings."
