"""A service that fails on some messages, for tests."""

from __future__ import annotations

from router.service import Received, Service

POISON = b"poison"


class Failing(Service):
    """Answers everything but `POISON`, on which it fails. `seen`: what every instance was given."""

    seen: list[bytes] = []  # noqa: RUF012

    async def on_message(self, message: Received) -> None:
        Failing.seen.append(message.body)
        if message.body == POISON:
            raise ValueError("this is poison")
        assert message.source is not None
        await self.node.send(message.source, message.body.upper())
