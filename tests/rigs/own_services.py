"""Services that a test writes in a home of its own, and their lines in `router status`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from rigs.patience import HANG_S
from router.client.node import connect
from router.settings.home import Home


async def status(home: Home) -> dict[str, dict[str, Any]]:
    async with connect(home=home) as node:
        return {one["name"]: one for one in json.loads(await node.ask("status", timeout_s=HANG_S))["services"]}


async def until(home: Home, holds: Callable[[dict[str, dict[str, Any]]], bool]) -> dict[str, dict[str, Any]]:
    while not holds(found := await status(home)):
        await trio.sleep(0.02)
    return found


def findable(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory of services that this process and its children find."""
    found = path / "place"
    found.mkdir()
    monkeypatch.syspath_prepend(found)
    monkeypatch.setenv("PYTHONPATH", str(found))
    return found


def made(path: Path, *blocks: str) -> Home:
    home = Home(path / "home")
    home.create()
    home.config_path.write_text(
        "[node]\nservice_restart_s_min = 0.01\nservice_restart_s_max = 0.05\n" + "".join(blocks)
    )
    return home


def block(name: str, module: str, run: str = "inside") -> str:
    return f'[[node.services]]\nname = "{name}"\nmodule = "{module}"\nrun = "{run}"\n'
