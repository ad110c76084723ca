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

from .. import notes
from ..holdings import Holdings
from ..mempool import Row
from ..protocols import notification as n
from .connection import ANSWERS_MAX, ClientSession
from .consumer_warnings import ConsumerWarnings
from .cursor import Cursor

TAKEN_OVER = "a newer connection has taken the consumer's place"
GATHER_S = 0.02
"""How long after a reply to a request that blocked the next one gathers messages, unless there are many: each reply
wakes the consumer, and costs as much as several messages."""
_BLOCKING = n.MsgRequestMessagesBlocking


class Consumers:
    """Answers requests of notification; those that block are answered when there is a message."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._holders: dict[str, ClientSession] = {}
        self._blocked: dict[ClientSession, None] = {}
        self.warnings = ConsumerWarnings()
        self.due_s = inf
        """When a reply is due that gathers messages, or waits for its turn."""
        self._shared: dict[tuple[int, ...], tuple[n.Message, bytes]] = {}  # blocking replies by their numbers

    def __repr__(self) -> str:
        return f"<Consumers: {len(self._holders)} named are connected, {len(self._blocked)} wait>"

    @property
    def connected(self) -> frozenset[str]:
        """Return the named consumers that are connected."""
        return frozenset(self._holders)

    @staticmethod
    def has_just_read(client: ClientSession, now_s: float) -> bool:
        """Whether the client has got a reply to a request that blocked so late that its next one gathers messages."""
        return now_s < client.answered_s + GATHER_S

    def may_wait(self, client: ClientSession, data: bytes, now_s: float) -> bool:
        """Whether these bytes of a client may wait: its next request, for which there is nothing that it has not got,
        or that gathers messages."""
        if client.answered_s == -inf or int.from_bytes(data[4:6], "big") != n.NUMBER:
            return False
        cursor = self._cursor(client)
        got = cursor.offered[-1] if cursor.offered else cursor.last
        has_all = got >= self._holdings.mempool.last and not cursor.again
        return has_all or self.has_just_read(client, now_s)

    def requested(self, client: ClientSession, request: Any, now_s: float) -> Iterator[c.Deed]:
        """Handle a request: answer it if there is a message, or if it does not block; of many that came ahead of their
        replies, some now and the others at the next `wake`."""
        client.answers += 1
        if client.consumer:
            yield from self._taken_over(client)
        yield from self._acknowledged(client)
        client.waiting = request
        if client.answers <= ANSWERS_MAX:
            self._answer(client, now_s)
        else:
            self._blocked[client] = None
            self.due_s = now_s

    def wake(self, now_s: float) -> list[ClientSession]:
        """Answer the requests whose turn it is, of those that block if there are messages now; return their
        connections."""
        self.due_s = inf
        waiting = list(self._blocked)
        for client in waiting:
            client.answers = 0
        found = [client for client in waiting if self._answer(client, now_s)]
        self._shared.clear()
        return found

    def ended(self, client: ClientSession) -> None:
        """Handle the consumer's end of the protocol: the last reply counts as not acknowledged."""
        self._forget(client)
        if not client.consumer or self._holders.get(client.consumer) is client:
            self._cursor(client).offered = ()

    def closed(self, client: ClientSession) -> Iterator[c.Deed]:
        """Handle the end of the connection."""
        self._forget(client)
        if not client.consumer or self._holders.get(client.consumer) is not client:
            return
        del self._holders[client.consumer]
        yield from self._broke_off(client.consumer)

    def give_again(self, name: str, number: int) -> Iterator[c.Deed]:
        """Give a message once more that was set aside for a consumer; yield nothing if there is none."""
        if self._holdings.cursors[name].give_again(number):
            yield from self._holdings.cursor(name, with_aside=True)
            if (row := self._holdings.mempool.get(number)) is not None:
                yield notes.given_again(row, name)

    # -- cursors -------------------------------------------------------------------------------------------

    def _cursor(self, client: ClientSession) -> Cursor:
        return self._holdings.cursors[client.consumer] if client.consumer else client.cursor

    def _taken_over(self, client: ClientSession) -> Iterator[c.Deed]:
        holder = self._holders.get(client.consumer)
        if holder is client:
            return
        self._holders[client.consumer] = client
        client.is_named = True
        if holder is not None:
            self._forget(holder)
            holder.fault = TAKEN_OVER
            self.warnings.taken_over(client.consumer)
            yield from holder.written(0)
            yield from self._broke_off(client.consumer)

    def _acknowledged(self, client: ClientSession) -> Iterator[c.Deed]:
        numbers = self._cursor(client).requested()
        if not numbers or not client.consumer:
            return
        rows = map(self._holdings.mempool.get, numbers)
        yield from notes.read([row for row in rows if row is not None], client.consumer)
        yield from self._holdings.cursor(client.consumer)

    def _broke_off(self, name: str) -> Iterator[c.Deed]:
        cursor = self._holdings.cursors[name]
        if not cursor.offered:
            return
        number = cursor.broke_off()
        yield from self._holdings.cursor(name, with_aside=number is not None)
        if number is not None and (row := self._holdings.mempool.get(number)) is not None:
            self.warnings.set_aside(name, row.id)
            yield notes.set_aside(row, name)

    # -- replies -------------------------------------------------------------------------------------------

    def _answer(self, client: ClientSession, now_s: float) -> bool:
        """Answer the request that the client waits for, if possible now; return whether it was answered."""
        blocks = isinstance(client.waiting, _BLOCKING)
        found = () if blocks and self._gathers(client, now_s) else self._cursor(client).reply(self._holdings.mempool)
        if not found and blocks:
            self._blocked[client] = None
            return False
        if blocks:
            reply = self._shared_reply(client, found)
            client.answered_s = now_s
        else:
            reply = self._reply(client, found), b""
        self._forget(client)
        client.say(n.NUMBER, *reply)
        return True

    def _gathers(self, client: ClientSession, now_s: float) -> bool:
        """Whether the reply is to wait for more messages, since the last one went out just before."""
        cursor = self._cursor(client)
        if not self.has_just_read(client, now_s) or not cursor.has_few(self._holdings.mempool):
            return False
        if cursor.last < self._holdings.mempool.last:
            self.due_s = min(self.due_s, client.answered_s + GATHER_S)
        return True

    def _shared_reply(self, client: ClientSession, found: Sequence[Row]) -> tuple[n.Message, bytes]:
        """Return the reply to a request that blocks, and its bytes: the same for all consumers that stand there."""
        numbers = self._cursor(client).offered
        shared = self._shared.get(numbers)
        if shared is None:
            reply = self._reply(client, found)
            shared = self._shared[numbers] = reply, client.revision.notification.encode(reply)
        return shared

    def _reply(self, client: ClientSession, found: Sequence[Row]) -> n.Message:
        wires = self._holdings.wires(found)
        if isinstance(client.waiting, n.MsgNextMessages):
            return n.MsgHasMessages(wires) if wires else n.MsgNoMessages()
        if client.revision.notification.name == "overview-2025-04":
            return n.MsgReplyMessages(wires)
        if isinstance(client.waiting, _BLOCKING):
            return n.MsgReplyMessagesBlocking(wires)
        has_more = bool(found) and any(True for _ in self._holdings.mempool.after(found[-1].number))
        return n.MsgReplyMessagesNonBlocking(wires, has_more)

    def _forget(self, client: ClientSession) -> None:
        client.waiting = None
        self._blocked.pop(client, None)
