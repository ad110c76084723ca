"""A link through the web side of a real node: an app comes over a WebSocket, which is handed over to the router."""

from __future__ import annotations

import asyncio
import json
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner
from rigs.patience import HANG_S
from rigs.ports import free_port
from rigs.serving import serving
from rigs.web_certificates import web_certificate
from rigs.web_sides import body_of, request, status_of
from websockets.asyncio.client import connect as websocket
from websockets.exceptions import ConnectionClosed

from router.cli import main
from router.client.node import Node, connect
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import new_group
from router.settings import keyring
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home

GROUP, APP = SigningKey(b"g" * 32), SigningKey(b"a" * 32)


def made(path: Path, listen: str, run: str = "inside") -> Home:
    home = Home(path / "home")
    home.create()
    home.config_path.write_text(
        f'[node]\nlisten = []\n[[node.services]]\nname = "web"\nmodule = "services.web"\nrun = "{run}"\n'
        f'[services.web]\noperator = ""\nlisten = "{listen}"\n'
    )
    edit_peers(home.config_path, AddPeer(Peer(address=APP.public, grant=("join", "store", "relay", "why"))))
    return home


async def heard_by(node: Node) -> bytes:
    async for message in node.group(GROUP):
        return message.body
    raise AssertionError("nothing came")


async def answer_at(port: int, data: bytes, *, ends: bool = False) -> bytes:
    """Return what is answered until the connection is closed. `ends`: the client says at once that it says no more."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(data)
        if ends:
            await stream.send_eof()
        return b"".join([bytes(one) async for one in stream])


async def until_open(port: int) -> None:
    """Wait for the door of a service that starts in a process of its own."""
    while True:
        try:
            await answer_at(port, request("/", "Connection: close"))
        except OSError:
            await trio.sleep(0.02)
        else:
            return


@pytest.mark.parametrize("run", ["inside", "apart"])
async def test_web_side_answers_a_page_and_carries_the_link_of_an_app(run: str, tmp_path: Path) -> None:
    port = free_port()
    home = made(tmp_path, f"tcp://127.0.0.1:{port}", run)
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), connect(home=home) as here:
            await until_open(port)
            page = await answer_at(port, request("/", "Connection: close"))
            assert status_of(page) == 200 and b"<h1>" in body_of(page)
            url = f"ws://127.0.0.1:{port}/link"
            router = keyring.load_or_create(home, keyring.NODE).public
            async with connect(url=url, key=APP, expect=router, home=tmp_path) as far:
                for node in (here, far):
                    await node.join(GROUP, timeout_s=HANG_S)
                await here.group(GROUP).publish(b"from the node", raw=True)
                assert await heard_by(far) == b"from the node"
                big = bytes(range(256)) * 1000
                id = await far.group(GROUP).publish(big, raw=True)
                assert await heard_by(here) == big

                rows = json.loads(await here.ask("peers", timeout_s=HANG_S))
                (row,) = [one for one in rows if one["address"] == APP.public.hex()]
                assert row["standing"] != "local" and "127.0.0.1" in row["where"]
                told = json.loads(await far.ask("why", f"{id.hex()} 0", timeout_s=HANG_S))
                assert told["why"]["message"] == id.hex() and not told["why"]["problem"]
                assert sum(count for _, _, count, _, _ in told["why"]["outcomes"]) == 1


async def test_link_goes_through_a_door_over_tls(tmp_path: Path) -> None:
    port, shown = free_port(), web_certificate(tmp_path, "127.0.0.1")
    home = made(tmp_path, f"tcp://127.0.0.1:{port}{shown.options}")
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), connect(home=home) as here:
            plain = await answer_at(port, request("/"))
            assert b"\r\nX-Reason: https-here\r\n" in plain and b"<html" not in plain, "who speaks no TLS is told so"
            url = f"wss://127.0.0.1:{port}/link{shown.pin}"
            async with connect(url=url, key=APP, home=tmp_path) as far:
                await here.join(GROUP, timeout_s=HANG_S)
                big = bytes(range(256)) * 4000
                await far.group(GROUP).publish(big, raw=True)
                assert await heard_by(here) == big


@pytest.mark.parametrize("secured", [False, True])
async def test_link_speaks_with_clients_of_the_library_websockets(secured: bool, tmp_path: Path) -> None:
    """They are no router: they hear the router's hello, their pings are answered, and nonsense ends them alone."""
    port, shown = free_port(), web_certificate(tmp_path, "127.0.0.1")
    home = made(tmp_path, f"tcp://127.0.0.1:{port}{shown.options if secured else ''}")
    more: dict[str, Any] = {"subprotocols": ["upsycle.1"], "compression": "deflate", "open_timeout": HANG_S}
    if secured:
        more["ssl"] = ssl.create_default_context(cafile=str(shown.chain))

    async def say(nonsense: bytes | str) -> int | None:
        async with websocket(f"{'wss' if secured else 'ws'}://127.0.0.1:{port}/link", **more) as peer:
            assert peer.subprotocol == "upsycle.1"
            await asyncio.wait_for(await peer.ping(b"here"), HANG_S)
            assert isinstance(await asyncio.wait_for(peer.recv(), HANG_S), bytes), "the router's hello"
            with pytest.raises(ConnectionClosed):
                await peer.send(nonsense)
                while True:
                    await asyncio.wait_for(peer.recv(), HANG_S)
        return peer.close_code

    def talk(nonsense: bytes | str) -> int | None:
        return asyncio.run(say(nonsense))

    with trio.fail_after(HANG_S):
        async with serving(home.path, {}):
            assert await trio.to_thread.run_sync(talk, "a text") == 1003
            assert await trio.to_thread.run_sync(talk, bytes(100_000)) is not None
            assert await trio.to_thread.run_sync(talk, "again") == 1003, "others are served"


