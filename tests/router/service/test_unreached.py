"""What a command says of a program that it has dialled in vain."""

from __future__ import annotations

import socket

import pytest
import trio

from router.service.unreached import why_unreached


async def test_a_port_without_a_listener_is_told_with_the_cause_and_the_remedy() -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        port = unheard.getsockname()[1]
        with pytest.raises(OSError) as raised:
            await trio.open_tcp_stream("localhost", port)
    said = why_unreached(raised.value, f"localhost:{port}", "start it")
    assert said == f"nobody listens at localhost:{port}: connection refused; start it"


async def test_a_host_without_an_address_is_told_as_that() -> None:
    with pytest.raises(OSError) as raised:
        await trio.open_tcp_stream("nobody.invalid", 1)
    said = why_unreached(raised.value, "nobody.invalid:1", "start it")
    assert said.startswith("no address is known for nobody.invalid (") and "correct the name" in said
