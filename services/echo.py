"""Echo: send every unicast back to its source; the smallest service, which tests that two keys reach each other."""

from __future__ import annotations

from router.service import Received, Service


class Echo(Service):
    """Answers with the same body after a mark; marked messages are not answered, or two echoes would never stop."""

    MARK = b"echo: "

    async def on_message(self, message: Received) -> None:
        if message.source is not None and not message.body.startswith(self.MARK):
            await self.node.send(message.source, self.MARK + message.body)
