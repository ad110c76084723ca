"""Crowds and forgers at the doors of a service in a process of its own, beside an honest user who comes from elsewhere:
the user is served, and the operator is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from bad_bytes import forged
from raw_link import RawLink
from rig import new_key
from rigs.own_services import one_service, status, until
from rigs.ports import free_port

from router.client.node import connect
from router.core.wire.reasons import Reason
from router.service.door_places import STREAMS_MAX
from router.service.running import key_of
from router.settings import keyring
from router.settings.home import Home

NEAR, FAR = "127.0.0.1", "127.0.1.1"
RULES = """
import os
import resource
from router.service import contract as c

LIMIT = {limit}


class Desk:
    def __init__(self, setup):
        if LIMIT:
            most = max(int(one) for one in os.listdir("/proc/self/fd")) + 1 + LIMIT
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def doors(self):
        return {{"front": "tcp://127.0.0.1:{front}", "back": "tcp://127.0.0.1:{back}"}}

    def hear(self, heard, now):
        match heard:
            case c.Came(door, peer, b"LINK"):
                return [c.Write(door, peer, b"ok"), c.HandOver(door, peer)]
            case c.Came(door, peer, b"friend"):
                return [c.MarkKnown(door, peer), c.Write(door, peer, b"FRIEND")]
            case c.Came(door, peer, b"compute"):
                return [c.Compute("desk:none", b"", f"{{door}} {{peer}}")]
            case c.Computed(tag, _, error):
                return [c.Write(*tag.split(), error.encode())]
            case c.Came(door, peer, data) if data:
                return [c.Write(door, peer, data.upper())]
        return []
"""


@asynccontextmanager
async def desk(path: Path, monkeypatch: pytest.MonkeyPatch, limit: int = 0) -> AsyncIterator[tuple[Home, int, int]]:
    """Yield the home of a node with this service, and the ports of its doors."""
    front, back = free_port(), free_port()
    rules, settings = RULES.format(limit=limit, front=front, back=back), {"limits.strangers_bad_signatures_max": 3}
    head = 'services_public = ["desk"]\naccept = "anyone"\n'
    async with one_service(path, monkeypatch, "desk", rules, run="apart", head=head, settings=settings) as (home, _):
        while True:
            try:
                await (await at(back)).aclose()
                break
            except OSError:
                await trio.sleep(0.02)
        yield home, front, back


async def at(port: int, source: str = NEAR) -> trio.SocketStream:
    return await trio.open_tcp_stream(NEAR, port, local_address=source)


async def talk(stream: trio.SocketStream, word: bytes) -> bytes:
    await stream.send_all(word)
    return await stream.receive_some(1000)


async def told(home: Home, holds: Callable[[str], bool]) -> str:
    found = await until(home, lambda services: holds(services["desk"]["problem"]))
    assert found["desk"]["starts"] == 1, "it was not started again"
    return str(found["desk"]["problem"])


async def test_a_crowd_at_one_door_displaces_itself_and_no_door_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, monkeypatch) as (home, front, back), AsyncExitStack() as crowd:
        friend = await crowd.enter_async_context(await at(front))
        assert await talk(friend, b"friend") == b"FRIEND", "of the crowd's own prefix, but known"
        user = await crowd.enter_async_context(await at(front, FAR))
        assert await talk(user, b"hello") == b"HELLO"
        for _ in range(STREAMS_MAX + 20):
            await crowd.enter_async_context(await at(front))
        late = await crowd.enter_async_context(await at(front, FAR))
        for stream in (friend, user, late, await crowd.enter_async_context(await at(back))):
            assert await talk(stream, b"again") == b"AGAIN"
        said = await told(home, lambda text: "gives way" in text)
        assert said == (
            f'its door "front" has {STREAMS_MAX} streams, the most: the oldest silent one from 127.0.0.0/24, where '
            f"most ({STREAMS_MAX - 2}) come from, gives way to another one"
        )


async def test_without_descriptors_a_door_waits_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with desk(tmp_path, monkeypatch, limit=40) as (home, front, back), AsyncExitStack() as guests:
        user = await guests.enter_async_context(await at(front, FAR))
        assert await talk(user, b"hello") == b"HELLO"
        async with AsyncExitStack() as crowd:
            for _ in range(100):
                await crowd.enter_async_context(await at(front))
            late = await guests.enter_async_context(await at(back, FAR))
            assert await talk(user, b"again") == b"AGAIN"
            answer = await talk(user, b"compute")
            assert answer == b"no process can be started for it: too many open files", await status(home)
        assert await talk(late, b"at last") == b"AT LAST"
        said = await told(home, lambda text: "accepts nobody" in text)
        assert "too many open files; raise the limit of open files (LimitNOFILE of the service" in said


async def test_a_forger_whose_stream_is_handed_over_is_shut_out_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path, monkeypatch) as (home, front, _), trio.open_nursery() as nursery:
        router, address = keyring.load(home, keyring.NODE).public, key_of(home, "desk").public
        urls = {}
        for source in (NEAR, FAR):
            urls[source] = f"unix://{tmp_path}/{source}.sock"
            raw = trio.socket.socket(trio.socket.AF_UNIX)
            await raw.bind(f"{tmp_path}/{source}.sock")
            raw.listen()
            lead = partial(lead_to_door, front, source)
            nursery.start_soon(trio.serve_listeners, lead, [trio.SocketListener(raw)])
        forger, again, user = RawLink(new_key()), RawLink(new_key()), RawLink(new_key())
        await forger.connect(urls[NEAR], router)
        async with connect(home=home) as node:
            [peer] = [one for one in json.loads(await node.ask("peers")) if one["address"] == forger.key.public.hex()]
            assert peer["where"].startswith("tcp 127.0.0.1:")
        await forger.send(*[forged(forger.unicast(address, b"%d" % n)) for n in range(9)])
        ended = await forger.until_closed()
        assert ended is not None and ended.reason is Reason.BAD_SIGNATURE
        await again.connect(urls[NEAR], router)
        ended = await again.until_closed()
        assert ended is not None and ended.reason is Reason.BAD_SIGNATURE, "another key from the same address"
        await user.connect(urls[FAR], router)
        assert await user.publish(user.unicast(address, b"hello")) == [None]
        for found in (forger, again, user):
            await found.close()
        nursery.cancel_scope.cancel()


async def lead_to_door(port: int, source: str, near: trio.SocketStream) -> None:
    """Pass one connection on to the door from that address, announced as a link."""
    async with await at(port, source) as far, trio.open_nursery() as nursery:
        assert await talk(far, b"LINK") == b"ok"
        nursery.start_soon(copy, near, far)
        await copy(far, near)
        nursery.cancel_scope.cancel()


async def copy(here: trio.SocketStream, there: trio.SocketStream) -> None:
    while data := await here.receive_some():
        await there.send_all(data)
