"""The rows that keep over a restart which messages of this node no neighbour has taken yet.

    own/ id        -> group, end(8)                      one message
    own-run/ id    -> group, end(8), then each id    several of one end that were told of together; named by the first

A run is written anew when half of it has been taken, and removed with its last message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct

from router.core.wire.crypto import ID_BYTES, KEY_BYTES, MessageId, PublicKey
from router.service import contract as c
from services.pubsub.core.sending.untaken import Own

OWN = b"own/"
RUN = b"own-run/"
RUN_MAX = 1_000
"""Most messages of one run."""
_UNTIL = Struct(">Q")
HEAD_BYTES = KEY_BYTES + _UNTIL.size


class _Run:
    """A run on disk: its key, its messages that are not taken, and how many its row has."""

    __slots__ = ("key", "open", "own", "written")

    def __init__(self, key: bytes, ids: Sequence[MessageId], own: Own) -> None:
        self.key = key
        self.own = own
        self.open = dict.fromkeys(ids)
        self.written = len(self.open)

    def row(self) -> c.Put:
        return c.Put(self.key, b"".join((_head(self.own), *self.open)))


class OwnRows:
    """Turns messages to be remembered and forgotten into rows; `kept`: the service's state."""

    def __init__(self, kept: Mapping[bytes, bytes]) -> None:
        self._kept = kept
        self._runs: dict[MessageId, _Run] = {}

    def __repr__(self) -> str:
        return f"<rows of messages of this node: {len(self._runs)} in runs>"

    def load(self) -> Iterator[tuple[MessageId, Own]]:
        """Yield the messages on disk."""
        rows = [(prefix + key, value) for prefix in (OWN, RUN) for key, value in c.kept_under(self._kept, prefix)]
        for key, value in rows:
            own = Own(PublicKey(value[:KEY_BYTES]), *_UNTIL.unpack_from(value, KEY_BYTES))
            ids = [MessageId(value[at : at + ID_BYTES]) for at in range(HEAD_BYTES, len(value), ID_BYTES)]
            if ids:
                self._begin(_Run(key, ids, own))
            yield from ((id, own) for id in ids or (MessageId(key[len(OWN) :]),))

    def remember(self, id: MessageId, own: Own) -> c.Deed:
        return c.Put(OWN + id, _head(own))

    def remember_run(self, ids: Sequence[MessageId], own: Own) -> Iterator[c.Deed]:
        """Yield the rows of messages that were told of together."""
        for at in range(0, len(ids), RUN_MAX):
            part = ids[at : at + RUN_MAX]
            yield self._begin(_Run(RUN + part[0], part, own)).row()

    def _begin(self, run: _Run) -> _Run:
        self._runs.update(dict.fromkeys(run.open, run))
        return run

    def forget(self, id: MessageId) -> list[c.Deed]:
        """Return the changes of rows when a message needs no remembering any more."""
        run = self._runs.pop(id, None)
        if run is None:
            return [c.Put(OWN + id, None)]
        del run.open[id]
        if not run.open:
            return [c.Put(run.key, None)]
        if 2 * len(run.open) > run.written:
            return []
        run.written = len(run.open)
        return [run.row()]


def _head(own: Own) -> bytes:
    return own.group + _UNTIL.pack(int(own.until_s))
