"""A test that fails with an exception group is reported in a few lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rigs.patience import HANG_S

FAILING = """
import trio

async def fail():
    await trio.sleep(0)
    assert {"a": 1} == {"a": 2}

async def test_it():
    async with trio.open_nursery() as outer:
        for _ in range(20):
            outer.start_soon(trio.sleep_forever)
        async with trio.open_nursery() as inner:
            inner.start_soon(fail)
            await trio.sleep_forever()

async def cancelled():
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            return error

def test_both():
    error = trio.run(cancelled)
    raise BaseExceptionGroup("both", [error, error, KeyError("mine")])
"""


def test_a_few_lines_for_each_exception(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-m", "pytest", "-p", "rigs.group_reports", "-o", "trio_mode=true", "-q", "."]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 1, done.stderr
    first, _, second = done.stdout.partition(" test_it ")[2].partition(" test_both ")
    assert "AssertionError: assert {'a': 1} == {'a': 2}" in first
    assert f'{tmp_path / "test_failing.py"}:6 fail(): assert {{"a": 1}} == {{"a": 2}}' in first
    assert "Cancelled" not in first and "site-packages" not in done.stdout
    assert 0 < second.index("KeyError: 'mine'") < second.index("Cancelled") < second.index("2 times")
    assert len(first.splitlines()) < 20
