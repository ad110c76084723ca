"""The account of open units of a node in the world, as its event log keeps it over all lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.core.log.account import Account

if TYPE_CHECKING:
    from world.node import Node


class Accounted:
    """The part of an event log that the node's watch over itself needs."""

    def __init__(self, node: Node) -> None:
        self.account = Account()
        for logged in node.log:
            self.account.note(logged)
        self._has_sealed = False

    def is_behind(self) -> bool:
        return False

    def take_sealed(self) -> bool:
        sealed, self._has_sealed = self._has_sealed, False
        return sealed

    def take_missing(self) -> int:
        return 0
