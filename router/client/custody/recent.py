"""The messages that an inbox knows again when they come as copies (pure)."""

from __future__ import annotations

from collections import OrderedDict

from router.client.custody.arrivals import Arrival
from router.core.wire.crypto import MessageId
from router.core.wire.packed_ids import PackedIds
from router.core.wire.reasons import Reason

Verdict = tuple[Reason, str]


class RecentArrivals:
    """The newest arrivals that have not ended, and how others ended: of those that were not refused the id alone, 16
    bytes. `most`: the most of each; of the ended ones the newest half at least."""

    __slots__ = ("_ended", "_most", "_open", "_refused")

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: OrderedDict[MessageId, Arrival] = OrderedDict()
        self._ended = PackedIds(most)
        self._refused: OrderedDict[MessageId, Verdict] = OrderedDict()

    def __repr__(self) -> str:
        return f"<{len(self._open)} messages have not ended, {len(self._ended) + len(self._refused)} have>"

    def __bool__(self) -> bool:
        return bool(self._open or self._ended or self._refused)

    def __contains__(self, id: MessageId) -> bool:
        return id in self._open or id in self._refused or id in self._ended

    def add(self, one: Arrival) -> None:
        """Remember a message that has come."""
        self._open[one.id] = one
        if len(self._open) > self._most:
            self._open.popitem(last=False)

    def open(self, id: MessageId) -> Arrival | None:
        """Return the message if it has not ended."""
        return self._open.get(id)

    def refusal(self, id: MessageId) -> Verdict | None:
        """Return why the message was refused; None if it was not."""
        return self._refused.get(id)

    def end(self, one: Arrival) -> None:
        """Keep how a message ended in place of the message, if it is remembered."""
        if self._open.get(one.id) is not one:
            return
        del self._open[one.id]
        if one.refused is None:
            self._ended.add(one.id)
            return
        self._refused[one.id] = one.refused
        if len(self._refused) > self._most:
            self._refused.popitem(last=False)

    def forget(self, id: MessageId) -> None:
        """Forget a message that has not ended or was refused: when it comes again, it is no copy."""
        self._open.pop(id, None)
        self._refused.pop(id, None)
