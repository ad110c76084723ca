"""The specification's two worked examples, of unicast and of multicast routing, on real processes, step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from raw_link import linked, multicast
from rig import NodeProcess, Rig, new_key, rig

from router.core.wire.message import Multicast, Unicast, message_id, open_message, verify_message, with_via


@asynccontextmanager
async def x_and_y(base: Path) -> AsyncIterator[tuple[Rig, NodeProcess, NodeProcess]]:
    """Return two nodes, not started, that know each other's address; neither is the other's uplink."""
    async with rig(base) as found:
        x, y = found.node("x", "core"), found.node("y", "core")
        x.knows(y.address, "y", url=y.url)
        y.knows(x.address, "x", url=x.url)
        yield found, x, y


async def test_the_unicast_example(tmp_path: Path) -> None:
    """PSx sends to PSy over X and Y, and PSy answers the source."""
    async with x_and_y(tmp_path) as (_, x, y):
        await x.start()
        await y.start()
        psx_key, psy_key = new_key(), new_key()
        async with linked(x, psx_key, durable=True) as psx:
            async with linked(y, psy_key, durable=True) as psy:
                # X's table gets its entry to Y when PSy speaks first, over X as its next hop.
                hello = psy.unicast(psx_key.public, b"I am here")
                assert await psy.publish(with_via(hello, x.address)) == [None]
                await psx.until_got(hello)

                sent = psx.unicast(psy_key.public, b"from PSx")  # 1
                assert await psx.publish(sent) == [None]  # 2 to 5: X finds PSy behind Y
                await psy.until_got(sent)  # 6, 7, 11
                came = open_message(psy.got[0])
                assert isinstance(came, Unicast)
                assert (came.source, came.body, came.via) == (psx_key.public, b"from PSx", x.address)  # 8
                assert verify_message(psy.got[0])
                assert psy.ids == [message_id(sent)]

                answer = psy.unicast(came.source, b"from PSy")  # 9, 12: Y has learned that PSx is behind X
                assert await psy.publish(answer) == [None]
                await psx.until_got(answer)
                back = open_message(psx.got[1])
                assert isinstance(back, Unicast)
                assert (back.source, back.body, back.via) == (psy_key.public, b"from PSy", y.address)

            await y.until_connected(psy_key.public, up=False)
            later = psx.unicast(psy_key.public, b"while PSy is away")  # 10: Y queues it
            assert await psx.publish(later) == [None]
            await x.until_drained()
            [row] = await y.ask("queue")
            assert (row["recipient"], row["messages"]) == (psy_key.public.hex(), 1)
            async with linked(y, psy_key, durable=True) as psy:
                await psy.until_got(later)
                assert psy.ids == [message_id(later)]
            await y.until_drained()


async def test_a_unicast_waits_until_a_connection_to_y_is_there(tmp_path: Path) -> None:
    """Step 4: without a connection to Y, X makes one, and queues the message until it is up."""
    async with x_and_y(tmp_path) as (_, x, y):
        await x.start()
        await y.start()
        psy_key = new_key()
        async with linked(y, psy_key, durable=True):
            pass
        await y.stop()
        async with linked(x, new_key()) as psx:
            sent = psx.unicast(psy_key.public, b"early")
            assert await psx.publish(with_via(sent, y.address)) == [None]
            [row] = await x.ask("queue")
            assert (row["recipient"], row["messages"]) == (y.address.hex(), 1)
            await y.start()
            async with linked(y, psy_key, durable=True) as psy:
                await psy.until_got(sent)
                assert psy.ids == [message_id(sent)]
            await x.until_drained()


async def test_the_multicast_example(tmp_path: Path) -> None:
    """PSx on X publishes through Y; Y delivers to PSy and to edge node C, and queues for edge node A, which is away."""
    async with x_and_y(tmp_path) as (found, x, y):
        a, c = found.node("a"), found.node("c")
        group, psy_key, app_a, app_c, w = (new_key() for _ in range(5))
        for edge in (a, c):
            y.serves(edge)
        y.knows(w.public, "w")
        for node in (x, y, a, c):
            await node.start()
        async with linked(a, app_a, durable=True) as app:
            assert await app.join(group.public)
            await y.until_joined(group.public, a.address)
        await a.kill()
        await y.until_connected(a.address, up=False)

        async with linked(y, psy_key, durable=True) as psy, linked(c, app_c) as at_c, linked(x, new_key()) as psx:
            assert await psy.join(group.public)
            assert await at_c.join(group.public)
            await y.until_joined(group.public, c.address)

            sent = multicast(group, b"M")
            assert await psx.publish(with_via(sent, y.address)) == [None]  # 1 to 3
            await psy.until_got(sent)  # 4 to 8, 10
            await at_c.until_got(sent)  # 11
            for link, last_hop in ((psy, x), (at_c, y)):
                came = open_message(link.got[0])
                assert isinstance(came, Multicast)
                assert (came.group, came.body, came.via) == (group.public, b"M", last_hop.address)  # 7
                assert verify_message(link.got[0])
                assert link.ids == [message_id(sent)]
            [row] = await y.ask("queue")
            assert (row["recipient"], row["messages"]) == (a.address.hex(), 1)  # 9

            # 6: the same message by another way, from a remote node W, is dropped.
            before = (await y.ask("status"))["counters"]
            async with linked(y, w, tls=True, role="router") as other:
                assert await other.publish(sent) == [None]
            after = (await y.ask("status"))["counters"]
            assert after["duplicate"] == before["duplicate"] + 1
            assert after["accepted"] == before["accepted"]

        await a.start()
        async with linked(a, app_a, durable=True) as app:
            await app.until_got(sent)
            assert app.ids == [message_id(sent)]
        await y.until_drained()
