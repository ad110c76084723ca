"""Tables that a job has not finished, or that two jobs wrote at once, say so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from samples.audit_logs import LATE, Log
from samples.published_tables import published

from router.audit.ask.answer import NoAnswer, check_output
from spark_analytics import job
from spark_analytics.batch.run_mark import OverlappingAudits, RunMark
from spark_analytics.batch.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")


class Killed(BaseException):
    """Ends a job where nothing of it can go on, as a signal does."""


@pytest.mark.long
def test_a_job_killed_between_two_tables_leaves_a_set_that_no_question_reads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = Log(), tmp_path / "out"
    log.state("stop", LATE)
    asked = [str(log.write(tmp_path / "log")), "--out", str(out)]
    whole = Writer.write

    def until_custody(writer: Writer, name: str, table: DataFrame, *partitioned_by: str) -> None:
        if name == "custody":
            raise Killed
        whole(writer, name, table, *partitioned_by)

    with monkeypatch.context() as killing:
        killing.setattr(Writer, "write", until_custody)
        with pytest.raises(Killed):
            job.main(asked)
    assert (out / "delivery").is_dir() and not (out / "custody").exists()
    with pytest.raises(NoAnswer, match=r"is unfinished.*run it again"):
        check_output(out)
    capsys.readouterr()
    assert job.main(asked) == 0
    check_output(out)
    [[_, _, verdict, run]] = published(out, "audit_run").rows
    assert f"verdict: {verdict}\n" in capsys.readouterr().out and '"id"' in run


@pytest.mark.long
def test_two_audits_at_once_at_one_place_are_both_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first finds the mark of the second as it ends, and leaves one that the second finds."""
    log, out = Log(), tmp_path / "out"
    log.state("stop", LATE)
    second = RunMark(spark, Writer(str(out)), "")
    whole = Writer.write

    def after_custody(writer: Writer, name: str, table: DataFrame, *partitioned_by: str) -> None:
        whole(writer, name, table, *partitioned_by)
        if name == "custody":
            second.begin()

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Writer, "write", after_custody)
        assert job.main([str(log.write(tmp_path / "log")), "--out", str(out)]) == 2
    assert f"another audit wrote its tables to {out} while this one did" in capsys.readouterr().err
    with pytest.raises(OverlappingAudits):
        second.check()
    with pytest.raises(NoAnswer, match="is unfinished"):
        check_output(out)


def test_no_question_reads_tables_that_are_marked(spark: SparkSession, tmp_path: Path) -> None:
    mark = RunMark(spark, Writer(str(tmp_path)), "")
    mark.begin()
    mark.check()
    with pytest.raises(NoAnswer, match=r"is unfinished.*run it again"):
        check_output(tmp_path)


def test_a_mark_in_a_schema_is_read_as_it_is_now(spark: SparkSession) -> None:
    spark.sql("CREATE SCHEMA marked")
    mine = RunMark(spark, Writer(schema="marked"), "")
    mine.begin()
    mine.check()
    RunMark(spark, mine.writer, "").begin()
    with pytest.raises(OverlappingAudits, match="to `marked`"):
        mine.check()
    spark.sql("DROP SCHEMA marked CASCADE")
