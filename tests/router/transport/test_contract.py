"""URLs of transports, and the file of a scheme."""

from __future__ import annotations

from pathlib import Path

import pytest
from rigs.patience import HANG_S
from rigs.web_certificates import web_certificate

from router.core.wire.crypto import SigningKey
from router.transport.contract import (
    ConnectFailed,
    InvalidUrl,
    dial,
    load,
    place_of,
    scheme_of,
    seen_here,
    tcp_address,
    told_as,
)
from transports.memory import memory_name
from transports.unix import unix_path


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("tls://127.0.0.1:4101", "127.0.0.1", 4101),
        ("tls://localhost:0", "localhost", 0),
        ("tls://[::1]:4101", "::1", 4101),
        ("tls://[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        ("tls://[::ffff:192.0.2.1]:65535", "::ffff:192.0.2.1", 65535),
        ("tls://:4101", "", 4101),
        ("tls://node.example:4101", "node.example", 4101),
        ("tls://my_host:4101", "my_host", 4101),
        ("tls://münchen.example:4101", "münchen.example", 4101),
    ],
)
def test_host_and_port(url: str, host: str, port: int) -> None:
    assert tcp_address(url) == (host, port)


@pytest.mark.parametrize(
    ("url", "place", "here", "told"),
    [
        ("tls://0.0.0.0:4101", ("0.0.0.0", 4101), "tls://127.0.0.1:4101", "tls://0.0.0.0:4101"),
        ("tls://[::]:4101", ("::", 4101), "tls://[::1]:4101", "tls://[::]:4101"),
        ("ws://127.0.0.1", ("127.0.0.1", 80), "ws://127.0.0.1:80/link", "ws://127.0.0.1:80/link"),
        ("ws://:1/x?plain=yes", ("", 1), "ws://127.0.0.1:1/x?plain=yes", "ws://:1/x?plain=yes"),
        ("wss://hub.example/x?pin=" + "0" * 64, ("hub.example", 443), "", "wss://hub.example:443/x"),
    ],
)
def test_what_a_listener_s_url_means_here_and_to_others(url: str, place: tuple[str, int], here: str, told: str) -> None:
    assert place_of(url) == place
    assert not here or seen_here(url) == here
    assert told_as(url) == told_as(told) == told


def test_a_wss_listener_is_dialled_here_by_its_own_certificate(tmp_path: Path) -> None:
    made = web_certificate(tmp_path, "hub.example")
    url = f"wss://0.0.0.0:4443/x{made.options}"
    assert told_as(url) == "wss://0.0.0.0:4443/x"
    assert seen_here(url) == f"wss://127.0.0.1:4443/x{made.pin}"
    made.chain.unlink()
    with pytest.raises(InvalidUrl, match="holds no certificate in PEM"):
        seen_here(url)


@pytest.mark.parametrize(
    "url",
    [
        "tls://",
        "tls://host",
        "tls://host:",
        "tls://host:port",
        "tls://host:65536",
        "tls://host:999999",
        "tls://host:-1",
        "tls://::1:4101",
        "tls://[::1]",
        "tls://[::1",
        "tls://user@host:1",
        "tls://host:1/",
        "tls://ho st:1",
        "tls://host:１",
        "unix://host:1",
        "tls://999.1.1.1:4101",
        "tls://127.1:4101",
        "tls://-x:4101",
        "tls://a..b:4101",
        f"tls://{'x' * 64}:4101",
        "tls://[12]:4101",
        "tls://[1.2.3.4]:4101",
        "tls://[::g]:4101",
        "tls://[1:2]:4101",
    ],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        tcp_address(url)
    assert url in str(caught.value)


def test_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert unix_path("unix:///run/router/s") == Path("/run/router/s")
    assert unix_path("unix://s") == Path.cwd() / "s"
    assert unix_path("unix://dir/s") == Path.cwd() / "dir" / "s"
    assert unix_path("unix://~/s") == Path("/home/somebody/s")


@pytest.mark.parametrize("url", ["unix://", "unix://dir/", "unix://a\0b", "unix://~no-such-user-here/s", "tls://x"])
def test_what_is_no_path(url: str) -> None:
    with pytest.raises(InvalidUrl):
        unix_path(url)


def test_names() -> None:
    assert memory_name("memory://a name") == "a name"
    for url in ("memory://", "memory:/x", "x"):
        with pytest.raises(InvalidUrl):
            memory_name(url)


def test_a_transport_is_found_by_its_scheme() -> None:
    assert scheme_of("memory://x") == "memory"
    assert hasattr(load("memory"), "dial") and hasattr(load("memory"), "listen")


@pytest.mark.parametrize("url", ["x", "://x", "TLS://x", "../os://x", "os.path://x", "tls:x", ""])
def test_what_is_no_scheme(url: str) -> None:
    with pytest.raises(InvalidUrl, match="write for example"):
        scheme_of(url)


@pytest.mark.parametrize("scheme", ["http", "os", "two_ends", "__init__", ""])
def test_an_unknown_scheme_is_told_the_known_ones(scheme: str) -> None:
    with pytest.raises(InvalidUrl, match=f"no transport for {scheme}://; known are tls, unix"):
        load(scheme)


async def test_dialling_an_unknown_scheme_fails_as_any_dial_does() -> None:
    with pytest.raises(ConnectFailed, match="no transport for gopher://"):
        await dial("gopher://x", SigningKey(bytes(32)), None, timeout_s=HANG_S)
