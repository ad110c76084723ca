"""A node's event log on a real directory: the shipped sealer writes it, while the world runs or afterwards."""

from __future__ import annotations

from pathlib import Path

from router.core.log.events import Logged, encode_events
from router.core.wire.link_items import LogHead
from router.core.wire.now import Now
from router.disk.limits import LogLimits
from router.disk.log.eventlog import Segments
from router.disk.log.sealer import Sealer
from router.disk.log.search import LogSnapshot
from world.accounted import Accounted
from world.node import Node


class SealedLog(Accounted):
    """The log of one life of a node. A new life gives the sealer the events that the last life did not seal."""

    def __init__(self, node: Node, directory: Path, limits: LogLimits) -> None:
        super().__init__(node)
        self._node = node
        self._segments = Segments(directory, node.key, limits)
        self._sealer = Sealer(self._segments)
        self._sealed = 0
        for logged in node.log:
            if logged.first_seq >= self._sealer.next_seq:
                self._sealer.add_events(logged, node.time.now().mono_s)

    def __repr__(self) -> str:
        return f"<log of {self._node.name}: {self._sealer!r}>"

    def head(self) -> LogHead | None:
        seq, digest = self._segments.head()
        return LogHead(seq, digest) if seq else None

    def committed(self, logged: Logged, now: Now) -> None:
        self._node.log.append(logged)
        self.account.note(logged)
        self._sealer.add_events(logged, now.mono_s)

    def sealed(self, now: Now) -> int:
        sealed, self._sealed = self._sealed, 0
        return sealed

    def is_due(self, now: Now) -> bool:
        return self._sealer.due(now.mono_s)

    def is_idle(self, now: Now) -> bool:
        return self._sealer.is_idle(now.mono_s)

    def tidy(self) -> None:
        self._sealed = self._sealer.seal()
        self._has_sealed = True

    def close(self) -> None:
        self._sealer.close()

    def log(self) -> LogSnapshot:
        return LogSnapshot((), (), 0)


def write_log(node: Node, directory: Path) -> None:
    """Write the whole log of a node, in segments of a few events."""
    sealer = Sealer(Segments(directory, node.key, LogLimits(segment_bytes=8192)))
    for first_seq, boot, events in node.log:
        sealer.add(encode_events(events, first_seq, boot), 0.0)
        if sealer.due(0.0):
            sealer.seal()
    sealer.seal()
