"""Demos of services that are ended: their processes end with them, and nothing of them is left on the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from rig import ROUTER
from rigs.left_processes import processes
from rigs.patience import HANG_S


@pytest.mark.long
@pytest.mark.parametrize("demo", [("dmq", "demo"), ("dmq", "demo", "--network"), ("capd", "demo"), ("web", "demo")])
def test_a_demo_that_is_ended_by_sigterm_leaves_nothing(demo: tuple[str, ...], tmp_path: Path) -> None:
    give_up_s = time.monotonic() + HANG_S
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([*ROUTER, *demo], stdout=subprocess.DEVNULL, env=environment) as process:
        while not processes(tmp_path):
            assert process.poll() is None and time.monotonic() < give_up_s
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANG_S) == 130
    while processes(tmp_path):
        assert time.monotonic() < give_up_s, processes(tmp_path)
    assert list(tmp_path.iterdir()) == []
