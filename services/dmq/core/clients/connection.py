"""One client's connection at a door: its session, messages that were received but not handled yet, and its cursor."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from math import inf
from typing import Any

from router.core.link.machine import Agency, RemoteProtocolError
from router.service import contract as c

from ..protocols import notification, submission
from ..protocols.client_session import Heard, Session
from ..protocols.mux import MESSAGE_S
from ..protocols.revision import Revision
from .cursor import Cursor

HELLO_S = 10.0
"""Seconds that a client has for its handshake."""
SILENT_S = HELLO_S
"""Seconds after its handshake without a request before a client gives way ahead of those that have made some."""
ANSWERS_MAX = 16
"""Most requests of notification that a connection has answered at once; further ones wait for the next cycle."""


class Standing(IntEnum):
    """How much a client would lose if it were closed, least first; a consumer in its named place never gives way."""

    NO_HANDSHAKE, SILENT, IDLE, AWAITS_MESSAGES, BUSY, NAMED_CONSUMER = range(6)


class ClientSession:
    """A connection. `consumer`: the name that its door gives it, "" at the common socket; `is_named`: whether it is
    the one that reads under that name; `user`: the user at its other end.

    `waiting`: the request that blocks. `fault`: why the node closes it; then nothing more is read. `active_s`: when
    something came last, or was said."""

    def __init__(
        self, door: str, peer: str, consumer: str, revision: Revision, opened_s: float, user: int | None = None
    ) -> None:
        self.door = door
        self.peer = peer
        self.user = user
        self.is_named = False
        self.active_s = opened_s
        self.consumer = consumer
        self.revision = revision
        self.session = Session(Agency.RESPONDER, revision)
        self.cursor = Cursor()
        self.heard: deque[Heard] = deque()
        self.waiting: Any = None
        self.fault = ""
        self.answers = 0
        self.answered_s = -inf
        """When the last request that blocked was answered."""
        self._hello_by_s = opened_s + HELLO_S
        self._has_asked = False

    def __repr__(self) -> str:
        return f"<ClientSession at {self.door} with {self.peer}: {self.session!r}>"

    @property
    def is_open(self) -> bool:
        """Whether both ends have agreed on a version."""
        return self.session.is_open

    def standing(self, now_s: float) -> Standing:
        """Return how much the client would lose if it were closed now."""
        if not self.is_open:
            return Standing.NO_HANDSHAKE
        if self.is_named:
            return Standing.NAMED_CONSUMER
        if self.session.is_idle and not self.heard:
            is_silent = not self._has_asked and now_s - self.active_s >= SILENT_S
            return Standing.SILENT if is_silent else Standing.IDLE
        return Standing.AWAITS_MESSAGES if self._only_waits() else Standing.BUSY

    def _only_waits(self) -> bool:
        """Whether the client waits for messages, and for nothing else."""
        return (
            self.waiting is not None
            and not self.heard
            and self.session.is_our_turn(notification.NUMBER)
            and (not self.session.is_our_turn(submission.NUMBER))
        )

    def feed(self, data: bytes, now_s: float) -> None:
        """Take bytes of the client."""
        self.answers = 0
        self.active_s = now_s
        self._has_asked = self.is_open
        try:
            self.heard += self.session.hear(data, now_s)
        except RemoteProtocolError as error:
            self._stop(error)

    def say(self, number: int, message: Any, encoded: bytes = b"") -> None:
        """Queue an answer, and handle the messages that the client sent ahead of it. `encoded`: it, if that is
        known."""
        try:
            self.heard += self.session.say(number, message, encoded)
        except RemoteProtocolError as error:
            self._stop(error)

    def _stop(self, error: RemoteProtocolError) -> None:
        self.heard += error.before
        self.fault = self.fault or str(error)

    def overdue(self, now_s: float) -> str:
        """Return what the client has failed to do in time, or ""."""
        if not self.is_open and now_s >= self._hello_by_s:
            return f"no handshake within {HELLO_S:g} s"
        if now_s >= self.session.deadline_s():
            return "a part of an SDU came, and the rest did not in time"
        if self.session.is_stuck(now_s):
            return f"a part of a message came, and the rest did not within {MESSAGE_S:g} s"
        return ""

    def written(self, now_s: float) -> list[c.Deed]:
        """Return what writes all that was said, and closes the connection if it has ended."""
        if not (self.session.has_to_write or self.fault or self.session.ends):
            return []
        self.active_s = max(self.active_s, now_s)
        clock_us = int(now_s * 1e6) & 0xFFFFFFFF
        sdus: list[bytes] = []
        while more := self.session.take(clock_us):
            sdus.append(more)
        deeds: list[c.Deed] = [c.Write(self.door, self.peer, b"".join(sdus))] if sdus else []
        if self.fault or self.session.ends:
            deeds.append(c.Write(self.door, self.peer, b""))
        return deeds
