"""Echo answers everybody, and a sender that has gone does not keep it from the next."""

from __future__ import annotations

from pathlib import Path

from rigs.serving import serving

from router.client.node import connect
from router.settings import keyring


async def test_a_sender_that_has_gone_does_not_stop_it(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", {"node.services": ["services.echo"]}) as home:
        echo = keyring.load(home, "service-echo").public
        async with connect(home=home) as gone:
            await gone.send(echo, b"answer me")
        async with connect(home=home) as app:
            await app.send(echo, b"and me")
            async for message in app.unicasts():
                assert (message.source, message.body) == (echo, b"echo: and me")
                break
