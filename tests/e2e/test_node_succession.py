"""A core comes back by a new key that shows whose place it takes: its edges follow, and what waits there reaches it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio
from rig import new_key, rig
from rigs.patience import HANG_S
from rigs.ports import free_port

from router import connect
from router.core.wire.crypto import PublicKey
from router.rig.process import until
from router.settings import config, keyring

LIFE_S = 3600


async def test_an_edge_follows_its_core_to_the_new_key_untouched(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        core, edge = found.node("core", "core"), found.node("edge")
        core.serves(edge)
        for node in (core, edge):
            await node.start()
        await core.until_connected(edge.address)
        group, old = new_key(), core.address
        async with connect(home=core.home, as_name="reader") as reader:
            await reader.join(group, timeout_s=HANG_S)
        async with connect(home=edge.home, as_name="laptop") as laptop:
            heard = await laptop.join(group, timeout_s=HANG_S)
            await core.until_joined(group.public, edge.address)
            await core.stop()
            await heard.publish(b"from the edge, while the core was away", ttl_s=LIFE_S)
            assert await edge.queued(old) == 1
            rotated = await core.run("keys", "rotate-node", "--json")
            assert rotated.code == 0, rotated.stderr
            new = PublicKey(bytes.fromhex(rotated.json["address"]))
            assert rotated.json["former"] == old.hex() and keyring.load(core.home, keyring.NODE).public == new
            await core.start()

            async def has_followed() -> bool:
                rows = await edge.ask("peers")
                return [(one["address"], one["state"]) for one in rows if one["uplink"]] == [(new.hex(), "connected")]

            await until("the edge is linked to the new key", has_followed)
            async with connect(home=core.home, as_name="reader") as reader:
                async for message in reader:
                    assert message.body == b"from the edge, while the core was away"
                    break
                await reader.group(group).publish(b"from the core", ttl_s=LIFE_S)
                await heard.publish(b"from the edge, to the new key", ttl_s=LIFE_S)
                async for message in reader:
                    assert message.body == b"from the edge, to the new key"
                    break
            async for message in laptop:
                assert message.body == b"from the core"
                break
        await edge.stop()
        await edge.start()
        await core.until_connected(edge.address)
        [listed] = (await edge.run("peer", "list", "--json")).json
        assert (listed["address"], listed["state"], listed["uplink"]) == (new.hex(), "connected", True)
        blocked = await edge.run("peer", "block", new.hex())
        assert blocked.code == 0, blocked.stderr
        [peer] = config.load(edge.home.config_path)[0].peers
        assert (peer.address, peer.blocked) == (old, True), "the entry stays the one that it was"
        await edge.until_connected(new, up=False)
        await edge.stop()
        await core.stop()
        done = await core.run("audit", str(core.home.path), str(edge.home.path), "--json")
        assert done.code == 0, done.stderr + done.stdout
        assert {name: done.json[name] for name in ("unaccounted", "residual", "strays")} == dict.fromkeys(
            ("unaccounted", "residual", "strays"), 0
        )
        assert done.json["claims"] == []
        assert [one["router"] for one in done.json["logs"]] == sorted([old.hex(), edge.address.hex()])


async def test_a_running_core_that_has_moved_gets_another_key_and_all_go_on_untouched(tmp_path: Path) -> None:
    """The edge knows by the core's word alone where it is. An app on the core's machine and one that dials it by TLS
    sign on again by themselves."""
    there = f"tls://127.0.0.1:{free_port()}"
    async with rig(tmp_path) as found:
        core, edge, key = found.node("core", "core"), found.node("edge"), new_key()
        core.serves(edge)
        path = core.home.config_path
        path.write_text(f'{path.read_text()}\n[[local]]\naddress = "{key.public.hex()}"\n')
        for node in (core, edge):
            await node.start()
        await core.until_connected(edge.address)
        assert (await core.run("move", there)).code == 0

        def knows(rows: list[dict[str, Any]]) -> bool:
            return any(there in one.get("said_urls", ()) for one in rows)

        await edge.until_answer("it knows the new address", "peers", knows)
        await core.stop()
        core.url, core.flags, old = there, ("--listen", there), core.address
        await core.start()
        await edge.until_connected(old)
        async with (
            connect(home=core.home, as_name="reader", when_down="queue") as reader,
            connect(url=there, key=key, expect=old, home=tmp_path, when_down="queue") as far,
        ):
            rotated = await core.run("keys", "rotate-node", "--json")
            assert rotated.code == 0, rotated.stderr
            new = bytes.fromhex(rotated.json["address"])
            assert rotated.json["former"] == old.hex() and keyring.load(core.home, keyring.NODE).public == new
            await edge.until_connected(PublicKey(new))
            repeated = await core.run("keys", "rotate-node")
            assert repeated.code == 2 and "give --again for yet another one" in repeated.stderr, repeated.stderr
            assert keyring.load(core.home, keyring.NODE).public == new
            for app in (reader, far):
                sent = await edge.run("send", app.key.hex(), "hello", "--plain")
                assert sent.code == 0, sent.stderr
                with trio.fail_after(HANG_S):
                    assert (await anext(app.unicasts())).body == b"hello"
