"""An app's state is of one moment, whenever the process that writes it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rigs.killed_state import check, decide, forked, kill_at, nothing
from rigs.patience import HANG_S

TESTS = Path(__file__).parents[3]


def test_a_kill_at_any_step_leaves_rows_of_one_moment_and_one_key(tmp_path: Path) -> None:
    """Each round goes one step further, until all of it is done without being killed."""
    for step in range(1, 1000):
        path = tmp_path / str(step)

        def work(out: int, path: Path = path, step: int = step) -> None:
            kill_at(step)
            decide(path, 4, out)

        was_killed, said = forked(work, nothing)
        check(path, int.from_bytes(said[-4:], "big"))
        if not was_killed:
            break
    assert 20 < step < 999, "there are so many steps at least, and an end"


@pytest.mark.parametrize("rounds", (20, pytest.param(1000, marks=pytest.mark.long)))
def test_a_kill_at_any_moment_leaves_rows_of_one_moment_and_one_key(tmp_path: Path, rounds: int) -> None:
    command = [sys.executable, "-m", "rigs.killed_state", str(tmp_path / "state"), str(rounds), str(rounds)]
    paths = os.pathsep.join((str(TESTS), str(TESTS.parent)))
    found = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.endswith("decisions, each whole\n")
