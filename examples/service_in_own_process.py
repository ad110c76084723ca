"""A service in a process of its own: answers messages to its address, in capital letters.

    router serve                                    # in a terminal of its own
    python examples/service_in_own_process.py       # prints the service's address
    router send ADDRESS "hello"

The same class runs inside the node when `router.toml` names its module under `node.services`. If it fails it is started
again, and unfinished messages come again; messages that come while it is away wait for it.
"""

from __future__ import annotations

import trio

import router
from router import service


class Shout(service.Service):
    """Answers the sender in capitals. A body in capitals already gets no answer, so that two of these services soon
    fall silent."""

    async def on_connected(self) -> None:
        print(router.key_text("addr", self.node.key), flush=True)

    async def on_message(self, message: service.Received) -> None:
        answer = message.body.upper()
        if message.source is not None and answer != message.body:
            await self.node.send(message.source, answer)


if __name__ == "__main__":
    try:
        trio.run(service.run, Shout, "shout", router.Home.chosen())
    except* KeyboardInterrupt:
        pass
