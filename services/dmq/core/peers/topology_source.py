"""The schedule for reading the topology: every few seconds, and when an operator asks for it.

Reading happens elsewhere (services/dmq/topology_job.py). A topology that cannot be read changes nothing: the one in
force stays, and the operator sees why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from router.core.wire.text import counted
from router.service import contract as c

from ..protocols.peer_sharing import PeerAddress
from .known import RootGroup

FILE_S = 5.0
"""Seconds between two looks at the file."""
WAITING_MAX = 16
"""Most operators' questions that wait for a read."""
NAMED_MAX = 5
"""Most names without an address that one line names."""
JOB, TAG = "services.dmq.topology_job:topology", "topology"


class MissingName(NamedTuple):
    """A point for whose name no address is known, and why not."""

    point: str
    cause: str

    def __str__(self) -> str:
        return f"{self.point}: {self.cause}"


class SnapshotReport(Struct, frozen=True, array_like=True):
    """What a ledger peer snapshot holds beside the relays that may be dialled. `relays`: how many it names;
    `unresolved`: those whose names have no address, as far as they are looked up; `not_looked_up`: how many further
    names there are; `own`: at how many addresses this node itself listens; `beyond`: how many are more than are used;
    `unreadable`: how many name no place."""

    relays: int = 0
    unresolved: tuple[str, ...] = ()
    not_looked_up: int = 0
    own: int = 0
    beyond: int = 0
    unreadable: int = 0


class Roots(Struct, frozen=True, array_like=True):
    """What a topology names. `digest` tells it from others; `missing`: the points whose addresses are not known;
    `ledger`: relays of a ledger peer snapshot; `own`: the points at which this node itself listens, which are in no
    group; `points`: a digest of the points as they stand in the file, whatever addresses their names have; `snapshot`:
    what else the ledger peer snapshot holds; `unknown`: the first keys of the file that have no effect."""

    digest: bytes
    groups: tuple[RootGroup, ...]
    missing: tuple[MissingName, ...] = ()
    ledger: tuple[PeerAddress, ...] = ()
    own: tuple[str, ...] = ()
    points: bytes = b""
    snapshot: SnapshotReport = SnapshotReport()
    unknown: tuple[str, ...] = ()

    @property
    def addresses(self) -> int:
        return sum(len(group.addresses) for group in self.groups)


class TopologyRequest(NamedTuple):
    """What the job is asked. `file`, `snapshot`: paths, "" for none; `known`: the digest of the roots that are in
    force; `listens`: where this node listens; `srv_services`: under which services names without a port are looked
    up; `is_afresh`: whether names without an address are looked up at once, even if they were just before."""

    file: str
    snapshot: str
    known: bytes
    listens: tuple[str, ...]
    srv_services: tuple[str, ...]
    is_afresh: bool = False


_ROOTS = msgspec.msgpack.Decoder(Roots)


