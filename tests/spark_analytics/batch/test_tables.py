"""The tables that the Spark job writes: those of the local engine row by row, and the logs' lines."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pytest
from fleets.shared import Fleets
from rigs.questions_paper import given
from sabotage.mixture import FEW, MANY, Mixture, mixture
from samples.growing_logs import said
from samples.published_tables import TABLES, published, unlike

from router.audit import engine
from router.audit.ask.answer import answer
from router.audit.ask.catalogue import all_questions
from router.audit.ask.question import AuditQuestion
from router.audit.listing import list_logs
from spark_analytics import job
from spark_analytics.batch import days
from spark_analytics.judgement.reached import REACHED
from spark_analytics.report.conflict_sentences import claims, went_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

ASKED = ("latency by hop", "findings")
"""Questions that Spark answers in the quick tests: a percentile, and texts."""
OF_WEEKS = "queues unlike last week"
"""The question about more than a week, which these logs do not have."""
FILE_BYTES = 40_000
"""Small enough that a day takes several files."""


class Audits(NamedTuple):
    """The tables that both engines published of the same logs."""

    logs: Path
    local: Path
    spark: Path


@pytest.fixture(scope="module", params=[FEW, pytest.param(MANY, marks=pytest.mark.long)], ids=["few", "many"])
def mixed(request: pytest.FixtureRequest, fleets: Fleets, tmp_path_factory: pytest.TempPathFactory) -> Mixture:
    return mixture(fleets, tmp_path_factory.mktemp("mixture") / "logs", request.param)


@pytest.fixture(scope="module")
def audits(spark: SparkSession, mixed: Mixture, tmp_path_factory: pytest.TempPathFactory) -> Audits:
    directory = tmp_path_factory.mktemp("tables")
    found = Audits(mixed.logs, directory / "local", directory / "spark")
    engine.audit(list_logs([found.logs]), engine.AuditSpan(mixed.as_of_ns), out=found.local)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(days, "FILE_BYTES", FILE_BYTES)
        job.main([str(found.logs), "--out", str(found.spark), "--as-of", str(mixed.as_of_ns), "--bronze"])
    return found


def test_every_lie_is_told_of(audits: Audits, mixed: Mixture) -> None:
    summary = json.loads((audits.local / "summary.json").read_text())
    each = (*summary["findings"], *claims(summary), *went_on(summary))  # of one kind the findings name ten
    told = "\n".join([*(row["text"] for row in each), *summary["problems"]])
    assert [text for text in mixed.says if text not in told] == []


def test_every_table_has_the_same_columns_and_rows(audits: Audits) -> None:
    assert unlike(audits.local, audits.spark) == {}
    assert [name for name in TABLES if not published(audits.spark, name).rows] == []


def test_the_summaries_are_the_same(audits: Audits) -> None:
    [text] = (audits.spark / "summary.json").glob("part-*")
    local, spark = json.loads((audits.local / "summary.json").read_text()), json.loads(text.read_text())
    assert said(spark) == said(local)
    assert [row for row in local["services"] if row["done"] and row["ended"]], "services that owe something"
    assert [spark["run"][name] for name in REACHED] == [local["run"][name] for name in REACHED]


@contextmanager
def named(audits: Audits, spark: SparkSession, tables: Iterable[str]) -> Iterator[None]:
    """Give Spark's tables their names in its session, for the time of the block."""
    names = sorted(set(tables))
    for table in names:
        spark.read.parquet(str(audits.spark / table)).createOrReplaceTempView(table)
    try:
        yield
    finally:
        for table in names:
            spark.catalog.dropTempView(table)


def text_of(question: AuditQuestion, audits: Audits) -> str:
    return question.filled(given(question, audits.local) | {"limit": "1000000"})


@pytest.mark.long  # One of them is asked quickly.
def test_spark_reads_the_text_of_every_question(audits: Audits, spark: SparkSession) -> None:
    questions = all_questions().values()
    with named(audits, spark, (table for question in questions for table in question.tables)):
        for question in questions:
            names = set(spark.sql(text_of(question, audits)).columns)
            heads = f"\n{question.sql}".rpartition("\nSELECT ")[2]
            assert names, question.name
            assert heads[0] == "*" or all(re.search(rf"\b{name}\b", heads) for name in names), question.name


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ASKED else pytest.mark.long) for name in all_questions()]
)
def test_spark_and_duckdb_answer_a_question_alike(name: str, audits: Audits, spark: SparkSession) -> None:
    question = all_questions()[name]
    local = answer(audits.local, text_of(question, audits), question.tables)
    own = local.columns.index("engine") if "engine" in local.columns else len(local.columns)
    with named(audits, spark, question.tables):
        remote = spark.sql(text_of(question, audits))
        found = [tuple(row) for row in remote.collect()]
    assert tuple(remote.columns) == local.columns and len(found) == len(local.rows)
    for row, other in zip(found, local.rows, strict=True):
        assert row[:own] + row[own + 1 :] == other[:own] + other[own + 1 :]
    assert found or name == OF_WEEKS, "a question without rows shows nothing"


def read(files: Path, query: str) -> list[Any]:
    with duckdb.connect() as connection:
        table = f"read_parquet('{files}/**/*.parquet', filename = true, file_row_number = true)"
        return connection.execute(query.format(table=table)).fetchall()


def test_events_lie_by_date_and_within_a_file_by_message_id(audits: Audits) -> None:
    rows = read(
        audits.spark / "events",
        "SELECT filename, date::VARCHAR, strftime(make_timestamp(t // 1000), '%Y-%m-%d'), ids, router, parcel, seq"
        " FROM {table} ORDER BY filename, file_row_number",
    )
    files: dict[str, list[tuple[Any, ...]]] = {}
    for name, date, day, *key in rows:
        assert date == day and f"/date={date}/" in name
        files.setdefault(name, []).append(tuple(value or ("" if at < 2 else 0) for at, value in enumerate(key)))
    assert all(keys == sorted(keys) for keys in files.values())
    dates = [Path(name).parent.name for name in files]
    assert len(dates) > len(set(dates)) > 1, "several days, and a day of several files"


def test_bronze_has_every_line_of_every_file_once(audits: Audits) -> None:
    """Files that do not count are included."""
    lines = {path: path.read_bytes().splitlines() for path in audits.logs.rglob("*.jsonl")}
    digests = {hashlib.sha256(b"\n".join(one[:-1]) + b"\n").hexdigest(): len(one) for one in lines.values()}
    assert 0 < len(digests) < len(lines), "some are copies"
    found = read(audits.spark / "events_raw", "SELECT digest, count(*) FROM {table} GROUP BY ALL")
    assert dict(found) == digests
    corrupt = read(audits.spark / "events_raw", "SELECT segment, _corrupt FROM {table} WHERE _corrupt IS NOT NULL")
    segment, line = corrupt[0]
    assert line in lines[Path(segment)]
    [(first,)] = read(audits.spark / "events_raw", "SELECT min(ingested_at) FROM {table}")
    assert first is not None
