"""A command that has started processes ends them, whichever signal ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
import trio
from rigs.left_processes import processes
from rigs.patience import HANG_S

from router.cli.signals import as_ctrl_c, handling
from router.rig.ending import play, until_signalled

BENCH = (sys.executable, "-m", "router", "bench", "--transport", "unix", "--messages", "20000")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_until_signalled_cancels_what_runs_and_waits_for_its_end(number: signal.Signals) -> None:
    ended = []

    async def act(what: str) -> None:
        signal.raise_signal(number)
        try:
            await trio.sleep_forever()
        finally:
            ended.append(what)

    before = signal.getsignal(number)
    with pytest.raises(click.Abort):
        await until_signalled(act, "the story")
    assert ended == ["the story"] and signal.getsignal(number) is before


async def test_until_signalled_returns_the_result_and_lets_errors_through() -> None:
    async def twice(number: int) -> int:
        return 2 * number

    async def fail() -> None:
        raise OSError("no room")

    assert await until_signalled(twice, 21) == 42
    with pytest.raises(OSError, match="no room"):
        await until_signalled(fail)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_only_computes_is_ended_where_it_computes(number: signal.Signals) -> None:
    """Within trio a signal would wait for the end of what never waits."""
    computed = []

    def compute(what: str) -> None:
        signal.raise_signal(number)
        computed.append(what)

    with pytest.raises(KeyboardInterrupt), as_ctrl_c():
        play(compute, "figures")
    assert computed == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_as_ctrl_c_raises_keyboard_interrupt(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), as_ctrl_c():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with as_ctrl_c(), handling(signal.SIG_IGN):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_bench_that_is_ended_leaves_no_process(number: signal.Signals, tmp_path: Path) -> None:
    give_up_s = time.monotonic() + HANG_S
    with subprocess.Popen(BENCH, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}) as process:
        while not processes(tmp_path):
            assert process.poll() is None and time.monotonic() < give_up_s
            time.sleep(0.05)
        process.send_signal(number)
        code = process.wait(HANG_S)
    while processes(tmp_path):
        assert time.monotonic() < give_up_s, processes(tmp_path)
    if number is not signal.SIGKILL:
        assert code == 130 and not list(tmp_path.iterdir())
