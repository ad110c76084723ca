"""The rows that keep over a restart which messages of this node no neighbour has taken yet.

    own/ id        -> group, end(8)                      one message
    own-run/ id    -> group, then end(8), id for each    several that were told of together; named by the first

A run is written anew when half of it has been taken, and removed with its last message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct

from router.core.wire.crypto import ID_BYTES, KEY_BYTES, MessageId, PublicKey
from router.service import contract as c
from services.pubsub.core.untaken import Own

OWN = b"own/"
RUN = b"own-run/"
RUN_MAX = 1_000
"""Most messages of one run."""
_UNTIL = Struct(">Q")
_EACH = Struct(f">Q{ID_BYTES}s")
EACH_BYTES = _EACH.size


class _Run:
    """A run on disk: its key, its group, the messages that are not taken, and how many its row has."""

    __slots__ = ("group", "key", "open", "written")

    def __init__(self, key: bytes, group: PublicKey, messages: Mapping[MessageId, float]) -> None:
        self.key = key
        self.group = group
        self.open = dict(messages)
        self.written = len(self.open)

    def row(self) -> c.Keep:
        each = [_EACH.pack(int(until_s), id) for id, until_s in self.open.items()]
        return c.Keep(self.key, self.group + b"".join(each))


class OwnRows:
    """Turns messages to be remembered and forgotten into rows; `kept`: the service's state."""

    def __init__(self, kept: Mapping[bytes, bytes]) -> None:
        self._kept = kept
        self._runs: dict[MessageId, _Run] = {}

    def __repr__(self) -> str:
        return f"<rows of messages of this node: {len(self._runs)} in runs>"

    def load(self) -> Iterator[tuple[MessageId, Own]]:
        """Yield the messages on disk."""
        for key, value in self._kept.items():
            group = PublicKey(value[:KEY_BYTES]) if key.startswith((OWN, RUN)) else None
            if group is not None and key.startswith(OWN):
                yield MessageId(key[len(OWN) :]), Own(group, _UNTIL.unpack(value[KEY_BYTES:])[0])
            elif group is not None:
                found = {MessageId(id): until_s for until_s, id in _EACH.iter_unpack(value[KEY_BYTES:])}
                self._begin(_Run(key, group, found))
                yield from ((id, Own(group, until_s)) for id, until_s in found.items())

    def remember(self, id: MessageId, own: Own) -> c.Deed:
        return c.Keep(OWN + id, own.group + _UNTIL.pack(int(own.until_s)))

    def remember_run(self, group: PublicKey, messages: Sequence[tuple[MessageId, float]]) -> Iterator[c.Deed]:
        """Yield the rows of messages that were told of together."""
        for at in range(0, len(messages), RUN_MAX):
            part = messages[at : at + RUN_MAX]
            yield self._begin(_Run(RUN + part[0][0], group, dict(part))).row()

    def _begin(self, run: _Run) -> _Run:
        self._runs.update(dict.fromkeys(run.open, run))
        return run

    def forget(self, id: MessageId) -> list[c.Deed]:
        """Return the changes of rows when a message needs no remembering any more."""
        run = self._runs.pop(id, None)
        if run is None:
            return [c.Keep(OWN + id, None)]
        del run.open[id]
        if not run.open:
            return [c.Keep(run.key, None)]
        if 2 * len(run.open) > run.written:
            return []
        run.written = len(run.open)
        return [run.row()]
