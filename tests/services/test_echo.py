"""Echo answers whoever is there, and one who has gone does not keep it from the next."""

from __future__ import annotations

from pathlib import Path

import trio

from router.client.node import connect
from router.node import Node, Ready
from router.settings import keyring
from router.settings.config import load
from router.settings.home import Home


async def test_a_sender_that_has_gone_does_not_stop_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    config, _ = load(home.config_path, {"node.services": ["services.echo"], "verify.verifiers": 0})
    node, is_ready = Node(home, config, lambda: config), trio.Event()

    def on_ready(_: Ready) -> None:
        is_ready.set()

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.run, on_ready)
            await is_ready.wait()
            echo = keyring.load(home, "service-echo").public
            async with connect(home=home) as gone:
                await gone.send(echo, b"answer me")
            async with connect(home=home) as app:
                await app.send(echo, b"and me")
                async for message in app.unicasts():
                    assert (message.source, message.body) == (echo, b"echo: and me")
                    break
            node.stop()
