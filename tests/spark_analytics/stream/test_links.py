"""The lines about links that a stream keeps give the rows of all lines, whatever files come in which batch."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold import flow
from spark_analytics.batch.gold.names import rows
from spark_analytics.batch.silver import Part
from spark_analytics.batch.span import Span
from spark_analytics.judgement.schema import STATE_EVENTS
from spark_analytics.stream import links

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
OTHERS = "router long, event string, seq long, t long, other struct<fields:map<string,string>>"
KEYS = ("a" * 64, "b" * 64)
FILES, LINES = 12, 9
EVENTS = ("start", "start", "link_up", "link_up", "link_down", "link_down", *STATE_EVENTS, "renewal", "store")


def test_kept_lines_give_the_links_of_all_lines_in_any_order_of_files(spark: SparkSession) -> None:
    chance = Random(52)
    files: dict[Part, list[tuple[object, ...]]] = {}
    for key in KEYS:
        for first in range(1, FILES * LINES, LINES):
            part = Part(f"{key}/{first}", key, first, first + LINES - 1)
            files[part] = [_line(chance, key, seq) for seq in range(first, first + LINES)]
    order = [*files]
    chance.shuffle(order)
    routers = spark.createDataFrame([(links.number_of(key), key) for key in KEYS], "number long, router string")

    def link_lines(kept: list[tuple[object, ...]]) -> list[dict[str, object]]:
        found = flow.link_line(spark.createDataFrame(kept, OTHERS), routers, Span(500))
        return sorted(rows(found), key=lambda row: (row["router"], row["seq"]))

    every = [line for lines in files.values() for line in lines]
    kept: list[tuple[object, ...]] = []
    for batch in (order[: FILES // 2], order[FILES // 2 :]):
        new = spark.createDataFrame([line for part in batch for line in files[part]], OTHERS)
        kept += [tuple(row) for row in links.kept(new, links.starts(spark, batch)).collect()]
    assert link_lines(kept) == link_lines(every)
    assert any(row["before_t"] is not None for row in link_lines(kept) if row["event"] == "start")
    assert len(kept) < len(every)
    assert {line[1] for line in kept} >= {"start", "link_up", "link_down", "renewal"}
    assert not any("queue_messages_max" in line[4].fields for line in kept)  # type: ignore[attr-defined]


def _line(chance: Random, key: str, seq: int) -> tuple[object, ...]:
    fields = {"link": str(chance.randrange(5)), "standing": chance.choice(("local", "peer")), "queue_messages_max": "9"}
    if chance.random() < 0.9:
        fields["peer"] = chance.choice(KEYS)
    return links.number_of(key), chance.choice(EVENTS), seq, 10 * seq, (fields,)
