"""The routers' events about themselves: their last condition, gaps, and heads of their neighbours' logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_analytics.batch.log_ends import LINKS, gaps, log_ends, merged, self_reports, witnesses
from spark_analytics.judgement.evidence import Evidence, Gap, Hole, Log, Witness

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.long,  # test_tables compares what both engines say of the ends of logs, holes and heads.
]
LINES: list[tuple[str, int, int | None, Mapping[str, str] | None]] = [
    ("start", 1, None, {"doubted": "true"}),
    ("link_up", 2, None, {"link": "7"}),
    ("start", 3, None, {"doubted": "false"}),
    ("link_up", 4, None, {"link": "8"}),
    ("link_up", 5, None, {"link": "9"}),
    ("link_down", 6, None, {"link": "9"}),
    ("link_up", 7, None, {"link": "no number"}),
    ("clock_step", 8, None, {"doubted": "true"}),
    ("log_gap", 9, 3, {"missing": "3"}),
    ("config", 10, None, {"ttl_s_max": "60"}),
    ("config", 11, None, {"ttl_s_max": "-5"}),
    ("log_gap", 12, 2, {"missing": "2"}),
    ("config", 13, None, {"ttl_s_max": "90"}),
    ("link", 14, None, {"peer": "b", "head_seq": "5", "head_digest": "d"}),
    ("link", 15, None, {"peer": "b", "head_seq": "5", "head_digest": "d"}),
    ("link", 16, None, {"peer": "b", "head_seq": "six", "head_digest": "d"}),
    ("config", 17, None, {"queue_messages_max": "3"}),
    ("advert", 18, None, {}),
]


def _told(spark: SparkSession, lines: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    rows = [(1, event, seq, seq * 10, (fields, missing)) for event, seq, missing, fields in lines]
    schema = "router long, event string, seq long, t long, other struct<fields:map<string,string>,missing:long>"
    return self_reports(
        spark.createDataFrame(rows, schema), spark.createDataFrame([(1, "a")], "number long, router string")
    )


def test_the_last_lines_tell_a_routers_condition(spark: SparkSession) -> None:
    rows = _told(spark, LINES)
    log = Log("a", 1, 1, 18, False, 0, ())
    evidence = Evidence((), (Hole("a", 9, 11, ""),), (), (log, log._replace(router="b")), (), (), frozenset())
    words = [
        {"router": "a", "event": "join", "first_seq": 1, "first_t": 10, "last_seq": 18, "last_t": 180},
        {"router": "a", "event": "clock_step", "first_seq": 4, "first_t": 40, "last_seq": 8, "last_t": 80},
    ]
    assert log_ends(evidence, words, rows) == [
        ("a", False, False, 0, False, 10, 180, 4, 8, 3, 80, True, [8], 60, 10, [(9, 11)]),
        ("b", False, True, 0, False, None, None, None, None, 0, 0, False, [], None, None, []),
    ]
    assert sorted(gaps(rows)) == [Gap("a", 9, 3), Gap("a", 12, 2)]
    assert witnesses(rows) == [Witness("a", "b", 5, "d", 150, 15)]
    assert [row["fields"] for row in rows if row["event"] == "config"] == [{"queue_messages_max": "3"}]


@pytest.mark.parametrize("parts", [2, 3])
def test_lines_that_come_bit_by_bit_tell_the_same(spark: SparkSession, parts: int) -> None:
    whole = merged(_told(spark, LINES))
    assert sorted(whole, key=repr) == sorted(
        merged(row for start in range(parts) for row in _told(spark, LINES[start::parts])), key=repr
    )
    assert [row["at"] for row in whole if row["event"] in LINKS] == [8]


def test_links_that_went_down_are_not_told_of(spark: SparkSession) -> None:
    """Only links that are up have rows, and those that went down and came up in other lines, however many links there
    were."""
    many = [
        (event, 2 * link + later, None, {"link": str(link)})
        for link in range(100)
        for event, later in (("link_up", 0), ("link_down", 1))
    ]
    rows = _told(spark, [*many, ("link_up", 500, None, {"link": "7"}), ("link_down", 501, None, {"link": "300"})])
    assert [(row["event"], row["at"]) for row in sorted(rows, key=lambda row: row["seq"])] == [
        ("link_up", 7), ("link_down", 300),
    ]  # fmt: skip
