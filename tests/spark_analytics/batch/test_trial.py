"""The place of the tables is tried before anything is written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from samples.audit_logs import LATE, Log

from spark_analytics import job
from spark_analytics.batch.trial import CannotWrite, sentence, try_place, try_schema
from spark_analytics.batch.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def a_session(catalogs: dict[str, str], asked: list[str], *, is_there: bool) -> SparkSession:
    """Return what answers as a session with these catalogs, of which each does or does not know a schema. `asked`: the
    names of the schemas that it is asked for."""

    def exists(name: str) -> bool:
        asked.append(name)
        return is_there

    conf = SimpleNamespace(get=lambda name, default: catalogs.get(name.removeprefix("spark.sql.catalog."), default))
    session: Any = SimpleNamespace(version="4.1.4", conf=conf, catalog=SimpleNamespace(databaseExists=exists))
    return cast("SparkSession", session)


@pytest.mark.parametrize(
    ("writer", "version", "cause", "says"),
    [
        (
            Writer("s3a://a/", format="delta"),
            "4.3.0",
            "java.lang.NoSuchMethodError",
            "Delta is there for Spark 4.1 (",
        ),
        (Writer("/a", format="delta"), "4.1.4", "DATA_SOURCE_NOT_FOUND", "--packages io.delta:delta-spark_4.1_2.13:"),
        (Writer(None, "lake", "audit", "iceberg"), "4.1.4", "[SCHEMA_NOT_FOUND]", "(CREATE SCHEMA `lake`.`audit`)"),
        (Writer(None, "lake", "audit"), "4.3.0", "[CATALOG_NOT_FOUND]", "set spark.sql.catalog.lake in the session"),
        (Writer("s3a://a/"), "4.3.0", "ClassNotFoundException", "give the session the connector and the keys"),
    ],
)
def test_what_cannot_be_written_is_told_with_its_remedy(writer: Writer, version: str, cause: str, says: str) -> None:
    told = sentence(writer, version, cause)
    assert told.startswith(f"no table was written: Spark {version} cannot write and read tables of the format ")
    assert f"({cause}); " in told and says in told


@pytest.mark.parametrize("catalog", [None, "lake"])
def test_a_schema_that_its_catalog_does_not_know_is_refused_before_a_table_is_tried(catalog: str | None) -> None:
    asked: list[str] = []
    session = a_session({"lake": "org.example.Catalog"}, asked, is_there=False)
    with pytest.raises(
        CannotWrite, match=r"\(\[SCHEMA_NOT_FOUND\] the catalog knows no such schema\); create it first"
    ):
        try_place(session, Writer(None, catalog, "audit", "iceberg"))
    assert asked == ["`lake`.`audit`" if catalog else "`audit`"]


@pytest.mark.parametrize(
    ("writer", "names"),
    [
        (Writer(None, "lake", "audit", "iceberg"), ["`lake`.`audit`"]),
        (Writer(None, "other", "audit", "iceberg"), []),
        (Writer("s3a://a/", format="delta"), []),
    ],
)
def test_a_schema_that_is_there_or_whose_catalog_the_session_lacks_is_left_to_the_trial(
    writer: Writer, names: list[str]
) -> None:
    asked: list[str] = []
    try_schema(a_session({"lake": "org.example.Catalog"}, asked, is_there=True), writer)
    assert asked == names


@pytest.mark.xdist_group("spark")
def test_nothing_is_written_where_the_format_or_the_schema_is_lacking(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = Log(), tmp_path / "out"
    log.state("stop", LATE)
    asked = [str(log.write(tmp_path / "log")), "--out", str(out)]
    assert job.main([*asked, "--format", "delta"]) == 2
    assert "cannot write and read tables of the format delta" in capsys.readouterr().err
    assert job.main([*asked, "--schema", "lacking"]) == 2
    assert "create it first (CREATE SCHEMA `lacking`)" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.xdist_group("spark")
def test_a_trial_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    try_place(spark, Writer(str(tmp_path / "here")))
    assert not (tmp_path / "here").exists()
    spark.sql("CREATE SCHEMA tried")
    try_place(spark, Writer(schema="tried"))
    assert spark.sql("SHOW TABLES IN tried").collect() == []
    spark.sql("DROP SCHEMA tried")
    with pytest.raises(CannotWrite, match="No FileSystem for scheme"):
        try_place(spark, Writer("none://here"))


def test_iceberg_without_a_schema_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        job.main(["logs", "--out", "out", "--format", "iceberg"])
    assert "needs --schema" in capsys.readouterr().err
