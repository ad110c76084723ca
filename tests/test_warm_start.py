"""The process that quick tests fork commands from ends with the tests, also if these are killed; what a command starts
is forked as well."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from rigs.warm_start import ARGUMENT_BYTES, WarmStart, serve

from router.actors.process import program
from router.settings.home import Home


def test_prepared_process_ends_with_the_tests_though_another_process_holds_the_socket() -> None:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there, subprocess.Popen(["sleep", "600"]) as tests:
        descriptor = os.pidfd_open(tests.pid)
        tests.send_signal(signal.SIGKILL)
        assert serve(there, descriptor) is None
        os.close(descriptor)


def command_line(pid: int) -> list[str]:
    raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    assert len(raw) > ARGUMENT_BYTES, "it was executed"
    return raw.rstrip(b"\0").decode().split("\0")


def test_node_and_its_verifier_are_forked_children_with_their_own_command_lines(tmp_path: Path) -> None:
    if not isinstance(getattr(subprocess._fork_exec, "__self__", None), WarmStart):  # type: ignore[attr-defined]
        pytest.skip("only the quick tests fork their commands")
    home = Home(tmp_path)
    home.create()
    command = program("router", "--home", str(home.path), "serve", "--verifiers", "1", "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as node:
        assert node.stdout is not None and node.stdout.readline()
        assert command_line(node.pid) == command
        children = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
        assert program("router.node.verifier_process") in [command_line(int(one)) for one in children]
        node.terminate()
        assert node.wait() == 0
