"""Messages left with the node, because the app gets them but does not read them (pure).

Settling is cumulative, so messages that no loop reads would hold up all others. They are refused instead, with a reason
that says *later*: the node keeps them queued and delivers them again after a pause, from the first one on. Once an
address has been set aside, its messages are refused until the node starts over, so that none overtakes another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from router.core.wire.crypto import MessageId
from router.core.wire.reasons import Reason

REASON = Reason.QUEUE_FULL_RECIPIENT
TEXT = "nobody in this app reads it"


class Unread:
    """The messages refused on this connection, in order, by address; at most `ids_max` of each, dropping the oldest."""

    def __init__(self, ids_max: int) -> None:
        self._ids_max = ids_max
        self._ids: dict[bytes, OrderedDict[MessageId, int]] = {}
        self._last: dict[bytes, int] = {}  # the position of the one refused last

    def __repr__(self) -> str:
        return f"<{sum(map(len, self._ids.values()))} messages to {len(self._ids)} addresses are left with the node>"

    def add(self, address: bytes, message: MessageId) -> None:
        ids = self._ids.setdefault(address, OrderedDict())
        at = ids.get(message)
        if at is None:
            at = ids[message] = next(reversed(ids.values()), 0) + 1
        self._last[address] = at
        if len(ids) > self._ids_max:
            ids.popitem(last=False)

    def holds(self, address: bytes, message: MessageId, readers: Collection[bytes | None]) -> bool:
        """Whether this message is to be refused. It no longer is once the address has a reader and the node has started
        over, which it has if the message does not follow the one refused last."""
        ids = self._ids.get(address)
        if ids is None:
            return False
        is_read = address in readers or None in readers
        if is_read and ids.get(message, self._last[address] + 1) <= self._last[address]:
            del self._ids[address], self._last[address]
            return False
        return True

    def clear(self) -> None:
        self._ids.clear()
        self._last.clear()
