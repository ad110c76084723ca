"""A service that fails on some messages, for tests."""

from __future__ import annotations

import asyncio
import sys

import trio

from router.service import Received, Service

POISON = b"poison"
QUITS = {
    b"exit": SystemExit(3), b"interrupt": KeyboardInterrupt("as by Ctrl-C"), b"foreign": asyncio.CancelledError(),
    b"generator": GeneratorExit(), b"exits": BaseExceptionGroup("tasks", [SystemExit(1), ValueError("and more")]),
}  # fmt: skip


class Failing(Service):
    """Fails on `POISON` and `QUITS`, and answers all other messages. `seen`: the messages to all instances."""

    seen: list[bytes] = []  # noqa: RUF012

    async def on_message(self, message: Received) -> None:
        Failing.seen.append(message.body)
        if message.body == POISON:
            raise ValueError("this is poison")
        if message.body in QUITS:
            raise QUITS[message.body]
        if message.body == b"exit within":
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_exit)
        if message.body == b"exit in a task":
            self.nursery.start_soon(_exit)
            await trio.sleep_forever()
        if message.body == b"two faults":
            raise ExceptionGroup("both tasks", [ValueError("one"), ValueError("another")])
        assert message.source is not None
        await self.node.send(message.source, message.body.upper())


async def _exit() -> None:
    sys.exit(4)
