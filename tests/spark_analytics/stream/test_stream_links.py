"""The lines about links that a stream keeps give the rows of all lines, whatever files come in which batch."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch.gold import flow
from spark_analytics.batch.gold.names import rows
from spark_analytics.batch.silver import Part
from spark_analytics.batch.span import Span
from spark_analytics.judgement.claim_sql import CHANGES
from spark_analytics.judgement.schema import STATE_EVENTS
from spark_analytics.stream import links
from spark_analytics.stream.handovers import number_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")
OTHERS = (
    "router long, event string, seq long, t long, mono long, boot long,"
    " other struct<peer: string, fields: map<string,string>, ids: string>"
)
KEYS = ("a" * 64, "b" * 64)
FILES, LINES = 12, 9
EVENTS = ("start", "start", "link_up", "link_up", "link_down", "link_down", *STATE_EVENTS, *links.NOTED, "store")


def test_kept_lines_give_the_links_of_all_lines_in_any_order_of_files(spark: SparkSession) -> None:
    chance = Random(52)
    files: dict[Part, list[tuple[object, ...]]] = {}
    for key in KEYS:
        for first in range(1, FILES * LINES, LINES):
            part = Part(f"{key}/{first}", key, first, first + LINES - 1)
            files[part] = [_line(chance, key, seq) for seq in range(first, first + LINES)]
    order = [*files]
    chance.shuffle(order)
    routers = spark.createDataFrame([(number_of(key), key) for key in KEYS], "number long, router string")

    def link_lines(lines: DataFrame) -> list[dict[str, object]]:
        found = rows(flow.link_line(lines, routers, Span(500)).orderBy("router", "seq"))
        return [row | {"before_t": row["before_t"] if row["event"] == "start" else None} for row in found]

    def kept(batch: list[Part]) -> DataFrame:
        new = spark.createDataFrame([line for part in batch for line in files[part]], OTHERS)
        return links.kept(new, links.starts(spark, batch))

    both = kept(order[: FILES // 2]).unionByName(kept(order[FILES // 2 :]))
    every = [line for lines in files.values() for line in lines]
    found = link_lines(both)
    assert found == link_lines(spark.createDataFrame(every, OTHERS))
    assert any(row["before_t"] is not None for row in found)
    lines = both.collect()
    assert len(lines) < len(every)
    assert {line.event for line in lines} >= {*CHANGES, *links.EVENTS} and "store" not in {line.event for line in lines}
    assert not any("queue_messages_max" in line.other.fields for line in lines)


def _line(chance: Random, key: str, seq: int) -> tuple[object, ...]:
    fields = {"link": str(chance.randrange(5)), "standing": chance.choice(("local", "peer")), "queue_messages_max": "9"}
    if chance.random() < 0.9:
        fields["peer"] = chance.choice(KEYS)
    return number_of(key), chance.choice(EVENTS), seq, 10 * seq, seq, 1, (None, fields, None)
