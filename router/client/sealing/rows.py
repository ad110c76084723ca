"""The rows in which an app keeps prekeys and correspondents, in its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from router.disk.state.app_rows import AppBatch
from router.disk.state.app_state import AppState

OWN_PREKEYS = "prekeys"
CORRESPONDENTS = "correspondents"
RENEWALS = "renewals"
TOLD = "told"

Kept = list[tuple[bytes, bytes]]
"""The keys and values of a table, by key."""


class PrekeyRow(NamedTuple):
    """A value to keep under a key; None: forget it. A secret one is sealed on disk, and is forgotten for good."""

    table: str
    key: bytes
    value: bytes | None
    is_secret: bool = False


class PrekeyRows:
    """The tables of one app. `gather` writes a batch soon, together with others."""

    def __init__(self, state: AppState, gather: Callable[[AppBatch], object]) -> None:
        self._state = state
        self._gather = gather

    def __repr__(self) -> str:
        return f"<rows of prekeys in {self._state!r}>"

    @property
    def where(self) -> str:
        """Return words for the place of the rows."""
        return str(self._state.path or "memory")

    @property
    def is_begun(self) -> bool:
        """Whether an earlier run may have kept something."""
        return self._state.path is not None and self._state.path.exists()

    def under(self, table: str) -> Kept:
        """Return the rows of a table."""
        return self._state.rows(table)

    def written_to(self, addresses: Sequence[bytes]) -> set[bytes]:
        """Return those of these addresses to which this app has ever sealed something: they have a sequence number."""
        return self._state.read(lambda rows: {one for one in addresses if rows.number(one)})

    def change(self, table: str, decide: Callable[[Kept], Sequence[PrekeyRow]]) -> None:
        """Write what is decided about the present rows of a table, in one transaction, which is on disk when this
        returns: no other process of this name writes in between. `decide` may be called again. Raise `StateError`."""
        self._state.change(lambda rows: _batch(decide(rows.rows(table))))

    def gather(self, rows: Sequence[PrekeyRow]) -> None:
        """Write rows soon."""
        self._gather(_batch(rows))


def _batch(rows: Sequence[PrekeyRow]) -> AppBatch:
    batch = AppBatch()
    for row in rows:
        if row.value is None:
            batch.remove(row.table, row.key)
            batch.forgets |= row.is_secret
        else:
            batch.put(row.table, row.key, row.value, secret=row.is_secret)
    return batch
