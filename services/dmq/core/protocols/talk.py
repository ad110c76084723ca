"""One instance of a protocol between nodes: its state, its unread bytes, and the requests that were sent ahead.

Each protocol may run twice on a connection, once begun by either side; `we` is our side of this instance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from math import inf
from typing import Any, NamedTuple

from router.core.link.machine import Agency, LocalProtocolError, Machine, Table

from ..cbor import Skips
from .mux import MESSAGE_S, Channel, Inbox

AHEAD_MAX = 16
"""Most requests that are sent before earlier ones are answered."""


class Protocol(NamedTuple):
    """A protocol on a connection: its number, its table, both halves of its codec, what may wait of it, which of its
    messages may be sent ahead, and what tells the end of the items that its lists usually hold."""

    number: int
    table: Table
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    waiting_bytes_max: int
    ahead: tuple[type, ...] = ()
    usual: Skips | None = None


class Talk:
    """An instance. `is_running`: whether a message of it has passed, and it has not ended. `deadline_s`: when the other
    side is overdue with its message in this state, or with the rest of one."""

    def __init__(self, protocol: Protocol, we: Agency) -> None:
        self.protocol = protocol
        self.we = we
        self._peer = Agency.RESPONDER if we is Agency.INITIATOR else Agency.INITIATOR
        self._machine = Machine(protocol.table, we=we)
        self._inbox = Inbox(protocol.waiting_bytes_max, usual=protocol.usual)
        self._ahead: deque[Any] = deque()
        self._entered_s = inf
        self._partial_s = inf
        self.is_running = False
        self.deadline_s = inf

    def __repr__(self) -> str:
        return f"<Talk {self.protocol.number} of the {self.we.value} in {self._machine.state.value}>"

    @property
    def channel(self) -> Channel:
        """Return that on which we speak."""
        return self.protocol.number, self.we

    @property
    def is_our_turn(self) -> bool:
        """Whether we may speak, and nothing that we have sent waits for an answer."""
        return self._machine.agency is self.we and not self._ahead

    @property
    def has_unread(self) -> bool:
        """Whether bytes of the other side wait for their turn, or for their rest."""
        return len(self._inbox) > 0

    @property
    def state(self) -> Any:
        return self._machine.state

    def allows(self, message: Any) -> bool:
        """Whether we may say this now, with no answer outstanding."""
        return self.is_our_turn and type(message) in self.protocol.table[self._machine.state].on

    def say(self, message: Any, now_s: float) -> bytes:
        """Return the message as encoded; raise `LocalProtocolError` out of turn. A request that follows another one
        is sent ahead, as if the earlier ones had been answered."""
        if self.is_our_turn:
            self._step(self.we, message, now_s)
        elif isinstance(message, self.protocol.ahead) and self.is_running and len(self._ahead) < AHEAD_MAX:
            self._ahead.append(message)
        else:
            raise LocalProtocolError(f"{type(message).__name__} is out of turn in {self!r}")
        return self.protocol.encode(message)

    def add(self, payload: bytes) -> None:
        """Keep bytes of the other side; raise `RemoteProtocolError` if too many wait for their turn."""
        self._inbox.add(payload)

    def received(self, now_s: float) -> Iterator[tuple[Any, Any]]:
        """Yield the other side's messages whose turn it is, each with the state in which it came; raise `Malformed`,
        `RemoteProtocolError`."""
        while self._machine.agency is self._peer:
            state = self._machine.state
            wire = self._inbox.take(self._machine.bytes_max)
            if wire is None:
                break
            message = self.protocol.decode(wire)
            self._partial_s = inf
            self._step(self._peer, message, now_s)
            if self._ahead and self._machine.agency is self.we:
                self._step(self.we, self._ahead.popleft(), now_s)
            yield state, message
        waits = len(self._inbox) > 0 and self._machine.agency is self._peer
        self._partial_s = min(self._partial_s, now_s) if waits else inf
        self._note_deadline()

    def overdue(self, now_s: float) -> str:
        """Return what the other side has failed to do in time, "" if nothing."""
        if now_s < self.deadline_s:
            return ""
        if now_s >= self._partial_s + MESSAGE_S:
            return f"a part of a message came, and the rest did not within {MESSAGE_S:g} s"
        return f"{self._machine.state.value} of protocol {self.protocol.number} took {self._machine.timeout_s:g} s"

    def _step(self, speaker: Agency, message: Any, now_s: float) -> None:
        self._machine.step(speaker, message)
        self._entered_s = now_s
        self.is_running = True
        if self._machine.done:  # it may begin again
            self._machine = Machine(self.protocol.table, we=self.we)
            self.is_running, self._entered_s = False, inf
            self._ahead.clear()
        self._note_deadline()

    def _note_deadline(self) -> None:
        machine = self._machine
        is_theirs = machine.agency is self._peer
        self.deadline_s = min(self._entered_s + machine.timeout_s, self._partial_s + MESSAGE_S) if is_theirs else inf