class TopologySource:
    """Asks for the reads that are due, and takes the answers. `listens`: where this node listens, HOST:PORT;
    `srv_services` as in the request; `problem`: why the last could not be read, or ""; `is_edited`: whether
    the file names other points than before, or a name only has other addresses."""

    def __init__(
        self, file: str, snapshot: str = "", listens: Iterable[str] = (), srv_services: Iterable[str] = ()
    ) -> None:
        self.file = file
        self.snapshot = snapshot
        self._listens = tuple(listens)
        self._srv_services = tuple(srv_services)
        self.problem = ""
        self._warned = ""
        self.is_edited = False
        self.roots = Roots(b"", ())
        self._asked: list[int] | None = None
        self._waiting: list[int] = []
        self._missing_since_s: dict[str, float] = {}
        self._has_read = False
        self._next_s = 0.0

    def __repr__(self) -> str:
        return f"<TopologySource of {self._named or 'nothing'}: {self.problem or 'no problem'}>"

    @property
    def _named(self) -> str:
        return " and ".join(filter(None, (self.file, self.snapshot)))

    @property
    def only_itself(self) -> str:
        """Return where this node listens, if the topology names nothing else; "" else."""
        named = self.roots.addresses or self.roots.missing or self.roots.ledger
        return "" if named else ", ".join(self.roots.own)

    def missing(self) -> Iterator[tuple[MissingName, float]]:
        """Yield the points for whose names no address is known, and since when, in Unix seconds."""
        for one in self.roots.missing:
            yield one, self._missing_since_s[one.point]

    def due(self, now: c.Now) -> list[c.Deed]:
        """Return the question that is due, if any."""
        if not self._named or self._asked is not None or now.mono_s < self._next_s:
            return []
        self._asked, self._waiting = self._waiting, []
        asked = TopologyRequest(
            self.file, self.snapshot, self.roots.digest, self._listens, self._srv_services, bool(self._asked)
        )
        return [c.Compute(JOB, msgspec.msgpack.encode(asked), TAG)]

    def reload(self, number: int, now: c.Now) -> Iterator[c.Deed]:
        """Read the files at once, and answer the operator's question of this number when they are read."""
        if self._named and len(self._waiting) < WAITING_MAX:
            self._waiting.append(number)
            self._next_s = 0.0
            yield from self.due(now)
        elif self._named:
            yield c.Answer(number, {"error": f"{WAITING_MAX} others wait for the same; ask again when it is read"})
        else:
            yield c.Answer(number, self._as_read())

    def computed(self, heard: c.Computed, now: c.Now) -> tuple[Roots | None, list[c.Deed]]:
        """Take a read's result; return the new roots, if there are some, and what the operator is told."""
        numbers, self._asked = self._asked or (), None
        if not self._waiting:
            self._next_s = now.mono_s + FILE_S
        roots, said = self._taken(heard)
        since_s = {one.point: now.wall_s for one in self.roots.missing}
        self._missing_since_s = since_s | {one: at for one, at in self._missing_since_s.items() if one in since_s}
        return roots, [*said, *(c.Answer(number, self._as_read()) for number in numbers)]

    def _taken(self, heard: c.Computed) -> tuple[Roots | None, list[c.Deed]]:
        if heard.error:
            return None, self._failed(heard.error.removeprefix("BadTopology: "))
        self.problem = ""
        mended, self._warned = self._warned, ""
        if not heard.result:
            said = f"the topology {self._named} can be read again"
            return None, [c.Inform(said, mended)] if mended else []
        former, self.roots, self._has_read = self.roots, _ROOTS.decode(heard.result), True
        self.is_edited = self.roots.points != former.points
        if self.only_itself:
            said = f"the topology {self.file} names this node itself alone, at {self.only_itself}"
            self._warned = f"{said}: name another node in it, and this node in that one's"
            return self.roots, [c.Warn(self._warned)]
        return self.roots, [c.Inform(self._said(), mended)]

    def _said(self) -> str:
        """Return what was read last."""
        roots, parts = self.roots, []
        if self.file:
            parts.append(f"the topology names {counted(roots.addresses, 'address', 'addresses')} of peers")
        if self.snapshot:
            addresses = counted(len(roots.ledger), "address", "addresses")
            parts.append(f"the ledger peer snapshot names {counted(roots.snapshot.relays, 'relay')}, with {addresses}")
        said = ", ".join(parts)
        if roots.missing:
            said += f"; {'; '.join(map(str, roots.missing[:NAMED_MAX]))}"
            more = len(roots.missing) - NAMED_MAX
            said += f"; and {more} more names without an address" if more > 0 else ""
        if roots.own:
            said += f"; {', '.join(roots.own)} is this node itself"
        if roots.unknown:
            said += f"; without effect, since unknown: {', '.join(roots.unknown)}"
        return said

    def _as_read(self) -> dict[str, Any]:
        """Return what `router dmq reload` shows."""
        read = self._said() if self._has_read else ""
        return {"topology": self.file, "snapshot": self.snapshot, "read": read, "problem": self.problem}

    def _failed(self, error: str) -> list[c.Deed]:
        if error == self.problem:
            return []
        self.problem = error
        then = "the one that was read before stays" if self._has_read else "until it can be read, no peer is dialled"
        self._warned = f"{error}; {then}"
        return [c.Warn(self._warned)]
