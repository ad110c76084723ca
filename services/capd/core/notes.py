"""The id under which an event of a message stands in the log: the bytes as people see them, so that `why` finds it."""

from __future__ import annotations

from router.service import contract as c


def note_id(own_id: bytes) -> c.MessageId | None:
    """Return the id for a note; None for bytes that are no message."""
    return c.MessageId(own_id[::-1]) if own_id else None
