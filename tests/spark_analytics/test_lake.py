"""Tables as Delta and Iceberg, by the oldest Spark of the extra: in a directory, and in an object store that fails now
and then, on this machine alone and on a cluster of which parts are killed. The newest, which has neither, refuses
both."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyspark
import pytest
from fleets.shared import Fleets
from rigs.lake_packages import FETCHED, OLDEST, PYTHON, ROOT, S3A, SESSION, newest, with_packages
from rigs.oldest_spark import oldest_spark
from rigs.s3_store import S3Store, s3_store
from rigs.spark_cluster import (
    READING,
    TASK_ENDED,
    WRITING,
    SparkMaster,
    StandaloneCluster,
    Step,
    standalone_cluster,
)
from rigs.submitted_audit import Audited, environment, heard_java, job_and_sources, spark_home, summary_in
from samples.growing_logs import said
from samples.published_tables import TABLES, unlike

from spark_analytics.batch.trial import PACKAGES

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not FETCHED.exists(), reason="needs the packages of Delta, Iceberg and S3: `make lake`"),
]
READER = ROOT / "tests" / "rigs" / "lake_tables.py"


@pytest.fixture
def audited(fleets: Fleets, tmp_path: Path) -> Audited:
    return Audited(fleets(3, 60, 0), tmp_path / "local")


@pytest.fixture
def oldest(packaged_java: Path, tmp_path: Path) -> SparkMaster:
    return oldest_spark(packaged_java, tmp_path)


@pytest.fixture
def cluster(oldest: SparkMaster, tmp_path: Path) -> Iterator[StandaloneCluster]:
    with standalone_cluster(oldest.home, tmp_path, oldest.environment) as started:
        yield started


@pytest.fixture
def store() -> Iterator[S3Store]:
    with s3_store(PYTHON) as started:
        started.put("logs")
        started.put("audit")
        yield started


def settings_of(kind: str, place: str, scratch: Path, *more: str) -> dict[str, str]:
    """Return the settings of a session. `place`: the path above the tables; `more`: packages beside the format's."""
    own = {"spark.sql.catalog.lake.warehouse": place} if kind == "iceberg" else {}
    local = {"spark.local.dir": str(scratch / "shuffle")}
    return SESSION[kind] | own | local | with_packages([PACKAGES[kind][OLDEST], *more])


def write_tables(
    master: SparkMaster,
    kind: str,
    logs: str,
    place: str,
    now: int,
    settings: Mapping[str, str],
    scratch: Path,
    steps: Sequence[Step] = (),
) -> str:
    """Submit the job, and let it write tables of this format to a place; return its output."""
    named = ["--catalog", "lake", "--schema", "fleet"] if kind == "iceberg" else []
    asked = ["--out", place, "--format", kind, *named, "--as-of", str(now)]
    code, text = master.submit([*job_and_sources(scratch), logs, *asked], settings, steps)
    assert code == 0, text[-4000:]
    return text


def check_tables(
    master: SparkMaster, kind: str, place: str, audited: Audited, settings: Mapping[str, str], out: Path
) -> None:
    """Compare the tables, read by a session of their own, with those of the local engine."""
    named = "lake.fleet" if kind == "iceberg" else place
    code, text = master.submit([str(READER), kind, named, str(out), *TABLES], settings)
    assert code == 0, text[-4000:]
    assert unlike(audited.tables, out) == {}


def compare_in_store(
    master: SparkMaster, kind: str, store: S3Store, audited: Audited, scratch: Path, steps: Sequence[Step] = ()
) -> str:
    """Let the job read logs and write tables in the store, and compare tables and summary with those of the local
    engine; return the job's output. The store answers each 17th request with 503 and breaks each 7th read off."""
    store.upload(audited.logs, "logs/fleet")
    store.put("audit/lake/fleet/")
    place = "s3a://audit/lake"
    settings = settings_of(kind, place, scratch, S3A) | store.settings()
    output = write_tables(master, kind, "s3a://logs/fleet", place, audited.now, settings, scratch, steps)
    found = store.failures()
    assert found["busy"] and found["broken"]
    store.download("audit", "lake/summary.json", scratch / "found" / "summary.json")
    text = json.dumps(summary_in(scratch / "found")).replace("s3a://logs/fleet", str(audited.logs))
    assert json.loads(text) == said(audited.summary)
    check_tables(master, kind, place, audited, settings, scratch / "plain")
    return output


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_lake_in_a_directory_has_the_rows_of_the_local_engine(
    kind: str, oldest: SparkMaster, audited: Audited, tmp_path: Path
) -> None:
    place = tmp_path / "lake"
    (place / "fleet").mkdir(parents=True)  # The schema, as a catalog in files has it.
    settings = settings_of(kind, str(place), tmp_path)
    write_tables(oldest, kind, str(audited.logs), str(place), audited.now, settings, tmp_path)
    assert summary_in(place) == said(audited.summary)
    check_tables(oldest, kind, str(place), audited, settings, tmp_path / "plain")


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_lake_in_an_object_store_that_fails_has_the_rows_of_the_local_engine(
    kind: str, oldest: SparkMaster, store: S3Store, audited: Audited, tmp_path: Path
) -> None:
    compare_in_store(oldest, kind, store, audited, tmp_path)


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_lake_of_a_cluster_that_loses_an_executor_and_a_worker_has_the_rows_of_the_local_engine(
    kind: str, cluster: StandaloneCluster, store: S3Store, audited: Audited, tmp_path: Path
) -> None:
    """Each is killed once a first task is done: the executor while the lines are read, the worker while the tables are
    written."""
    killing = [(READING, None), (TASK_ENDED, cluster.kill_executor), (WRITING, None), (TASK_ENDED, cluster.kill_worker)]
    output = compare_in_store(cluster, kind, store, audited, tmp_path, killing)
    assert len(set(re.findall(r"Lost executor (\d+)", output))) >= 2


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_format_without_a_package_for_this_spark_is_refused_before_anything_is_written(
    kind: str, packaged_java: Path, audited: Audited, tmp_path: Path
) -> None:
    home = spark_home(tmp_path / "newest", Path(pyspark.__file__).parent)
    master = SparkMaster("local[1]", home, environment(heard_java(packaged_java), home, sys.executable))
    place = tmp_path / "lake"
    (place / "fleet").mkdir(parents=True)
    settings = settings_of(kind, str(place), tmp_path) | with_packages([newest(kind)])
    named = ["--catalog", "lake", "--schema", "fleet"] if kind == "iceberg" else []
    asked = ["--out", str(place), "--format", kind, *named]
    code, text = master.submit([*job_and_sources(tmp_path), str(audited.logs), *asked], settings)
    assert code == 2, text[-4000:]
    assert (
        f"no table was written: Spark {pyspark.__version__} cannot write and read tables of the format {kind}" in text
    )
    assert f"is there for Spark 4.1 ({PACKAGES[kind]['4.1']})" in text
    assert [path for path in place.rglob("*") if path.is_file()] == []
