"""A stream whose driver and Java process are killed, or asked to end, and that is started again, ends with the rows of
one that was not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fleets.shared import Fleets
from samples.growing_logs import GrowingLogs, delivered, delivered_locally, said

pytestmark = pytest.mark.xdist_group("spark")

ENDS_S = 3600.0
"""Seconds for the run that is not killed, which takes minutes beside other work."""


@pytest.mark.long
@pytest.mark.usefixtures("packaged_java")
@pytest.mark.parametrize("kills", [1, 20])
def test_killed_at_any_point_and_run_again_is_a_fresh_run(kills: int, fleets: Fleets, tmp_path: Path) -> None:
    logs, out = GrowingLogs(fleets(2, 300, 11), tmp_path, seed=11), tmp_path / "out"
    chance = random.Random(kills)
    for portion in logs.portions(2):
        logs.bring(portion)
    done = [_run_for(chance.uniform(5, 60), logs, out) for _ in range(kills)]
    ended = _run_for(ENDS_S, logs, out)
    assert ended is not None, "the last run was not killed and yet did not end"
    assert said(json.loads(ended)) == logs.audited(tmp_path / "local"), f"runs that ended by themselves: {done}"
    assert delivered(out) == delivered_locally(tmp_path / "local")


@pytest.mark.long
@pytest.mark.usefixtures("packaged_java")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_end_with_its_whole_group_it_says_so_and_goes_on_later(
    number: signal.Signals, fleets: Fleets, tmp_path: Path
) -> None:
    logs, out = GrowingLogs(fleets(2, 300, 11), tmp_path, seed=11), tmp_path / "out"
    for portion in logs.portions(2):
        logs.bring(portion)
    with subprocess.Popen(_command(logs, out), start_new_session=True, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        heard = []
        for line in process.stderr:
            heard.append(line)
            if line.startswith("batch 0: "):
                os.killpg(process.pid, number)
                break
        heard += process.stderr
    assert process.returncode == 0 and heard[-1].startswith(("stopped; run it again", "verdict: "))
    assert not [line for line in heard if "Exception" in line or "Error" in line or "Traceback" in line]
    ended = _run_for(ENDS_S, logs, out)
    assert ended is not None and said(json.loads(ended)) == logs.audited(tmp_path / "local")
    assert delivered(out) == delivered_locally(tmp_path / "local")


def _command(logs: GrowingLogs, out: Path) -> list[str]:
    command = [sys.executable, "-m", "spark_analytics.streaming", str(logs.here), "--out", str(out), "--once", "--json"]
    return [*command, "--as-of", str(logs.now), "--files-max", "3"]


def _run_for(seconds: float, logs: GrowingLogs, out: Path) -> str | None:
    """Return the summary that it printed; None if it was killed when its time was over."""
    with subprocess.Popen(_command(logs, out), start_new_session=True, stdout=subprocess.PIPE, text=True) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None
        assert process.returncode == 0
        return said.splitlines()[-1]
