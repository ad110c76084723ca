"""The history of a Spark job's runs: a part for each, of which the newest stay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_analytics.batch import history
from spark_analytics.batch.history import too_old
from spark_analytics.batch.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEX = "0" * 32


def test_oldest_runs_beyond_the_limit_are_too_old() -> None:
    earlier = [f"run={digit * 32}" for digit in "fab"]
    dated = [f"run={number:020}-{HEX}" for number in (10, 9, 11)]
    names = [*dated, *earlier, "_temporary", "run=x.crc", "part-0.parquet"]
    assert too_old(names, 6) == []
    assert too_old(names, 4) == [f"run={'a' * 32}", f"run={'b' * 32}"]
    assert too_old(names, 1) == [*sorted(earlier), dated[1], dated[0]]


@pytest.mark.xdist_group("spark")
def test_parts_of_the_oldest_runs_are_removed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PARTS_MAX", 2)
    writer, there = Writer(str(tmp_path / "a b")), tmp_path / "a b" / history.NAME
    parts = [f"run={number:020}-{HEX}" for number in range(4)]
    for part in parts:
        (there / part).mkdir(parents=True)
    history.remove_oldest(spark, writer.place(history.NAME))
    assert sorted(path.name for path in there.iterdir()) == parts[2:]
    history.remove_oldest(spark, str(tmp_path / "none"))
