"""Loops over messages: each holds the message that it gave last until it asks for the next one, or is abandoned."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import trio

from router.client.custody.arrivals import Arrival
from router.client.interrupts import uninterrupted
from router.client.ordering import OpenedMessage
from router.client.readers import Nothing, Readers
from router.client.received import Received

CHECKPOINT_EVERY = 16  # messages that a loop gets in a row before other tasks may run


@uninterrupted
class Loop:
    """One loop over messages, and the message that it holds. It does not refer to its `Messages`, so that the end of
    these shows that the loop was abandoned, although frames of an earlier wait may live on."""

    __slots__ = ("_address", "_in_a_row", "_left", "_readers", "_settle_on_next", "held")

    def __init__(self, readers: Readers, address: bytes | None, left: list[Loop], *, settle_on_next: bool) -> None:
        self._readers = readers
        self._address = address
        self._left = left
        self._settle_on_next = settle_on_next
        self._in_a_row = 0
        self.held: Arrival | None = None

    async def next(self) -> Received:
        """Settle what this loop, or an abandoned one, held; return the next message."""
        await self._let_go()
        readers = self._readers
        while True:
            found = readers.step(self._address)
            self._in_a_row += 1
            if isinstance(found, OpenedMessage):
                self.held = found.arrival if self._settle_on_next else None
                return found.received
            if found is Nothing.HERE:
                self._in_a_row = 0
                await readers.wait(self._address)
            else:
                await self._pause()

    async def _let_go(self) -> None:
        for loop in (*self._left, self):
            if loop.held is not None:
                self._readers.move_on(loop.held)
                loop.held = None
        self._left = []
        await self._pause()

    async def _pause(self) -> None:
        """Let other tasks run from time to time."""
        if self._in_a_row >= CHECKPOINT_EVERY:
            self._in_a_row = 0
            await trio.lowlevel.checkpoint()


@uninterrupted
class AddressLoops:
    """The loops over one address. A message held by an abandoned loop is settled when the next loop asks."""

    def __init__(self, readers: Readers, address: bytes | None) -> None:
        self._readers = readers
        self._address = address
        self._loops: list[tuple[weakref.ref[Messages], Loop]] = []

    def loop(self, *, settle_on_next: bool = True) -> Messages:
        left = [old for ref, old in self._loops if ref() is None and old.held is not None]
        loop = Loop(self._readers, self._address, left, settle_on_next=settle_on_next)
        messages = Messages(loop)
        alive = [(ref, old) for ref, old in self._loops if ref() is not None]
        self._loops = [*alive, (weakref.ref(messages), loop)]
        return messages

    def held(self) -> list[Arrival]:
        """Return the messages that loops hold, neither settled nor refused."""
        return [loop.held for _, loop in self._loops if loop.held is not None and not loop.held.done]


@uninterrupted
class Messages(AsyncIterator[Received]):
    """One loop over messages. Several loops over the same group share its messages: each goes to one of them."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def __aiter__(self) -> Messages:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Received]:
        return self._loop.next()
