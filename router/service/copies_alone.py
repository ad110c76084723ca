"""Messages of which nothing but copies follows: no transaction is made for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import trio

from router.client.received import Received
from router.service import contract as c
from router.service.passing import copied_to
from router.service.sending import UNKEPT, ToSend

Copies = list[tuple[str, bytes]]
"""Tag and bytes of each."""


class CopiesAlone:
    """Settles each message when the own router has taken, or refused, all copies of it. After a crash before that, the
    message comes again, and is sent on again. There are no more of them than the router hands over unsettled.

    `settled` is called with each."""

    def __init__(self, settled: Callable[[Received], None]) -> None:
        self._settled = settled
        self._open = 0
        self._ended: list[Received] = []
        self._work = trio.Event()

    def __repr__(self) -> str:
        return f"<{self._open} messages whose copies the router has not taken>"

    def take(self, messages: Iterable[tuple[Received, Copies]]) -> list[ToSend]:
        """Return the copies of these messages, to be handed in."""
        found: list[ToSend] = []
        for message, copies in messages:
            self._open += 1
            ended = partial(self._taken, message, [len(copies)])
            found += [ToSend(UNKEPT, tag, wire, ended) for tag, wire in copies]
        found.sort(key=lambda copy: copied_to(copy.wire) or b"")  # those for one router share a parcel there
        return found

    def _taken(self, message: Received, left: list[int]) -> None:
        left[0] -= 1
        if not left[0]:
            self._open -= 1
            self._ended.append(message)
            self._work.set()

    async def run(self) -> None:
        """Settle messages until cancelled."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            ended, self._ended = self._ended, []
            for one in ended:
                await one.settle()
                self._settled(one)


def are_copies_alone(deeds: Iterable[object]) -> bool:
    """Whether of all that follows from a message only the copies have to outlast a crash."""
    return all(isinstance(one, c.Forward | c.Wake) or (isinstance(one, c.Send) and not one.kept) for one in deeds)
