"""`router chaos` on real processes: a fleet under faults loses nothing, and whatever ends it, nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from rig import ROUTER
from rigs.left_processes import processes
from rigs.patience import HANG_S

from router.chaos.schedule import KINDS

CHAOS = [*ROUTER, "chaos", "--json", "--rate", "2", "--no-pools", "--shrink-rounds", "0"]
SEED = 1970
ROUNDS = 20


def played(base: Path, *options: str) -> dict[str, Any]:
    """Play one round whose files lie in `base`, and check that all is well and nothing is left there."""
    environment = {**os.environ, "TMPDIR": str(base)}
    done = subprocess.run(
        [*CHAOS, *options], capture_output=True, text=True, timeout=4 * HANG_S, check=False, env=environment
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["failures"], done.returncode) == ([], 0), (found["seed"], found["failures"], found["schedule"])
    assert found["ok"] and found["faults"] == len(found["schedule"])
    assert found["owed"] == found["shown"] + found["expired"] + found["excused"] and found["shown"] > 0
    assert not list(base.iterdir()) and not processes(base)
    return found


def test_a_fleet_under_faults_loses_nothing(tmp_path: Path) -> None:
    found = played(tmp_path, "--seconds", "10", "--seed", str(SEED))
    kinds = "restore kill clock freeze service"
    assert [one["kind"] for one in found["schedule"]] == kinds.split()
    assert found["restores"] == 1 and found["accepted"] > 20


@pytest.mark.long
def test_rounds_of_chaos(tmp_path: Path) -> None:
    rounds = [played(tmp_path, "--seconds", "30", "--seed", str(seed)) for seed in range(ROUNDS)]
    assert {one["kind"] for found in rounds for one in found["schedule"]} == set(KINDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.long)])
def test_whatever_ends_it_no_process_is_left(number: signal.Signals, tmp_path: Path) -> None:
    give_up_s = time.monotonic() + HANG_S
    command, environment = [*CHAOS, "--nodes", "2", "--seconds", "600"], {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        while not any(b"router.chaos.app" in line for line in processes(tmp_path)):
            assert process.poll() is None and time.monotonic() < give_up_s
            time.sleep(0.1)
        process.send_signal(number)
        code = process.wait(HANG_S)
    while processes(tmp_path):
        assert time.monotonic() < give_up_s, processes(tmp_path)
    if number is signal.SIGTERM:
        assert code == 130 and not list(tmp_path.iterdir())
