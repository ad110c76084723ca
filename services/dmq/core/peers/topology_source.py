"""The schedule for reading the topology: every few seconds, and when an operator asks for it.

Reading happens elsewhere (services/dmq/topology_job.py). A topology that cannot be read changes nothing: the one in
force stays, and the operator sees why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c

from ..protocols.peer_sharing import PeerAddress
from .known import RootGroup

FILE_S = 5.0
"""Seconds between two looks at the file."""
JOB, TAG = "services.dmq.topology_job:topology", "topology"


class Roots(Struct, frozen=True, array_like=True):
    """What a topology names. `digest` tells it from others; `missing`: the points whose addresses are not known;
    `ledger`: relays of a ledger peer snapshot; `own`: the points at which this node itself listens, which are in no
    group; `points`: a digest of the points as they stand in the file, whatever addresses their names have."""

    digest: bytes
    groups: tuple[RootGroup, ...]
    missing: tuple[str, ...] = ()
    ledger: tuple[PeerAddress, ...] = ()
    own: tuple[str, ...] = ()
    points: bytes = b""

    @property
    def addresses(self) -> int:
        return sum(len(group.addresses) for group in self.groups)


class TopologyRequest(NamedTuple):
    """What the job is asked. `file`, `snapshot`: paths, "" for none; `known`: the digest of the roots that are in
    force; `listens`: where this node listens; `srv_services`: under which services names without a port are looked
    up."""

    file: str
    snapshot: str
    known: bytes
    listens: tuple[str, ...]
    srv_services: tuple[str, ...]


_ROOTS = msgspec.msgpack.Decoder(Roots)


class TopologySource:
    """Asks for the reads that are due, and takes the answers. `listens`: where this node listens, HOST:PORT;
    `srv_services` as in the request; `problem`: why the last could not be read, or ""; `is_edited`: whether
    the file names other points than before, or a name only has other addresses."""

    def __init__(
        self, file: str, snapshot: str = "", listens: Iterable[str] = (), srv_services: Iterable[str] = ()
    ) -> None:
        self.file = file
        self._listens = tuple(listens)
        self._srv_services = tuple(srv_services)
        self._snapshot = snapshot
        self.problem = ""
        self._warned = ""
        self.is_edited = False
        self.roots = Roots(b"", ())
        self._is_asking = False
        self._has_read = False
        self._next_s = 0.0

    def __repr__(self) -> str:
        return f"<TopologySource of {self.file or 'nothing'}: {self.problem or 'no problem'}>"

    @property
    def only_itself(self) -> str:
        """Return where this node listens, if the topology names nothing else; "" else."""
        named = self.roots.addresses or self.roots.missing or self.roots.ledger
        return "" if named else ", ".join(self.roots.own)

    def due(self, now: c.Now) -> list[c.Deed]:
        """Return the question that is due, if any."""
        if not (self.file or self._snapshot) or self._is_asking or now.mono_s < self._next_s:
            return []
        self._is_asking = True
        asked = TopologyRequest(self.file, self._snapshot, self.roots.digest, self._listens, self._srv_services)
        return [c.Compute(JOB, msgspec.msgpack.encode(asked), TAG)]

    def reload(self) -> None:
        """Look at the file as soon as possible."""
        self._next_s = 0.0

    def computed(self, heard: c.Computed, now: c.Now) -> tuple[Roots | None, list[c.Deed]]:
        """Take a read's result; return the new roots, if there are some, and what the operator is told."""
        self._is_asking = False
        self._next_s = now.mono_s + FILE_S
        if heard.error:
            return None, self._failed(heard.error.removeprefix("BadTopology: "))
        self.problem = ""
        mended, self._warned = self._warned, ""
        if not heard.result:
            said = f"the topology {self.file or self._snapshot} can be read again"
            return None, [c.Inform(said, mended)] if mended else []
        former, self.roots, self._has_read = self.roots, _ROOTS.decode(heard.result), True
        self.is_edited = self.roots.points != former.points
        said = f"the topology names {counted(self.roots.addresses, 'address', 'addresses')} of peers"
        if self._snapshot:
            said += f", the ledger {counted(len(self.roots.ledger), 'relay')}"
        if self.roots.missing:
            said += f"; {', '.join(self.roots.missing[:5])} could not be looked up yet"
        if self.only_itself:
            said = f"the topology {self.file} names this node itself alone, at {self.only_itself}"
            self._warned = f"{said}: name another node in it, and this node in that one's"
            return self.roots, [c.Warn(self._warned)]
        if self.roots.own:
            said += f"; {', '.join(self.roots.own)} is this node itself"
        return self.roots, [c.Inform(said, mended)]

    def _failed(self, error: str) -> list[c.Deed]:
        if error == self.problem:
            return []
        self.problem = error
        then = "the one that was read before stays" if self._has_read else "until it can be read, no peer is dialled"
        self._warned = f"{error}; {then}"
        return [c.Warn(self._warned)]
