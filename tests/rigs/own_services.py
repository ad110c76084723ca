"""Services that a test writes in a home of its own, and their lines in `router status`."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rigs.patience import HANG_S
from rigs.serving import serving
from router.client.node import Node, connect
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
    monkeypatch.setenv("PYTHONPATH", str(found), prepend=os.pathsep)
    return found


def made(path: Path, *blocks: str) -> Home:
    home = Home(path / "home")
    home.create()
    home.config_path.write_text(
        "[node]\nservice_restart_s_min = 0.01\nservice_restart_s_max = 0.05\n" + "".join(blocks)
    )
    return home


@asynccontextmanager
async def running(
    path: Path, *blocks: str, settings: Mapping[str, object] | None = None
) -> AsyncIterator[tuple[Home, Node]]:
    """Run a node with these services; yield its home, and an app of its owner that hears outcomes. `settings`: further
    ones, as `serving` takes them."""
    home = made(path, *blocks)
    with trio.fail_after(HANG_S):
        async with serving(home.path, settings or {}), connect(home=home, outcomes=True) as node:
            yield home, node


@asynccontextmanager
async def one_service(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    rules: str,
    *,
    module: str = "",
    run: str = "inside",
    head: str = "",
    settings: Mapping[str, object] | None = None,
) -> AsyncIterator[tuple[Home, Node]]:
    """Run a node with one service, of these rules. `module`: its file's name, if that is not the service's; `head`:
    lines of the configuration's section [node]."""
    (findable(path, monkeypatch) / f"{module or name}.py").write_text(rules)
    async with running(path, head, block(name, module or name, run), settings=settings) as found:
        yield found


async def ask(node: Node, question: str) -> Any:
    """Return the answer to a question to a service, which the service's name begins."""
    return json.loads(await node.ask("service", question, timeout_s=HANG_S))


def block(name: str, module: str, run: str = "inside") -> str:
    return f'[[node.services]]\nname = "{name}"\nmodule = "{module}"\nrun = "{run}"\n'
