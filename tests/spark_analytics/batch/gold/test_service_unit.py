"""What services owed and what became of it, by Spark: as the local engine has it (test_engine_handovers.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from samples.audit_logs import SECOND, START
from samples.handovers import EVENTS, STATES

from spark_analytics.batch.gold import service_unit
from spark_analytics.batch.span import Span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.long,  # test_tables compares what both engines say of these events.
]


def test_each_message_owed_has_one_state_at_each_recipient(spark: SparkSession) -> None:
    lines = [(1, at, START + at * SECOND, reason, ("signer", fields)) for at, (fields, reason) in enumerate(EVENTS, 1)]
    form = "router INT, seq BIGINT, t BIGINT, reason STRING, other STRUCT<signer: STRING, fields: MAP<STRING, STRING>>"
    router: list[tuple[int, int, list[int]]] = [(1, START + 5000 * SECOND, [])]
    routers = spark.createDataFrame(router, "number INT, end_ns BIGINT, holes ARRAY<STRUCT<last_seq: BIGINT>>")
    found, span = service_unit.lines(spark.createDataFrame(lines, form)), Span(START + 10_000 * SECOND)
    rows = service_unit.units(found, routers, span).collect()
    assert {(one.number, one.recipient): (one.state, one.times, one.reason) for one in rows} == STATES
