"""A real stream whose command hangs and leaves processes behind: the batches go on, all alarms are told, the end is
clean."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rigs.left_processes import processes
from rigs.patience import HANG_S
from rigs.spark_cluster import Told, kill
from samples.audit_logs import LATE, START, A, B, C, Log, name

from router.core.wire.crypto import SigningKey

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("packaged_java")]
PAGER = """
import os, signal, sys
if not os.path.exists(sys.argv[2]):
    os.fork()  # Neither ends by itself.
    while True:
        signal.pause()
alarm = sys.stdin.read()
if not os.fork():
    os.setsid()  # It keeps the output of the command open.
    print(os.getpid(), file=open(sys.argv[3], "a"))
    os.execlp("sleep", "sleep", "600")
print(alarm, end="", file=open(sys.argv[1], "a"))
"""
"""Hangs with a child unless the second file is there; else writes the alarm to the first, and leaves a process of a
session of its own behind, whose number it writes to the third."""


def lossy(key: SigningKey) -> Log:
    """Return the log of a router that does not account for three messages."""
    log = Log(key)
    log.accepted(1, range(3), ttl=60)
    log.state("stop", LATE)
    return log


class Pager:
    """The command of `--notify`, and its files in a directory. It writes to a pipe that this end holds open."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        os.mkfifo(directory / "told")
        (directory / "pids").touch()
        self._told = os.fdopen(os.open(directory / "told", os.O_RDWR), "rb", buffering=0)

    @property
    def command(self) -> str:
        names = [str(self.directory / one) for one in ("told", "well", "pids")]
        return shlex.join([sys.executable, "-c", PAGER, *names])

    def next_router(self, within_s: float = HANG_S) -> str | None:
        """Return whose lost messages it is told of next; None if it is told of nothing in time."""
        while select.select([self._told], [], [], within_s)[0]:
            alarm = json.loads(self._told.readline())
            if (alarm["finding"], alarm["change"]) == ("unaccounted", "raised"):
                return str(alarm["router"])
        return None

    def close(self) -> None:
        """Kill what the command left behind."""
        self._told.close()
        for pid in (self.directory / "pids").read_text().split():
            kill(int(pid))


@contextmanager
def running(base: Path, pager: Pager, *when: str) -> Iterator[tuple[subprocess.Popen[str], Told]]:
    """Run a stream of the logs in this directory."""
    asked = [str(base / "logs"), "--out", str(base / "out"), "--as-of", str(START + LATE * 10**9), *when]
    with subprocess.Popen(
        [sys.executable, "-m", "spark_analytics.streaming", *asked, "--notify", pager.command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process, Told(process)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def pager(tmp_path: Path) -> Iterator[Pager]:
    found = Pager(tmp_path / "pager")
    yield found
    found.close()


def test_a_command_that_hangs_holds_up_neither_batches_nor_later_alarms_nor_the_end(
    pager: Pager, tmp_path: Path
) -> None:
    well = pager.directory / "well"
    lossy(A).write(tmp_path / "logs" / "a")
    with running(tmp_path, pager, "--every", "0.5") as (process, told):
        told.first(re.compile(r"was not told of the alarm \w+ \(it took more than 10 s and was killed\); attempt 1"))
        lossy(B).write(tmp_path / "logs" / "b")
        told.first(re.compile(r"batch 1: .* after"))
        assert pager.next_router(0) is None
        well.touch()
        assert [pager.next_router(), pager.next_router()] == [name(A), name(B)]
        well.unlink()
        lossy(C).write(tmp_path / "logs" / "c")
        told.first(re.compile(r"batch 2: .* after"))
        process.send_signal(signal.SIGTERM)
        text = told.join()
        assert process.wait(HANG_S) == 0, text[-3000:]
    assert "the command of --notify was not told of 1 alarm; the next run tells it then" in text
    assert "and it goes on where it was" in text and "Traceback" not in text
    assert [line for line in processes(pager.directory) if b"-c" in line] == [], "a command that hung is left"
    well.touch()
    with running(tmp_path, pager, "--once") as (process, told):
        assert process.wait(HANG_S) == 0, told.join()[-3000:]
    assert pager.next_router(0) == name(C) and pager.next_router(0) is None
