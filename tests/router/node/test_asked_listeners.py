"""Listeners that services ask for: one each, reported where it is, closed when it is not wanted any more."""

from __future__ import annotations

import socket

import pytest
import trio
from rigs.patience import HANG_S

from router.core.wire.crypto import SigningKey
from router.node.asked_listeners import AskedListeners
from router.transport import contract as transport
from router.transport.contract import ConnectFailed, Stream, StreamBroken

KEY = SigningKey(b"n" * 32)
ONE, OTHER = b"1" * 32, b"2" * 32


class Asked:
    """Listeners over TLS on this machine, and the reports to the services."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._told, self.told = trio.open_memory_channel[tuple[bytes, str, str]](10)
        self.listeners = AskedListeners(nursery, self._listen, lambda *news: self._told.send_nowait(news))

    async def _listen(self, nursery: trio.Nursery, url: str) -> str:
        return str(await nursery.start(transport.load("tls").listen, url, KEY, self._serve))

    async def _serve(self, stream: Stream) -> None:
        await trio.sleep_forever()

    async def next(self) -> tuple[bytes, str, str]:
        with trio.fail_after(HANG_S):
            return await self.told.receive()


async def test_a_service_is_told_where_its_listener_is_and_has_one(nursery: trio.Nursery) -> None:
    asked = Asked(nursery)
    asked.listeners.want(ONE, "tls://127.0.0.1:0")
    service, url, problem = await asked.next()
    assert (service, problem) == (ONE, "") and not url.endswith(":0")
    stream = await transport.dial(url, KEY, KEY.public, timeout_s=HANG_S)
    asked.listeners.want(ONE, "tls://127.0.0.1:0")
    assert await asked.next() == (ONE, url, "")
    asked.listeners.want(OTHER, "tls://127.0.0.1:0")
    assert (await asked.next())[0] == OTHER
    asked.listeners.want(ONE, "")
    assert await asked.next() == (ONE, "", "")
    with pytest.raises(StreamBroken):  # links that came by it end with it
        await stream.receive_some(1)
    await stream.aclose()
    with pytest.raises(ConnectFailed):
        await transport.dial(url, KEY, KEY.public, timeout_s=HANG_S)
    assert [*asked.listeners.urls] == [OTHER]


async def test_a_port_that_is_taken_is_a_sentence_for_the_service(nursery: trio.Nursery) -> None:
    asked = Asked(nursery)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"tls://127.0.0.1:{taken.getsockname()[1]}"
        asked.listeners.want(ONE, url)
        service, where, problem = await asked.next()
    assert (service, where) == (ONE, "") and "cannot listen" in problem
    asked.listeners.want(ONE, url)
    assert await asked.next() == (ONE, url, "")
