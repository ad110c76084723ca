"""An app that would keep its key, where no further one is kept: it hears so at once, and so does the operator."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from router.client.errors import NodeUnavailable
from router.client.node import connect
from router.node import Node, Ready
from router.settings.config import load
from router.settings.home import Home


async def test_one_app_too_many_is_told_which_limit_it_met(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = Home(tmp_path / "home")
    home.create()
    config, _ = load(home.config_path, {"limits.local_services_max": 1, "verify.verifiers": 0})
    node, is_ready = Node(home, config, lambda: config), trio.Event()

    def on_ready(_: Ready) -> None:
        is_ready.set()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run, on_ready)
            await is_ready.wait()
            async with connect(home=home, as_name="first"), connect(home=home) as fleeting:
                assert fleeting.is_up
                with pytest.raises(NodeUnavailable) as told:
                    async with connect(home=home, as_name="second") as second:
                        async for _ in second:
                            pass
            async with connect(home=home, as_name="first") as known:
                assert known.is_up
            node.stop()
    assert "limits.local_services_max" in told.value.text and "does not know this app's key" not in told.value.text
    [warning] = [one.getMessage() for one in caplog.records if "is not let in" in one.getMessage()]
    assert "limits.local_services_max" in warning
