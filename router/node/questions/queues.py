"""The queues of messages that wait for their recipients, and the order to drop one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from router.core.routing.queues import Queue
from router.core.wire.crypto import PublicKey
from router.core.wire.list_page import ListPage, page_of
from router.node.orders import ClearQueue
from router.node.questions.question import CycleView, Questions, Respond


class QueueQuestions(Questions):
    """Lists the longest queues first, and has one dropped. `known_keys` returns the names of the keys that the
    home keeps, from memory."""

    def __init__(self, known_keys: Callable[[], Mapping[bytes, str]] = dict) -> None:
        self._known_keys = known_keys

    def answers(self) -> dict[str, Respond]:
        return {"queue": self._list, "drop": self._drop}

    def _list(self, asked: CycleView, argument: str) -> ListPage | dict[str, str]:
        now_s, keys = asked.now().wall_s, self._known_keys()
        waiting = [one for one in asked.router.queues.by_recipient.values() if one.total.messages]
        waiting.sort(key=lambda one: -one.total.messages)

        def row(one: Queue) -> dict[str, Any]:
            return {
                "recipient": one.recipient.hex(),
                "name": asked.router.directory.name_of(one.recipient) or keys.get(bytes(one.recipient), ""),
                "messages": one.total.messages,
                "bytes": one.total.bytes,
                "oldest_s": asked.store.oldest_s(one.recipient, now_s),
                "limit_messages": one.total.messages_max,
                "limit_bytes": one.total.bytes_max,
            }

        return page_of(waiting, argument, row)

    def _drop(self, asked: CycleView, recipient: str) -> dict[str, Any]:
        try:
            key = PublicKey(bytes.fromhex(recipient))
        except ValueError as error:
            return {"error": f"{recipient!r} is not a key in hex: {error}"}
        queue = asked.router.queues.by_recipient.get(bytes(key))
        messages = queue.total.messages if queue else 0
        asked.hear(ClearQueue(bytes(key)))
        return {"dropped": messages}
