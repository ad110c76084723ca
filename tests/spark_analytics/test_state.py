"""A stream's state: the last note that was written whole counts, and parts of one size become one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_analytics.state import PARTS_MAX, State, Store

pytestmark = pytest.mark.xdist_group("spark")


def test_a_batch_goes_on_from_the_one_before_also_when_it_is_done_again(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path))
    for batch in range(3):
        assert store.base(batch).batch == batch - 1
        store.commit(State(batch))
    store.commit(State(2, messages=5))
    assert store.base(2) == State(1)
    assert store.base(3) == State(2, messages=5)


def test_a_note_that_was_not_finished_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path))
    store.commit(State(0))
    store.commit(State(1))
    [torn] = [path for path in (tmp_path / "state").iterdir() if '"batch": 1' in next(path.glob("part*")).read_text()]
    for file in torn.iterdir():
        file.unlink()
    assert store.base(2) == State(0)


def test_many_parts_become_one_with_the_same_sums(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(spark, str(tmp_path))
    rows = [{"router": 1, "minute": minute % 2, "n": minute} for minute in range(PARTS_MAX)]
    parts = tuple(store.write("lines", number, store.frame("lines", [row])) for number, row in enumerate(rows))
    state = store.fold(State(PARTS_MAX, parts={"lines": parts}), PARTS_MAX)
    assert len(state.parts["lines"]) == 1
    assert set(state.unused) == set(parts)
    sums = {(row.minute, row.n) for row in store.read(state, "lines").collect()}
    assert sums == {(0, sum(range(0, PARTS_MAX, 2))), (1, sum(range(1, PARTS_MAX, 2)))}
    store.clear(state.unused)
    assert store.read(replace(state, parts={"lines": parts}), "lines").count() == 0
