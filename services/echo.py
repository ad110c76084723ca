"""Echo: sends every unicast back to its source; the smallest service, and a way to see that keys reach each other."""

from __future__ import annotations

from router.service import Received, Service


class Echo(Service):
    """Answers with the same body. What comes from its own kind would go round for ever, so a prefix ends it."""

    MARK = b"echo: "

    async def on_message(self, message: Received) -> None:
        if message.source is not None and not message.body.startswith(self.MARK):
            await self.node.send(message.source, self.MARK + message.body)
