"""A real node in the test's own process, for as long as the test needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from rigs.patience import HANG_S
from router.node.node import Ready, RunningNode
from router.settings.config import load
from router.settings.home import Home


@asynccontextmanager
async def serving(path: Path, settings: Mapping[str, object]) -> AsyncIterator[Home]:
    """Yield the home of a node that is ready; settings by name, as `load` takes them."""
    home = Home(path)
    home.create()
    config, _ = load(home.config_path, {"verify.verifiers": 0, **settings})
    node, is_ready = RunningNode(home, config, lambda: config), trio.Event()

    def on_ready(_: Ready) -> None:
        is_ready.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.run, on_ready)
        with trio.fail_after(HANG_S):
            await is_ready.wait()
        yield home
        node.stop()
        nursery.cancel_scope.deadline = trio.current_time() + HANG_S
    assert not nursery.cancel_scope.cancelled_caught, "the node does not stop"
