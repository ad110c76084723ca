"""`router top` at a running node: drawn in a terminal until a key ends it, plain into a pipe."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import termios
from pathlib import Path

import pytest
from rigs.commands import ROUTER, Run, RunningNode, run_in

from router.cli.exits import Exit


def test_once_prints_one_look(at_node: Run) -> None:
    told = at_node("top", "--once", "--every", "0.2")
    assert told.exit_code == 0, told.stderr
    assert "All is well." in told.stdout and "ACCEPTED/S" in told.stdout
    found = json.loads(at_node("top", "--once", "--every", "0.2", "--json").stdout)
    assert found["headline"]["level"] == "good" and found["per_s"]["accepted"] == 0.0


def test_without_a_node_it_says_so(tmp_path: Path) -> None:
    run = run_in(tmp_path / "home")
    assert run("init").exit_code == 0
    for options in (("--once",), ("--json",)):
        told = run("top", *options)
        assert told.exit_code == Exit.NO_NODE and "`router" in told.stderr


def test_pipe_gets_one_look_after_the_other_until_it_is_closed(node: RunningNode) -> None:
    command = [*ROUTER, "--home", str(node.home), "top", "--json", "--every", "0.2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        looks = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdout.close()
    assert looks[0]["at_s"] < looks[1]["at_s"] and looks[0]["address"] == looks[1]["address"]


@pytest.mark.parametrize(("number", "code"), [(None, 0), (signal.SIGTERM, 130), (signal.SIGHUP, 130)])
def test_terminal_is_drawn_until_q_or_a_signal_and_given_back(
    node: RunningNode, number: signal.Signals | None, code: int
) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    env = {**os.environ, "TERM": "xterm", "LINES": "24", "COLUMNS": "80"}
    with subprocess.Popen(
        [*ROUTER, "--home", str(node.home), "top"], stdin=theirs, stdout=theirs, stderr=theirs, env=env,
        start_new_session=True,
    ) as process:  # fmt: skip
        said = b""
        while b"All is well." not in said or b"q quit" not in said:
            said += os.read(ours, 65536)
        if number is None:
            os.write(ours, b"sjq")
        else:
            process.send_signal(number)
        while b"\x1b[?1049l" not in said:
            said += os.read(ours, 65536)
    assert process.returncode == code
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
