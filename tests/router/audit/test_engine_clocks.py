"""The audit reports times that the monotonic clock contradicts, and none where the line that explains them may be
missing."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from samples.audit_logs import LATE, Log, audited, name
from samples.one_log import claimed
from samples.two_logs import HOUR, MARK, begun, dated, dates

from router.core.wire.crypto import SigningKey
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments


def test_a_time_that_the_monotonic_clock_contradicts_is_told(tmp_path: Path) -> None:
    told = {
        "back for a line": dates((10, 0), (11, -900), (12, 0)),
        "ahead for good": dates((10, 0), (11, 900), (12, 900)),
        "long before a step": dates((10, 0), (11, 900), (200, 900), step=(200, 900)),
        "long after a step": dates((10, 0), (11, 0), (200, 900), step=(11, 0)),
    }
    quiet = {
        "little": dates((10, 0), (11, 500), (12, 0)),
        "by degrees": dates((10, 0), (HOUR * 2, 800), until=HOUR * 3),
        "with a step after it": dates((10, 0), (11, 900), (12, 900), step=(12, 900)),
        "with a step": dates((10, 0), (12, 900), (13, 900), step=(12, 900)),
        "at the end": dates((10, 0), (11, 900), until=30),
        "in doubt of its clock": dates((10, 0), (11, 0), (200, 900), step=(11, 0), doubted=True),
    }
    found = claimed({**told, **quiet}, tmp_path)
    counts = dict(zip(told, (2, 1, 1, 1), strict=True))
    assert found == {**{case: [("other-time", counts[case])] for case in told}, **{case: [] for case in quiet}}


def test_where_the_step_of_a_clock_may_be_missing_no_time_is_told(tmp_path: Path) -> None:
    """A segment between is missing, or the run's beginning, which tells whether the router doubts its clock, is
    pruned."""
    logs, lines = {}, {"whole": (), "missing": (1,), "pruned": (0,), "pruned with the step": (0, 1, 2)}
    for case, gone in lines.items():
        log = logs[case] = Log(SigningKey(case.encode().ljust(32)[:32]))
        begun(log)
        dated(log, 10, 0)
        log.state("clock_step", 11, by_s=1, doubted="false")
        log.state("config", 12, **MARK)
        for at, by_s in ((12, 0), (200, 900), (201, 900)):
            dated(log, at, by_s)
        log.state("stop", HOUR)
        log.lines[-1] = replace(log.lines[-1], t=log.lines[-1].t + 900 * 10**9)
        files = sorted(log.write(tmp_path / case, [2, 3, 4]).glob("events-*.jsonl"))
        kept = sum(file.stat().st_size for file in files[len(gone) :])
        if "pruned" in case:
            assert Segments(tmp_path / case, log.key, LogLimits()).prune(0.0, 0.0, kept) == len(gone)
        for number in gone if case == "missing" else ():
            files[number].unlink()
    found = audited(*(tmp_path / case for case in lines), at=3 * LATE)
    told = {
        case: [row["claim"] for row in found["claims"] if row["router"] == name(log.key)] for case, log in logs.items()
    }
    assert told == {"whole": ["other-time"], "missing": [], "pruned": ["other-time"], "pruned with the step": []}
