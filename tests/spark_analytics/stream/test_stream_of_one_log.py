"""A stream of one log has the tables of an audit after each file, also where it must audit all files at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from samples.audit_logs import APP, LATE, SECOND, START, A, B, Log, name
from samples.growing_logs import delivered, delivered_locally, said
from samples.published_tables import published

from router.audit import engine
from router.audit.ask.answer import answer
from router.audit.listing import list_logs
from spark_analytics.stream.run import run_stream
from spark_analytics.stream.stream_tables import HOURS

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.long]
NOW = START + LATE * SECOND
NEIGHBOUR = name(B)
TABLES = (*HOURS, "abuse_hour", "claims", "finding", "custody", "queue_minute", "audit_window")


def test_late_file_and_tail_and_arrival_number_given_twice(spark: SparkSession, tmp_path: Path) -> None:
    files, tail = _files(tmp_path / "whole")
    logs, out, local = tmp_path / "logs", tmp_path / "out", tmp_path / "local"
    logs.mkdir()

    def run(*brought: Path) -> dict[str, Any]:
        for file in brought:
            file.rename(logs / file.name)
        found = run_stream(spark, [str(logs)], str(out), as_of=lambda: NOW)
        assert found is not None
        assert said(found) == said(engine.audit(list_logs([logs]), engine.AuditSpan(NOW), out=local))
        for table in TABLES:
            assert published(out, table) == published(local, table), table
        return found

    found = run(files[0], files[2], tail)
    assert [row["claim"] for row in found["claims"]] == [], "the missing file may tell that it was written"
    assert {row["messages_max"] for row in _rows(local, "queue_hour")} == {7}
    assert [row["count"] for row in _rows(local, "abuse_hour")] == [3]
    assert [row["dropped"] for row in _rows(local, "audit_window") if row["dropped"]] == [1]
    found = run(files[1])
    assert not any(row["dropped"] for row in _rows(local, "audit_window")), "the message has the end that counts first"
    assert [(row["claim"], row["count"]) for row in found["claims"]] == [("never-written", 1)]
    assert [row["until_ns"] for row in _rows(local, "topology")] == [START + 3 * SECOND], "before its next start"
    assert delivered(out) == delivered_locally(local)
    found = run(*files[3:])
    assert found["run"]["full"] == f"two files of {name(A)} give the same arrival numbers"
    for table in ("delivery", "message"):
        assert _rows(out, table) == _rows(local, table)


def _files(directory: Path) -> tuple[list[Path], Path]:
    """Write the log; return its segments and its tail."""
    log, cuts = Log(), []
    log.state("start")
    log.state("config", queue_messages_max="9", clock_moves_s_max="1")
    log.state("link_up", at=1, peer=NEIGHBOUR, link="1", standing="peer")
    log.state("link_up", at=1, peer=APP, link="2", standing="local")
    log.accepted(1, ["never written"], peer=NEIGHBOUR)
    log.accepted(2, ["written"], at=2)
    log.accepted(3, ["dropped, and delivered before, as a late file tells"], at=2)
    log.turned("refused", 3, "bad-signature", at=2)
    log.state("config", at=3, queue_messages_max="7", clock_moves_s_max="1")
    cuts.append(len(log.lines))
    log.outward("forwarded", [(2, 1)], at=3, parcel=2)
    log.outward("forwarded", [(3, 1)], at=3, parcel=3)
    log.outward("delivered", [(3, 1)], at=3, parcel=3)
    cuts.append(len(log.lines))
    log.state("start", at=4)
    log.state("link_up", at=4, peer=APP, link="2", standing="local")
    log.outward("delivered", [(1, 1)], at=4, parcel=1)
    log.outward("delivered", [(2, 1)], at=5, parcel=2)
    log.outward("dropped", [(3, 1)], at=6, parcel=3, reason="not-subscribed")
    log.accepted(4, ["pending"], at=LATE - 60)
    cuts.append(len(log.lines))
    log.accepted(5, ["in a tail at first"], at=LATE - 50)
    log.state("stop", at=LATE - 40)
    tail = next(log.write_tail(directory / "tail", cuts[-1]).iterdir())
    cuts.append(len(log.lines))
    log.accepted(4, ["the same number"], at=LATE - 30)
    segments = sorted(log.write(directory, cuts).glob("events-*.jsonl"))
    return segments, tail


def _rows(out: Path, table: str) -> list[dict[str, Any]]:
    return answer(out, f"SELECT * FROM {table} ORDER BY ALL", [table]).dicts()
