"""The event log of a node in the world, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.core.log.events import Logged
from router.core.wire.link_items import LogHead
from router.core.wire.now import Now
from router.disk.log.search import LogSnapshot
from world.accounted import Accounted

if TYPE_CHECKING:
    from world.node import Node


class MemoryLog(Accounted):
    """A node's event log: committed events, decoded; sealed now and then, so that the store may delete them."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._node = node
        self._seq = self._sealed = 0

    def committed(self, logged: Logged, now: Now) -> None:
        self._node.log.append(logged)
        self.account.note(logged)

    def sealed(self, now: Now) -> int:
        before, self._sealed = self._sealed, self._node.store.next_seq - 1 if self._node.time.chance(0.1) else 0
        self._has_sealed |= before > 0
        return before

    def is_due(self, now: Now) -> bool:
        return False

    def is_idle(self, now: Now) -> bool:
        return False

    def head(self) -> LogHead | None:
        return None

    def tidy(self) -> None: ...
    def close(self) -> None: ...

    def log(self) -> LogSnapshot:
        return LogSnapshot((), (), 0)
