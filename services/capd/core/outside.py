"""Who outside has which messages: to whom what was posted here has been announced, and who is known to have it.

It is told from the start of the pool on; what happened before stands in the log.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

OWN_MAX = 50_000
"""Most messages whose announcements are remembered, the latest: at 70 a second, all that are not ten minutes old."""
NAMES_MAX = 256
"""Most neighbours and peers that are remembered of one message, the first: one that connects again has a new name."""


class Reach(Struct):
    """The names of the neighbours and peers to which a message was announced, and of those that have it."""

    announced_to: frozenset[str] = frozenset()
    taken_by: frozenset[str] = frozenset()


class Outside:
    """The reach of messages. Those that others brought since the start are not listed: others have them."""

    def __init__(self) -> None:
        self._own: dict[bytes, Reach] = {}

    def __repr__(self) -> str:
        return f"<Outside: {len(self._own)} messages of our own>"

    def posted(self, own_id: bytes) -> None:
        """Add a message that nobody outside is known to have."""
        self._own.setdefault(own_id, Reach())
        if len(self._own) > OWN_MAX:
            del self._own[next(iter(self._own))]

    def announced(self, ids: Iterable[bytes], to: str) -> None:
        """Record that messages were announced to a neighbour or a peer."""
        for own_id in ids:
            if (found := self._own.get(own_id)) is not None:
                found.announced_to = _with(found.announced_to, to)

    def taken(self, ids: Iterable[bytes], by: str) -> None:
        """Record that a neighbour or a peer has messages: it was sent them, or has named them itself."""
        for own_id in ids:
            if (found := self._own.get(own_id)) is not None:
                found.taken_by = _with(found.taken_by, by)

    def of(self, own_id: bytes) -> Reach | None:
        """Return the reach of a message; None if it came from outside."""
        return self._own.get(own_id)


def _with(names: frozenset[str], name: str) -> frozenset[str]:
    """Return the names with one more, unless there are too many."""
    return names | {name} if name not in names and len(names) < NAMES_MAX else names
