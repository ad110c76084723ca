"""A running node for the commands to talk to, and commands run in this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rigs.patience import HANG_S

from router.actors.process import program
from router.cli import main
from router.settings.home import Home
from router.settings.keyring import NODE, load_or_create

Run = Callable[..., Result]
ROUTER = tuple(program("router"))


@dataclass(frozen=True)
class RunningNode:
    """A node in a process of its own; `ready` is the line it printed."""

    home: Path
    ready: dict[str, Any]


def run_in(home: Path) -> Run:
    def run(*args: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(main, ["--home", str(home), *args], input=stdin)

    return run


def start_node(
    home: Path, *args: str, process_group: int | None = None
) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    command = [*ROUTER, "serve", "--json", "--home", str(home), *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=process_group)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def stop_node(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=HANG_S)
    return process.returncode


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the home of a node that has never run."""
    return tmp_path / "home"


@pytest.fixture
def router(home: Path) -> Run:
    """Return a function that runs a command on a fresh home."""
    return run_in(home)


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Return a node without services."""
    home = tmp_path_factory.mktemp("cli") / "home"
    Home(home).create()
    load_or_create(Home(home), NODE)
    process, ready = start_node(home, "--listen", "tls://127.0.0.1:0", "--verifiers", "0")
    yield RunningNode(home, ready)
    assert stop_node(process) == 0


@pytest.fixture
def at_node(node: RunningNode) -> Run:
    """Return a function that runs a command on the home of the running node."""
    return run_in(node.home)


@pytest.fixture(autouse=True)
def _no_home_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep tests away from the home of the user who runs them."""
    monkeypatch.setenv("ROUTER_HOME", str(tmp_path / "elsewhere"))
    assert os.environ["ROUTER_HOME"]
