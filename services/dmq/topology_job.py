"""Read topology and ledger peer snapshot in a separate process, and have the names in them looked up: beside the
signatures that are verified there, too."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

import msgspec

from .core.peers.peers import address_of
from .core.peers.topology import (
    SNAPSHOT_BYTES_MAX,
    TOPOLOGY_BYTES_MAX,
    AccessPoint,
    BadTopology,
    LedgerSnapshot,
    Topology,
    read_snapshot,
    read_topology,
)
from .core.peers.topology_source import MissingName, Roots, SnapshotReport, TopologyRequest
from .core.protocols.peer_sharing import PeerAddress
from .name_lookup import FoundName, NameLookup

T = TypeVar("T")
NAMES_MAX = 50
RELAYS_MAX = 1000
"""Most names of a ledger peer snapshot that are looked up, and most addresses of it that are used."""


_lookups: dict[tuple[str, str, tuple[str, ...]], NameLookup] = {}
"""One for the files and the SRV services of each DMQ node; none knows more than `POINTS_MAX` and `NAMES_MAX` names."""


def topology(argument: bytes) -> bytes:
    """Return the roots in a topology file, and the relays in a ledger peer snapshot; b"" if they are still those of
    `known`. The argument is a `TopologyRequest`; nobody dials itself."""
    path, snapshot, known, listens, services, is_afresh = msgspec.msgpack.decode(argument, type=TopologyRequest)
    names = _lookups.setdefault((path, snapshot, services), NameLookup(services))
    if is_afresh:
        names.hurry()
    found = _read(path, read_topology, TOPOLOGY_BYTES_MAX) if path else Topology()
    relays = _read(snapshot, read_snapshot, SNAPSHOT_BYTES_MAX) if snapshot else LedgerSnapshot()
    names.keep([*found.points, *_named_in(relays)[:NAMES_MAX]])
    places = [one for one in map(address_of, listens) if one is not None]
    known_at = {point: names.find(point) for point in found.points}  # once: a lookup may end at any time
    groups = found.groups(lambda point: [one for one in known_at[point].addresses if not _is_own(one, places)])
    named = {one for place in known_at.values() for one in place.addresses}
    own = tuple(sorted(str(one) for one in named if _is_own(one, places)))
    missing = tuple(_missing(known_at))
    ledger, report = _relays(relays, names, places)
    points = _digest(*map(str, found.points))
    digest = _digest(groups, missing, ledger, own, report, points, found.unknown)
    if digest == known:
        return b""
    return msgspec.msgpack.encode(Roots(digest, groups, missing, ledger, own, points, report, found.unknown))


def _named_in(snapshot: LedgerSnapshot) -> list[AccessPoint]:
    """Return the relays of a snapshot that stand there by their names."""
    return [point for point in snapshot.points if not point.is_address]


def _relays(
    snapshot: LedgerSnapshot, names: NameLookup, places: Sequence[PeerAddress]
) -> tuple[tuple[PeerAddress, ...], SnapshotReport]:
    """Return the relays that may be dialled, and what else the snapshot holds. Of its names the first few are looked
    up, since there are thousands."""
    named = _named_in(snapshot)
    skipped = frozenset(named[NAMES_MAX:])
    known_at = {point: names.find(point) for point in snapshot.points if point not in skipped}
    found = dict.fromkeys(one for place in known_at.values() for one in place.addresses)
    foreign = [one for one in found if not _is_own(one, places)]
    report = SnapshotReport(
        len(snapshot.points) + snapshot.unreadable + snapshot.beyond,
        tuple(one.point for one in _missing(known_at)),
        len(skipped),
        len(found) - len(foreign),
        snapshot.beyond + len(foreign[RELAYS_MAX:]),
        snapshot.unreadable,
    )
    return tuple(foreign[:RELAYS_MAX]), report


def _missing(known_at: Mapping[AccessPoint, FoundName]) -> Iterator[MissingName]:
    """Yield the points without an address."""
    for point, found in known_at.items():
        if not found.addresses:
            yield MissingName(point.shown, found.cause)


def _digest(*values: object) -> bytes:
    return blake2b(msgspec.msgpack.encode(values), digest_size=16).digest()


def _is_own(address: PeerAddress, places: Sequence[PeerAddress]) -> bool:
    """Whether this node listens at an address: at that one, or at all of this machine, of which it is one."""
    return any(
        address == one
        or (address.port == one.port and ip_address(one.ip).is_unspecified and _is_of_machine(address.ip))
        for one in places
    )


def _is_of_machine(ip: str) -> bool:
    """Whether an address is one of this machine's: only such a one can be bound."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((ip, 0))
    except OSError:
        return False
    return True


def _read(path: str, reader: Callable[[bytes], T], bytes_max: int) -> T:
    try:
        with Path(path).open("rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise BadTopology(f"{path} cannot be read: {error.strerror}; see to it") from None
    try:
        return reader(data)
    except BadTopology as error:
        raise BadTopology(f"{path}: {error}") from None
