"""Rows that a file system did not keep, or does not list yet, are missed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from spark_analytics.batch import writer as writers
from spark_analytics.batch.kept_rows import NotKept, is_here, write_checked
from spark_analytics.batch.trial import CannotWrite, try_place
from spark_analytics.batch.writer import Writer, save_parquet

pytestmark = pytest.mark.xdist_group("spark")
MOUNT = "fs.viewfs.mounttable.kept.link./out"


@pytest.fixture
def elsewhere(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """Return a path that is not of this machine's own file system, for all that a writer knows."""
    spark.conf.set(MOUNT, f"file:{tmp_path}")
    yield "viewfs://kept/out"
    spark.conf.unset(MOUNT)


def test_only_paths_of_this_machine_are_here() -> None:
    assert is_here("/logs") and is_here("file:///logs") and not is_here("s3a://logs")


def test_tables_and_texts_that_are_whole_are_written(spark: SparkSession, elsewhere: str, tmp_path: Path) -> None:
    writer = Writer(elsewhere)
    for rows in ([], [(1, "x"), (2, "y"), (2, "z")]):
        table = spark.createDataFrame(rows, "seq long, day string")
        writer.write("one", table, "day")
        writer.write("other", table)
        writer.append("third", table, f"{len(rows)}")
        writer.write("fourth", table.where("seq > 5").coalesce(1))
        writer.text(spark, "page", "two\nlines")
    assert spark.read.parquet(str(tmp_path / "one")).count() == spark.read.parquet(str(tmp_path / "third")).count() == 3
    try_place(spark, writer)


def test_a_table_that_lacks_rows_is_told(spark: SparkSession, elsewhere: str) -> None:
    rows = spark.createDataFrame([(1,), (2,)], "seq long")
    with pytest.raises(NotKept, match=r"the table at viewfs:.*/t is not whole \(2 rows were written, and 1 are"):
        write_checked(rows, f"{elsewhere}/t", lambda rows: save_parquet(rows.where("seq > 1"), f"{elsewhere}/t"))
    with pytest.raises(NotKept, match=r"2 rows were written, and 0 are there"):
        write_checked(rows, f"{elsewhere}/u", lambda rows: save_parquet(rows, f"{elsewhere}/v"))


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_write_that_does_not_see_its_own_files_is_told(spark: SparkSession, elsewhere: str, is_nested: bool) -> None:
    """As Hadoop's committer fails in a store that lists late; where another file is missing, the error stays."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None

    def fail(place: str) -> None:
        error = jvm.java.io.FileNotFoundException(f"No such file or directory: {place}/_temporary/0")
        raise Py4JJavaError(
            "called", jvm.org.apache.spark.SparkException("Job aborted.", error) if is_nested else error
        )

    with pytest.raises(
        NotKept, match=r"/t is not whole \(java.io.FileNotFoundException: No such file .*_temporary/0\)"
    ):
        write_checked(spark.range(1), f"{elsewhere}/t", lambda rows: fail(f"{elsewhere}/t"))
    with pytest.raises(Py4JJavaError):
        write_checked(spark.range(1), f"{elsewhere}/t", lambda rows: fail("s3a://logs/one"))


def test_a_text_that_is_not_there_is_told(spark: SparkSession, elsewhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "table_of", lambda spark, rows, schema: spark.createDataFrame([("other",)], schema))
    with pytest.raises(NotKept, match=r"the text at .*/page is not whole"):
        Writer(elsewhere).text(spark, "page", "text")


def test_a_place_that_keeps_nothing_is_found_before_anything_is_written(
    spark: SparkSession, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Writer._write

    def less(writer: Writer, name: str, table: DataFrame, by: tuple[str, ...]) -> None:
        whole(writer, name, table.where("number > 1"), by)

    monkeypatch.setattr(Writer, "_write", less)
    with pytest.raises(CannotWrite, match=r"no table was written: a table of one row was tried, and the table at"):
        try_place(spark, Writer(elsewhere))
