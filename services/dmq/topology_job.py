"""Read topology and ledger peer snapshot in a separate process, and have the names in them looked up: beside the
signatures that are verified there, too."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec

from .core.peers.peers import address_of
from .core.peers.topology import (
    SNAPSHOT_BYTES_MAX,
    TOPOLOGY_BYTES_MAX,
    AccessPoint,
    BadTopology,
    Topology,
    read_snapshot,
    read_topology,
)
from .core.peers.topology_source import Roots, TopologyRequest
from .core.protocols.peer_sharing import PeerAddress
from .name_lookup import NameLookup

T = TypeVar("T")
NAMES_MAX = 50
RELAYS_MAX = 1000
"""Most names of a ledger peer snapshot that are looked up, and most addresses of it that are used."""


_lookups: dict[tuple[str, ...], NameLookup] = {}


def topology(argument: bytes) -> bytes:
    """Return the roots in a topology file, and the relays in a ledger peer snapshot; b"" if they are still those of
    `known`. The argument is a `TopologyRequest`; nobody dials itself."""
    path, snapshot, known, listens, services = msgspec.msgpack.decode(argument, type=TopologyRequest)
    names = _lookups.setdefault(services, NameLookup(services))
    found = _read(path, read_topology, TOPOLOGY_BYTES_MAX) if path else Topology()
    points = _read(snapshot, read_snapshot, SNAPSHOT_BYTES_MAX) if snapshot else ()
    places = [one for one in map(address_of, listens) if one is not None]
    known_at = {point: names.addresses(point) for point in found.points}  # once: a lookup may end at any time
    groups = found.groups(lambda point: [one for one in known_at[point] if not _is_own(one, places)])
    named = {one for addresses in known_at.values() for one in addresses}
    own = tuple(sorted(str(one) for one in named if _is_own(one, places)))
    missing = tuple(str(point) for point in found.points if not known_at[point])
    ledger = tuple(islice((one for one in _relays(points, names) if not _is_own(one, places)), RELAYS_MAX))
    digest = _digest(groups, missing, ledger, own)
    if digest == known:
        return b""
    return msgspec.msgpack.encode(Roots(digest, groups, missing, ledger, own, _digest(*map(str, found.points))))


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


def _relays(points: Sequence[AccessPoint], names: NameLookup) -> Iterator[PeerAddress]:
    """Yield the addresses of relays; of names the first few are looked up, since there are thousands."""
    looked_up = 0
    for point in points:
        looked_up += not point.is_address
        if point.is_address or looked_up <= NAMES_MAX:
            yield from names.addresses(point)
