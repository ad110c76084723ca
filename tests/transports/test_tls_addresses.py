"""The addresses and ports where TLS listens and dials, and the sentences when that fails."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from trio.abc import HostnameResolver
from two_ends import CLIENT, SERVER, echo, listening, says

from router.core.wire.reasons import Reason
from router.transport.contract import ConnectFailed, InvalidUrl, ListenFailed, check, dial, resolve, tcp_address
from transports.tls import listen


async def test_addresses_are_resolved_and_ports_chosen() -> None:
    async with listening("tls://localhost:0", handler=echo) as this:
        assert tcp_address(this.url)[0] == "localhost" and tcp_address(this.url)[1] > 0
        assert await says(await this.connect(), b"x") == b"x"


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
async def test_ipv6() -> None:
    try:
        async with listening("tls://[::1]:0", handler=echo) as this:
            stream = await this.connect()
            assert stream.where == f"tls [::1]:{tcp_address(this.url)[1]}"
            assert await says(stream, b"six") == b"six"
    except* ListenFailed:
        pytest.skip("no IPv6 here")


async def test_every_interface() -> None:
    async with listening("tls://:0", handler=echo) as this:
        port = tcp_address(this.url)[1]
        stream = await dial(f"tls://127.0.0.1:{port}", CLIENT, SERVER.public, timeout_s=HANG_S)
        assert await says(stream, b"x") == b"x"
        await stream.aclose()


async def test_a_port_in_use_is_named() -> None:
    async with listening("tls://127.0.0.1:0") as this:
        with pytest.raises(ListenFailed) as caught:
            await listen(this.url, SERVER, echo)
        where = f"127.0.0.1:{tcp_address(this.url)[1]}"
        advice = "another program uses this port; stop it, or choose another port"
        assert caught.value.text == f"cannot listen on {where}: {advice}"


@pytest.mark.parametrize("url", ["tls://192.0.2.1:0", "tls://no-such-host.invalid:0"])
async def test_an_address_of_another_machine_cannot_be_listened_on(url: str) -> None:
    with pytest.raises(ListenFailed, match="name an address of this machine"):
        await listen(url, SERVER, echo)


async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(ConnectFailed) as caught:
            await dial(f"tls://127.0.0.1:{port}", CLIENT, None, timeout_s=HANG_S)
    expected = f"127.0.0.1:{port} cannot be reached: connection refused; is the node running and its port open?"
    assert caught.value.text == expected


@pytest.mark.parametrize("url", ["tls://[fe80::1]:4101", "tls://[febf::a:1]:4101"])
async def test_a_link_local_address_without_its_interface_is_named_with_the_remedy(url: str) -> None:
    host = url[7 : url.index("]")]
    said = (
        f"{host} in {url!r} is link-local, so it may be in any network of this machine; "
        f"add the interface, as in tls://[{host}%eth0]:4101, for this machine alone"
    )
    with pytest.raises(ConnectFailed) as dialled:
        await dial(url, CLIENT, None, timeout_s=HANG_S)
    with pytest.raises(ListenFailed) as listened:
        await listen(url, SERVER, echo)
    with pytest.raises(InvalidUrl) as configured:
        check(url)
    assert dialled.value.text == listened.value.text == str(configured.value) == said


async def test_an_interface_that_this_machine_lacks_is_named() -> None:
    with pytest.raises(ConnectFailed) as caught:
        await dial("tls://[fe80::1%nope0]:4101", CLIENT, None, timeout_s=HANG_S)
    assert "; has this machine an interface nope0? `ip link` lists them" in caught.value.text


async def test_nobody_answers() -> None:
    [silent] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with silent:
        port = silent.socket.getsockname()[1]
        with pytest.raises(ConnectFailed) as caught:
            await dial(f"tls://127.0.0.1:{port}", CLIENT, None, timeout_s=0.1)
    assert caught.value.reason is Reason.CONNECT_TIMEOUT
    assert "did not answer within 0.1 s" in caught.value.text


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as probe:
        lowest = probe.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_file_descriptors_the_listener_waits_and_goes_on() -> None:
    async with listening("tls://127.0.0.1:0", handler=echo) as this:
        with socket.socket() as client:
            client.setblocking(False)
            with no_more_files():
                with pytest.raises(BlockingIOError):
                    client.connect(tcp_address(this.url))
                assert "cannot accept: too many open files" in await this.refusal()
        assert await says(await this.connect(), b"fine") == b"fine"


class Names(HostnameResolver):
    """Knows one name, with addresses of both families."""

    async def getaddrinfo(self, host: Any, port: Any, *_: Any) -> Any:
        if host != b"router.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        tcp = socket.SOCK_STREAM, socket.IPPROTO_TCP, ""
        sixes = [(socket.AF_INET6, *tcp, (f"2001:db8::{n}", port, 0, 0)) for n in (1, 2, 3)]
        return [*sixes, (socket.AF_INET, *tcp, ("192.0.2.1", port)), sixes[0]]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "no address has a name here")


async def test_name_is_resolved_to_its_addresses_of_both_families_by_turns() -> None:
    trio.socket.set_custom_hostname_resolver(Names())
    found = await resolve("tls://router.example:4101", timeout_s=HANG_S)
    assert found == [
        "tls://[2001:db8::1]:4101",
        "tls://192.0.2.1:4101",
        "tls://[2001:db8::2]:4101",
        "tls://[2001:db8::3]:4101",
    ]
    with pytest.raises(ConnectFailed, match=r"nobody\.example:1 cannot be reached: name or service not known; is the"):
        await resolve("tls://nobody.example:1", timeout_s=HANG_S)
    with pytest.raises(ConnectFailed, match="lacks host or port"):
        await resolve("tls://nobody.example", timeout_s=HANG_S)


@pytest.mark.parametrize("url", ["tls://192.0.2.1:4101", "tls://[2001:db8::1]:4101", "memory://there", "unix:///s"])
async def test_url_of_one_address_is_resolved_to_itself(url: str) -> None:
    assert list(await resolve(url, timeout_s=HANG_S)) == [url]
