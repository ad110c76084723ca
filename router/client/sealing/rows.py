"""The rows in which an app keeps prekeys and correspondents, wherever its state lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

OWN_PREKEYS = "prekeys"
CORRESPONDENTS = "correspondents"


Kept = list[tuple[bytes, bytes]]
"""The keys and values of a table, by key."""


class PrekeyRow(NamedTuple):
    """A value to keep under a key; None: forget it. A secret one is sealed on disk, and can be forgotten for good."""

    table: str
    key: bytes
    value: bytes | None
    is_secret: bool = False


class PrekeyRows(Protocol):
    """A place where rows are kept."""

    def under(self, table: str) -> Kept:
        """Return the keys and values of a table, by key."""

    def change(self, table: str, decide: Callable[[Kept], Sequence[PrekeyRow]]) -> None:
        """Write what is decided about the present rows of a table, in one transaction, which is on disk when this
        returns: no other process of this name writes in between. `decide` may be called again."""

    def gather(self, rows: Sequence[PrekeyRow]) -> None:
        """Write rows soon, together with others."""


class RowsInMemory:
    """The rows of an app whose key is thrown away."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[bytes, bytes]] = {}

    def __repr__(self) -> str:
        return f"<rows in memory: {sum(map(len, self._tables.values()))}>"

    def under(self, table: str) -> Kept:
        return sorted(self._tables.get(table, {}).items())

    def change(self, table: str, decide: Callable[[Kept], Sequence[PrekeyRow]]) -> None:
        self.gather(decide(self.under(table)))

    def gather(self, rows: Sequence[PrekeyRow]) -> None:
        for row in rows:
            table = self._tables.setdefault(row.table, {})
            if row.value is None:
                table.pop(row.key, None)
            else:
                table[row.key] = row.value
