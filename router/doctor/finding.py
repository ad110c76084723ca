"""A finding of `router doctor`, and the facts that the checks are judged by; pure."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from msgspec import Struct, field

from router.core.wire.address import TransportAddress


class Finding(Struct, frozen=True):
    """The result of one check. `ok`: whether all is well; None if it was not checked, or cannot be known from here."""

    check: str
    ok: bool | None
    found: str
    remedy: str = ""


class DiskFacts(Struct, frozen=True):
    """The disk of the home. `fault`: why nothing can be written there; `syncs_s`: how long each sync took; `timed_out`:
    the disk did not answer in time; `filesystem`: its kind, "" if that is unknown."""

    path: str
    filesystem: str = ""
    free_bytes: int = 0
    fault: str = ""
    syncs_s: tuple[float, ...] = ()
    timed_out: bool = False
    store_bytes: int = 0
    log_bytes: int = 0
    newest_s: float = 0.0


class Descriptors(Struct, frozen=True):
    """File descriptors: the most that the node may open, and how many it has open (None if no node runs)."""

    most: int
    open: int | None = None


class DialResult(Struct, frozen=True):
    """The result of dialling a URL: why nothing answered, "" if something did, and its key in hex, "" if the transport
    proves none; `took_s`: the time until the transport's connection was established."""

    url: str
    key: str = ""
    why: str = ""
    took_s: float = 0.0


class AdvertisedAddress(Struct, frozen=True):
    """An address at which others are to reach this node, what its name resolves to, and whether it answered here."""

    address: TransportAddress
    ips: tuple[IPv4Address | IPv6Address, ...] = ()
    unresolved: str = ""
    dial: DialResult | None = None


class InterfaceCheck(Struct, frozen=True):
    """A network interface that carries multicast. `came_back`: whether a datagram to the LAN's group, sent there, was
    received on this machine; `why`: why it was not."""

    name: str
    came_back: bool
    why: str = ""


class LanFacts(Struct, frozen=True):
    """The LAN as this machine sees it. `tunnel`: the interface without multicast that has the default route, if one
    has; `rows`: what the discovery service says of each network, None where it was not asked; `why`: why not;
    `problem`: what it says is wrong; `full`: who has taken all its places for nodes nearby, "" if there is room."""

    interfaces: tuple[InterfaceCheck, ...] = ()
    tunnel: str = ""
    rows: tuple[Mapping[str, Any], ...] | None = None
    why: str = ""
    problem: str = ""
    full: str = ""


class SamplingFacts(Struct, frozen=True):
    """From whom a core learns of other cores: connected neighbours and seeds of the settings, by name, and the number
    of nodes that it exchanges now; None if it takes no part, since it has no address where others reach it. `away`: the
    neighbours with an address that are not connected; `is_private`: all addresses of this node lie in a private
    network."""

    neighbours: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()
    known: int | None = None
    away: tuple[str, ...] = ()
    is_private: bool = False


class DialBackAnswer(Struct, frozen=True):
    """A neighbour's answer to DIAL_ME: the URL that it dialled, and why it did not find this node there ("" if it
    did)."""

    neighbour: str
    at: str = ""
    why: str = ""


class Running(Struct, frozen=True):
    """The running node's own view of itself, in the form of `router status` and `router peers`."""

    status: Mapping[str, Any]
    peers: tuple[Mapping[str, Any], ...] = field(default=())


def split_remedy(text: str) -> tuple[str, str]:
    """Split a sentence that names a cause and a remedy into these two; the remedy is "" if there is none."""
    said, _, remedy = text.partition("; ")
    return said, remedy
