"""Consumers that the configuration names no more: a cursor stays as long as it says more than a new one would.

That is as long as something is live that the consumer has read. Named again meanwhile, it goes on where it stopped;
later it gets all that is live, which is the same then. So nothing that it has acknowledged is given to it again.
"""

from __future__ import annotations

from itertools import takewhile
from math import ceil

from msgspec import Struct

from router.core.wire.text import counted, span_text

from ..mempool import Mempool
from .cursor import Cursor


class Gone(Struct, frozen=True):
    """A consumer that is named no more. `until_s`: the second (Unix) at which the last message that it has read, or
    that is set aside for it, expires; 0: none of them is live."""

    cursor: Cursor
    until_s: int


def gone(cursor: Cursor, mempool: Mempool, wall_s: float) -> Gone:
    """Return what becomes of the cursor of a consumer that is named no more. `wall_s`: now, Unix time."""
    passed = takewhile(lambda row: row.number <= cursor.last, mempool.after(0))
    return Gone(cursor, max((ceil(row.expires_at) for row in passed if row.expires_at > wall_s), default=0))


def warning(name: str, found: Gone, mempool: Mempool, wall_s: float) -> str:
    """Return what the log says of it at the start."""
    unread = sum(row.expires_at > wall_s for row in mempool.after(found.cursor.last)) + len(found.cursor.again)
    waiting = counted(unread, "message waits", "messages wait") if unread else "nothing waits"
    said = f"the consumer {name} is named no more; {waiting} for it"
    if found.cursor.set_aside:
        said += f", and {len(found.cursor.set_aside)} set aside"
    if not found.until_s:
        return f"{said}. Nothing that it has read is live, so it is forgotten: named again, it gets all that is live"
    span = span_text(found.until_s - wall_s)
    return (
        f"{said}. Named again, it goes on where it stopped; forgotten in {span}, when all that it has read has expired"
    )
