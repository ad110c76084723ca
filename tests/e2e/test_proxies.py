"""The web side behind the proxies of docs/monitoring, as they stand there: with the path left out, and with it."""

from __future__ import annotations

import json
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from rigs.patience import HANG_S
from rigs.ports import free_port
from rigs.serving import serving
from rigs.web_certificates import WebCertificate, web_certificate
from rigs.web_sides import body_of, request, status_of

from router.cli import main
from router.client.node import Node, connect
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import new_group
from router.rig.process import Process, RigFailed, until
from router.settings import keyring
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home

DOCS = Path(__file__).parents[2] / "docs/monitoring"
GROUP, APP = SigningKey(b"g" * 32), SigningKey(b"a" * 32)


def caddy(folder: Path, port: int, behind: int, shown: WebCertificate, *, strips: bool) -> list[str]:
    """Return the command of a Caddy with the example's configuration, at other addresses and with this certificate."""
    text = (DOCS / "Caddyfile").read_text().replace("127.0.0.1:4180", f"127.0.0.1:{behind}")
    own = f"https://127.0.0.1:{port} {{\n\ttls {shown.chain} {shown.secret}"
    text = text.replace("hub.example {", own).replace(
        "handle_path /node", "handle_path /node" if strips else "handle /node"
    )
    place = folder / "Caddyfile"
    place.write_text(f"{{\n\tadmin off\n\tauto_https off\n}}\n{text}")
    return [
        "env",
        f"HOME={folder}",
        f"XDG_DATA_HOME={folder}",
        "caddy",
        "run",
        "--adapter",
        "caddyfile",
        "--config",
        str(place),
    ]


def nginx(folder: Path, port: int, behind: int, shown: WebCertificate, *, strips: bool) -> list[str]:
    """Return the command of an nginx with the example's configuration, as `caddy`."""
    text = (DOCS / "nginx.conf").read_text()
    text = text.replace("proxy_pass http://127.0.0.1:4180/;", f"proxy_pass http://127.0.0.1:{behind}{'/' * strips};")
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl").replace("hub.example;", "127.0.0.1;")
    text = text.replace("/etc/ssl/hub.example/chain.pem", str(shown.chain))
    text = text.replace("/etc/ssl/hub.example/key.pem", str(shown.secret))
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = text.replace("http {", f"http {{\naccess_log off;\n{paths}", 1)
    place = folder / "nginx.conf"
    place.write_text(f"daemon off;\npid {folder}/pid;\n{text}")
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(place)]


PROXIES = {"caddy": caddy, "nginx": nginx}


def made(folder: Path, port: int, behind: int) -> Home:
    home = Home(folder / "home")
    home.create()
    home.config_path.write_text(
        '[node]\nlisten = []\n[[node.services]]\nname = "web"\nmodule = "services.web"\nrun = "inside"\n'
        f'[services.web]\nlisten = "tcp://127.0.0.1:{behind}"\noperator = ""\n'
        f'url = "https://127.0.0.1:{port}/node/"\nproxies = ["127.0.0.1"]\n'
    )
    edit_peers(home.config_path, AddPeer(Peer(address=APP.public, grant=("join", "store", "relay"))))
    keyring.add_group(home, "friends", new_group(b"s" * 32, b"c" * 32))
    return home


def token(home: Home) -> str:
    arguments = [
        "--home",
        str(home.path),
        "web",
        "token",
        "script",
        "--publish",
        "friends",
        "--read",
        "friends",
        "--json",
    ]
    found = CliRunner().invoke(main, arguments)
    assert not found.exit_code, found.output
    return str(json.loads(found.output)["token"])


