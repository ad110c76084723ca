"""What a log says of its clock and its door is told by a stream as by the audit after each batch, and no sooner than a
late file allows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from samples.audit_logs import LATE, SECOND, START, Log, name
from samples.growing_logs import said
from samples.published_tables import published
from samples.two_logs import HOUR, Case, Pair, blamed, clock_moved, dates, flooded, of_a_clock_ahead

from router.audit.engine import AuditSpan, audit
from router.audit.listing import list_logs
from router.core.wire.crypto import SigningKey
from spark_analytics.stream.run import run_stream

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.long]
NOW = START + 3 * LATE * SECOND
PARTS = 3
CLOCKS: dict[str, Case] = {
    "back for a line": dates((10, 0), (11, -900), (12, 0), until=LATE),
    "ahead for good": dates((10, 0), (11, 900), (12, 900), until=LATE),
    "little": dates((10, 0), (11, 500), (12, 0), until=LATE),
    "by degrees": dates((10, 0), (HOUR * 2, 800), until=HOUR * 3),
    "with a step": dates((10, 0), (12, 900), (13, 900), step=(12, 900), until=LATE),
    "at the end": dates((10, 0), (11, 900), until=30),
}
DOORS: dict[str, Pair] = {
    "flood of nobody": flooded(500),
    "few": flooded(90),
    "handed over": flooded(500, 450),
    "the other log ends before": flooded(500, end=60),
    "its clock was set": clock_moved(of_a_clock_ahead(15), 10, 3000),
    "refused by nobody": blamed(150),
    "turned away there": blamed(150, 51),
    "turned away of nobody by name": blamed(150, 51, peer=None),
    "started soon after": blamed(150, started=(2100,)),
}
TOLD = {
    "back for a line": ("other-time", 2),
    "ahead for good": ("other-time", 1),
    "flood of nobody": ("not-handed", 500),
    "refused by nobody": ("not-turned-away", 150),
}


def _written(log: Log, directory: Path) -> list[Path]:
    cuts = [len(log.lines) * part // PARTS for part in range(1, PARTS)]
    return sorted(log.write(directory / name(log.key)[:8], cuts).glob("events-*.jsonl"))


def test_clocks_and_doors_are_judged_as_by_the_audit_after_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The middles of all logs come last, and so do all that was handed over and the step of a clock."""
    logs, out, local, names, files = tmp_path / "logs", tmp_path / "out", tmp_path / "local", {}, []
    for case, write in CLOCKS.items():
        log = Log(SigningKey(case.encode().ljust(32)[:32]))
        write(log)
        names[name(log.key)] = case
        files.append(_written(log, tmp_path / "whole"))
    for case, pair in DOORS.items():
        here, there = (Log(SigningKey(f"{one}{case}".encode().ljust(32)[:32])) for one in "ab")
        pair(here, there)
        names[name(here.key)] = case
        files += [_written(log, tmp_path / "whole") for log in (here, there)]
    told = []
    for portion in (
        [one[0] for one in files],
        [one[-1] for one in files],
        [path for one in files for path in one[1:-1]],
    ):
        for path in portion:
            target = logs / path.parent.name / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        found = run_stream(spark, [str(logs)], str(out), as_of=lambda: NOW)
        assert found is not None and not {"full", "rebuilt"} & set(found["run"])
        assert said(found) == said(audit(list_logs([logs]), AuditSpan(NOW), out=local))
        assert published(out, "claims") == published(local, "claims")
        told.append({names[row["router"]]: (row["claim"], row["count"]) for row in found["claims"]})
    assert told[-1] == TOLD
    assert told[1] == {}, "the step of a clock may be in what comes late"
