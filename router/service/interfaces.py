"""The interfaces of this machine as rules see them: names, flags and addresses from psutil, the gateway from Linux.

On other systems than Linux no gateway is known, so a network is named by its interface and prefixes.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface
from pathlib import Path
from typing import Any

import psutil

from router.service.roles.discovery import Interface

ROUTES, NEIGHBOURS = Path("/proc/net/route"), Path("/proc/net/arp")
_HAS_GATEWAY = 0x2
_IS_COMPLETE = 0x2


def interfaces(known: Mapping[str, bytes]) -> tuple[Interface, ...]:
    """Return all interfaces by their index. `known`: link-layer addresses of gateways seen before, by their place, used
    if the system has forgotten one."""
    stats, addresses, gateways = psutil.net_if_stats(), psutil.net_if_addrs(), gateways_now(known)
    found: list[Interface] = []
    for name, rows in addresses.items():
        try:
            index = socket.if_nametoindex(name)
        except OSError:  # it went while it was being listed
            continue
        flags = frozenset(stats[name].flags.split(",")) if name in stats else frozenset[str]()
        place, gateway = gateways.get(name, ("", b""))
        found.append(Interface(index, name, flags, tuple(_addresses(rows)), gateway, place))
    return tuple(sorted(found, key=lambda one: one.index))


def _addresses(rows: list[Any]) -> Iterator[IPv4Interface | IPv6Interface]:
    for row in rows:
        if row.family in (socket.AF_INET, socket.AF_INET6) and row.netmask:
            bits = int(ip_address(row.netmask)).bit_count()
            yield ip_interface(f"{row.address.partition('%')[0]}/{bits}")


def gateways_now(known: Mapping[str, bytes]) -> dict[str, tuple[str, bytes]]:
    """Return place and link-layer address of the default gateway by the interface that leads there, if the system or
    `known` knows it."""
    try:
        routes, neighbours = ROUTES.read_text(), NEIGHBOURS.read_text()
    except OSError:
        return {}
    return gateways(routes, neighbours, known)


def gateways(routes: str, neighbours: str, known: Mapping[str, bytes]) -> dict[str, tuple[str, bytes]]:
    """Read Linux's tables of routes and of neighbours; if an interface has several default routes, the best counts."""
    seen = {(row[5], row[0]): row[3] for row in _rows(neighbours, 6) if int(row[2], 16) & _IS_COMPLETE}
    best: dict[str, tuple[int, str]] = {}
    for row in _rows(routes, 8):
        name, destination, gateway, flags, metric, mask = row[0], row[1], row[2], row[3], row[6], row[7]
        if int(destination, 16) == int(mask, 16) == 0 and int(flags, 16) & _HAS_GATEWAY:
            ip = str(ip_address(bytes.fromhex(gateway)[::-1]))
            best[name] = min(best.get(name, (1 << 32, "")), (int(metric), ip))
    found: dict[str, tuple[str, bytes]] = {}
    for name, (_, ip) in best.items():
        place = f"{name} {ip}"
        address = bytes.fromhex(seen.get((name, ip), "").replace(":", ""))
        found[name] = place, address or known.get(place, b"")
    return found


def _rows(table: str, columns: int) -> Iterator[list[str]]:
    """Return the rows of a table of /proc, without its header lines."""
    return (row for row in map(str.split, table.splitlines()[1:]) if len(row) >= columns)
