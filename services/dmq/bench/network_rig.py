"""DMQ nodes that dial each other, as processes, some of which may be bad ones; and what a round costs them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trio
from msgspec import Struct

from router.rig.process import free_ports, until
from services.dmq.bench.bad_peers import Badness, BadPeer
from services.dmq.bench.rig import LOGGED, Node
from services.dmq.bench.round_trip import RoundTimes, play_round

STEPS = 1, 2, 4
"""A node dials the ones that are so many places further in the ring."""
HOT_MIN = 2


class RoundCost(Struct, frozen=True):
    """What a round took: its times, the bytes that each node has received from others, and the CPU time of all."""

    times: RoundTimes
    bytes_in: tuple[int, ...]
    cpu_s: float


class DialledNode(Node):
    """A node that listens for others and dials those at these ports."""

    def __init__(self, base: Path, stake: bytes, port: int, others: Sequence[int]) -> None:
        base.mkdir(parents=True)
        topology = base / "topology.json"
        points = [{"address": "127.0.0.1", "port": other} for other in others]
        roots = [{"accessPoints": points, "hotValency": len(points), "advertise": False}]
        topology.write_text(json.dumps({"localRoots": roots, "publicRoots": []}))
        place = ("--host-addr", "127.0.0.1", "--port", str(port), "--topology-file", str(topology))
        super().__init__(base, stake, (), LOGGED, *place)

    async def is_joined(self) -> bool:
        return bool((await self.status()).get("nodes", {}).get("hot", 0) >= HOT_MIN)


class NetworkRig:
    """A ring of nodes with chords; `bad`: which of them are bad, and how."""

    def __init__(
        self, base: Path, stake: bytes, wires: Sequence[bytes], size: int, bad: Mapping[int, Badness] | None = None
    ) -> None:
        self._wires = wires
        self._ports = free_ports(size)
        self._bad = {at: BadPeer(badness, wires) for at, badness in (bad or {}).items()}
        dialled = {at: [self._ports[(at + step) % size] for step in STEPS] for at in range(size)}
        self.nodes = [
            DialledNode(base / f"node{at}", stake, self._ports[at], dialled[at])
            for at in range(size)
            if at not in self._bad
        ]

    def __repr__(self) -> str:
        return f"<NetworkRig of {len(self.nodes)} nodes and {len(self._bad)} bad ones>"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run all nodes, joined, while the block runs."""
        async with AsyncExitStack() as stack:
            for at, peer in self._bad.items():
                await stack.enter_async_context(peer.listening(self._ports[at]))
            for node in self.nodes:
                stack.push_async_callback(node.kill)
            async with trio.open_nursery() as nursery:
                for node in self.nodes:
                    nursery.start_soon(node.start)
            for node in self.nodes:
                await until("the nodes are joined", node.is_joined)
            yield

    async def round(self, wires: Sequence[bytes] = ()) -> RoundCost:
        """Play a round that is handed in at the first node; `wires`: its messages, if they are others."""
        before = await self._bytes_in()
        before_s = sum(node.cpu_s() for node in self.nodes)
        sockets = {f"the consumer of {node.base.name}": node.socket for node in self.nodes}
        times = await play_round(wires or self._wires, self.nodes[0].socket, sockets)
        cpu_s = sum(node.cpu_s() for node in self.nodes) - before_s
        after = await self._bytes_in()
        return RoundCost(times, tuple(late - early for early, late in zip(before, after, strict=True)), cpu_s)

    async def _bytes_in(self) -> list[int]:
        return [int((await node.status())["nodes"]["bytes_in"]) for node in self.nodes]
