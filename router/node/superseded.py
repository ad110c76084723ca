"""What to say where a key answers, or is refused, that another one has the place of: its home was restored from a
snapshot of before the renewal, or somebody else has renewed the key."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from router.core.neighbours.directory import Directory, Standing
from router.core.wire.crypto import PublicKey
from router.core.wire.text import key_text, short
from router.transport.contract import ConnectFailed

log = logging.getLogger(__name__)

Formers = Callable[[bytes], Sequence[bytes]]
"""Returns the keys that a neighbour has had before, the newest first."""
CHOSEN = (Standing.PEER, Standing.CLIENT)
"""The standings of neighbours whose word about this node's key counts."""
NAMED_MAX = 64
"""How many neighbours that refuse this node's key are remembered; beyond it the one named first is forgotten."""
SHOWN_MAX = 3
"""How many of them the sentence for the operator names."""
SUPERSEDED = (
    "this node's key was renewed and another has its place at {}, so this home is older than that, or somebody else "
    "has the key; restore a snapshot of after the renewal; if there is none, run `router keys rotate-node` here, "
    "and have each neighbour remove its entry of this node and add the new address"
)
FORMER = (
    "key {} was dialled, but {} answered, the key that it has followed: that node was restored from a snapshot of "
    "before its key was renewed, or an old home of it runs; its operator restores a newer snapshot; if there is none, "
    'see "A node gets another key" in docs/operators.md'
)


def explained(failed: ConnectFailed, key: bytes, formers: Formers) -> ConnectFailed:
    """Return why a neighbour was not connected to, in other words if a key answered that it had before."""
    other = failed.answered_by
    if other is None or bytes(other) not in [bytes(one) for one in formers(key)]:
        return failed
    text = FORMER.format(*(short(key_text("addr", one)) for one in (key, other)))
    return ConnectFailed(failed.reason, text, has_answered=True, answered_by=other)


class Superseded:
    """The neighbours at which another key has this node's place, by their last answers."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._at: dict[bytes, None] = {}

    def __repr__(self) -> str:
        return f"<superseded at {len(self._at)} neighbours>"

    def heard(self, neighbour: PublicKey | None, *, is_superseded: bool) -> None:
        """Record whether a neighbour has refused this node's key as renewed; log the first that does. The word of one
        that was not chosen counts for nothing. `neighbour`: the key that it has proven or was dialled by, if any."""
        if neighbour is None or self._directory.standing(bytes(neighbour), owner=False) not in CHOSEN:
            return
        is_first = is_superseded and not self._at
        self._at.pop(bytes(neighbour), None)
        if is_superseded:
            if len(self._at) >= NAMED_MAX:
                del self._at[next(iter(self._at))]
            self._at[bytes(neighbour)] = None
        if is_first:
            log.warning("%s", self.problem)

    @property
    def problem(self) -> str:
        """Return a sentence for the operator with the remedy, "" if nobody refuses this node's key so."""
        names = [self._directory.name_of(key) or short(key_text("addr", key)) for key in self._at]
        more = [f"{len(names) - SHOWN_MAX} more"] if len(names) > SHOWN_MAX else []
        return SUPERSEDED.format(", ".join([*names[:SHOWN_MAX], *more])) if names else ""

    def facts(self) -> dict[str, Any] | None:
        """Return the neighbours' keys in hex and the sentence, None if there are none."""
        return {"at": [key.hex() for key in self._at], "problem": self.problem} if self._at else None
