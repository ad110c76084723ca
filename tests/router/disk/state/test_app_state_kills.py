"""An app's state is of one moment, whenever the process that writes it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rigs.killed_state import check, check_with_log, decide, decide_with_log, forked, kill_at, nothing
from rigs.patience import HANG_S

TESTS = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("decide", "check", "decisions"), [(decide, check, 4), (decide_with_log, check_with_log, 4)], ids=["state", "log"]
)
def test_a_kill_at_any_step_leaves_rows_of_one_moment_and_one_key(
    tmp_path: Path, decide: Callable[[Path, int, int], None], check: Callable[[Path, int], int], decisions: int
) -> None:
    """Each round goes one step further, until all of it is done without being killed."""
    for step in range(1, 1000):
        path = tmp_path / str(step) / "state"
        path.parent.mkdir()

        def work(out: int, path: Path = path, step: int = step) -> None:
            kill_at(step)
            decide(path, decisions, out)

        was_killed, said = forked(work, nothing)
        last = check(path, int.from_bytes(said[-4:], "big"))
        if not was_killed:
            break
    assert 20 < step < 999 and last == decisions, "there are so many steps at least, and an end"


@pytest.mark.parametrize("rounds", (20, pytest.param(1000, marks=pytest.mark.long)))
def test_a_kill_at_any_moment_leaves_rows_of_one_moment_and_one_key(tmp_path: Path, rounds: int) -> None:
    command = [sys.executable, "-m", "rigs.killed_state", str(tmp_path / "state"), str(rounds), str(rounds)]
    paths = os.pathsep.join((str(TESTS), str(TESTS.parent)))
    found = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.endswith("decisions, each whole\n")
