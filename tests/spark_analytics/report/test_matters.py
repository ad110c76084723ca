"""The findings of a summary by what they are about: (finding, router, peer)."""

from __future__ import annotations

import json

import pytest
from samples.summaries import findings as rich_findings
from test_sentences import CASES, CUSTODY
from test_summary import AS_OF, WHOLE, A, B, C, evidence, summary, totals

from spark_analytics.report.alarms import ALARMING, late_heads, matters
from spark_analytics.report.summary import build

SECOND = 10**9


@pytest.mark.parametrize("case", sorted(CASES))
def test_each_finding_that_is_about_a_router_is_there_with_its_sentence(case: str) -> None:
    findings, level, text = CASES[case]
    found = summary(**findings)
    said = {(one["level"], one["text"]) for one in found["findings"] if one["level"] in ALARMING}
    about = matters(found)
    for (_, router, _), matter in about.items():
        assert matter.level in ALARMING and json.dumps(matter.evidence)
        assert not router or router in matter.text
    if level in ALARMING and A in text and "The same in" not in text:
        assert level in {one.level for one in about.values()}
        assert len(said) > 1 or {(one.level, one.text) for one in about.values()} == said


def test_a_finding_keeps_its_name_when_its_numbers_change_and_each_peer_has_its_own() -> None:
    two = [CUSTODY | {"broken": 2}, CUSTODY | {"recipient": C, "broken": 1}]
    before = matters(summary(custody=two, totals=[totals(A, owed=5, unaccounted=1, delivered=4)]))
    assert set(before) == {("broken", A, B), ("broken", A, C), ("unaccounted", A, "")}
    assert "2 messages" in before["broken", A, B].text and "1 message " in before["broken", A, C].text
    after = matters(summary(custody=[one | {"broken": 7} for one in two]))
    assert set(after) == {("broken", A, B), ("broken", A, C)}
    assert before["broken", A, B].evidence[0]["broken"] == 2


def test_clocks_that_differ_are_one_finding_whichever_router_says_so() -> None:
    apart = [CUSTODY | {"lower_ns": 5 * SECOND}, CUSTODY | {"router": B, "recipient": A, "upper_ns": -5 * SECOND}]
    assert [key for key in matters(summary(custody=apart)) if key[0] == "clocks"] == [("clocks", A, B)]


def test_a_rich_summary_has_no_more_of_them_than_it_has_rows() -> None:
    found = build(rich_findings(), evidence(WHOLE), AS_OF, "any", {})
    assert len(matters(found)) > 5
    assert not matters(summary())


def test_a_router_whose_log_has_gone_silent_is_late() -> None:
    heads = {A: (70, 100 * SECOND), B: (9, 50 * SECOND)}
    assert late_heads(heads, 110 * SECOND, 60 * SECOND) == {}
    [(key, matter)] = late_heads(heads, 111 * SECOND, 60 * SECOND).items()
    assert key == ("head-late", B, "") and "for 61 seconds: it ends with event 9" in matter.text
