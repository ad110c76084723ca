"""False signatures through real verifier processes: none is passed on, and a neighbour that brings many is shut out;
and the limits of strangers on a running node: few places, short time, small window."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio
from bad_bytes import forged
from raw_link import RawLink, linked, multicast, say_bytes
from rig import NodeProcess, new_key, rig

from router.core.wire.codec import frame
from router.core.wire.link_items import Goodbye, Ping, encode_item
from router.core.wire.message import message_id
from router.core.wire.reasons import Reason
from router.transport.contract import StreamBroken

MANY = 60


async def goodbye_to(core: NodeProcess, key: object, *, role: str = "app") -> tuple[Reason, str] | None:
    """Return the goodbye to a key that is not let in, or is disconnected at once."""
    async with linked(core, key, tls=True, role=role) as found:  # type: ignore[arg-type]
        ended = await found.until_closed()
    return None if ended is None else (ended.reason, ended.text)


async def forge(found: RawLink, count: int) -> tuple[Reason, str]:
    """Send the router `count` messages with a false signature; return its goodbye."""
    wires = [forged(found.unicast(found.router, b"%d" % n, ttl_s=0)) for n in range(count)]
    await found.send(*wires)
    ended = await found.until_closed()
    assert ended is not None
    return ended.reason, ended.text


async def test_false_signatures_are_found_by_the_verifiers_and_end_the_link(tmp_path: Path) -> None:
    settings = {"verify.verifiers": 2, "limits.bad_signatures_max": 5, "limits.strangers_bad_signatures_max": 3}
    async with rig(tmp_path) as running:
        core, client, other, group = running.node("core", "core", settings), new_key(), new_key(), new_key()
        core.knows(client.public, "client", grants=("join", "store", "relay"))
        core.knows(other.public, "other", grants=("join", "store", "relay"))
        await core.start()
        async with linked(core, new_key()) as app, linked(core, client, tls=True, role="router") as sender:
            assert await app.join(group.public)
            wires = [multicast(group, b"%d" % n) for n in range(MANY)]
            false = {3, 20, 21, 59}
            said = [forged(wire) if n in false else wire for n, wire in enumerate(wires)]
            verdicts = await sender.publish(*said)
            assert verdicts == [Reason.BAD_SIGNATURE if n in false else None for n in range(MANY)]
            good = [wire for n, wire in enumerate(wires) if n not in false]
            await app.until_got(*good)
            assert [message_id(wire) for wire in app.got] == [message_id(wire) for wire in good], "these, in order"
            await sender.send(*map(forged, wires))
            ended = await sender.until_closed()
            assert ended is not None and ended.reason is Reason.BAD_SIGNATURE
            shut_out = await goodbye_to(core, client, role="router")
            assert shut_out is not None and shut_out[0] is Reason.BAD_SIGNATURE and "come again" in shut_out[1]
            async with linked(core, new_key(), tls=True) as stranger:
                assert (await forge(stranger, MANY))[0] is Reason.BAD_SIGNATURE
            shut_out = await goodbye_to(core, new_key())
            assert shut_out is not None and shut_out[0] is Reason.BAD_SIGNATURE, "another one from that prefix"
            async with linked(core, other, tls=True, role="router") as known:
                assert await known.publish(multicast(group, b"still here")) == [None]
            await app.until("it comes", lambda: len(app.got) == MANY - len(false) + 1)


@asynccontextmanager
async def crowd(core: NodeProcess, count: int) -> AsyncIterator[list[RawLink]]:
    """Connect `count` strangers one after the other."""
    async with trio.open_nursery() as nursery:
        links: list[RawLink] = []
        release = trio.Event()

        async def be_one(task_status: trio.TaskStatus[RawLink] = trio.TASK_STATUS_IGNORED) -> None:
            async with linked(core, new_key(), tls=True) as found:
                task_status.started(found)
                await release.wait()

        for _ in range(count):
            links.append(await nursery.start(be_one))
        yield links
        release.set()


async def test_strangers_have_few_places_little_time_and_a_small_window(tmp_path: Path) -> None:
    settings = {
        "limits.strangers_connections_max": 3, "limits.strangers_spared_s": 0, "limits.strangers_idle_s": 600,
        "limits.strangers_hello_s": 0.5, "limits.hello_s": 600, "limits.strangers_window_messages": 7,
        "limits.strangers_window_bytes": 5000, "limits.window_messages": 70, "node.name": "hub",
    }  # fmt: skip
    async with rig(tmp_path) as running:
        core, peer = running.node("core", "core", settings), new_key()
        core.knows(peer.public, "peer")
        await core.start()
        async with crowd(core, 3) as links:
            hello = links[0].end.session.hello
            assert hello is not None and (hello.window_messages, hello.window_bytes) == (7, 5000)
            assert hello.name is None, "a stranger is told no name"
            async with linked(core, new_key(), tls=True) as newcomer:
                ended = await links[0].until_closed()
                assert ended is not None and ended.reason is Reason.SHUTDOWN, "the longest silent gives way"
                await newcomer.publish(newcomer.unicast(new_key().public, b"x"))
                async with linked(core, peer, tls=True, role="router") as known:
                    greeting = known.end.session.hello
                    assert greeting is not None and greeting.window_messages == 70, "and known keys have their places"
        *_, last = await say_bytes(core, b"", key=new_key(), tls=True)
        assert isinstance(last, Goodbye) and last.reason == Reason.CONNECT_TIMEOUT, "long before ten minutes"


async def ping(found: RawLink) -> None:
    """Ping ten times a second until the link is closed."""
    with suppress(StreamBroken):
        while True:
            await found.write([frame(encode_item(Ping(1)))])
            await trio.sleep(0.1)


async def test_strangers_without_messages_are_closed_though_they_ping(tmp_path: Path) -> None:
    settings = {"limits.strangers_idle_s": 1}
    async with rig(tmp_path) as running:
        core, peer = running.node("core", "core", settings), new_key()
        core.knows(peer.public, "peer")
        await core.start()
        async with linked(core, peer, tls=True, role="router") as known:
            async with linked(core, new_key(), tls=True) as stranger, trio.open_nursery() as nursery:
                nursery.start_soon(ping, stranger)
                ended = await stranger.until_closed()
                nursery.cancel_scope.cancel()
            assert ended is not None and ended.text == "no messages for a while"
            assert await known.publish(known.unicast(new_key().public, b"x")) == [Reason.NO_ROUTE], "it stays"
