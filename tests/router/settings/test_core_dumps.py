"""Processes that hold keys write no core dump and hide their memory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from router.cli.unit.unit_file import Unit

ROOT = Path(__file__).parents[3]

SAID = """
import ctypes, resource
from router.settings import core_dumps
core_dumps.{what}()
print(resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


def test_forbid_lowers_the_limit_and_hide_memory_ends_dumps_to_a_collector_too() -> None:
    for what, dumpable in (("forbid", 1), ("hide_memory", 0)):
        done = subprocess.run(
            [sys.executable, "-c", SAID.format(what=what)], capture_output=True, text=True, check=True
        )
        assert done.stdout == f"(0, 0) {dumpable}\n"


def test_each_unit_allows_no_core_dump() -> None:
    files = [*(ROOT / "docs").glob("*.md"), *(ROOT / "services").glob("*/systemd/*.service")]
    units = [
        found for file in files for found in re.findall(r"^\[Service\]\n.*?(?:\n\n|\Z)", file.read_text(), re.M | re.S)
    ]
    units += [Unit("router", ("/usr/bin/router",), "/var/lib/router", user).text() for user in ("", "router")]
    assert len(units) >= 4 and all("\nLimitCORE=0\n" in one for one in units)
