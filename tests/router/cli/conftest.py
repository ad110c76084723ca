"""A running node for the commands to talk to, and commands run in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rigs.commands import Run, RunningNode, run_in, start_node, stop_node
from samples.audit_logs import LATE, Log

from router.settings.home import Home
from router.settings.keyring import NODE, load_or_create


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


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return the log of a router that accepted and delivered three messages, and stopped."""
    log = Log()
    log.accepted(1, range(3))
    log.outward("delivered", [(1, 3)])
    log.state("stop", LATE)
    return log.write(tmp_path / "log")
