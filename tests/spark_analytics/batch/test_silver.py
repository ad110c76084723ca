"""The lines that count, and the layout of the events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from samples.audit_logs import APP, OTHER_APP, START, A, Log, message_id, name

from router.core.log.line import encode_line
from spark_analytics.batch import bronze, silver
from spark_analytics.judgement.evidence import File
from spark_analytics.judgement.schema import UNLIKE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAR = {"t": "7L", "mono": f"{-(1 << 62) * 2 + 1}L - 1L", "range_first": f"{(1 << 63) - 1}L", "parcel": "-2L"}
"""Numbers of which the differences overflow."""


def test_a_tail_counts_where_nothing_sealed_does() -> None:
    files = [
        File("tail-5.jsonl", "r", "tail", 5, 20, 9),
        File("events-1.jsonl", "r", "good", 1, 8, 8),
        File("events-12.jsonl", "r", "good", 12, 14, 3),
        File("tail-18.jsonl", "r", "tail", 18, 25, 7),
        File("events-30.jsonl", "r", "bad", 30, 40, 7),
        File("other/tail-1.jsonl", "s", "tail", 1, 4, 2),
    ]
    assert [tuple(part) for part in silver.parts(files)] == [
        ("events-1.jsonl", "r", 1, 8), ("events-12.jsonl", "r", 12, 14), ("other/tail-1.jsonl", "s", 1, 4),
        ("tail-18.jsonl", "r", 18, 25), ("tail-5.jsonl", "r", 9, 11), ("tail-5.jsonl", "r", 15, 17),
    ]  # fmt: skip


@pytest.mark.xdist_group("spark")
def test_the_layout_row_by_row(spark: SparkSession, tmp_path: Path) -> None:
    log = Log()
    log.state("start")
    log.accepted(7, ["x", "y"], [APP, OTHER_APP, APP], at=2, ttl=60)
    log.outward("refused", [(7, 1), (8, 1)], parcel=7, reason="left", depth=5)
    log.outward("delivered", [(8, 1)], parcel=7, recipient=OTHER_APP)
    log.turned("duplicate", 3, "duplicate")
    directory = log.write(tmp_path)
    found, _ = bronze.list_logs(spark, [str(directory)])
    [path] = found
    part = silver.Part(path, name(A), 2, log.seq - 1)
    events = silver.read_events(spark, [part], found, {name(A): 4})
    assert "first_seq" not in events.columns and events.count() == 4  # neither the frame nor the line before the part
    rows = silver.laid_out(silver.compact(events), 2).orderBy("seq").collect()
    assert [(row.router, row.parcel, row.event) for row in rows] == [
        (4, 7, "accepted"), (4, 7, "refused"), (4, 7, "delivered"), (4, 6, "duplicate"),
    ]  # fmt: skip
    accepted, refused, delivered, turned = rows
    assert (accepted.accepted.n, accepted.accepted.ids.hex()) == (2, message_id("x") + message_id("y"))
    assert accepted.accepted.recipients == [APP, OTHER_APP] and accepted.accepted.due_ns == START + 62 * 10**9
    assert (refused.range_first, refused.range_count, refused.more_ranges, refused.reason) == (7, 1, [[8, 1]], "left")
    assert delivered.more_ranges is None and delivered.accepted is None and delivered.other is None
    assert (turned.other.peer, turned["count"], turned.recipient) == (APP, 3, None)


@pytest.mark.xdist_group("spark")
def test_laid_out_keeps_every_value(spark: SparkSession, tmp_path: Path) -> None:
    log = Log()
    log.state("start")
    log.accepted(7, ["x", "y"], [APP, OTHER_APP], at=2, ttl=60)
    log.outward("refused", [(7, 1), (8, 1)], parcel=7, reason="left", depth=5)
    log.turned("duplicate", 3, "duplicate")
    found, _ = bronze.list_logs(spark, [str(log.write(tmp_path))])
    [path] = found
    events = silver.read_events(spark, [silver.Part(path, name(A), 1, log.seq)], found, {name(A): 4})
    rows = silver.compact(events)
    far = rows.withColumns({column: F.expr(sql) for column, sql in FAR.items()})
    lacking = rows.withColumns({column: F.expr("cast(NULL AS bigint)") for column in ("t", "parcel")})
    for table in (rows, far, lacking):
        laid = silver.laid_out(table, 2)
        assert laid.schema.simpleString() == table.schema.simpleString()
        assert laid.orderBy("seq").collect() == table.orderBy("seq").collect()


@pytest.mark.xdist_group("spark")
def test_a_line_that_cannot_be_read_says_its_file_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "tail-1.jsonl"
    path.write_bytes(encode_line(Log().state("join")) + b'\n{"event":"accepted","seq":"two","n":1}\n')
    found = bronze.uris_of(spark, [str(path)])
    events = silver.read_events(spark, [silver.Part(str(path), name(A), 1, 9)], found, {name(A): 0})
    rows = silver.compact(events).collect()
    unlike = [row for row in rows if row.event == UNLIKE]
    assert [bronze.name_of(row.reason) for row in unlike] == [str(path)]
    assert (unlike[0].accepted, unlike[0].parcel, unlike[0].recipient) == (None, 1, None)
    assert [row.event for row in rows if row.event != UNLIKE] == ["join"]
