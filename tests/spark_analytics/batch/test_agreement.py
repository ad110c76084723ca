"""Both engines give the same summary of the same logs, sound and damaged."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fleets.shared import Fleets
from sabotage.liar import LIES
from sabotage.logs import renumbered
from sabotage.mixture import odd_logs
from sabotage.saboteur import ALONE, SABOTAGES, spoil
from sabotage.scene import Scene, copied
from samples.audit_logs import APP, LATE, OTHER_APP, SECOND, START, Log
from samples.growing_logs import said

from router.audit import engine, spark
from router.audit.engine import AuditSpan
from router.audit.listing import list_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def of_a_day(log: Log) -> None:
    """Write a log of a day, for windows of 15 minutes: messages end in later windows, or lie before the requested
    time."""
    for number in range(200):
        first, at = 1 + 2 * number, 433 * number
        log.accepted(first, (first, first + 1), (APP, OTHER_APP), at=at, ttl=9000)
        log.outward("delivered", [(first, 2)], at=at + number % 90, parcel=first, depth=number % 7)
        log.outward("acked", [(first, 1)], at=at + 37 * (number % 50), recipient=OTHER_APP, parcel=first)
        log.outward("expired", [(first + 1, 3)], at=at + 9000, recipient=OTHER_APP, parcel=first)
    log.lines.sort(key=lambda line: line.t)
    log.lines = renumbered(log.lines)
    log.seq = log.lines[-1].seq + log.lines[-1].n
    log.state("stop", 100_000)


def spoilt(fleets: Fleets, directory: Path) -> Scene:
    """Return a scene of a sound fleet, which a test may damage."""
    return copied(fleets(10, 400, 0), directory / "logs" / "spoilt", 1)


def liars(fleets: Fleets, directory: Path) -> Scene:
    scene = copied(fleets(10, 400, 0), directory / "logs" / "liars", 1)
    for lie in LIES:
        lie(scene)
    return scene


def no_logs(directory: Path) -> None:
    """Write files with a segment's name that Spark must not read, or only examine."""
    (directory / ".aside-events-0000000000000001.jsonl").write_bytes(b"{}\n")
    (directory / "events-0000000000000009.jsonl").write_bytes(b"")
    os.mkfifo(directory / "events-0000000000000099.jsonl")
    (directory / "events-0000000000000199.jsonl").symlink_to("/nonexistent")


@pytest.mark.long
@pytest.mark.parametrize("since", [(START + 20_000 * SECOND,), ()])
def test_windows_of_more_than_a_minute(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: tuple[int, ...]
) -> None:
    """The log is given by a relative path, with files beside it that Spark must not read."""
    log = Log()
    of_a_day(log)
    no_logs(log.write(tmp_path / "logs"))
    monkeypatch.chdir(tmp_path)
    local = agree(spark, Path("logs"), START + 200_000 * SECOND, *since)
    assert any("not a regular file" in problem for problem in local["problems"])
    assert len(local["files"]) == 3 and local["delivered"] and local["step_minutes"] > 1


@pytest.mark.long
def test_each_alone(spark: SparkSession, fleets: Fleets, tmp_path: Path) -> None:
    odd_logs(tmp_path / "odd")
    agree(spark, tmp_path / "odd", START + LATE * 10**9)
    fleet = spoilt(fleets, tmp_path)
    agree(spark, fleet.directory, fleet.as_of_ns, *middle(fleet))
    spoil(fleet, [name for name in SABOTAGES if name not in ALONE][::8])
    for scene in (fleet, liars(fleets, tmp_path)):
        agree(spark, scene.directory, scene.as_of_ns)


def middle(scene: Scene) -> tuple[int, int]:
    """Return the second of three equal parts of the time in which messages were accepted, in ns."""
    found = engine.audit(list_logs([scene.directory]), AuditSpan(scene.as_of_ns))["span"]
    first, last = (int(datetime.fromisoformat(found[name]).timestamp()) * 10**9 for name in ("from", "until"))
    return first + (last - first) // 3, first + 2 * (last - first) // 3


def agree(
    session: SparkSession, logs: Path, as_of_ns: int, since_ns: int = 0, until_ns: int = engine.NS_MAX
) -> dict[str, Any]:
    """Check that both engines agree; return their summary."""
    span = AuditSpan(as_of_ns, since_ns, until_ns)
    local = said(engine.audit(list_logs([logs]), span))
    fleet = said(spark.audited(session, list_logs([logs]), span))
    unlike = {name: (value, fleet.get(name)) for name, value in local.items() if fleet.get(name) != value}
    assert not unlike
    return local
