"""Both engines say the same of the same logs, sound and spoilt."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs
from sabotage.liar import LIES
from sabotage.saboteur import SABOTAGES
from sabotage.scene import Scene, copied
from samples.audit_logs import APP, LATE, OTHER_APP, SECOND, START, A, B, C, Log
from samples.growing_logs import said

from router.audit import engine, spark
from router.audit.engine import Span
from router.audit.listing import list_logs
from router.audit.sample.sample import write_sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def in_flight(log: Log) -> None:
    log.state("start")
    log.state("link_up", peer=APP, link=2)
    log.state("guestbook_signed", service="guestbook", page=1)
    log.state("guestbook_moved", to="another room")
    log.accepted(1, range(40))
    log.outward("forwarded", [(1, 20)])
    log.outward("deferred", [(3, 2)])
    log.outward("forwarded", [(3, 2)])
    log.state("join", LATE)


def doubted(log: Log) -> None:
    log.accepted(1, range(3))
    log.state("clock_step", 9, by_s=7200, doubted=True)
    log.state("join", LATE)


def summed_at_the_door(log: Log) -> None:
    log.accepted(1, range(3))
    log.turned("refused", 4000, "bad-signature", peer=None)
    log.turned("duplicate", 7, "duplicate")
    log.state("link_up", peer=OTHER_APP, link=3)
    for event, times in (("link_up", 900), ("link_down", 901)):
        line = log.state(event, 2, standing="stranger", times=times)
        log.lines[-1] = structs.replace(line, count=times)
    log.state("join", LATE)


def of_a_day(log: Log) -> None:
    """In windows of 15 minutes; what ends in a later one, or lies before the time asked for, too."""
    for number in range(200):
        first, at = 1 + 2 * number, 433 * number
        log.accepted(first, (first, first + 1), (APP, OTHER_APP), at=at, ttl=9000)
        log.outward("delivered", [(first, 2)], at=at + number % 90, parcel=first, depth=number % 7)
        log.outward("acked", [(first, 1)], at=at + 37 * (number % 50), recipient=OTHER_APP, parcel=first)
        log.outward("expired", [(first + 1, 3)], at=at + 9000, recipient=OTHER_APP, parcel=first)
    log.lines.sort(key=lambda line: line.t)
    log.lines = [structs.replace(line, seq=seq) for seq, line in enumerate(log.lines, 1)]
    log.seq = len(log.lines) + 1
    log.state("stop", 100_000)


ODD = (in_flight, doubted, summed_at_the_door)


def odd_logs(directory: Path) -> None:
    for key, write in zip((A, B, C), ODD, strict=True):
        log = Log(key)
        write(log)
        log.write(directory / write.__name__)


def spoilt(directory: Path) -> Scene:
    """A fleet that is sound yet."""
    write_sample(directory / "fleet", 6, 500, 11, segment_bytes=60_000)
    return copied(directory / "fleet", directory / "logs" / "spoilt", 1)


def spoil(scene: Scene) -> None:
    for name in sorted(SABOTAGES)[::8]:
        SABOTAGES[name](scene)


def liars(directory: Path) -> Scene:
    write_sample(directory / "other", 10, 700, 5, segment_bytes=60_000)
    scene = copied(directory / "other", directory / "logs" / "liars", 1)
    for lie in LIES:
        lie(scene)
    return scene


@pytest.mark.parametrize("since", [(START + 20_000 * SECOND,), pytest.param((), marks=pytest.mark.long)])
def test_windows_of_more_than_a_minute(spark: SparkSession, tmp_path: Path, since: tuple[int, ...]) -> None:
    log = Log()
    of_a_day(log)
    agree(spark, log.write(tmp_path), START + 200_000 * SECOND, *since)


def test_liars_and_a_spoilt_fleet_and_odd_logs_in_one_audit(spark: SparkSession, tmp_path: Path) -> None:
    scene = liars(tmp_path)
    alone = engine.audit(list_logs([scene.directory]), Span(scene.as_of_ns))
    told = "\n".join([*(row["text"] for row in alone["findings"]), *alone["problems"]])
    assert [text for text in scene.says if text not in told] == []
    fleet = spoilt(tmp_path)
    spoil(fleet)
    odd_logs(tmp_path / "logs" / "odd")
    agree(spark, tmp_path / "logs", max(scene.as_of_ns, fleet.as_of_ns))


@pytest.mark.long
def test_each_alone(spark: SparkSession, tmp_path: Path) -> None:
    odd_logs(tmp_path / "odd")
    agree(spark, tmp_path / "odd", START + LATE * 10**9)
    fleet = spoilt(tmp_path)
    agree(spark, fleet.directory, fleet.as_of_ns, *middle(fleet))
    spoil(fleet)
    for scene in (fleet, liars(tmp_path)):
        agree(spark, scene.directory, scene.as_of_ns)


def middle(scene: Scene) -> tuple[int, int]:
    """The second of three equal parts of the time in which messages were accepted, in ns."""
    found = engine.audit(list_logs([scene.directory]), Span(scene.as_of_ns))["span"]
    first, last = (int(datetime.fromisoformat(found[name]).timestamp()) * 10**9 for name in ("from", "until"))
    return first + (last - first) // 3, first + 2 * (last - first) // 3


def agree(session: SparkSession, logs: Path, *asked: int) -> None:
    local = said(engine.audit(list_logs([logs]), Span(*asked)))
    fleet = said(spark.audited(session, list_logs([logs]), Span(*asked)))
    unlike = {name: (value, fleet.get(name)) for name, value in local.items() if fleet.get(name) != value}
    assert not unlike
