"""What a log signs against itself is told by a stream as by the audit, also where the file that tells it comes late."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fleets.shared import Fleets
from fleets.writing import TRUTH
from msgspec.structs import replace
from pyspark.sql import SparkSession
from sabotage.claimant import CLAIMS
from sabotage.logs import Rows
from sabotage.of_two import lost_acknowledgement, other_facts, refused_though_taken
from sabotage.saboteur import SABOTAGES
from sabotage.scene import Scene, copied
from samples.audit_logs import LATE, OTHER_APP, SECOND, START, A, B, Log, name
from samples.growing_logs import GrowingLogs, delivered, delivered_locally, said
from samples.published_tables import published
from samples.two_logs import FACTS, G, unlike

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from spark_analytics.stream.run import run_stream
from spark_analytics.stream.stream_tables import HOURS

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.long]
TOLD = [
    "answer-owed", "before-accepted", "never-linked", "never-written", "no-such-end", "not-owed", "time-back",
    "unknown-reason",
]  # fmt: skip


def test_lies_of_one_log_are_told_as_by_the_audit_after_each_batch(
    spark: SparkSession, fleets: Fleets, tmp_path: Path
) -> None:
    """First each log lacks a file in its middle; a stream that is started again takes them."""
    scene = copied(fleets(12, 200, 3), tmp_path / "lies", 1)
    lies = (SABOTAGES[name] for name in ("unlinked", "time_back", "invented_reason", "refused_later"))
    for lie in (_acked_by_a_stranger, _expired_at_once, *CLAIMS[1:4], CLAIMS[6], *lies):
        lie(scene)
    shutil.copy(scene.directory / TRUTH, tmp_path)
    logs, out, local = GrowingLogs(scene.directory, tmp_path, seed=5), tmp_path / "out", tmp_path / "local"
    every = {log: sorted(log.glob("events-*.jsonl")) for log in scene.logs.values()}
    late = {files[len(files) // 2] for files in every.values()}
    counts = []
    for portion in ({one for files in every.values() for one in files} - late, late):
        logs.bring(sorted(portion))
        found = run_stream(spark, [str(logs.here)], str(out), as_of=lambda: logs.now)
        assert found is not None and "full" not in found["run"]
        assert said(found) == logs.audited(local)
        assert delivered(out) == delivered_locally(local)
        for table in (*HOURS, "claims", "finding", "custody"):
            assert published(out, table) == published(local, table), table
        counts.append({row["claim"]: row["count"] for row in found["claims"]})
        assert found["early"]
    assert sorted(counts[1]) == TOLD
    assert counts[0] != counts[1], "a late file shows a claim"


def test_lies_about_another_router_are_told_as_by_the_audit_after_each_batch(
    spark: SparkSession, fleets: Fleets, tmp_path: Path
) -> None:
    """Segments come in any order. Of the four lies that two logs show, one gives an arrival number that no stream adds
    up: it is told in logs written by hand (`test_stream_two_logs`)."""
    scene = copied(fleets(10, 100, 2), tmp_path / "lies", 3)
    circle = SABOTAGES["in_a_circle_of_3"]
    for lie in (circle, refused_though_taken, other_facts, lost_acknowledgement, CLAIMS[0]):
        lie(scene)
    shutil.copy(scene.directory / TRUTH, tmp_path)
    logs, out, local = GrowingLogs(scene.directory, tmp_path, seed=6), tmp_path / "out", tmp_path / "local"
    for portion in logs.portions(3):
        logs.bring(portion)
        found = run_stream(spark, [str(logs.here)], str(out), as_of=lambda: logs.now)
        assert found is not None and "full" not in found["run"]
        assert said(found) == logs.audited(local)
        for table in ("claims", "finding"):
            assert published(out, table) == published(local, table), table
    assert found is not None
    assert {row["claim"] for row in found["claims"]} >= {"other-kind", "refused-there", "left-out", "in-a-circle"}
    assert found["went_on"]


def test_facts_of_an_id_that_two_logs_tell_otherwise_are_told_as_soon_as_both_are_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    here, there = Log(A), Log(B)
    unlike(here, there)
    there.state("join", LATE, subscriber=OTHER_APP, group=G, service="pubsub")
    facts: dict[str, Any] = {"sizes": [500], "ttls": [60], "expiries": [30_000_000]}
    there.accepted(9, [f"{name(here.key)} size"], [], LATE, kind="copy", peer=OTHER_APP, **facts)
    logs, out, local = tmp_path / "logs", tmp_path / "out", tmp_path / "local"
    first, rest = sorted(here.write(tmp_path / "a", cuts=[5]).glob("events-*"))
    [other] = there.write(tmp_path / "b").glob("events-*")
    (logs / "a").mkdir(parents=True)
    (logs / "b").mkdir()
    now = START + 2 * LATE * SECOND
    told = []
    for file, to in ((first, "a"), (other, "b"), (rest, "a")):
        file.rename(logs / to / file.name)
        found = run_stream(spark, [str(logs)], str(out), as_of=lambda: now)
        assert found is not None and not {"full", "rebuilt"} & set(found["run"])
        assert said(found) == said(audit(list_logs([logs]), AuditSpan(now), out=local))
        for table in ("claims", "finding"):
            assert published(out, table) == published(local, table), table
        told.append(len(found["claims"]))
    assert told == [0, 4, len(FACTS) + 1], "the copy, too, has not the size that its router accepted"


def _acked_by_a_stranger(scene: Scene) -> None:
    """Let a router without a link take a message over, with an arrival number in its place, as a stream can add up."""
    scene.forget_witnesses()
    stranger = scene.chance.randbytes(32).hex()

    def change(rows: Rows) -> Rows:
        at, line = next((at, row) for at, row in enumerate(rows) if row.event == "accepted" and row.recipients)
        acked = replace(
            next(row for row in rows if row.event == "acked"), t=line.t, mono=line.mono, boot=line.boot,
            recipient=stranger, parcel=line.first, ranges=[(line.first or 0, 1)], count=1,
        )  # fmt: skip
        told = replace(line, recipients=[*(line.recipients or ()), stranger])
        return [*rows[:at], told, replace(acked, event="forwarded"), acked, *rows[at + 1 :]]

    scene.again(scene.victim(), change)


def _expired_at_once(scene: Scene) -> None:
    """Let what an app got end as expired, at that time, of which no other log tells."""
    scene.forget_witnesses()

    def change(rows: Rows) -> Rows:
        end = next(row for row in rows if row.event == "delivered")
        return [replace(row, event="expired", reason="ttl-expired") if row is end else row for row in rows]

    scene.again(scene.victim(), change)