async def test_script_publishes_reads_and_hears_how_far_its_message_came(tmp_path: Path) -> None:
    port = free_port()
    home = made(tmp_path, f"tcp://127.0.0.1:{port}")
    keyring.add_group(home, "friends", new_group(b"s" * 32, b"c" * 32))

    def token(*arguments: str) -> str:
        found = CliRunner().invoke(main, ["--home", str(home.path), "web", "token", *arguments, "--json"])
        assert not found.exit_code, found.output
        return str(json.loads(found.output)["token"])

    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), connect(home=home) as here:
            group = await here.join("friends", timeout_s=HANG_S)
            rights = ("--publish", "friends", "--read", "friends", "--expires", "1d")
            text = await trio.to_thread.run_sync(partial(token, "script", *rights))
            bearer = f"Authorization: Bearer {text}", "Connection: close"
            post = request("/groups/friends", *bearer, "Idempotency-Key: 1", method="POST", body=b"disk full")
            made_once = json.loads(body_of(await answer_at(port, post, ends=True)))
            assert json.loads(body_of(await answer_at(port, post))) == made_once
            async for message in group:
                assert (message.body, message.id.hex()) == (b"disk full", made_once["id"])
                await message.settle()
                break
            await group.publish(b"it is empty again")
            poll = request("/groups/friends?poll&since=10m", *bearer)
            while b"it is empty again" not in (got := body_of(await answer_at(port, poll))):
                await trio.sleep(0.02)
            first, second = (json.loads(line) for line in got.splitlines() if b'"message"' in line)
            assert (first["text"], first["token"]) == ("disk full", "script") and second["sender"]
            asked = request(f"/messages/{made_once['id']}?wait=20", *bearer)
            told = json.loads(body_of(await answer_at(port, asked)))
            assert (told["recipients"], told["waiting"], told["reached"]) == (1, 0, 1), told
            assert status_of(await answer_at(port, request(f"/messages/{'0' * 64}", *bearer))) == 404
            why = json.loads(await here.ask("why", made_once["id"], timeout_s=HANG_S))
            assert [one["fields"] for one in why["noted"]] == [{"service": "web", "token": "script"}]
            await trio.to_thread.run_sync(partial(ended, home))
            assert status_of(await answer_at(port, poll)) == 401


def ended(home: Home) -> None:
    found = CliRunner().invoke(main, ["--home", str(home.path), "web", "token", "script", "--end"])
    assert found.output == 'The token "script" is ended.\n'
    listed = CliRunner().invoke(main, ["--home", str(home.path), "web", "tokens"])
    assert "no tokens" in listed.output
