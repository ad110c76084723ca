"""A stream whose driver and Java process are killed, and that is started again, ends with the rows of one that was
not."""

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


@pytest.mark.long
@pytest.mark.usefixtures("packaged_java")
@pytest.mark.parametrize("kills", [1, 20])
def test_killed_at_any_point_and_run_again_is_a_fresh_run(kills: int, fleets: Fleets, tmp_path: Path) -> None:
    logs, out = GrowingLogs(fleets(2, 300, 11), tmp_path, seed=11), tmp_path / "out"
    chance = random.Random(kills)
    for portion in logs.portions(2):
        logs.bring(portion)
    done = [_run_for(chance.uniform(5, 60), logs, out) for _ in range(kills)]
    ended = _run_for(600, logs, out)
    assert ended is not None, "the last run was not killed and yet did not end"
    assert said(json.loads(ended)) == logs.audited(tmp_path / "local"), f"runs that ended by themselves: {done}"
    assert delivered(out) == delivered_locally(tmp_path / "local")


def _run_for(seconds: float, logs: GrowingLogs, out: Path) -> str | None:
    """Return the summary that it printed; None if it was killed when its time was over."""
    command = [sys.executable, "-m", "spark_analytics.streaming", str(logs.here), "--out", str(out), "--once", "--json"]
    command += ["--as-of", str(logs.now), "--files-max", "3"]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None
        assert process.returncode == 0
        return said.splitlines()[-1]
