"""Links over WebSockets between real nodes and apps: a core, an edge whose uplink it is, and an app elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import trio
from rigs.patience import HANG_S
from rigs.serving import serving
from rigs.web_certificates import web_certificate

from router.client.node import Node, connect
from router.core.wire.address import addresses_of_node
from router.core.wire.crypto import SigningKey
from router.doctor import network_probe
from router.settings import keyring
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home

GROUP, APP = SigningKey(b"g" * 32), SigningKey(b"a" * 32)


async def listeners(home: Home) -> list[str]:
    """Return the URLs at which a node listens for others, those of WebSockets."""
    async with connect(home=home) as node:
        found = json.loads(await node.ask("status", timeout_s=HANG_S))["listeners"]
    return [url for url in found if url.startswith("ws")]


async def heard_by(node: Node) -> bytes:
    async for message in node.group(GROUP):
        return message.body
    raise AssertionError("nothing came")


async def test_router_and_app_speak_with_a_core_over_web_sockets(tmp_path: Path) -> None:
    shown = web_certificate(tmp_path, "127.0.0.1")
    core, edge = Home(tmp_path / "core"), Home(tmp_path / "edge")
    for home in (core, edge):
        home.create()
    keys = {home: keyring.load_or_create(home, keyring.NODE).public for home in (core, edge)}
    for key in (keys[edge], APP.public):
        edit_peers(core.config_path, AddPeer(Peer(address=key, grant=("join", "store", "relay"))))
    at = ["ws://127.0.0.1:0/a/b", f"wss://127.0.0.1:0{shown.options}"]
    with trio.fail_after(HANG_S):
        async with serving(core.path, {"node.listen": at, "node.role": "core"}):
            plain, secured = await listeners(core)
            assert plain.endswith("/a/b") and secured.endswith("/link") and "key=" not in secured
            assert [one.url for one in addresses_of_node((plain, secured))] == [plain, secured]
            for url in (plain, f"{secured}{shown.options}"):
                assert (await network_probe.dial(url)).why == ""
            uplink = Peer(address=keys[core], urls=(f"{secured}{shown.pin}",), uplink=True)
            edit_peers(edge.config_path, AddPeer(uplink))
            async with (
                serving(edge.path, {"link.dial_backoff_s_min": 0.05}),
                connect(home=edge) as here,
                connect(url=plain, key=APP, expect=keys[core], home=tmp_path) as far,
            ):
                for node in (here, far):
                    await node.join(GROUP, timeout_s=HANG_S)
                await here.group(GROUP).publish(b"from the edge", raw=True)
                assert await heard_by(far) == b"from the edge"
                await far.group(GROUP).publish(b"from the app", raw=True)
                assert await heard_by(here) == b"from the app"
