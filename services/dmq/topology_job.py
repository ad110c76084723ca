"""Read the topology in a separate process, and look up the names in it: in threads, so that no name holds up the
signatures that are verified there, too."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from .core.peer_sharing_messages import PeerAddress
from .core.topology import TOPOLOGY_BYTES_MAX, AccessPoint, BadTopology, read_topology
from .core.topology_source import Roots

LOOKUPS_MAX = 4
"""Names that are looked up at once."""
NAMES_S = 300.0
"""Seconds after which a name is looked up again."""
ADDRESSES_MAX = 16
"""Most addresses of one name that are used."""


class _Lookup(NamedTuple):
    future: Future[tuple[PeerAddress, ...]]
    began_s: float


_threads = ThreadPoolExecutor(LOOKUPS_MAX, "lookup")
_lookups: dict[AccessPoint, _Lookup] = {}
_found: dict[AccessPoint, tuple[PeerAddress, ...]] = {}


def topology(argument: bytes) -> bytes:
    """Return the roots in a topology file; b"" if they are still those of `known`. The argument holds the path and
    `known`."""
    path, known = msgspec.msgpack.decode(argument, type=tuple[str, bytes])
    try:
        with Path(path).open("rb") as file:
            data = file.read(TOPOLOGY_BYTES_MAX + 1)
    except OSError as error:
        raise BadTopology(f"the topology file {path} cannot be read: {error.strerror}; see to it") from None
    try:
        found = read_topology(data)
    except BadTopology as error:
        raise BadTopology(f"{path}: {error}") from None
    groups = found.groups(_addresses)
    missing = tuple(str(point) for point in found.points if not _addresses(point))
    encoded = msgspec.msgpack.encode((groups, missing, found.ledger_after_slot is not None))
    digest = blake2b(encoded, digest_size=16).digest()
    return (
        b""
        if digest == known
        else msgspec.msgpack.encode(Roots(digest, groups, missing, found.ledger_after_slot is not None))
    )


def _addresses(point: AccessPoint) -> Sequence[PeerAddress]:
    """Return the addresses of a point, as far as they are known; begin to look its name up if it is time for that."""
    if point.is_address:
        return (PeerAddress(*point),)
    lookup = _lookups.get(point)
    if lookup is None or (lookup.future.done() and time.monotonic() - lookup.began_s > NAMES_S):
        lookup = _lookups[point] = _Lookup(_threads.submit(_looked_up, point), time.monotonic())
    if lookup.future.done() and (found := lookup.future.result()):
        _found[point] = found
    return _found.get(point, ())


def _looked_up(point: AccessPoint) -> tuple[PeerAddress, ...]:
    if not point.port:
        return ()
    try:
        found = socket.getaddrinfo(point.host.rstrip("."), point.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    addresses = dict.fromkeys(PeerAddress(str(place[0]), int(place[1])) for *_, place in found)
    return tuple(addresses)[:ADDRESSES_MAX]
