"""A stream's state: the last note that was written completely counts, and parts of one size are folded into one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.stream.ledger import empty
from spark_analytics.stream.state import ADDED, SCHEMAS, VERSION, State, Store
from spark_analytics.stream.stopped import Stopped

pytestmark = pytest.mark.xdist_group("spark")
PAGE_ROWS = 20_000
"""Most rows of a page of Parquet."""


def test_a_batch_goes_on_from_the_one_before_also_when_it_is_done_again(spark: SparkSession, tmp_path: Path) -> None:
    for batch in range(3):
        assert Store(spark, str(tmp_path)).base(batch).batch == batch - 1
        Store(spark, str(tmp_path)).commit(State(batch))
    store = Store(spark, str(tmp_path))
    store.commit(State(2, messages=5))
    for one in (store, Store(spark, str(tmp_path))):
        assert one.base(2) == State(1)
        assert one.base(3) == State(2, messages=5)


def test_a_note_that_was_not_finished_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path))
    store.commit(State(0))
    store.commit(State(1))
    for file in (tmp_path / "state" / "note-b").iterdir():
        file.unlink()
    assert Store(spark, str(tmp_path)).base(1) == State(0)


def test_a_batch_is_not_begun_without_the_note_of_the_batch_before(spark: SparkSession, tmp_path: Path) -> None:
    """It would leave out the files of that batch, and say nothing."""
    Store(spark, str(tmp_path)).commit(State(0))
    with pytest.raises(Stopped, match=r"lacks what batch 1 noted, and batch 2 is next: .*wait and run it again"):
        Store(spark, str(tmp_path)).base(2)


@pytest.mark.parametrize("earlier", ["1", "none"])
def test_what_another_version_wrote_is_not_gone_on_from(spark: SparkSession, tmp_path: Path, earlier: str) -> None:
    Store(spark, str(tmp_path)).commit(State(0))
    [note] = (tmp_path / "state" / "note-a").glob("*.txt")
    said = json.loads(note.read_text())
    del said["version"]
    note.write_text(json.dumps(said if earlier == "none" else said | {"version": int(earlier)}) + "\n")
    with pytest.raises(Stopped, match=f"state 1; this one reads {VERSION}.*take the whole directory away"):
        Store(spark, str(tmp_path)).base(1)


def test_what_is_written_whole_leaves_that_of_the_batch_before(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path))
    rows = spark.createDataFrame([], SCHEMAS["waiting"])
    before = store.write(State(4), "waiting", rows)
    after = store.write(replace(before, batch=5), "waiting", rows)
    assert len(after.parts["waiting"]) == 1
    assert after.parts["waiting"] != before.parts["waiting"]
    assert store.write(replace(after, batch=6), "waiting", rows).parts == before.parts


def test_pages_of_other_tables_and_of_other_times_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    store, count = Store(spark, str(tmp_path)), PAGE_ROWS * 3
    minute = f"id * 7 % {count} AS minute"  # each once, in no order
    counts = ("id AS ended", "0L AS outside", "0L AS early", "0L AS depth_max")
    ended = spark.range(0, count, 1, 1).selectExpr("1L AS router", "'ab' AS recipient", minute, *counts)
    turned = spark.createDataFrame([(1, "ab", "refused", "blocked", 2, 3, 1)], ADDED["turned"])
    state = store.add(State(0), {"ended": ended, "turned": turned})
    found = store.read(state, "turned")
    assert [tuple(row) for row in found.collect()] == [(1, "ab", "refused", "blocked", 2, 3, 1)]
    assert _scanned(found) <= PAGE_ROWS
    found = store.read(state, "ended").where(F.col("minute") >= count - 10)
    assert len(found.collect()) == 10
    assert _scanned(found) <= PAGE_ROWS


def _scanned(table: DataFrame) -> int:
    """Return how many rows were read of the files of a table that was collected."""
    plan = table._jdf.queryExecution().executedPlan()
    while not plan.nodeName().startswith("Scan"):
        plan = plan.executedPlan() if plan.nodeName() == "AdaptiveSparkPlan" else plan.children().apply(0)
    return int(plan.metrics().apply("numOutputRows").value())


def test_many_parts_become_one_with_the_same_sums(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_analytics.stream.state.PARTS_MAX", 3)
    store, state = Store(spark, str(tmp_path)), State()
    for batch in range(3):
        row = spark.createDataFrame([(1, "ab", batch % 2, batch, 1, 0, batch)], ADDED["ended"])
        turned = spark.createDataFrame(
            [(1, "ab", "refused", "blocked", batch, batch, 1)] * (batch == 1), ADDED["turned"]
        )
        state = store.add(replace(state, batch=batch), {"ended": row, "turned": turned})
        assert len(state.parts["turned"]) == (batch > 0), "a part counts where it has rows of the table"
        state = store.note_down(state, {"doubted": [{"path": str(batch)}]})
    folded = store.fold(state, {"turned": lambda table: table.withColumn("seq", F.lit(7).cast("bigint"))})
    assert [row.seq for row in store.read(folded, "turned").collect()] == [7]
    assert [len(folded.parts[table]) for table in ("added", "ledger")] == [1, 1]
    assert set(folded.unused) == {part for parts in state.parts.values() for part in parts}
    sums = {(row.minute, row.ended, row.outside, row.depth_max) for row in store.read(folded, "ended").collect()}
    assert sums == {(0, 0 + 2, 2, 2), (1, 1, 1, 1)}
    assert store.read(folded, "abuse").count() == 0
    for ledger in (Store(spark, str(tmp_path)).ledger(folded), store.ledger(folded)):
        assert sorted(row["path"] for row in ledger["doubted"]) == ["0", "1", "2"]
        assert ledger | {"doubted": []} == empty()
    store.clear(state.parts["added"])
    assert store.read(state, "ended").count() == 0
