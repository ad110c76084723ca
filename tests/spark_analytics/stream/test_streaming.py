"""The audit of growing logs gives, after every batch, the summary and rows of an audit of all files, whatever the order
in which files come, come again or take back earlier counts, and wherever a run was interrupted."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleets.shared import Fleets
from fleets.writing import TRUTH
from pyspark.sql import SparkSession
from rigs.questions_paper import given
from samples.growing_logs import GrowingLogs, delivered, delivered_locally, said
from samples.published_tables import published
from world.mesh import play

from router.audit.ask.answer import NOT_OF_STREAMS, NoAnswer, answer
from router.audit.ask.catalogue import all_questions
from spark_analytics.batch.audit import PARTITION_BYTES
from spark_analytics.batch.session import FEW_BYTES
from spark_analytics.batch.writer import Writer
from spark_analytics.stream import dates
from spark_analytics.stream.run import run_stream
from spark_analytics.stream.sizes import partitions_of
from spark_analytics.stream.state import Store
from spark_analytics.stream.stopped import Stopped, alone
from spark_analytics.stream.stream_tables import HOURS
from spark_analytics.streaming import main

pytestmark = pytest.mark.xdist_group("spark")
STEPS = [(Store, "_save"), (Store, "commit"), (Writer, "write"), (Writer, "replace"), (Writer, "text")]
"""Everything that a batch writes."""
STEPS_MAX = 20
LONG_AGO = 1_000_000_000


@pytest.mark.long  # The sums of a batch are those of test_tables, and what is kept between batches is tested by itself.
@pytest.mark.parametrize("is_copy_alone", [False, True])
def test_logs_that_grow_are_audited_as_if_they_had_come_at_once(
    spark: SparkSession,
    fleets: Fleets,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_copy_alone: bool,
) -> None:
    """A torn state is reported with its remedy. The copy of a segment comes in a batch of its own, or with late
    segments."""
    logs, out, chance = GrowingLogs(fleets(3, 300, 7), tmp_path, seed=7), tmp_path / "out", random.Random()

    def run(**options: Any) -> dict[str, Any]:
        found = run_stream(spark, [str(logs.here)], str(out), as_of=lambda: logs.now, **options)
        assert found is not None
        return found

    def agrees(found: dict[str, Any], when: str) -> None:
        assert said(found) == logs.audited(tmp_path / "local"), when
        assert delivered(out) == delivered_locally(tmp_path / "local"), when
        for table in {*HOURS, *dates.TABLES}:
            assert published(out, table) == published(tmp_path / "local", table), f"{table}: {when}"

    first, second = logs.portions(2)
    logs.bring(first)
    heard: list[str] = []
    agrees(
        run(every_s=0.1, report=heard.append, is_over=lambda: any(" after " in what for what in heard)),
        "stopped after a batch",
    )

    logs.bring(second)
    os.utime(logs.here / second[0].relative_to(logs.there), (LONG_AGO, LONG_AGO))
    if not is_copy_alone:
        logs.bring([first[0]], under="0")
    step = chance.randrange(STEPS_MAX)
    with monkeypatch.context() as patch:
        _fail_at(patch, step)
        with pytest.raises(Stopped, match="No space left on device"):
            run()
    found = run()
    agrees(found, f"late segments, in a batch that failed when it had written {step} times")

    assert "rebuilt" not in found["run"]
    if not is_copy_alone:
        questions_are_answered_or_refused(out, tmp_path / "local")
        return
    rows = delivered(out)
    logs.bring([first[0]], under="0")
    found = run()
    agrees(found, "a segment that came again")
    assert delivered(out) == rows
    assert "rebuilt" not in found["run"]

    logs.there = fleets(3, 310, 7)  # with the same keys
    logs.bring(sorted(logs.there.rglob("events-*.jsonl"))[:1], under="other")
    forked = run()
    assert "do not count any more" in forked["run"]["rebuilt"]
    agrees(forked, "a fork that showed later")

    for part in (out / "state" / "ledger").rglob("*.parquet"):
        part.with_name(f".{part.name}.crc").unlink()
        part.write_bytes(b"torn")
    logs.bring(sorted(logs.there.rglob("events-*.jsonl"))[1:2], under="other")
    assert main([str(logs.here), "--out", str(out), "--as-of", str(logs.now)]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert f"the audit in {out} stopped: what an earlier run wrote there cannot be read: take the whole" in told


@pytest.mark.long
def test_logs_of_a_mesh_that_grow_are_audited_as_if_they_had_come_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """Copies, and acceptances that they rest on, come in batches of any order."""
    fleet = tmp_path / "fleet"
    as_of_ns = play(0, 3, fleet)
    (fleet / TRUTH).write_text(json.dumps({"as_of_ns": as_of_ns}))
    logs, out = GrowingLogs(fleet, tmp_path, seed=3), tmp_path / "out"
    for portion in logs.portions(3):
        logs.bring(portion)
        found = run_stream(spark, [str(logs.here)], str(out), as_of=lambda: logs.now)
        assert said(found) == logs.audited(tmp_path / "local")
        assert delivered(out) == delivered_locally(tmp_path / "local")
        assert published(out, "custody_hour") == published(tmp_path / "local", "custody_hour")
    assert len(published(out, "audit_history").rows) == 3
    assert found is not None and found["copies"] and "full" not in found["run"]


def questions_are_answered_or_refused(out: Path, local: Path) -> None:
    """Check that a stream's tables answer each question as the audit's do, or that a sentence says why they do not."""
    refused = []
    for name, question in all_questions().items():
        sql = question.filled(given(question, local) | {"limit": "1000000"})
        if {"audit_run", "audit_history"} & {*question.tables}:
            assert answer(out, sql, question.tables).rows, name
        elif NOT_OF_STREAMS.keys() & {*question.tables}:
            with pytest.raises(NoAnswer, match="keeps no table"):
                answer(out, sql, question.tables)
            refused.append(name)
        else:
            assert answer(out, sql, question.tables) == answer(local, sql, question.tables), name
    assert len(refused) == 6, "as docs/questions.md says"


def _fail_at(patch: pytest.MonkeyPatch, step: int) -> None:
    """Let the disk be full after that many writes."""
    left = [step]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            return real(*given)

        return write

    for owner, name in STEPS:
        patch.setattr(owner, name, counted(getattr(owner, name)))


def test_two_runs_do_not_write_to_one_place(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with alone(str(tmp_path / "out")), pytest.raises(Stopped, match=r"another audit is writing to .*/out"):
        run_stream(spark, [str(tmp_path / "logs")], str(tmp_path / "out"))


def test_a_batch_of_few_bytes_has_one_task_a_step() -> None:
    found = [
        partitions_of(size) for size in (0, FEW_BYTES - 1, FEW_BYTES, 3 * PARTITION_BYTES, 3 * PARTITION_BYTES + 1)
    ]
    assert found == [1, 1, 2, 3, 4]
