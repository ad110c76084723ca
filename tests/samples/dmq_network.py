"""DMQ nodes that dial each other without sockets, and a partition of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from router.service import contract as c
from samples.dmq import POOLS
from samples.dmq_node import Host
from services.dmq.core.peers.known import RootGroup
from services.dmq.core.peers.topology_source import TAG, Roots
from services.dmq.core.protocols.peer_sharing import PeerAddress
from services.dmq.settings import Settings


class Network:
    """Nodes that dial each other: streams between hosts in one thread. `wires`: who has written what to whom."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.dials: list[tuple[str, str]] = []
        self.wires: list[tuple[str, str, bytes]] = []
        self._streams: dict[tuple[str, str], tuple[str, str]] = {}
        self._apart: tuple[Host, ...] = ()
        self._count = 0

    def add(self, port: int, **settings: Any) -> Host:
        url = f"tcp://127.0.0.1:{port}"
        host = Host(Settings(stake_file="stake", listen=url, **settings), *[pool.id for pool in POOLS])
        self.hosts[f"127.0.0.1:{port}"] = host
        return host

    def name_roots(self, host: Host, *ports: int) -> None:
        addresses = tuple(PeerAddress("127.0.0.1", port) for port in ports)
        roots = Roots(bytes(4), (RootGroup(addresses, len(ports), len(ports)),), points=bytes(ports))
        self.hear(host, c.Computed(TAG, msgspec.msgpack.encode(roots)))

    def hear(self, host: Host, heard: c.Heard) -> None:
        """Let a host hear something, and all what follows from it."""
        host.hear(heard)
        self.settle()

    def settle(self) -> None:
        """Carry what hosts have dialled and written, until nothing more follows."""
        while busy := [host for host in self.hosts.values() if host.outward]:
            for host in busy:
                deeds, host.outward = host.outward, []
                for deed in deeds:
                    for other, heard in self._follows(host, deed):
                        other.hear(heard)

    def _follows(self, host: Host, deed: c.Connect | c.Write) -> list[tuple[Host, c.Heard]]:
        if isinstance(deed, c.Connect):
            return self._connected(host, deed.url.removeprefix("tcp://"), deed.tag, deed.source)
        ours = (self._place(host), deed.peer)
        theirs = self._streams.get(ours)
        if theirs is None:
            return []
        self.wires.append((ours[0], theirs[0], deed.data))
        other = self.hosts[theirs[0]]
        if deed.data:
            return [(other, c.Came("peers", theirs[1], deed.data))]
        del self._streams[ours], self._streams[theirs]
        return [(host, c.Came("peers", deed.peer, b"")), (other, c.Came("peers", theirs[1], b""))]

    def _connected(self, host: Host, place: str, tag: str, source: str) -> list[tuple[Host, c.Heard]]:
        ours = self._place(host)
        self.dials.append((ours, place))
        other = self.hosts.get(place)
        if other is None or (host in self._apart) is not (other in self._apart):
            return [(host, c.ConnectionFailed("peers", tag, "nobody listens there"))]
        self._count += 1
        name = str(self._count)
        self._streams[ours, name] = place, name
        self._streams[place, name] = ours, name
        seen = source or f"127.0.0.1:{40_000 + self._count}"
        return [(other, c.Opened("peers", name, seen)), (host, c.Opened("peers", name, place, tag))]

    def divide(self, apart: Sequence[Host]) -> None:
        """Cut what joins these hosts with the others, until it is called again; nobody reaches the other side."""
        self._apart = tuple(apart)
        crossing = {
            frozenset((one, other))
            for one, other in self._streams.items()
            if (self.hosts[one[0]] in apart) is not (self.hosts[other[0]] in apart)
        }
        for at, name in [end for stream in crossing for end in stream]:
            del self._streams[at, name]
            self.hosts[at].hear(c.Came("peers", name, b""))
        self.settle()

    def crash(self, host: Host) -> None:
        """Kill a node and start it again: its connections end, what it has kept stays."""
        ours = self._place(host)
        for at, name in [one for one in self._streams if one[0] == ours]:
            place, peer = self._streams.pop((at, name))
            self._streams.pop((place, peer))
            self.hosts[place].hear(c.Came("peers", peer, b""))
        host.outward.clear()
        host.crash()
        self.settle()

    def _place(self, host: Host) -> str:
        return next(place for place, one in self.hosts.items() if one is host)

    def pass_time(self, seconds: float, step_s: float = 1.0) -> None:
        for _ in range(int(seconds / step_s)):
            for host in self.hosts.values():
                host.now = c.Now(host.now.wall_s + step_s, host.now.mono_s + step_s)
                self.hear(host, c.Tick())


def submit(network: Network, host: Host, message: bytes) -> object:
    """Hand a message in at a node, and let all follow from it."""
    answer = host.connect().submit(message)
    network.settle()
    return answer
