"""The form of the parts that discovery is made of."""

from __future__ import annotations

from typing import Protocol

from router.service import contract as c
from services.discovery.core.messages import Message


class Part(Protocol):
    """A part of discovery, with a duty of its own."""

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        """Decide what follows from one thing that was heard, which is no message."""


class Reader(Part, Protocol):
    """A part that other nodes' discovery services send messages to."""

    def read(self, message: c.Message, said: Message, now: c.Now) -> list[c.Deed]:
        """Decide what follows from a message of one of the types it reads."""
