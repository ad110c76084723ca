"""Three routers with a DMQ node each, which a topic's group joins over links that are counted: a core and two edges."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

import router
from router.core.wire.grouplink import new_group
from router.core.wire.text import key_text
from router.rig.node import NodeProcess, address_of
from router.rig.process import free_ports, until
from services.dmq.bench import traffic
from services.dmq.bench.round_trip import check_once, play_round

GROUP = "dmq-bench"
CORE, EDGES = "core", ("first", "second")
NAMES = CORE, *EDGES
READ_BYTES = 1 << 16
QUICK: dict[str, object] = {"link.dial_backoff_s_min": 0.05, "link.dial_backoff_s_max": 0.2, "link.goodbye_s": 1}


class CountingRelay:
    """Passes bytes on between those that connect to `port` and the place at `to`; counts them by direction."""

    def __init__(self, port: int, to: int) -> None:
        self._port, self._to = port, to
        self.up = self.down = 0

    def __repr__(self) -> str:
        return f"<CountingRelay to {self._to}: {self.up} bytes up, {self.down} down>"

    async def run(self) -> None:
        await trio.serve_tcp(self._serve, self._port, host="127.0.0.1")

    async def _serve(self, below: trio.SocketStream) -> None:
        try:
            async with below, await trio.open_tcp_stream("127.0.0.1", self._to) as above, trio.open_nursery() as both:
                both.start_soon(self._pump, below, above, "up", both.cancel_scope)
                both.start_soon(self._pump, above, below, "down", both.cancel_scope)
        except* OSError:  # the core is not there yet; the edge dials again
            pass

    async def _pump(self, source: trio.SocketStream, to: trio.SocketStream, way: str, scope: trio.CancelScope) -> None:
        try:
            while data := await source.receive_some(READ_BYTES):
                setattr(self, way, getattr(self, way) + len(data))
                await to.send_all(data)
        except trio.BrokenResourceError:
            pass
        scope.cancel()


class FabricRig:
    """The routers. `dials`: whether their DMQ nodes dial each other as well."""

    def __init__(self, base: Path, stake: bytes, wires: Sequence[bytes], *, dials: bool) -> None:
        base.mkdir()
        self._base, self._wires = base, wires
        (base / "stake.json").write_bytes(stake)
        core, *ports = free_ports(1 + len(EDGES) + len(NAMES))
        relays, places = ports[: len(EDGES)], ports[len(EDGES) :]
        self._relays = {name: CountingRelay(port, core) for name, port in zip(EDGES, relays, strict=True)}
        self._places = dict(zip(NAMES, places, strict=True)) if dials else {}
        self._homes = {name: router.Home(base / name) for name in NAMES}
        for name, home in self._homes.items():
            home.create("core" if name == CORE else "edge")
        self._nodes = {name: NodeProcess(name, home, base / f"{name}.err", QUICK) for name, home in self._homes.items()}
        self._link = new_group(os.urandom(32), os.urandom(32), GROUP)
        self._configure(core, dict(zip(EDGES, relays, strict=True)))

    def __repr__(self) -> str:
        return f"<FabricRig at {self._base}>"

    def _configure(self, core: int, relays: dict[str, int]) -> None:
        address = {name: key_text("addr", address_of(home)) for name, home in self._homes.items()}
        for name, home in self._homes.items():
            text = '[node]\nservices = ["services.dmq"]\n'
            if name == CORE:
                text += f'role = "core"\nlisten = ["tls://127.0.0.1:{core}"]\n'
                for edge in EDGES:
                    text += f'[[peers]]\naddress = "{address[edge]}"\nname = "{edge}"\n'
                    text += 'grant = ["join", "store", "relay"]\n'
            else:
                text += f'[[peers]]\naddress = "{address[CORE]}"\nname = "core"\nuplink = true\n'
                text += f'urls = ["tls://127.0.0.1:{relays[name]}"]\n'
            home.config_path.write_text(text + self._dmq(name))

    def _dmq(self, name: str) -> str:
        """Return the settings of a DMQ node."""
        text = f'[services.dmq]\nnetwork = "{traffic.NETWORK}"\nlocal_socket = "unix:{self._socket(name)}"\n'
        text += f'stake_file = "{self._base / "stake.json"}"\ngroup = "{GROUP}"\n'
        if not self._places:
            return text
        topology = self._base / f"{name}.topology"
        points = [{"address": "127.0.0.1", "port": port} for other, port in self._places.items() if other != name]
        roots = [{"accessPoints": points, "hotValency": len(points)}]
        topology.write_text(json.dumps({"localRoots": roots, "publicRoots": []}))
        return text + f'listen = "tcp://127.0.0.1:{self._places[name]}"\ntopology_file = "{topology}"\n'

    def _socket(self, name: str) -> Path:
        return self._base / f"{name}.socket"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the routers, joined, while the block runs."""
        async with trio.open_nursery() as nursery:
            for relay in self._relays.values():
                nursery.start_soon(relay.run)
            try:
                async with trio.open_nursery() as starting:
                    for node in self._nodes.values():
                        starting.start_soon(self._start, node)
                await until("the routers are joined", self._are_joined)
                yield
            finally:
                with trio.CancelScope(shield=True):
                    for node in self._nodes.values():
                        await node.kill()
            nursery.cancel_scope.cancel()

    async def _start(self, node: NodeProcess) -> None:
        await node.run("group", "add", "-", stdin=self._link.text().encode())
        await node.start()

    async def _are_joined(self) -> bool:
        rows = await self._nodes[CORE].ask("groups")
        joined = {row["subscriber"] for row in rows if row["group"] == self._link.group.hex()}
        statuses = [await self._status(name) for name in NAMES]
        hot = min(one.get("nodes", {}).get("hot", 0) for one in statuses)
        has_stake = all(one.get("stake", {}).get("pools") for one in statuses)
        return len(joined) == len(NAMES) and has_stake and hot >= (len(NAMES) - 1 if self._places else 0)

    async def _status(self, name: str) -> dict[str, Any]:
        """Return what a DMQ node says of itself; an error while it starts."""
        async with router.connect(home=self._homes[name]) as app:
            found: dict[str, Any] = json.loads(await app.ask("service", "dmq status"))
            return found

    async def round(self) -> dict[str, int]:
        """Play a round that is handed in at the first edge, with a consumer at each DMQ node and an app at the second
        edge; return the bytes that each router has received, over its links and from other nodes."""
        before = await self._received()
        read, wires = Counter[bytes](), self._wires
        async with router.connect(home=self._homes[EDGES[1]]) as app, trio.open_nursery() as nursery:
            messages = await app.join(GROUP, raw=True)

            async def read_all() -> None:
                async for message in messages:
                    read[message.body] += 1
                    if len(read) == len(wires):
                        return

            nursery.start_soon(read_all)
            sockets = {f"the consumer of {name}": self._socket(name) for name in NAMES}
            await play_round(wires, self._socket(EDGES[0]), sockets)
        check_once({"the app": read}, wires)
        after = await self._received()
        return {name: after[name] - before[name] for name in NAMES}

    async def _received(self) -> dict[str, int]:
        found = {CORE: sum(relay.up for relay in self._relays.values())}
        found |= {name: relay.down for name, relay in self._relays.items()}
        for name in NAMES:
            status = await self._status(name)
            found[name] += int(status["nodes"]["bytes_in"])
        return found
