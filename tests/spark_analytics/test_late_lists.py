"""Logs in an object store that lists new objects late are audited without them, and then with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleets.shared import Fleets
from rigs.lake_packages import FETCHED, PYTHON, ROOT, S3A, with_packages
from rigs.oldest_spark import oldest_spark
from rigs.s3_store import S3Store, s3_store
from rigs.spark_cluster import SparkMaster
from rigs.submitted_audit import job_and_sources
from samples.growing_logs import GrowingLogs, delivered, delivered_locally, said

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not FETCHED.exists(), reason="needs the packages of S3: `make lake`"),
]
AUDITS = ROOT / "tests" / "rigs" / "late_audits.py"
FOR_GOOD = 1_000_000_000
"""Lists from which new objects are left out: all of a test."""


@pytest.fixture
def oldest(packaged_java: Path, tmp_path: Path) -> SparkMaster:
    return oldest_spark(packaged_java, tmp_path)


@pytest.fixture
def store() -> Iterator[S3Store]:
    with s3_store(PYTHON) as started:
        started.put("logs")
        yield started


def settings(store: S3Store, scratch: Path) -> dict[str, str]:
    return store.settings() | with_packages([S3A]) | {"spark.local.dir": str(scratch / "shuffle")}


def test_a_segment_that_is_listed_late_is_missing_and_then_counted(
    oldest: SparkMaster, store: S3Store, fleets: Fleets, tmp_path: Path
) -> None:
    logs = GrowingLogs(fleets(3, 60, 0), tmp_path, seed=0)
    first, late, *others = sorted(logs.there.rglob("events-*.jsonl"))
    logs.bring([first, *others])
    store.upload(logs.here, "logs/fleet")
    without = logs.audited()
    store.list_late(FOR_GOOD)
    logs.bring([late])
    store.upload(logs.here, "logs/fleet")
    sources = job_and_sources(tmp_path)[:-1]
    asked = ["s3a://logs/fleet", str(tmp_path / "out"), str(logs.now), store.url, str(tmp_path / "answer")]
    code, text = oldest.submit([*sources, str(AUDITS), *asked], settings(store, tmp_path))
    assert code == 0, text[-4000:]
    assert store.failures()["late"]
    answer = (tmp_path / "answer").read_text().replace("s3a://logs/fleet", str(logs.here))
    streamed, audited, streamed_after, audited_after = json.loads(answer)
    assert without["holes"] and said(streamed) == said(audited) == without
    assert said(streamed_after) == said(audited_after) == logs.audited(tmp_path / "local")
    assert "rebuilt" not in streamed_after["run"] and "full" not in streamed_after["run"]
    assert delivered(tmp_path / "out") == delivered_locally(tmp_path / "local")