class Site:
    """What a client asks of the proxy."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._trust = ssl.create_default_context()
        self._trust.check_hostname, self._trust.verify_mode = False, ssl.CERT_NONE

    @asynccontextmanager
    async def asked(
        self, path: str, *headers: str, body: bytes | None = None
    ) -> AsyncIterator[trio.SSLStream[trio.SocketStream]]:
        """Yield the stream on which the answer to a request comes."""
        tcp = await trio.open_tcp_stream("127.0.0.1", self._port)
        stream = trio.SSLStream(tcp, self._trust, https_compatible=True)
        data = request(
            path, *headers, host=f"127.0.0.1:{self._port}", method="GET" if body is None else "POST", body=body
        )
        await stream.send_all(data)
        try:
            yield stream
        finally:
            await trio.aclose_forcefully(stream)

    async def answer(self, path: str, *headers: str, body: bytes | None = None) -> bytes:
        async with self.asked(path, "Connection: close", *headers, body=body) as stream:
            return b"".join([bytes(one) async for one in stream])


async def is_up(proxy: Process, site: Site) -> bool:
    if not proxy.is_running:
        raise RigFailed(f"{proxy.name} ended: {proxy.said()}")
    try:
        return status_of(await site.answer("/node/")) == 200
    except (OSError, trio.BrokenResourceError):
        return False


async def until_said(stream: trio.SSLStream[trio.SocketStream], *words: bytes) -> None:
    got = b""
    while not all(one in got for one in words):
        data = await stream.receive_some()
        assert data, got
        got += data


async def heard_by(node: Node) -> bytes:
    async for message in node.group(GROUP):
        return message.body
    raise AssertionError("nothing came")


@pytest.mark.parametrize("strips", [True, False], ids=["path left out", "path left"])
@pytest.mark.parametrize("name", PROXIES)
async def test_page_script_events_and_link_go_through_a_proxy(name: str, strips: bool, tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} here")
    port, behind = free_port(), free_port()
    shown, home, site = web_certificate(tmp_path, "127.0.0.1"), made(tmp_path, port, behind), Site(port)
    proxy = Process(name, PROXIES[name](tmp_path, port, behind, shown, strips=strips), tmp_path / "said")
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), connect(home=home) as here:
            await proxy.launch()
            try:
                await until(f"{name} answers", partial(is_up, proxy, site))
                await check_pages(site)
                await check_scripts(site, home, here)
                await check_link(port, shown, tmp_path, here)
            finally:
                await proxy.stop()


async def check_pages(site: Site) -> None:
    page = await site.answer("/node/")
    assert b"<h1>" in body_of(page) and b'"/' not in body_of(page), "all links are relative"
    assert status_of(await site.answer("/node/style.css")) == 200
    moved = await site.answer("/node")
    assert status_of(moved) == 308 and b"/node/" in moved
    told = await site.answer("/node/link")
    assert status_of(told) == 426, "a plain GET says why there is no link"
    assert status_of(await site.answer("/node/", "Origin: https://evil.example", body=b"")) == 403


async def check_scripts(site: Site, home: Home, here: Node) -> None:
    """A message goes in by HTTP, and events come one by one while the answer has no end."""
    group = await here.join("friends", timeout_s=HANG_S)
    bearer = f"Authorization: Bearer {await trio.to_thread.run_sync(partial(token, home))}"
    async with site.asked("/node/groups/friends?since=10m", bearer, "Accept: text/event-stream") as events:
        await until_said(events, b"200", b"text/event-stream")
        posted = await site.answer("/node/groups/friends", bearer, body=b"disk full")
        assert status_of(posted) == 201
        await until_said(events, b"disk full")
        await group.publish(b"it is empty again")
        await until_said(events, b"it is empty again")


async def check_link(port: int, shown: WebCertificate, folder: Path, here: Node) -> None:
    url = f"wss://127.0.0.1:{port}/node/link{shown.pin}"
    async with connect(url=url, key=APP, expect=await here.until_up(), home=folder) as far:
        for node in (here, far):
            await node.join(GROUP, timeout_s=HANG_S)
        await here.group(GROUP).publish(b"from the node", raw=True)
        assert await heard_by(far) == b"from the node"
        big = bytes(range(256)) * 4000
        await far.group(GROUP).publish(big, raw=True)
        assert await heard_by(here) == big
