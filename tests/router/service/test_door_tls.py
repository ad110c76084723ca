"""A door over TLS: the rules hear what was encrypted, and from where; who speaks no TLS is ended."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from rigs.patience import HANG_S
from rigs.ports import free_port
from rigs.web_certificates import web_certificate
from trio.testing import MockClock

from router.service.contract import Came, Opened
from router.service.door_tls import _decrypt
from router.service.doors import DoorError, Doors
from router.transport.contract import Stream
from router.transport.reading_pauses import OWN_BURST_S, OWN_PER_S, SHORT_PER_S, ReadingPauses, shared_pace
from transports.memory import stream_pair

Done = Callable[[], None]


def nothing() -> None:
    """Do nothing: nobody waits for it."""


async def dial() -> Stream:
    raise AssertionError("nothing is handed over")


async def came(heard: Came) -> None:
    """Hear no datagrams."""


async def test_rules_hear_what_was_encrypted_and_where_it_comes_from(tmp_path: Path) -> None:
    put, told = trio.open_memory_channel[Any](100)
    shown, port = web_certificate(tmp_path, "127.0.0.1"), free_port()

    def hear(heard: Any, done: Done = nothing) -> None:
        put.send_nowait(heard)
        done()

    doors = Doors(came, hear, dial, tmp_path)
    context = ssl.create_default_context(cafile=str(shown.chain))
    async with trio.open_nursery() as nursery:
        with trio.fail_after(HANG_S):
            await doors.open(nursery, {"desk": f"tcp://127.0.0.1:{port}?certificate=chain.pem&key=key.pem"})
            async with await trio.open_tcp_stream("127.0.0.1", port) as plain:
                guest = trio.SSLStream(plain, context, server_hostname="127.0.0.1", https_compatible=True)
                await guest.send_all(b"hello")
                opened = await told.receive()
                assert isinstance(opened, Opened) and opened.address.startswith("127.0.0.1:") and opened.user is None
                assert (await told.receive()).data == b"hello"
                answer = bytes(300_000)
                doors.write("desk", opened.peer, answer)
                doors.write("desk", opened.peer, b"")
                received = b""
                while data := await guest.receive_some(1 << 16):
                    received += data
                assert received == answer, "the end comes behind all of it"
            assert (await told.receive()).data == b""
            async with await trio.open_tcp_stream("127.0.0.1", port) as plain:
                await plain.send_all(b"GET / HTTP/1.1\r\n\r\n")
                assert isinstance(await told.receive(), Opened)
                assert (await told.receive()).data == b"", "nothing of it was heard"
                refused = b""
                while data := await plain.receive_some(1 << 16):
                    refused += data
                assert refused.startswith(b"HTTP/1.1 400 ") and b"open it by https://" in refused
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("certificate=chain.pem", "options certificate and key"),
        ("certificate=chain.pem&key=key.pem&more=1", "options certificate and key"),
        ("certificate=none.pem&key=key.pem", "none.pem cannot be read: no such file"),
        ("certificate=key.pem&key=chain.pem", "no certificate and its key"),
    ],
)
async def test_door_with_a_wrong_certificate_says_so(options: str, why: str, tmp_path: Path) -> None:
    web_certificate(tmp_path, "127.0.0.1")
    async with trio.open_nursery() as nursery:
        with pytest.raises(DoorError, match=why):
            await Doors(came, nothing, dial, tmp_path).open(nursery, {"desk": f"tcp://127.0.0.1:0?{options}"})
        nursery.cancel_scope.cancel()


async def test_single_bytes_in_records_are_taken_at_a_rate_that_all_clients_share(autojump_clock: MockClock) -> None:
    """Two of a client's records count for thousands here; what comes behind waits, and whole requests do not."""
    here, client = stream_pair("client")
    inner, rules = stream_pair("rules")
    short = 0
    pauses = ReadingPauses(shared_pace())

    async def received(most: int) -> bytes:
        data = await here.receive_some(most)
        records.short_pieces += short
        return data

    records: Any = SimpleNamespace(receive_some=received, short_pieces=0)
    plain: Any = SimpleNamespace(send_all=inner.send_all, send_eof=inner.aclose)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_decrypt, records, plain, pauses, nursery.cancel_scope)
        waited = []
        many = int(OWN_PER_S * OWN_BURST_S + 4 * SHORT_PER_S)
        for short in (0, 0, many, many, 0):  # noqa: B007 `received` reads it
            began = trio.current_time()
            await client.send_all(b"GET / HTTP/1.1")
            await rules.receive_some(100)
            waited.append(trio.current_time() - began)
        nursery.cancel_scope.cancel()
    assert waited[:4] == [0, 0, 0, 0] and 3.5 < waited[4] < 8.5
