"""The shuffles of an audit: one layout by (router, parcel) serves everything about parcels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark import StorageLevel
from samples.audit_logs import LATE, START, A, Log, name

from spark_analytics.batch import audit, bronze, silver
from spark_analytics.batch.gold import delivery
from spark_analytics.batch.gold.kept import Kept
from spark_analytics.batch.gold.tables import Tables
from spark_analytics.batch.session import prepare
from spark_analytics.batch.span import Span
from spark_analytics.judgement.evidence import judge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.long,  # What it costs; what is found is in the tables, which test_tables compares.
]
Capture = pytest.CaptureFixture[str]
_NODE = re.compile(r"[A-Z]\w+")
_COLUMN = re.compile(r"(\w+)#")
_KEYS = re.compile(r"Arguments: (\w+)(?:\((.*?)\))?, [A-Z_]+,")


HUGE_METHOD_BYTES = 8_000
"""Bytes of bytecode of the largest method that HotSpot compiles by default."""


class Unkept(Kept):
    """Keeps no tables, so that a plan goes back to the layout."""

    def keep(self, table: DataFrame, level: StorageLevel = StorageLevel.DISK_ONLY) -> DataFrame:
        return table


class Found(NamedTuple):
    """Events as they are read, and the tables that are made of them."""

    events: DataFrame
    tables: Tables


@pytest.fixture
def found(spark: SparkSession, tmp_path: Path) -> Iterator[Found]:
    log = Log()
    log.accepted(1, range(40))
    log.outward("delivered", [(1, 20), (25, 2)])
    log.outward("acked", [(30, 1)], recipient=name(A))
    uris, problems = bronze.list_logs(spark, [str(log.write(tmp_path))])
    facts = bronze.facts_of(spark, uris)
    evidence = judge(facts, lambda _: [], listed=problems)
    prepare(spark)
    events = silver.read_events(spark, silver.parts(evidence.files), uris, {name(A): 0})
    numbers = spark.createDataFrame([(0, name(A))], audit.ROUTERS)
    span = Span(START + LATE * 10**9)
    made, _, _ = audit._tables(
        spark, events, numbers, evidence, span, sum(fact.size for fact in facts), is_published=True
    )
    with _as_planned(spark):
        yield Found(events, replace(made, has_more=True, kept=Unkept()))
    made.forget()


@contextmanager
def _as_planned(spark: SparkSession) -> Iterator[None]:
    """Disable broadcasts of small tables and adaptive planning, so that plans are final and those of large logs, and
    let plans be shown, which an audit does without."""
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.maxPlanStringLength": str(2**31 - 16),
    }
    before = {setting: spark.conf.get(setting) for setting in settings}
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        yield
    finally:
        for setting, earlier in before.items():
            assert earlier is not None
            spark.conf.set(setting, earlier)


def shuffles(table: DataFrame, capture: Capture) -> list[str]:
    """Return the partitioning of each shuffle between the kept tables and this one, from the physical plan."""
    capture.readouterr()
    table.explain(mode="formatted")
    tree, _, details = capture.readouterr().out.partition("\n\n")
    found, kept = [], None
    for line in tree.splitlines()[1:]:
        if not (node := _NODE.search(line)):
            continue
        if kept is not None and node.start() > kept:
            continue
        kept = node.start() if node.group() == "InMemoryRelation" else None
        if node.group() == "Exchange":
            number = line.rpartition("(")[2].rstrip(")")
            [(kind, keys)] = _KEYS.findall(details[details.index(f"\n({number}) Exchange") :])[:1]
            found.append(f"{kind} {', '.join(_COLUMN.findall(keys))}".strip())
    return sorted(found)


def test_the_layout_is_one_shuffle_by_router_and_parcel(found: Found, capsys: Capture) -> None:
    found.events.sparkSession.catalog.clearCache()  # else it begins with what is kept
    assert shuffles(silver.laid_out(silver.compact(found.events), 2), capsys) == ["hashpartitioning router, parcel"]


def test_lines_are_read_by_one_method_that_java_compiles_only_if_told_to(found: Found) -> None:
    spark = found.events.sparkSession
    spark.catalog.clearCache()
    laid = silver.laid_out(silver.compact(found.events), 2)
    debug = spark._jvm.org.apache.spark.sql.execution.debug.package  # type: ignore[union-attr]
    text = debug.codegenString(laid._jdf.queryExecution().executedPlan())
    assert max(map(int, re.findall(r"maxMethodCodeSize:(\d+)", text))) > HUGE_METHOD_BYTES
    assert "-XX:-DontCompileHugeMethods" in str(spark.conf.get("spark.driver.extraJavaOptions"))


def test_what_is_about_parcels_is_not_shuffled_again(found: Found, capsys: Capture) -> None:
    tables = found.tables
    published = delivery.delivery(tables.units, tables.accepted, tables.routers)
    for table in (tables.accepted, tables.owed, tables.pieces, tables.blocks, tables.units, published):
        assert shuffles(table, capsys) == []


def test_what_is_added_up_otherwise_is_shuffled_once_for_each_key(found: Found, capsys: Capture) -> None:
    tables = found.tables
    window, by_id, by_pair = "router, recipient, minute", "hashpartitioning id", "hashpartitioning router, taker"
    waits = "router, recipient, code, minute, is_within, bucket"
    assert shuffles(tables.unit_windows, capsys) == [f"hashpartitioning {window}, hole_first, is_within"]
    assert shuffles(tables.waits, capsys) == [f"hashpartitioning {waits}"]
    assert shuffles(tables.ended, capsys) == [f"hashpartitioning {window}"]
    assert shuffles(tables.lines, capsys) == ["hashpartitioning router, minute"]
    assert shuffles(tables.accepted_id, capsys) == [by_id]
    assert shuffles(tables.distinct, capsys) == ["SinglePartition", by_id]
    assert shuffles(tables.custody, capsys) == [by_id, by_id, by_pair, by_pair]
