"""Demos and benches that are ended: their processes end with them, and nothing of them is left on the disk."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rig import ROUTER
from rigs.left_processes import processes
from rigs.patience import HANG_S
from rigs.short_temporary_files import short_place


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a place for temporary files whose path leaves room for the names of sockets."""
    with TemporaryDirectory(prefix="ended-", dir=short_place()) as path:
        yield Path(path)


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    ["dmq demo", "dmq demo --network", "dmq bench", "dmq bench --network", "capd demo", "capd bench", "web demo"],
)
@pytest.mark.parametrize("ctrl_c", [signal.SIG_DFL, signal.SIG_IGN], ids=["in a terminal", "behind a shell's &"])
def test_what_is_ended_by_sigterm_leaves_nothing(words: str, ctrl_c: signal.Handlers, place: Path) -> None:
    give_up_s = time.monotonic() + HANG_S
    environment = {**os.environ, "TMPDIR": str(place)}
    command = [*ROUTER, *words.split()]
    before = signal.signal(signal.SIGINT, ctrl_c)
    try:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        while not processes(place):
            assert process.poll() is None and time.monotonic() < give_up_s
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANG_S) == 130
    while processes(place):
        assert time.monotonic() < give_up_s, processes(place)
    assert list(place.iterdir()) == []
