"""Messages that the rules have heard and that left no trace: no transaction is made for them alone."""

from __future__ import annotations

from collections.abc import Iterable

from router.core.wire.packed_ids import PackedIds
from router.service import contract as c

IDS_MAX = 8192
"""Most ids that are remembered, and about twice the fewest; older ones are forgotten, and such a message would be heard
again."""
_TRACELESS = (c.Refuse, c.Wake)


class HeardLately:
    """Remembers, for as long as the process lives, the ids of messages on which the rules decided nothing.

    Rules that start again know of none of them, and may hear them again as if for the first time."""

    def __init__(self) -> None:
        self._ids = PackedIds(IDS_MAX)

    def __repr__(self) -> str:
        return f"<{len(self._ids)} messages that left no trace>"

    def __contains__(self, id: bytes) -> bool:
        return id in self._ids

    def add(self, ids: Iterable[bytes]) -> None:
        self._ids.update(ids)


def leaves_trace(deeds: Iterable[object]) -> bool:
    """Whether anything follows from a message beyond its own refusal, the time to continue, and messages that are not
    kept: after a crash it is heard again, and answered again, since those answers may be lost as well."""
    return not all(isinstance(one, _TRACELESS) or (isinstance(one, c.Send) and not one.kept) for one in deeds)
