"""The topology of a dmq-node, in the form of cardano-node's: the peers that an operator names (docs/dmq.md, "Peers").

    {"localRoots": [{"accessPoints": [{"address": …, "port": …}], "valency": 2, …}],
     "publicRoots": [{"accessPoints": […], "advertise": false}], "useLedgerAfterSlot": 0, "bootstrapPeers": […]}

`bootstrapPeers`, which a dmq-node ignores, count as public roots. Names are looked up elsewhere
(services/dmq/name_lookup.py); one without a port stands for its SRV records.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from msgspec import Struct

from router.core.wire.text import clean

from ..protocols.peer_sharing import PeerAddress
from .known import RootGroup

TOPOLOGY_BYTES_MAX = 1 << 20
POINTS_MAX = 1000
"""Most access points in a topology."""
VALENCY_MAX = 1000
SRV_SERVICE = "_dmq._mithril._cardano._tcp"
"""The service of a DMQ node in SRV records (CIP-0155's registry)."""
SNAPSHOT_BYTES_MAX = 16 << 20
RELAYS_MAX = 100_000
"""Most relays of a snapshot that are read."""
UNKNOWN_MAX = 5
KEY_CHARS_MAX = 40
"""Most keys without effect that are named, and most characters of one."""
_KEYS = frozenset(("localRoots", "publicRoots", "bootstrapPeers", "useLedgerAfterSlot"))
_POINT_KEYS = frozenset(("address", "port", "valency"))
"""The keys of an access point; mithril's guide puts a valency there, which dmq-node ignores."""
_PUBLIC_KEYS = frozenset(("accessPoints", "advertise", "valency"))
_LOCAL_KEYS = _PUBLIC_KEYS | {
    "hotValency", "warmValency", "behindFirewall", "diffusionMode", "trustable", "extraFlags",
}  # fmt: skip
"""The keys of a group; the last two are cardano-node's, and dmq-node reads neither."""
_DUPLEX, _INITIATOR_ONLY = "InitiatorAndResponder", "InitiatorOnly"
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
_NAME = re.compile(r"(?=.{1,254}\Z)(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})\.)*[A-Za-z0-9_][A-Za-z0-9_-]{0,62}\.?")


class BadTopology(ValueError):
    """A file is no topology; the text says what is wrong and what to do."""


class AccessPoint(NamedTuple):
    """An address or a name, and a port; `port` 0: the name's SRV records say where."""

    host: str
    port: int

    @property
    def is_address(self) -> bool:
        return _is_ip(self.host)

    @property
    def shown(self) -> str:
        """Return it as operators read it."""
        return str(self).replace(".:", ":") if self.port else f"{self.host.rstrip('.')} (SRV)"

    def __str__(self) -> str:
        if not self.port:
            return f"SRV {SRV_SERVICE}.{self.host}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class LocalRoots(Struct, frozen=True):
    """A group of local roots: so many are kept hot, and so many connected."""

    points: tuple[AccessPoint, ...]
    hot: int
    warm: int
    advertise: bool = False
    behind_firewall: bool = False
    initiator_only: bool = False


class PublicRoots(Struct, frozen=True):
    """Roots of which as many are used as the targets want."""

    points: tuple[AccessPoint, ...]
    advertise: bool = False


class Topology(Struct, frozen=True):
    """The named peers. `ledger_after_slot`: from that slot on the ledger's relays are used; None: never. `unknown`: the
    first keys that have no effect, and where they stand."""

    local: tuple[LocalRoots, ...] = ()
    public: tuple[PublicRoots, ...] = ()
    ledger_after_slot: int | None = None
    unknown: tuple[str, ...] = ()

    @property
    def points(self) -> tuple[AccessPoint, ...]:
        """Return all access points."""
        local = [point for group in self.local for point in group.points]
        return (*local, *(point for group in self.public for point in group.points))

    def groups(self, found: Callable[[AccessPoint], Sequence[PeerAddress]]) -> tuple[RootGroup, ...]:
        """Return the roots for the governor; `found`: the addresses of a point."""
        local = [
            RootGroup(
                _unique(group.points, found),
                group.hot,
                group.warm,
                group.advertise,
                group.behind_firewall,
                group.initiator_only,
            )
            for group in self.local
        ]
        public = [RootGroup(_unique(one.points, found), 0, 0, one.advertise, is_local=False) for one in self.public]
        return (*local, *public)


class LedgerSnapshot(Struct, frozen=True):
    """The relays of a ledger peer snapshot, each once. `unreadable`: relays that name no place; `beyond`: those past
    `RELAYS_MAX`, each as often as it stands there."""

    points: tuple[AccessPoint, ...] = ()
    unreadable: int = 0
    beyond: int = 0


def read_topology(data: bytes) -> Topology:
    """Return the topology in a file; raise `BadTopology`."""
    found = _object(data, TOPOLOGY_BYTES_MAX, "the topology")
    for key in ("localRoots", "publicRoots"):
        if key not in found:
            raise BadTopology(f'"{key}" is missing; write "{key}": [] if there are none')
    local = tuple(_local(one, f"localRoots[{at}]") for at, one in enumerate(_list(found, "localRoots")))
    public = [_public(one, f"publicRoots[{at}]") for at, one in enumerate(_list(found, "publicRoots"))]
    if found.get("bootstrapPeers"):
        public.append(PublicRoots(_points(_list(found, "bootstrapPeers"), "bootstrapPeers")))
    slot = found.get("useLedgerAfterSlot")
    if slot is not None and type(slot) is not int:
        raise BadTopology('"useLedgerAfterSlot" is no whole number; write -1 for never, 0 for always')
    after = slot if slot is not None and slot >= 0 else None
    unknown = tuple(islice(_unknown_keys(found), UNKNOWN_MAX))
    topology = Topology(local, tuple(one for one in public if one.points), after, unknown)
    if (count := len(topology.points)) > POINTS_MAX:
        raise BadTopology(f"{count} access points are named, {POINTS_MAX} at most; name fewer")
    return topology


def _unknown_keys(found: dict[str, Any]) -> Iterator[str]:
    """Yield the keys of a topology that has been read which have no effect, as `localRoots[0].warmValncy`."""
    yield from _beside(found, _KEYS, "")
    for name, keys in (("localRoots", _LOCAL_KEYS), ("publicRoots", _PUBLIC_KEYS)):
        for at, group in enumerate(found[name] or ()):
            yield from _beside(group, keys, f"{name}[{at}].")
            for number, point in enumerate(group["accessPoints"]):
                yield from _beside(point, _POINT_KEYS, f"{name}[{at}].accessPoints[{number}].")


def _beside(found: dict[str, Any], known: Collection[str], where: str) -> Iterator[str]:
    yield from (
        f"{where}{clean(key, KEY_CHARS_MAX)}" for key, value in found.items() if key not in known and value is not None
    )


def read_snapshot(data: bytes) -> LedgerSnapshot:
    """Return the relays in the output of `cardano-cli query ledger-peer-snapshot`; raise `BadTopology`."""
    found = _object(data, SNAPSHOT_BYTES_MAX, "the ledger peer snapshot")
    pools = [pool for key in ("bigLedgerPools", "allLedgerPools") for pool in _list(found, key)]
    if not pools:
        said = "the ledger peer snapshot names no pool"
        raise BadTopology(f"{said}; give the output of cardano-cli query ledger-peer-snapshot")
    points: dict[AccessPoint, None] = {}
    unreadable = beyond = 0
    for relay in [one for pool in pools if isinstance(pool, dict) for one in _list(pool, "relays")]:
        if (point := _relay(relay)) is None:
            unreadable += 1
        elif point in points or len(points) < RELAYS_MAX:
            points[point] = None
        else:
            beyond += 1
    return LedgerSnapshot(tuple(points), unreadable, beyond)


def _relay(relay: object) -> AccessPoint | None:
    """Return where a relay of the ledger is; None if that cannot be read: one odd entry is not everybody's fault."""
    if not isinstance(relay, dict):
        return None
    host, port = relay.get("address", relay.get("domain")), relay.get("port", 0)
    if not isinstance(host, str) or type(port) is not int or not 0 <= port < 1 << 16:
        return None
    try:
        return _point({"address": host, **({"port": port} if port else {})}, "a relay")
    except BadTopology:
        return None


def _local(group: object, where: str) -> LocalRoots:
    if not isinstance(group, dict):
        raise BadTopology(f"{where} is no object; write {{…}} with accessPoints and valency")
    hot = group.get("valency", group.get("hotValency"))
    if hot is None:
        raise BadTopology(f"{where} has neither valency nor hotValency; a group needs valency or hotValency")
    hot = _valency(hot, f"{where}.valency")
    warm = _valency(group.get("warmValency", hot), f"{where}.warmValency")
    if warm < hot:
        raise BadTopology(
            f"{where}.warmValency is {warm}, below the {hot} that are to be hot; raise it, or leave it out"
        )
    mode = group.get("diffusionMode", _DUPLEX)
    if mode not in (_DUPLEX, _INITIATOR_ONLY):
        raise BadTopology(f"{where}.diffusionMode is {mode!r:.40}; write {_INITIATOR_ONLY} or {_DUPLEX}")
    points = _points(_list(group, "accessPoints", where), f"{where}.accessPoints")
    flags = [_flag(group, key, where) for key in ("advertise", "behindFirewall")]
    return LocalRoots(points, hot, warm, flags[0], flags[1], mode == _INITIATOR_ONLY)


def _public(group: object, where: str) -> PublicRoots:
    if not isinstance(group, dict):
        raise BadTopology(f"{where} is no object; write {{…}} with accessPoints")
    points = _points(_list(group, "accessPoints", where), f"{where}.accessPoints")
    return PublicRoots(points, _flag(group, "advertise", where))


def _points(found: Iterable[object], where: str) -> tuple[AccessPoint, ...]:
    return tuple(_point(one, f"{where}[{at}]") for at, one in enumerate(found))


def _point(found: object, where: str) -> AccessPoint:
    if not isinstance(found, dict) or not isinstance(host := found.get("address"), str):
        raise BadTopology(f"{where} names no address; write an address or a name, and a port")
    port = found.get("port", 0)
    if type(port) is not int or not 0 <= port < 1 << 16 or ("port" in found and not port):
        raise BadTopology(f"{where}.port is {port!r:.20}; write a port from 1 to 65535")
    if _is_ip(host):
        address = _destination(host, where)
        if not port:
            raise BadTopology(f"{where} names the address {host} and no port; write one")
        return AccessPoint(address, port)
    if not _NAME.fullmatch(host):
        raise BadTopology(f'{where} is "{host[:60]}", which is neither an address nor a name')
    return AccessPoint(f"{host.rstrip('.')}.", port)


def _destination(host: str, where: str) -> str:
    """Return an address that may be one of a peer; of an IPv4 address in the form of IPv6 that of IPv4."""
    address = ipaddress.ip_address(host)
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_unspecified or address.is_multicast or address == _BROADCAST:
        raise BadTopology(f"{where} is {host}, which is not a valid destination; name the peer's own address")
    if isinstance(address, ipaddress.IPv6Address) and address.is_link_local and not address.scope_id:
        raise BadTopology(f"{where} is {host}, which is of one link alone; name its interface as well, as fe80::1%eth0")
    return str(address)


def _valency(found: object, where: str) -> int:
    if type(found) is not int or not 0 <= found <= VALENCY_MAX:
        raise BadTopology(f"{where} is {found!r:.20}; write a whole number up to {VALENCY_MAX}")
    return found


def _flag(group: dict[str, Any], key: str, where: str) -> bool:
    if not isinstance(found := group.get(key, False), bool):
        raise BadTopology(f"{where}.{key} is {found!r:.20}; write true or false")
    return found


def _list(found: dict[str, Any], key: str, where: str = "") -> list[Any]:
    value = found.get(key)
    if where and value is None:
        raise BadTopology(f'{where} has no "{key}"; it is required')
    if value is not None and not isinstance(value, list):
        raise BadTopology(f'"{key}" is no list; write [] if there is none')
    return value or []


def _object(data: bytes, bytes_max: int, what: str) -> dict[str, Any]:
    if len(data) > bytes_max:
        raise BadTopology(f"{what} is longer than {bytes_max} bytes; name the right file")
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadTopology(f"{what} is no text: byte {error.start} is not UTF-8; write it anew") from None
    except json.JSONDecodeError as error:
        raise BadTopology(f"{what} is no JSON: line {error.lineno}, column {error.colno} ({error.msg})") from None
    except RecursionError:
        raise BadTopology(f"{what} is nested too deeply; name the right file") from None
    if not isinstance(found, dict):
        raise BadTopology(f"{what} is no JSON object; name the right file")
    return found


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _unique(
    points: Iterable[AccessPoint], found: Callable[[AccessPoint], Sequence[PeerAddress]]
) -> tuple[PeerAddress, ...]:
    return tuple(dict.fromkeys(address for point in points for address in found(point)))
