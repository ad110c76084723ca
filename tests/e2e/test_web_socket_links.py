"""Links over WebSockets between real nodes and apps: a core, an edge whose uplink it is, and an app elsewhere."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import trio
from click.testing import CliRunner
from rigs.patience import HANG_S
from rigs.serving import serving
from rigs.web_certificates import web_certificate

from router.cli import main
from router.cli.exits import Exit
from router.client.node import Node, connect
from router.core.wire.address import addresses_of_node
from router.core.wire.crypto import SigningKey
from router.core.wire.upgrade import UpgradeAsker
from router.doctor import network_probe
from router.rig.process import until
from router.settings import keyring
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home
from router.transport.contract import place_of

QUICK = {"link.dial_backoff_s_min": 0.05, "link.dial_backoff_s_max": 0.2}
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
                serving(edge.path, QUICK),
                connect(home=edge) as here,
                connect(url=plain, key=APP, expect=keys[core], home=tmp_path) as far,
            ):
                for node in (here, far):
                    await node.join(GROUP, timeout_s=HANG_S)
                await here.group(GROUP).publish(b"from the edge", raw=True)
                assert await heard_by(far) == b"from the edge"
                await far.group(GROUP).publish(b"from the app", raw=True)
                assert await heard_by(here) == b"from the app"


async def test_idle_web_sockets_of_many_prefixes_shut_nobody_out(tmp_path: Path) -> None:
    """They wait for a hello that never comes, as sixty times more would at the default limits."""
    home = Home(tmp_path / "core")
    home.create()
    key = keyring.load_or_create(home, keyring.NODE).public
    edit_peers(home.config_path, AddPeer(Peer(address=APP.public, grant=("join",))))
    limits = {"limits.connections_max": 16, "limits.handshakes_per_s_per_prefix": 0, "limits.handshakes_per_s": 0}
    asked = UpgradeAsker("127.0.0.1", "/link", bytes(16)).request
    idle: list[trio.SocketStream] = []
    with trio.fail_after(HANG_S):
        async with serving(home.path, {"node.listen": ["ws://127.0.0.1:0"], "limits.hello_s": 600.0, **limits}):
            [url] = await listeners(home)
            for number in range(60):
                own = f"127.0.{number % 20}.1"
                stream = await trio.open_tcp_stream(*place_of(url), local_address=own)
                await stream.send_all(asked)
                await stream.receive_some(100)
                idle.append(stream)
            async with connect(url=url, key=APP, expect=key, home=tmp_path) as app:
                await app.join(GROUP, timeout_s=HANG_S)
            for stream in idle:
                await stream.aclose()


async def said(home: Home, *command: str) -> str:
    """Return what a command prints."""
    run = partial(CliRunner().invoke, main, ["--home", str(home.path), *command])
    result = await trio.to_thread.run_sync(run)
    assert result.exit_code in (0, Exit.TIMED_OUT), result.output
    return result.stdout


async def test_an_invitation_names_a_web_socket_and_lets_a_guest_in_there(tmp_path: Path) -> None:
    shown = web_certificate(tmp_path, "127.0.0.1")
    at = f"wss://127.0.0.1:0{shown.options}"
    core, edge = Home(tmp_path / "core"), Home(tmp_path / "edge")

    async def is_in() -> bool:
        [peer] = json.loads(await said(edge, "peers", "--json"))
        assert peer["urls"] == [f"{url}{shown.pin}"]
        return peer["state"] == "connected" and "friends" in keyring.groups(edge)

    with trio.fail_after(HANG_S):
        async with serving(core.path, {"node.listen": [at], "node.role": "core"}):
            [url] = await listeners(core)
            link = await said(core, "invite", "--group", "friends", "--at", f"{url}{shown.pin}")
            edge.create()
            await said(edge, "peer", "add", "--yes", "--timeout", "0", link.strip())
            async with serving(edge.path, QUICK):
                await until("the guest is let in", is_in)
