"""Two cores share a group over links of which a stranger records every byte: no key is found in them (R-C36, R-D20)."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import trio
from rig import QUICK, NodeProcess, Rig, rig
from rigs.patience import HANG_S
from rigs.ports import free_port

from router import connect
from router.client.node import Node
from router.core.wire.crypto import digest
from router.core.wire.grouplink import GroupLink, parse_link
from router.core.wire.text import key_text
from router.rig.process import until
from router.settings.config_services import NewHomeService
from router.settings.home import Home

BODY_BYTES = 50_000
HANDSHAKE = b"\x16\x03"
CHUNK = 65_536


@dataclass
class Line:
    """A tapped line to a node. `heard`: the bytes of each connection, in each direction."""

    port: int
    heard: list[bytearray] = field(default_factory=list)

    async def serve(self, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Pass bytes on, and report the URL at which the node is reached over this line."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        task_status.started(f"tls://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
        await trio.serve_listeners(self._pass_on, listeners)

    async def _pass_on(self, near: trio.SocketStream) -> None:
        try:
            async with near, await trio.open_tcp_stream("127.0.0.1", self.port) as far, trio.open_nursery() as nursery:
                nursery.start_soon(self._copy, near, far, nursery.cancel_scope)
                nursery.start_soon(self._copy, far, near, nursery.cancel_scope)
        except OSError:
            return  # the node is not there yet, or not any more

    async def _copy(self, source: trio.SocketStream, to: trio.SocketStream, scope: trio.CancelScope) -> None:
        self.heard.append(heard := bytearray())
        try:
            while chunk := await source.receive_some(CHUNK):
                heard += chunk
                await to.send_all(chunk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()


def traces(key: bytes) -> Iterator[bytes]:
    """Yield a key and the values that can be computed from it alone, as bytes and as text."""
    for one in (key, digest(key), digest(b"upsycle interest 1" + key), digest(b"upsycle content key id 1" + key)):
        yield from (one, one[:16], one.hex().encode(), urlsafe_b64encode(one).rstrip(b"="))


def secrets_of(link: GroupLink) -> list[bytes]:
    assert link.seed is not None
    keys = (link.group, link.content_key, link.seed)
    return [key_text("group", link.group).encode(), *(trace for key in keys for trace in traces(key))]


async def core(found: Rig, nursery: trio.Nursery, name: str, *seeds: str) -> tuple[NodeProcess, Line]:
    """Return a running core that others reach over a tapped line."""
    line = Line(free_port())
    url = await nursery.start(line.serve)
    discovery: dict[str, object] = {"sampling": True, "period_s": 0.5, "seeds": seeds}
    services = {"discovery": NewHomeService(discovery), "pubsub": NewHomeService({"mode": "overlay", "period_s": 0.5})}
    home = Home(found.base / name)
    home.create("core", (f"tls://127.0.0.1:{line.port}",), services)
    text = home.config_path.read_text()
    home.config_path.write_text(text.replace("[node]\n", f'[node]\nadvertise = ["{url}"]\n', 1))
    node = found.node(name, "core", QUICK, listens=False)
    await node.start()
    return node, line


async def until_neighbours(app: Node, group: bytes) -> None:
    async def are() -> bool:
        topics = json.loads(await app.ask("service", "pubsub topics", timeout_s=HANG_S))["topics"]
        return bool(topics.get(group.hex(), {}).get("neighbours"))

    await until("the meeting of both cores", are)


async def test_a_stranger_with_all_bytes_of_two_nodes_finds_no_group_key(tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with rig(tmp_path) as found, trio.open_nursery() as nursery:
            one, line = await core(found, nursery, "one")
            other, other_line = await core(found, nursery, "other", (await one.run("id", "--link")).stdout.strip())
            shared, alone = [
                parse_link((await one.run("group", "new", name, "--json")).json["link"]) for name in ("shared", "alone")
            ]
            assert (await other.run("group", "add", shared.text())).code == 0
            body = os.urandom(BODY_BYTES)
            async with connect(home=one.home) as app, connect(home=other.home) as reader:
                for name in ("shared", "alone"):
                    await app.join(name, timeout_s=HANG_S)
                messages = (await reader.join("shared", timeout_s=HANG_S)).messages()
                await until_neighbours(app, shared.group)
                for name in ("alone", "shared"):
                    await app.group(name).publish(body)
                assert (await anext(messages)).body == body
            nursery.cancel_scope.cancel()
    dumps = [*line.heard, *other_line.heard]
    assert sum(map(len, dumps)) > BODY_BYTES, "the message went over the line"
    assert dumps and all(dump.startswith(HANDSHAKE) for dump in dumps if dump)
    everything = b"\0".join(dumps)
    assert not [trace for link in (shared, alone) for trace in secrets_of(link) if trace in everything]
    assert not [node for node in (one, other) if bytes(node.address) in everything], "nor which routers these are"
