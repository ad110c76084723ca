"""Signals end commands like Ctrl-C, and nothing is left behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
import trio
from fleets.shared import Fleets
from rigs.commands import ROUTER, run_in
from rigs.patience import HANG_S

from router.cli import loop
from router.cli.signals import SIGNALS, removing

SLOW = """
import signal, sys, time
from pathlib import Path
from router.cli.signals import removing
with removing():
    try:
        print(flush=True)
        time.sleep(60)
    finally:
        print(flush=True)
        sys.stdin.readline()
        Path(sys.argv[1]).unlink()
"""

READS = """
import sys
from router.cli.signals import as_ctrl_c
with as_ctrl_c():
    try:
        print("reads", flush=True)
        sys.stdin.read()
    except KeyboardInterrupt:
        sys.exit(7)
"""


def said(number: signal.Signals) -> str:
    return f"ended by {number.name} before it was done: what it had begun is removed\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_the_code_is_the_signal_s(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "begun").touch()
    command = [sys.executable, "-c", SLOW, str(tmp_path / "begun")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        for again in (number, signal.SIGTERM):  # as `timeout` does, which signals the process and its group
            process.stdout.readline()
            process.send_signal(again)
        assert process.communicate("\n", timeout=HANG_S) == ("", said(number))
    assert process.returncode == 128 + number
    assert not (tmp_path / "begun").exists()


async def wait(number: signal.Signals, ended: list[object]) -> None:
    """Signal this process, and note the signal where it ends the wait."""
    signal.raise_signal(number)
    try:
        await trio.sleep_forever()
    except KeyboardInterrupt:
        ended.append(number)
        raise


@pytest.mark.parametrize("number", SIGNALS)
def test_a_command_that_waits_is_ended_where_it_waits(number: signal.Signals) -> None:
    ended: list[object] = []
    before = {one: signal.getsignal(one) for one in SIGNALS}
    with pytest.raises(KeyboardInterrupt):
        loop.run(wait, number, ended)
    assert ended == [number] and {one: signal.getsignal(one) for one in SIGNALS} == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_ends_at_sigterm_where_ctrl_c_is_ignored_and_stays_so(number: signal.Signals) -> None:
    ended: list[object] = []

    async def wait_on() -> None:
        signal.raise_signal(signal.SIGINT)
        await trio.lowlevel.checkpoint()
        ended.append(signal.SIG_IGN)
        await wait(number, ended)

    was = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run(wait_on)
        assert ended == [signal.SIG_IGN, number]
        assert [signal.getsignal(one) for one in SIGNALS] == [signal.SIG_IGN, signal.SIG_DFL, signal.SIG_DFL]
    finally:
        signal.signal(signal.SIGINT, was)


def test_what_is_ignored_stays_so_and_errors_pass() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with removing():
            signal.raise_signal(signal.SIGHUP)
        with pytest.raises(KeyError), removing():
            raise KeyError
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_a_library_makes_of_an_interrupt_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, removing():
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None
    assert (ended.value.code, capsys.readouterr().err) == (143, said(signal.SIGTERM))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_audit_leaves_nothing(number: signal.Signals, fleets: Fleets, tmp_path: Path) -> None:
    logs = fleets(10, 200, 0)
    (tmp_path / "near").mkdir()
    command = [*ROUTER, "audit", str(logs), "--out", str(tmp_path / "near" / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not list(tmp_path.glob("near/.router-audit-*/audit.duckdb")):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(number)
        assert process.communicate(timeout=HANG_S) == ("", said(number))
    assert process.returncode == 128 + number
    assert list((tmp_path / "near").iterdir()) == []


@pytest.mark.parametrize("number", SIGNALS)
def test_a_command_that_asks_for_a_passphrase_gives_the_terminal_back(number: signal.Signals, tmp_path: Path) -> None:
    run_in(tmp_path / "home")("init")
    ours, theirs = pty.openpty()
    command = [*ROUTER, "--home", str(tmp_path / "home"), "backup", str(tmp_path / "snapshot")]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        asked = b""
        while b"Passphrase" not in asked:
            asked += os.read(ours, 4096)
        while _shows(theirs):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(number)
        assert process.wait(HANG_S) == 130
    assert _shows(theirs) and not (tmp_path / "snapshot").exists()
    os.close(ours)
    os.close(theirs)


def test_what_reads_standard_input_ends_like_ctrl_c_where_that_is_ignored() -> None:
    ignore = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {READS}"
    for code in (READS, ignore):
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdout is not None and process.stdout.readline() == "reads\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(HANG_S) == 7


def _shows(terminal: int) -> bool:
    """Whether a terminal shows what is typed."""
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
