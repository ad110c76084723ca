"""`router chaos` on real processes: a fleet under faults loses nothing, and whatever ends it, nothing of it is left."""

from __future__ import annotations

import json
import os
import shutil
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
SEED = 28363
ROUNDS = 20


def played(kept: Path, *options: str) -> dict[str, Any]:
    """Play one round whose files are kept in `kept`, and check that all is well and no process is left."""
    command = [*CHAOS, "--keep", str(kept), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * HANG_S, check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    if found["failures"] or done.returncode:
        pytest.fail("\n".join([f"seed {found['seed']}, code {done.returncode}, kept in {kept}:", *found["failures"]]))
    assert found["ok"] and found["faults"] == len(found["schedule"])
    assert found["owed"] == found["shown"] + found["expired"] + found["excused"] and found["shown"] > 0
    check_nothing_is_left(kept, time.monotonic() + HANG_S)
    return found


def check_nothing_is_left(directory: Path, give_up_s: float) -> None:
    """Check that no process is left; a command itself may be seen a moment after it has ended."""
    while left := processes(directory):
        assert time.monotonic() < give_up_s, left


def test_a_fleet_under_faults_loses_nothing(tmp_path: Path) -> None:
    found = played(tmp_path / "kept", "--seconds", "10", "--seed", str(SEED))
    kinds = "clock service drift kill restore"
    assert [one["kind"] for one in found["schedule"]] == kinds.split()
    assert found["restores"] == 1 and found["accepted"] > 20
    assert "SIGKILL" in (tmp_path / "kept" / "round-1" / "core-2.stderr").read_text(), "its service was killed"


@pytest.mark.long
def test_rounds_of_chaos(tmp_path: Path) -> None:
    rounds = []
    for seed in range(ROUNDS):
        rounds.append(played(tmp_path / str(seed), "--seconds", "30", "--seed", str(seed)))
        shutil.rmtree(tmp_path / str(seed))
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
    check_nothing_is_left(tmp_path, give_up_s)
    if number is signal.SIGTERM:
        assert code == 130 and not list(tmp_path.iterdir())
