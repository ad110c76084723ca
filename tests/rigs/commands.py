"""Commands run in this process, and a node in another for them to talk to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from rigs.patience import HANG_S
from rigs.warm_start import BOUND
from router.actors.process import program
from router.cli import main

Run = Callable[..., Result]
ROUTER = tuple(program("router"))
AS_ANY_USER = () if os.geteuid() else tuple(BOUND)
"""Lets modes of files hold for root, too."""


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
