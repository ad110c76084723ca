"""`router service` without systemd says so; with it, a node is installed, comes back after a kill, and is removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rigs.commands import Run, run_in
from rigs.patience import HANG_S

from router.cli import main
from router.cli.exits import Exit
from router.cli.unit import service_manager
from router.cli.unit.unit_file import Unit
from router.rig.process import POLL_S

SYSTEMD = Path("/lib/systemd/systemd")


def test_without_systemd_it_says_what_to_do(router: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_manager, "BOOTED", tmp_path / "missing")
    for words in (("install",), ("status", "--json"), ("logs",), ("stop",), ("start",), ("restart",), ("remove",)):
        told = router("service", *words)
        assert told.exit_code == Exit.FAILED and "`router" in told.stderr and "serve` runs the node" in told.stderr
    assert "serve` runs the node" in router("service", "install", "--system").stderr
    assert not (tmp_path / "home").exists(), "nothing was made"
    odd = router("service", "remove", "--name", "../router")
    assert odd.exit_code == Exit.USAGE and '"../router" is no name of a unit' in odd.stderr


def test_unit_of_a_package_counts_where_nothing_stands_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_packages, of_root = tmp_path / "usr", tmp_path / "etc"
    monkeypatch.setattr(service_manager, "OF_PACKAGES", of_packages)
    monkeypatch.setattr(service_manager, "MACHINE", of_root)
    machine, user = (service_manager.ServiceManager(of_machine=one) for one in (True, False))
    assert machine.packaged("router.service") is None
    for folder in (of_packages, of_root):
        folder.mkdir()
    (of_packages / "router.service").write_text("[Unit]\n")
    assert machine.packaged("router.service") == of_packages / "router.service"
    assert user.packaged("router.service") is None and machine.packaged("other.service") is None
    (of_root / "router.service").write_text("[Unit]\n")
    assert machine.packaged("router.service") is None


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of a user's units; what `systemctl` is asked is answered by `true`."""
    monkeypatch.setattr(service_manager, "BOOTED", tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ROUTER_HOME", raising=False)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    folder = tmp_path / "config" / "systemd" / "user"
    folder.mkdir(parents=True)
    for name in ("router", "second"):
        (folder / f"{name}.service").write_text(Unit(name, ("/bin/router",), str(tmp_path / name)).text())
    (folder / "other.service").write_text("[Service]\nExecStart=/bin/true\n")
    return folder


def test_unit_of_the_named_home_is_chosen(units: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "second").mkdir()
    (tmp_path / "link").symlink_to("second")

    def asked(*words: str) -> list[str]:
        (tmp_path / "asked").unlink(missing_ok=True)
        done = CliRunner().invoke(main, ["service", *words])
        assert done.exit_code == 0, done.stderr
        return [one for one in (tmp_path / "asked").read_text().splitlines() if "show-environment" not in one]

    assert asked("stop") == ["--user --no-pager stop router.service"]
    for home in ("second", "link"):
        assert asked("restart", "--home", str(tmp_path / home)) == ["--user --no-pager restart second.service"]
    monkeypatch.setenv("ROUTER_HOME", str(tmp_path / "second"))
    assert asked("start") == ["--user --no-pager start second.service"]
    assert asked("stop", "--home", str(tmp_path / "router")) == ["--user --no-pager stop router.service"]
    assert asked("stop", "--name", "second") == ["--user --no-pager stop second.service"]


def test_home_of_no_unit_or_of_another_than_the_named_one_is_refused(units: Path, tmp_path: Path) -> None:
    none = run_in(tmp_path / "none")
    for word in ("stop", "start", "restart", "remove", "logs"):
        told = none("service", word)
        assert told.exit_code == Exit.FAILED and f"no service runs the node of {tmp_path}/none" in told.stderr
        assert f"second runs that of {tmp_path}/second" in told.stderr
        assert f"`router --home {tmp_path}/none service install` does it" in told.stderr
    shown = none("service", "status", "--json")
    found = json.loads(shown.stdout)
    assert shown.exit_code == Exit.NO_NODE and (found["installed"], found["state"]) == (False, "inactive")
    both = run_in(tmp_path / "router")("service", "stop", "--name", "second")
    assert both.exit_code == Exit.USAGE and "leave out --name or --home" in both.stderr
    assert "stop" not in (tmp_path / "asked").read_text() and len([*units.iterdir()]) == 3


LOGINCTL = """#!/bin/sh
case "$1" in
show-user) if test -e {folder}/lingers; then echo yes; else echo no; fi ;;
enable-linger) test "$2" = "$(id -un)" && {enable} ;;
esac
"""


@pytest.mark.parametrize(("enable", "goes_on"), [("touch {folder}/lingers", True), ("exit 1", False)])
def test_who_installs_a_service_hears_whether_it_goes_on_after_the_log_out(
    units: Path, tmp_path: Path, enable: str, goes_on: bool
) -> None:
    loginctl = tmp_path / "bin" / "loginctl"
    loginctl.write_text(LOGINCTL.format(folder=tmp_path, enable=enable.format(folder=tmp_path)))
    loginctl.chmod(0o755)
    run = run_in(tmp_path / "router")
    assert run("init").exit_code == 0
    done = run("service", "install")
    assert done.exit_code == 0, done.stderr
    said = "it ends when you log out, since this machine does not let your services go on"
    assert (said in done.stderr) != goes_on and ("`sudo loginctl enable-linger $USER` does" in done.stderr) != goes_on
    assert json.loads(run("service", "status", "--json").stdout)["without_login"] is goes_on


def test_health_is_one_code(at_node: Run, router: Run) -> None:
    assert (at_node("health").exit_code, at_node("health").stdout) == (0, "ready\n")
    assert json.loads(at_node("health", "--json").stdout) == {"ready": True, "reasons": []}
    assert router("init").exit_code == 0
    assert router("health").exit_code == Exit.NO_NODE


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Run a user's systemd of this test's own."""
    if not (SYSTEMD.exists() and service_manager.BOOTED.is_dir()):
        pytest.skip("systemd does not run this machine")
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    with subprocess.Popen([SYSTEMD, "--user"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as manager:
        while subprocess.run(["systemctl", "--user", "show-environment"], capture_output=True, check=False).returncode:
            if manager.poll() is not None:
                pytest.skip("a user's systemd does not run here")
            os.sched_yield()
        yield
        manager.send_signal(signal.SIGTERM)
        manager.wait(HANG_S)


def status(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("service", "status", "--json").stdout)
    return found


@pytest.mark.long
def test_installed_node_comes_back_after_a_kill_and_a_hang_and_is_removed(systemd: None, tmp_path: Path) -> None:
    home = tmp_path / "a home 100%"
    run = run_in(home)
    installed = run("service", "install")
    assert installed.exit_code == 0, installed.stderr
    first = status(run)
    assert (first["state"], first["home"], first["changed_by_hand"]) == ("active", str(home), False)
    other = run_in(tmp_path / "other")("service", "install")
    assert other.exit_code == Exit.FAILED and str(home) in other.stderr and not (tmp_path / "other").exists()
    beside = run_in(tmp_path / "beside")
    assert beside("service", "install", "--name", "second").exit_code == 0
    assert beside("service", "restart").exit_code == 0 and status(beside)["unit"] == "second.service"
    assert beside("service", "stop").exit_code == 0 and status(beside)["state"] == "inactive"
    assert beside("service", "remove").exit_code == 0 and status(run)["pid"] == first["pid"]
    os.kill(first["pid"], signal.SIGKILL)
    second = _until_another(run, first["pid"])
    unit = tmp_path / ".config/systemd/user/router.service"
    unit.write_text(unit.read_text().replace("WatchdogSec=2min", "WatchdogSec=2s"))
    kept = run("service", "install")
    assert kept.exit_code == 0 and "changed by hand and is kept" in kept.stderr and status(run)["changed_by_hand"]
    subprocess.run(["systemctl", "--user", "restart", "router"], check=True)
    third = _until_another(run, second)
    os.kill(third, signal.SIGSTOP)
    _until_another(run, third)
    assert run("health").exit_code == 0
    stopped = run("service", "stop")
    assert stopped.exit_code == 0 and run("service", "status").exit_code == Exit.NO_NODE
    assert run("service", "start").exit_code == 0 and (fourth := status(run)["pid"]) not in (third, None)
    assert run("service", "restart").exit_code == 0 and status(run)["pid"] not in (fourth, None)
    removed = run("service", "remove")
    assert removed.exit_code == 0 and "router.service.changed" in removed.stderr and home.is_dir()
    assert run("service", "status").exit_code == Exit.NO_NODE and not unit.exists()
    gone = run("service", "restart")
    assert gone.exit_code == Exit.FAILED and "service install` does it" in gone.stderr


def _until_another(run: Run, pid: int) -> int:
    """Return the pid of the node that has come in the place of that one."""
    import time

    while (found := status(run))["pid"] in (pid, None) or found["state"] != "active":
        time.sleep(POLL_S)
    return int(found["pid"])
