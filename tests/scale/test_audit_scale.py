"""The measurement of audits gives the same figures of a fleet as the audit."""

from __future__ import annotations

import json
import sys

import pytest
from fleets.shared import Fleets
from fleets.writing import TRUTH

from scale.audit_scale import cost_of, measured


def test_a_fleet_is_measured_beside_the_yardstick(fleets: Fleets) -> None:
    logs = fleets(4, 400, 0)
    found = measured(logs, ["local"])
    truth = json.loads((logs / TRUTH).read_text())
    assert found["owed"] == truth["owed"]
    assert found["bytes"] == sum(path.stat().st_size for path in logs.rglob("events-*.jsonl"))
    assert found["local"]["cpu_by_yardstick"] == found["local"]["cpu_s"] / found["yardstick"]["cpu_s"]
    assert found["local"]["rss_mib"] > found["yardstick"]["rss_mib"] > 0


def test_what_a_command_starts_counts_too() -> None:
    size = 64 << 20
    child = f"import time; held = b'x' * {size}; time.sleep(1)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    said, cost = cost_of([sys.executable, "-c", parent])
    assert said == "" and cost.wall_s > 1
    assert cost.rss_mib > size >> 20


def test_a_command_that_fails_ends_it() -> None:
    with pytest.raises(SystemExit, match="ended with code 3"):
        cost_of([sys.executable, "-c", "raise SystemExit(3)"])
