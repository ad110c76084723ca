"""The process that quick tests fork commands from ends with the tests, also if these are killed; what a command starts
is forked as well."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from rigs.commands import AS_ANY_USER
from rigs.patience import HANG_S
from rigs.warm_start import ARGUMENT_BYTES, DAC, WarmStart, serve

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


def children_of(pid: int) -> list[list[str]]:
    """Return the command lines of the processes that a process has started."""
    return [command_line(int(one)) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def rights_of(pid: int) -> set[int]:
    """Return the capabilities that a process has, or can get by executing a file of root."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    found = int(lines["CapEff"], 16) | int(lines["CapPrm"], 16) | int(lines["CapBnd"], 16)
    return {number for number in range(64) if found >> number & 1}


def test_node_and_its_service_are_forked_children_with_their_own_command_lines(tmp_path: Path) -> None:
    if not isinstance(getattr(subprocess._fork_exec, "__self__", None), WarmStart):  # type: ignore[attr-defined]
        pytest.skip("only the quick tests fork their commands")
    home = Home(tmp_path)
    home.create()
    home.config_path.write_text('[[node.services]]\nname = "pubsub"\nmodule = "services.pubsub"\nrun = "apart"\n')
    command = program("router", "--home", str(home.path), "serve", "--verifiers", "0", "--json")
    with subprocess.Popen([*AS_ANY_USER, *command], stdout=subprocess.PIPE) as node:
        try:
            assert node.stdout is not None and node.stdout.readline()
            assert command_line(node.pid) == command
            until_s = time.monotonic() + HANG_S
            while program("router.service.apart", str(home.path), "pubsub") not in (found := children_of(node.pid)):
                assert time.monotonic() < until_s, found
                time.sleep(0.05)
            if AS_ANY_USER:
                assert rights_of(node.pid) == rights_of(os.getpid()) - {*DAC}
        finally:
            node.terminate()
        assert node.wait(HANG_S) == 0


def test_closing_one_that_was_not_installed_changes_nothing() -> None:
    first, second, before = WarmStart(), WarmStart(), subprocess._fork_exec  # type: ignore[attr-defined]
    first.install()
    second.close()
    assert subprocess._fork_exec == first.start  # type: ignore[attr-defined]
    second.install()
    second.close()
    assert subprocess._fork_exec == first.start  # type: ignore[attr-defined]
    first.close()
    assert subprocess._fork_exec == before  # type: ignore[attr-defined]
