"""The pool of a node over HTTP, on real processes: posted and watched by programs that know nothing but HTTP."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.pool_over_http import as_posted
from rigs.ports import free_port
from rigs.serving import serving
from rigs.web_sides import body_of, request, status_of
from samples.capd import posted

from router.rig.process import until
from router.settings.home import Home
from services.capd.core.message import CapdMessage

CONFIG = """
[node]
listen = []
services_public = []
[[node.services]]
name = "capd"
module = "services.capd"
run = "{run}"
[[node.services]]
name = "web"
module = "services.web"
run = "{run}"
[services.capd]
solve_cpu_percent = 50
[services.web]
operator = ""
listen = "tcp://127.0.0.1:{port}"
"""


def made(path: Path, port: int, run: str) -> Home:
    home = Home(path / "home")
    home.create()
    home.config_path.write_text(CONFIG.format(run=run, port=port))
    return home


async def ask(port: int, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request(path, "Connection: close", method=method, body=data))
        whole = b"".join([bytes(one) async for one in stream])
    return status_of(whole), json.loads(body_of(whole))


async def dialled(port: int) -> trio.SocketStream:
    """Return a connection to the door, which a service apart opens after the node is ready."""
    found = list[trio.SocketStream]()

    async def is_open() -> bool:
        try:
            found.append(await trio.open_tcp_stream("127.0.0.1", port))
        except OSError:
            return False
        return True

    await until("the opening of the door", is_open)
    return found[0]


async def told(stream: trio.SocketStream, wanted: str) -> dict[str, Any]:
    """Return the first event of this name that comes as a JSON line."""
    heard = b""
    while True:
        heard += await stream.receive_some()
        for line in heard.split(b"\r\n"):
            if line.startswith(b"{") and json.loads(line)["event"] == wanted:
                found: dict[str, Any] = json.loads(line)
                return found


def fresh(data: bytes) -> CapdMessage:
    return posted(data, 2.5, int(time.time()) - 5)


@pytest.mark.parametrize("run", ["inside", "apart"])
async def test_pool_of_a_node_is_used_over_http(tmp_path: Path, run: str) -> None:
    port = free_port()
    home = made(tmp_path, port, run)
    offer, other = fresh(b"TKD\x0coffer"), fresh(b"XCH\x01other")
    shown = offer.own_id()[::-1].hex()
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), await dialled(port) as watcher:
            await watcher.send_all(request("/capd/watch?prefix=544b44"))
            await told(watcher, "begin")
            for message in (other, offer):
                status, said = await ask(port, "/capd/messages", "POST", as_posted(message))
                assert (status, said["held"]) == (201, False), said
            assert (await told(watcher, "message"))["hash"] == shown
            assert (await ask(port, f"/capd/messages/{shown}"))[1]["data"] == offer.data.hex()
            status, said = await ask(port, "/capd/messages", "POST", {"data": b"TKD\x0csolved here".hex()})
            assert status == 201, said
            found = (await ask(port, "/capd/messages?prefix=544b44"))[1]
            assert [one["hash"] for one in found["messages"]] == [said["hash"], shown]
