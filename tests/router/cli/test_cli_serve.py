"""`serve`: its output when ready, how it stops, and every way in which it cannot start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest
from rigs.commands import AS_ANY_USER, ROUTER, Run, RunningNode, start_node, stop_node
from rigs.patience import HANG_S
from rigs.short_temporary_files import short_folder

from router.client import link


def test_ready_is_said_to_people_and_to_the_service_manager(home: Path, tmp_path: Path) -> None:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(HANG_S)
    command = [*ROUTER, "serve", "--home", str(home), "--verifiers", "0"]
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "PATH": "", "WATCHDOG_USEC": "100000"}
    with manager, subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        said_first = list(takewhile(lambda said: said != b"READY=1", iter(lambda: manager.recv(100), b"")))
        assert set(said_first) <= {b"WATCHDOG=1"} and manager.recv(100) == b"WATCHDOG=1", "its loop goes round"
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=HANG_S)
        assert b"STOPPING=1" in iter(lambda: manager.recv(100), b"")
    assert process.returncode == 0
    assert [line.split()[0] for line in said.splitlines()] == ["address", "listening", "durability", "queue"]
    assert "synced" in said
    assert "0 messages" in said


def test_a_socket_that_somebody_removed_is_made_again_and_commands_wait_for_it(
    home: Path, router: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "SOCKET_S", HANG_S)
    process, ready = start_node(home, "--verifiers", "0")
    socket = Path(ready["listeners"][0].removeprefix("unix://"))  # elsewhere if the path of the home is long
    try:
        socket.unlink()
        status = json.loads(router("status", "--json").stdout)
        assert status["pid"] == ready["pid"] and socket.is_socket()
    finally:
        assert stop_node(process) == 0 and not socket.exists()


def test_the_end_of_a_terminal_drains(home: Path) -> None:
    """A verifier and the worker of a service get the signal, too."""
    process, _ = start_node(home, "--verifiers", "1", process_group=0)
    os.killpg(process.pid, signal.SIGHUP)
    assert process.communicate(timeout=HANG_S) and process.returncode == 0


def test_settings_from_the_command_line(home: Path) -> None:
    process, ready = start_node(home, "--set", "store.durability=unsynced", "--set", "verify.verifiers=0")
    assert ready["durability"] == "unsynced"
    assert stop_node(process) == 0


def test_a_new_home_is_said_to_be_new(router: Run, home: Path) -> None:
    """Without the line "new", a mistyped --home would silently become another node with another address."""
    command = [*ROUTER, "serve", "--home", str(home), "--verifiers", "0"]
    said = []
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address = process.stdout.readline().split()[1]
            process.send_signal(signal.SIGTERM)
            said.append(process.communicate(timeout=HANG_S)[1])
    assert said == [f"there was no node at {home}: made one, {address}\n", ""]


def test_a_home_that_serve_makes_has_its_services_at_once(home: Path, router: Run) -> None:
    process, _ = start_node(home, "--verifiers", "0")
    services = {one["name"] for one in json.loads(router("status", "--json").stdout)["services"]}
    assert stop_node(process) == 0
    assert services == {"discovery", "pubsub"}


def test_nothing_stays_outside_a_home_with_a_long_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = short_folder()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    process, _ = start_node(tmp_path / ("x" * 120), "--verifiers", "0")
    assert list(run.iterdir())
    assert stop_node(process) == 0
    run.rmdir()


def test_a_home_serves_one_node(at_node: Run, node: RunningNode) -> None:
    result = at_node("serve")
    assert result.exit_code == 1
    assert f"is in use by pid {node.ready['pid']}, another node" in result.stderr


def test_a_taken_port_is_named(router: Run, node: RunningNode) -> None:
    url = next(one for one in node.ready["listeners"] if one.startswith("tls"))
    result = router("serve", "--listen", url, "--verifiers", "0")
    assert result.exit_code == 1
    assert url.rpartition(":")[2] in result.stderr
    assert "another program uses this port" in result.stderr
    assert len(result.stderr.splitlines()) <= 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--listen", "tls://host"], "lacks host or port"),
        (["--listen", "nonsense"], "write for example tls://host:4101"),
        (["--listen", "carrier://pigeon"], "no transport for carrier"),
        (["--set", "link.pin_s=3"], "did you mean"),
        (["--set", "link"], "section.name=value"),
        (["--set", "link.ping_s=often"], "must be a number"),
        (["--verifiers", "-7"], "at least -1"),
    ],
)
def test_a_wrong_flag_is_code_2(router: Run, args: list[str], said: str) -> None:
    result = router("serve", *args)
    assert result.exit_code == 2, result.stderr
    assert said in result.stderr
    assert len(result.stderr.splitlines()) <= 2


def test_a_damaged_store_is_named(router: Run, home: Path) -> None:
    router("init")
    (home / "store/data.mdb").write_bytes(b"not a database" * 1000)
    result = router("serve", "--verifiers", "0")
    assert result.exit_code == 1
    assert f"the store in {home / 'store'} cannot be opened" in result.stderr


@pytest.mark.parametrize(
    ("place", "remedy"),
    [
        (".", "run this as the user it belongs to"),
        ("store", "start as the user they belong to"),
        ("log", "start as the user it belongs to, or give it to this one by chown"),
    ],
)
def test_what_is_closed_to_this_user_is_said_with_the_remedy(router: Run, home: Path, place: str, remedy: str) -> None:
    router("init")
    (home / place).chmod(0)
    try:
        command = [*AS_ANY_USER, *ROUTER, "serve", "--home", str(home), "--verifiers", "0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    finally:
        (home / place).chmod(0o700)
    assert done.returncode == 1 and "Permission denied" in done.stderr and remedy in done.stderr, done.stderr


def test_ctrl_c_while_it_starts_ends_it_quietly(home: Path, router: Run) -> None:
    router("init")
    command = [*ROUTER, "serve", "--home", str(home), "--verifiers", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (home / "lock").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        try:
            said = process.communicate(timeout=HANG_S)[1]
        finally:
            process.kill()
    assert process.returncode in (0, -signal.SIGINT) and said == ""  # the latter before or after Python handles it
