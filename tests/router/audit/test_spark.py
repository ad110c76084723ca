"""The work of the Spark engine around Spark itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from samples.audit_logs import LATE, SECOND, START, Log

from router.audit import spark
from router.audit.database import AuditFailed
from router.audit.engine import AuditSpan
from router.audit.listing import list_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AS_OF = AuditSpan(START + LATE * SECOND)


def log() -> Log:
    found = Log()
    found.accepted(1, range(3), ttl=60)
    found.outward("delivered", [(1, 2)])
    found.state("stop", LATE)
    return found


def test_without_spark_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = log().write(tmp_path)
    monkeypatch.setitem(sys.modules, "pyspark.errors", None)
    with pytest.raises(AuditFailed, match=r"pip install '.\[spark\]'"):
        spark.audit(list_logs([directory]), AS_OF)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("java.io.IOException: No space left on device\n at x", "the disk has no room"),
        ("java.lang.OutOfMemoryError: Java heap space", "--memory"),
        ("SparkException: Not enough memory to build and broadcast the table to all worker nodes.", "--memory"),
        ("Job 137 cancelled because SparkContext was shut down", "--memory"),
        ("[X] something\n  else", "Spark failed: [X] something else"),
    ],
)
def test_what_spark_says_becomes_a_sentence(said: str, sentence: str) -> None:
    assert sentence in spark._sentence(said)


@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_paths_that_nobody_knows_are_told_by_their_names(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    session: SparkSession = request.getfixturevalue("spark")
    [tail] = log().write_tail(tmp_path / "logs").iterdir()
    tail.write_bytes(tail.read_bytes() + b"{")
    listing = list_logs([tail])
    listing.names[str(tail)] = name = "HOME (unsealed events)"
    found = spark.audited(session, listing, AS_OF, str(tmp_path / "out"))
    [quarantined] = session.read.parquet(str(tmp_path / "out" / "quarantine")).collect()
    assert [file["path"] for file in found["files"]] == [quarantined.path] == [name]
    assert quarantined.problems and all(problem.startswith(f"{name}:") for problem in quarantined.problems)
