"""The audit stays within its memory limit over logs that are far larger."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fleets.multiplied import SUMS, multiply
from fleets.writing import write_fleet

from router.audit.database import MEMORY_BYTES_MIN

OTHERWISE_BYTES = 350 * 10**6
"""Memory of the process besides the database: Python, DuckDB's code, the lines being read."""


@pytest.mark.long
def test_nine_million_lines_in_the_least_memory(tmp_path: Path) -> None:
    """The test takes two minutes and 8 GB of disk; over fewer lines DuckDB would not need more memory than it has."""
    write_fleet(tmp_path / "fleet", 20, 2000, 10, is_over=True)
    truth = multiply(tmp_path / "fleet", tmp_path / "logs", 250)
    as_of = datetime.fromtimestamp(-(-truth["as_of_ns"] // 10**9), UTC).isoformat()
    command = [sys.executable, "-m", "router", "audit", str(tmp_path / "logs"), "--json", "--as-of", as_of]
    with (tmp_path / "said").open("w+") as said, (tmp_path / "complaints").open("w+") as complaints:
        ran = subprocess.Popen([*command, "--memory", str(MEMORY_BYTES_MIN)], stdout=said, stderr=complaints)
        _, status, used = os.wait4(ran.pid, 0)
        ran.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        complaints.seek(0)
        assert (ran.returncode, complaints.read()) == (0, "")
        found = json.load(said)
    assert {name: found[name] for name in SUMS} == {name: truth[name] for name in SUMS} and not found["residual"]
    assert found["custody"] and all(row["followed"] == row["acked"] for row in found["custody"])
    assert used.ru_maxrss * 1024 < MEMORY_BYTES_MIN + OTHERWISE_BYTES
