"""What the Spark job writes: the local engine's tables row by row, and the logs' lines below them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pytest
from sabotage.saboteur import SABOTAGES
from sabotage.scene import copied
from samples.audit_logs import APP, B, Log
from samples.growing_logs import said
from samples.published_tables import TABLES, published, unlike

from router.audit import engine
from router.audit.listing import list_logs
from router.audit.sample.sample import write_sample
from spark_analytics import job
from spark_analytics.batch import days
from spark_analytics.judgement.reached import REACHED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

SPOILT = (
    "broken_custody", "contradicting_ends", "copied_elsewhere", "doubled_deliveries", "garbage_line", "removed_segment",
    "unknown_events",
)  # fmt: skip
FILE_BYTES = 40_000
"""So little that a day takes several files."""


class Audits(NamedTuple):
    """What both engines published of the same logs."""

    logs: Path
    local: Path
    spark: Path


@pytest.fixture(scope="module")
def audits(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audits:
    directory = tmp_path_factory.mktemp("tables")
    write_sample(directory / "fleet", 8, 500, 3, segment_bytes=60_000)
    scene = copied(directory / "fleet", directory / "logs", 2)
    for name in SPOILT:
        SABOTAGES[name](scene)
    odd_log().write(scene.directory / "odd" / "log")
    found = Audits(scene.directory, directory / "local", directory / "spark")
    engine.audit(list_logs([found.logs]), engine.Span(scene.as_of_ns), out=found.local)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(days, "FILE_BYTES", FILE_BYTES)
        job.main([str(found.logs), "--out", str(found.spark), "--as-of", str(scene.as_of_ns), "--bronze"])
    return found


def odd_log() -> Log:
    """A router with faults: ranges that leave their parcel, ends that nothing was accepted for, a clock that goes
    back, a message that is accepted twice."""
    log = Log(B)
    log.state("start")
    log.accepted(1, range(40), at=5)
    log.accepted(41, range(3), at=5)
    log.outward("delivered", [(1, 30)], at=1, boot="1" * 32)
    log.outward("delivered", [(38, 5)], at=9)
    log.outward("expired", [(700, 9)], at=9, parcel=700)
    log.outward("forwarded", [(31, 4)], at=9, depth=7)
    log.turned("refused", 3, "rate-limited")
    log.state("join", 9, group=APP, subscriber=APP)
    return log


def test_every_table_has_the_same_columns_and_rows(audits: Audits) -> None:
    assert unlike(audits.local, audits.spark) == {}
    assert [name for name in TABLES if not published(audits.spark, name).rows] == []


def test_the_summaries_are_the_same(audits: Audits) -> None:
    [text] = (audits.spark / "summary.json").glob("part-*")
    local, spark = json.loads((audits.local / "summary.json").read_text()), json.loads(text.read_text())
    assert said(spark) == said(local)
    assert [spark["run"][name] for name in REACHED] == [local["run"][name] for name in REACHED]


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
    assert len(set(dates)) == 2 and len(dates) > 2, "two days, and a day of several files"


def test_bronze_has_every_line_of_every_file_once(audits: Audits) -> None:
    """Also of files that count for nothing."""
    lines = {path: path.read_bytes().splitlines() for path in audits.logs.rglob("events-*.jsonl")}
    digests = {hashlib.sha256(b"\n".join(one[:-1]) + b"\n").hexdigest(): len(one) for one in lines.values()}
    assert len(digests) == len(lines) - 1, "one is a copy"
    found = read(audits.spark / "events_raw", "SELECT digest, count(*) FROM {table} GROUP BY ALL")
    assert dict(found) == digests
    corrupt = read(audits.spark / "events_raw", "SELECT segment, _corrupt FROM {table} WHERE _corrupt IS NOT NULL")
    segment, line = corrupt[0]
    assert line in lines[Path(segment)]
    [(first,)] = read(audits.spark / "events_raw", "SELECT min(ingested_at) FROM {table}")
    assert first is not None
