"""Messages for consumers: each connection at the common socket has its own cursor, each named consumer a durable one.

At a named consumer's door its next request acknowledges the last reply, over whichever connection it comes; the newest
connection that asks is the consumer, and an older one is closed. An acknowledgement is committed before the next reply
goes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from router.service import contract as c

from . import notes
from . import notification as n
from .aside_warnings import AsideWarnings
from .cursor import Cursor
from .holdings import Holdings
from .mempool import Row
from .talk import ANSWERS_MAX, Talk

TAKEN_OVER = "a newer connection has taken the consumer's place"
GATHER_S = 0.02
"""How long after a reply to a request that blocked the next one gathers messages, unless there are many: each reply
wakes the consumer, and costs as much as several messages."""
_BLOCKING = n.MsgRequestMessagesBlocking


class Consumers:
    """Answers requests of notification; those that block are answered when there is a message."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._holders: dict[str, Talk] = {}
        self._blocked: dict[Talk, None] = {}
        self.warnings = AsideWarnings()
        self.due_s = inf
        """When a reply is due that gathers messages, or waits for its turn."""
        self._shared: dict[tuple[int, ...], tuple[n.Message, bytes]] = {}  # blocking replies by their numbers

    def __repr__(self) -> str:
        return f"<Consumers: {len(self._holders)} named are connected, {len(self._blocked)} wait>"

    @property
    def connected(self) -> frozenset[str]:
        """Return the named consumers that are connected."""
        return frozenset(self._holders)

    def requested(self, talk: Talk, request: Any, now_s: float) -> Iterator[c.Deed]:
        """Handle a request: answer it if there is a message, or if it does not block; of many that came ahead of their
        replies, some now and the others at the next `wake`."""
        talk.answers += 1
        if talk.consumer:
            yield from self._taken_over(talk)
        yield from self._acknowledged(talk)
        talk.waiting = request
        if talk.answers <= ANSWERS_MAX:
            self._answer(talk, now_s)
        else:
            self._blocked[talk] = None
            self.due_s = now_s

    def wake(self, now_s: float) -> list[Talk]:
        """Answer the requests whose turn it is, of those that block if there are messages now; return their
        connections."""
        self.due_s = inf
        waiting = list(self._blocked)
        for talk in waiting:
            talk.answers = 0
        found = [talk for talk in waiting if self._answer(talk, now_s)]
        self._shared.clear()
        return found

    def ended(self, talk: Talk) -> None:
        """Handle the consumer's end of the protocol: the last reply counts as not acknowledged."""
        self._forget(talk)
        if not talk.consumer or self._holders.get(talk.consumer) is talk:
            self._cursor(talk).offered = ()

    def closed(self, talk: Talk) -> Iterator[c.Deed]:
        """Handle the end of the connection."""
        self._forget(talk)
        if not talk.consumer or self._holders.get(talk.consumer) is not talk:
            return
        del self._holders[talk.consumer]
        yield from self._broke_off(talk.consumer)

    def give_again(self, name: str, number: int) -> Iterator[c.Deed]:
        """Give a message once more that was set aside for a consumer; yield nothing if there is none."""
        if self._holdings.cursors[name].give_again(number):
            yield from self._holdings.cursor(name, with_aside=True)
            if (row := self._holdings.mempool.get(number)) is not None:
                yield notes.given_again(row, name)

    # -- cursors -------------------------------------------------------------------------------------------

    def _cursor(self, talk: Talk) -> Cursor:
        return self._holdings.cursors[talk.consumer] if talk.consumer else talk.cursor

    def _taken_over(self, talk: Talk) -> Iterator[c.Deed]:
        holder = self._holders.get(talk.consumer)
        if holder is talk:
            return
        self._holders[talk.consumer] = talk
        if holder is not None:
            self._forget(holder)
            holder.fault = TAKEN_OVER
            yield from holder.written(0)
            yield from self._broke_off(talk.consumer)

    def _acknowledged(self, talk: Talk) -> Iterator[c.Deed]:
        numbers = self._cursor(talk).requested()
        if not numbers or not talk.consumer:
            return
        rows = map(self._holdings.mempool.get, numbers)
        yield from notes.read([row for row in rows if row is not None], talk.consumer)
        yield from self._holdings.cursor(talk.consumer)

    def _broke_off(self, name: str) -> Iterator[c.Deed]:
        cursor = self._holdings.cursors[name]
        if not cursor.offered:
            return
        number = cursor.broke_off()
        yield from self._holdings.cursor(name, with_aside=number is not None)
        if number is not None and (row := self._holdings.mempool.get(number)) is not None:
            self.warnings.add(name, row.id)
            yield notes.set_aside(row, name)

    # -- replies -------------------------------------------------------------------------------------------

    def _answer(self, talk: Talk, now_s: float) -> bool:
        """Answer the request that the talk waits for, if possible now; return whether it was answered."""
        blocks = isinstance(talk.waiting, _BLOCKING)
        found = () if blocks and self._gathers(talk, now_s) else self._cursor(talk).reply(self._holdings.mempool)
        if not found and blocks:
            self._blocked[talk] = None
            return False
        if blocks:
            reply = self._shared_reply(talk, found)
            talk.answered_s = now_s
        else:
            reply = self._reply(talk, found), b""
        self._forget(talk)
        talk.say(n.NUMBER, *reply)
        return True

    def _gathers(self, talk: Talk, now_s: float) -> bool:
        """Whether the reply is to wait for more messages, since the last one went out just before."""
        due_s, cursor = talk.answered_s + GATHER_S, self._cursor(talk)
        if now_s >= due_s or not cursor.has_few(self._holdings.mempool):
            return False
        if cursor.last < self._holdings.mempool.last:
            self.due_s = min(self.due_s, due_s)
        return True

    def _shared_reply(self, talk: Talk, found: Sequence[Row]) -> tuple[n.Message, bytes]:
        """Return the reply to a request that blocks, and its bytes: the same for all consumers that stand there."""
        numbers = self._cursor(talk).offered
        shared = self._shared.get(numbers)
        if shared is None:
            reply = self._reply(talk, found)
            shared = self._shared[numbers] = reply, talk.revision.notification.encode(reply)
        return shared

    def _reply(self, talk: Talk, found: Sequence[Row]) -> n.Message:
        wires = self._holdings.wires(found)
        if isinstance(talk.waiting, n.MsgNextMessages):
            return n.MsgHasMessages(wires) if wires else n.MsgNoMessages()
        if talk.revision.notification.name == "overview-2025-04":
            return n.MsgReplyMessages(wires)
        if isinstance(talk.waiting, _BLOCKING):
            return n.MsgReplyMessagesBlocking(wires)
        has_more = bool(found) and any(True for _ in self._holdings.mempool.after(found[-1].number))
        return n.MsgReplyMessagesNonBlocking(wires, has_more)

    def _forget(self, talk: Talk) -> None:
        talk.waiting = None
        self._blocked.pop(talk, None)
