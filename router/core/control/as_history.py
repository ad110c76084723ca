"""Messages that the pub/sub service asked for as history: they are kept for other nodes, and go to no subscriber
here."""

from __future__ import annotations

from router.core.routing.intake import ArrivedMessage
from router.core.routing.kernel import Kernel
from router.core.service.roles import Role
from router.core.wire.message import MULTICAST


class AsHistory:
    """The ids of messages asked for as history: published before this node wanted their group, they are no news to its
    subscribers (R-C35)."""

    def __init__(self, kernel: Kernel) -> None:
        self._directory = kernel.directory
        self._open_max = kernel.limits.pulls.history_open_max
        self._ids: dict[bytes, None] = {}

    def __repr__(self) -> str:
        return f"<{len(self._ids)} messages asked for as history>"

    def __bool__(self) -> bool:
        return bool(self._ids)

    def asked(self, by: bytes, id: bytes, is_history: bool) -> bool:
        """Record how a message was asked for last; only the pub/sub service asks for history. Return whether this makes
        it history."""
        if not self._directory.has_role(by, Role.OVERLAY):
            return False
        was_history = id in self._ids
        self._ids.pop(id, None)
        if is_history:
            self._ids[id] = None
            if len(self._ids) > self._open_max:
                del self._ids[next(iter(self._ids))]
        return is_history and not was_history

    def has(self, row: ArrivedMessage) -> bool:
        """Whether a message was asked for as history."""
        return bool(self._ids) and row.head.kind == MULTICAST and row.id in self._ids

    def recipients(self, rows: list[ArrivedMessage], plan: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Return the recipients of such messages: the pub/sub service alone, or everybody if it is not in the group."""
        for row in rows:
            self._ids.pop(row.id, None)
        service = self._directory.with_role(Role.OVERLAY)
        return (service,) if service is not None and service in plan else plan
