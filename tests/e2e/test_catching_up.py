"""A long absence on real nodes: an edge whose queue was dropped comes back, gets what cores still hold, and says so."""

from __future__ import annotations

from pathlib import Path

import trio
from rig import QUICK, NodeProcess, Rig, rig
from rigs.patience import HANG_S

from router.client.node import connect
from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text
from router.settings.config_services import Resident
from router.settings.home import Home

GROUP = SigningKey(bytes((83,)) * 32)
MISSED = 200


def node(found: Rig, name: str, role: str, mode: str) -> NodeProcess:
    Home(found.base / name).create(role, (), {"pubsub": Resident({"mode": mode}, is_public=mode == "overlay")})  # type: ignore[arg-type]
    return found.node(name, role, QUICK)  # type: ignore[arg-type]


async def test_a_long_absence(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, edge = node(found, "core", "core", "overlay"), node(found, "edge", "edge", "leaf")
        core.serves(edge)
        await core.start()
        await edge.start()
        with trio.fail_after(HANG_S):
            async with connect(home=edge.home, as_name="reader") as app:
                group = await app.join(GROUP)
                await core.until_joined(GROUP.public, edge.address)
                async with connect(home=core.home) as speaker:
                    await speaker.group(GROUP).publish(b"before")
                    async for message in group:
                        assert message.body == b"before"
                        break
            await core.until_drained(edge.address)
            await edge.kill()
            await core.until_connected(edge.address, up=False)
            async with connect(home=core.home) as speaker:
                for n in range(MISSED):
                    await speaker.group(GROUP).publish(b"%d" % n)
            assert await core.queued(edge.address) >= MISSED
            assert (await core.run("queue", "drop", key_text("addr", edge.address))).code == 0
            await core.until_drained(edge.address)
            await edge.start()
            async with connect(home=edge.home, as_name="reader") as app:
                group = await app.join(GROUP)
                came = set[bytes]()
                async for message in group:
                    came.add(message.body)
                    if len(came - {b"before"}) == MISSED:
                        break
                async for one in app.caught_up:
                    if one.of:
                        assert (one.group, one.missing, one.of) == (GROUP.public, 0, MISSED)
                        break
            earlier = await edge.run("sub", GROUP.public.hex(), "--raw", "--since", "1h", "--count", "201")
            assert earlier.code == 0 and len(earlier.stdout.splitlines()) == 201
