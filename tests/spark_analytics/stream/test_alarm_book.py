"""The alarms of a stream on disk: the table, what stands, and what a command is told again after a crash."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from samples.audit_logs import LATE, START, Log, audited
from samples.growing_logs import said

from spark_analytics.judgement.evidence import Evidence
from spark_analytics.report.summary import SUMS, build
from spark_analytics.stream.alarm_book import SEGMENT_S, SEGMENTS_MAX, AlarmBook, taken_in
from spark_analytics.stream.notify import Notifier
from spark_analytics.stream.run import run_stream

pytestmark = pytest.mark.xdist_group("spark")
SECOND = 10**9
AWAY_S = 2 * SEGMENTS_MAX * SEGMENT_S
WRITE = "import sys; print(sys.stdin.read(), end='', file=open(sys.argv[1], 'a'))"
A, B = "aa" * 32, "bb" * 32


def audited_with(**counts: int) -> dict[str, Any]:
    """Return the summary of a router's whole log with these sums."""
    evidence = Evidence((), (), (), (), (), (), frozenset())
    return build({"totals": [{"router": A, **dict.fromkeys(SUMS, 0), **counts}]}, evidence, 10**18, "any", {})


LOST, WELL = audited_with(owed=5, unaccounted=1, delivered=4), audited_with(owed=5, delivered=5)
HEADS = {A: (9, 100 * SECOND), B: (7, 100 * SECOND)}


class Run:
    """Runs of a stream in one place, each with a command that writes down what it is told."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root = spark, root
        (root / "checkpoint").mkdir(parents=True)
        (root / "checkpoint" / "metadata").write_text(json.dumps({"id": "the stream"}))

    def begin(self, program: str = WRITE) -> AlarmBook:
        command = shlex.join([sys.executable, "-c", program, str(self.root / "told")])
        notifier = Notifier(command, lambda what: None, taken=taken_in(str(self.root)))
        return AlarmBook(self.spark, str(self.root), notifier, 10.0, lambda what: None)

    def told(self) -> list[tuple[str, str, str]]:
        lines = (self.root / "told").read_text().splitlines() if (self.root / "told").exists() else []
        rows = [json.loads(line) for line in lines]
        return [(row["change"], row["finding"], row["key"]) for row in rows]

    def table(self) -> list[tuple[int, int, str, str]]:
        rows = self.spark.read.parquet(str(self.root / "alarm")).orderBy("batch", "step").collect()
        return [(row.batch, row.step, row.change, row.finding) for row in rows]


def test_no_log_is_late_of_which_files_may_lie_there_unread(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path / "out")
    book = run.begin()
    book.take(WELL, HEADS, 0, 200 * SECOND, has_all=False)
    book.look(None)
    book.look(110 * SECOND)
    book.close()
    assert run.told() == [] and not (run.root / "alarm").exists()


@pytest.mark.long
def test_alarms_are_told_once_over_runs_again_with_the_same_key_after_a_crash_and_kept_in_a_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path / "out")
    first = run.begin()
    first.take(WELL, HEADS, 0, 101 * SECOND, has_all=True)
    first.take(LOST, HEADS, 1, 102 * SECOND, has_all=True)
    first.look(103 * SECOND)
    first.close()
    [(change, finding, key)] = run.told()
    assert (change, finding) == ("raised", "unaccounted")

    for times in (1, 2):
        again = run.begin()  # killed before Spark had noted down the end of batch 1
        again.take(LOST, HEADS, 1, 110 * SECOND, has_all=True)
        again.close()
        assert run.told() == [("raised", "unaccounted", key)] * times
        (run.root / "state" / "alarms-taken").unlink()  # then it is told again, with the same key

    third = run.begin("import sys; sys.exit(1)")
    third.look(131 * SECOND)
    third.take(LOST, HEADS, 2, 132 * SECOND, has_all=False)
    third.close(0)
    assert len(run.told()) == 2
    fourth = run.begin()
    fourth.look(132 * SECOND)
    fourth.take(WELL, {A: (9, 130 * SECOND)}, 3, 133 * SECOND, has_all=True)
    fourth.close()
    assert [one[:2] for one in run.told()[2:]] == [
        ("raised", "head-late"), ("raised", "head-late"), ("cleared", "unaccounted"), ("cleared", "head-late"),
        ("cleared", "head-late"),
    ]  # fmt: skip
    assert sorted(run.table()) == [
        (1, 0, "raised", "unaccounted"), (1, 2, "raised", "head-late"), (1, 2, "raised", "head-late"),
        (3, 0, "cleared", "head-late"), (3, 0, "cleared", "head-late"), (3, 0, "cleared", "unaccounted"),
    ]  # fmt: skip


@pytest.mark.long
def test_a_stream_says_what_its_batches_find_and_audits_as_before(spark: SparkSession, tmp_path: Path) -> None:
    """A log that says that the router misses units, and later that it has them again. Meanwhile the stream is away for
    longer than a log may be silent."""
    logs, out, told = tmp_path / "logs", tmp_path / "out", tmp_path / "told"
    log = Log()
    log.accepted(1, range(3))
    log.outward("delivered", [(1, 3)])
    log.state("alarm", 2, alarm="unaccounted", state="raised", since_s=17, number=2, peer=B, arrival=9)

    def batch(at: float) -> dict[str, Any]:
        command = shlex.join([sys.executable, "-c", WRITE, str(told)])
        found = run_stream(spark, [str(logs)], str(out), as_of=lambda: START + int(at * SECOND), notify=command)
        assert found is not None and said(found) == said(audited(logs, at=at))
        return found

    log.write(logs)
    assert batch(LATE)["alarms"]
    log.state("alarm", 3, alarm="unaccounted", state="over", since_s=17, number=2, peer=B)
    log.state("stop", LATE + AWAY_S)
    log.write(logs, [3])
    assert not batch(LATE + AWAY_S)["alarms"]
    rows = [json.loads(line) for line in told.read_text().splitlines()]
    assert [(row["change"], row["finding"], row["peer"]) for row in rows] == [
        ("raised", "alarm:unaccounted", B), ("cleared", "alarm:unaccounted", B),
    ]  # fmt: skip
