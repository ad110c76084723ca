"""The doors of the web side on real sockets: hostile packets, a crowd, readers that never read, and what monitors."""

from __future__ import annotations

import base64
import json
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.ports import free_port
from rigs.serving import serving
from rigs.web_certificates import web_certificate
from rigs.web_sides import body_of, request, status_of

from router.client.node import connect
from router.core.wire.crypto import SigningKey
from router.settings.config import edit_peers
from router.settings.config_peers import AddPeer, Peer
from router.settings.home import Home

NONCE = base64.b64encode(bytes(16)).decode()
UPGRADE = request(
    "/link", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {NONCE}",
    "Sec-WebSocket-Protocol: upsycle.1",
)  # fmt: skip
CROWD, PREFIXES = 1_000, 20


def made(path: Path, ports: tuple[int, int], options: str = "") -> Home:
    home = Home(path / "home")
    home.create()
    home.config_path.write_text(
        '[node]\nlisten = []\n[[node.services]]\nname = "web"\nmodule = "services.web"\nrun = "inside"\n'
        f'[services.web]\nlisten = "tcp://127.0.0.1:{ports[0]}"\noperator = "tcp://127.0.0.1:{ports[1]}{options}"\n'
    )
    return home


def masked(first: int, data: bytes, *, is_masked: bool = True) -> bytes:
    """Return a frame of a client, with a mask of zeros."""
    return bytes((first, (0x80 if is_masked else 0) | len(data))) + (bytes(4) if is_masked else b"") + data


FRAMES = {
    "data with the upgrade": masked(0x82, b"a"),
    "close, then data": masked(0x88, b"") + masked(0x82, b"b"),
    "a request behind": request(),
    "unmasked": masked(0x82, b"abc", is_masked=False),
    "reserved bit": masked(0xC2, b"abc"),
    "opcode 3": masked(0x83, b"abc"),
    "text": masked(0x81, b"abc"),
    "8 EiB": b"\x82\xff" + b"\x7f" * 8 + b"mask" + b"x" * 100,
    "ping flood": masked(0x89, b"x" * 100) * 2000,
    "long close": masked(0x88, b"\x03\xe8" + b"r" * 100),
    "close in no UTF-8": masked(0x88, b"\x03\xe8\xff\xfe"),
    "continuation first": masked(0x80, b"abc"),
    "half a close": masked(0x88, b"\x03\xe8")[:5],
    "an endless frame": b"\x82\xff" + (1 << 62).to_bytes(8, "big") + b"mask" + bytes(1 << 20),
}


@contextmanager
def descriptors(most: int) -> Iterator[None]:
    """Let this process have so many file descriptors meanwhile, if it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < most and (hard < 0 or hard >= most):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def page(port: int, data: bytes | None = None) -> bytes:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request("/", "Connection: close") if data is None else data)
        return b"".join([bytes(one) async for one in stream])


async def test_hostile_frames_end_their_own_link_alone(tmp_path: Path) -> None:
    port = free_port()
    home = made(tmp_path, (port, free_port()))
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}):
            for name, data in FRAMES.items():
                for parts in ([UPGRADE + data], [UPGRADE, *(data[at : at + 1] for at in range(min(len(data), 300)))]):
                    async with await trio.open_tcp_stream("127.0.0.1", port) as guest:
                        try:
                            for one in parts:
                                await guest.send_all(one)
                            assert (await guest.receive_some(12)).startswith(b"HTTP/1.1 101"), name
                            if name == "half a close":
                                await guest.send_eof()
                                while await guest.receive_some(100):
                                    pass
                        except trio.BrokenResourceError:
                            pass  # it was ended while it still spoke
                    assert status_of(await page(port)) == 200, name


async def test_crowd_of_idle_connections_shuts_nobody_out(tmp_path: Path) -> None:
    port = free_port()
    home = made(tmp_path, (port, free_port()))
    with trio.fail_after(HANG_S), ExitStack() as held:
        held.enter_context(descriptors(2 * CROWD))
        async with serving(home.path, {}):
            for number in range(CROWD):
                idle = held.enter_context(socket.socket())
                idle.bind((f"127.0.{number % PREFIXES}.{1 + number // PREFIXES}", 0))
                idle.connect(("127.0.0.1", port))
                await trio.lowlevel.checkpoint()
            assert status_of(await page(port)) == 200


async def test_node_stops_though_nobody_reads_what_it_sends(tmp_path: Path) -> None:
    """The end of `serving` fails if it does not."""
    port = free_port()
    home = made(tmp_path, (port, free_port()))
    with ExitStack() as held:
        async with serving(home.path, {}):
            for data in (request() * 400, UPGRADE, b"GET /", request("/", "Content-Length: 9", method="POST")):
                stalled = held.enter_context(socket.socket())
                stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stalled.connect(("127.0.0.1", port))
                stalled.sendall(data)
            assert status_of(await page(port)) == 200


@pytest.mark.parametrize("uplink", [False, True])
async def test_operator_hears_whether_the_node_is_ready_and_how_it_is_loaded(uplink: bool, tmp_path: Path) -> None:
    port = free_port()
    home = made(tmp_path, (free_port(), port))
    if uplink:
        away = Peer(address=SigningKey(b"u" * 32).public, urls=("tls://127.0.0.1:9",), uplink=True)
        edit_peers(home.config_path, AddPeer(away))
    group = SigningKey(b"g" * 32)
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}), connect(home=home) as node, connect(home=home) as other:
            await other.join(group, timeout_s=HANG_S)
            await node.group(group).publish(b"counted", raw=True)
            ready = await page(port, request("/health/ready", "Connection: close"))
            told = json.loads(body_of(ready))
            if uplink:
                assert status_of(ready) == 503 and [one["reason"] for one in told["reasons"]] == ["no-uplink"]
            else:
                assert status_of(ready) == 200 and told == {"ready": True}
            metrics = body_of(await page(port, request("/metrics", "Connection: close"))).decode()
            assert 'router_messages_total{event="accepted",reason=""} ' in metrics
            assert 'router_links{standing="local"} ' in metrics and group.public.hex() not in metrics
            assert f"router_ready {0.0 if uplink else 1.0}" in metrics


def half_closed(port: int, context: ssl.SSLContext, data: bytes) -> bytes:
    """Return what is answered over TLS to a client that ends its sending side behind its request."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", port), timeout=HANG_S) as raw:

        def until_done(act: Callable[[], Any]) -> Any:
            while True:
                try:
                    return act()
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    if came := raw.recv(1 << 16):
                        incoming.write(came)
                    else:
                        incoming.write_eof()

        until_done(tls.do_handshake)
        tls.write(data)
        with suppress(ssl.SSLWantReadError):
            tls.unwrap()
        raw.sendall(outgoing.read())
        return bytes(until_done(lambda: tls.read(1 << 16)))


async def test_client_that_ends_its_sending_side_over_tls_gets_its_answer(tmp_path: Path) -> None:
    """It waits until the router has answered the web side."""
    port, shown = free_port(), web_certificate(tmp_path, "127.0.0.1")
    home = made(tmp_path, (free_port(), port), shown.options)
    context = ssl.create_default_context(cafile=str(shown.chain))
    with trio.fail_after(HANG_S):
        async with serving(home.path, {}):
            answer = await trio.to_thread.run_sync(half_closed, port, context, request("/health/ready"))
            assert status_of(answer) == 200
