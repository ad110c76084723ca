"""A CAPD pool is killed again and again: no answered post is lost, and no match is sent twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rigs.patience import HANG_S

TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize("rounds", (20, pytest.param(100, marks=pytest.mark.long)))
def test_pool_loses_nothing_in_rounds_of_kills(tmp_path: Path, rounds: int) -> None:
    command = [sys.executable, "-m", "rigs.killed_pool", str(tmp_path / "capd"), str(rounds), str(rounds)]
    paths = os.pathsep.join((str(TESTS), str(TESTS.parent)))
    found = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"{rounds} rounds, ") and "none lost" in found.stdout
