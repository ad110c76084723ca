"""Commands that print what comes end when nobody reads them, also while nothing comes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
import trio
from rigs.commands import ROUTER, RunningNode, run_in
from rigs.patience import HANG_S

from router.cli import output
from router.cli.output import while_read


@pytest.mark.parametrize("command", [("sub", "own"), ("recv",)])
def test_a_command_that_waits_ends_when_its_reader_goes(node: RunningNode, command: tuple[str, ...]) -> None:
    run_in(node.home)("group", "new", "own")
    running = subprocess.Popen(
        [*ROUTER, "--home", node.home, *command, "--as", "reader"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None and running.stderr is not None
    running.stdout.close()
    assert running.wait(HANG_S) == 1
    assert b"Traceback" not in running.stderr.read()
    running.stderr.close()


@contextmanager
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[IO[bytes]]:
    """Make standard output a pipe; yield the end at which it is read."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as end, os.fdopen(writing, "w") as stdout, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        yield end


async def test_while_read_ends_a_block_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "READER_GONE_S", 0.0)
    with piped(monkeypatch) as reader, trio.fail_after(HANG_S), pytest.RaisesGroup(BrokenPipeError):
        async with while_read():
            reader.close()
            await trio.sleep_forever()


async def test_while_read_lets_a_block_end_whose_reader_has_all_that_it_wants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output, "READER_GONE_S", HANG_S)
    with piped(monkeypatch) as reader:
        async with while_read():
            reader.close()
            for _ in range(5):
                await trio.sleep(0)


async def test_while_read_has_no_reader_to_wait_for_behind_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "out").open("w") as out:
        for stdout in (out, None):
            monkeypatch.setattr(sys, "stdout", stdout)
            async with while_read():
                await trio.sleep(0)
