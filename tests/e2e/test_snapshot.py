"""A snapshot of a node under load becomes the same node elsewhere, which holds all that it had accepted until then."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
import trio
from overlay_nodes import core, link_of
from rig import Rig, new_key, rig
from rigs.patience import HANG_S

from router import MessageId, Received, connect
from router.client.senders import GroupName
from router.core.wire.grouplink import GroupLink
from router.rig.node import NodeProcess
from router.rig.process import until
from router.settings.home import Home

BEFORE = 200
SIZE = 2_000


@asynccontextmanager
async def loaded(node: NodeProcess, group: GroupName) -> AsyncIterator[list[MessageId]]:
    """Publish numbers all the while; yield the messages that the node has in custody so far."""
    accepted: list[MessageId] = []

    async def publish() -> None:
        async with (
            connect(home=node.home, as_name="alice") as app,
            app.group(group).publisher(20, on_custody=accepted.append) as hand_in,
        ):
            for n in count():
                await hand_in.publish(b"%d " % n + bytes(SIZE))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish)
        yield accepted
        nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_a_node_under_load_is_saved_killed_and_restored(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        node, key = found.node("saved", "core"), new_key()
        group = GroupLink(key.public, new_key().seed, key.seed)
        await node.start()
        async with connect(home=node.home, as_name="bob") as reader:
            await reader.join(group, timeout_s=HANG_S)
        file, secret = tmp_path / "snapshot", tmp_path / "secret"
        secret.touch(mode=0o600)
        secret.write_text("a passphrase\n")
        sealed = ("--passphrase-file", str(secret))
        async with loaded(node, group) as accepted:

            async def are_there() -> bool:
                return len(accepted) >= BEFORE

            await until("messages are in custody", are_there)
            sure = len(accepted)
            taken = await node.run("backup", str(file), *sealed)
            assert taken.code == 0, taken
            await node.kill()
        assert not (node.home.path / ".snapshot").exists()
        assert (await node.run("backup", "verify", str(file), *sealed)).code == 0
        assert "store/data.mdb" in (await node.run("backup", "list", str(file), *sealed)).stdout
        await _restored(found, node, file, sealed, group, sure)


async def _restored(
    found: Rig, node: NodeProcess, file: Path, sealed: tuple[str, ...], group: GroupName, sure: int
) -> None:
    there = await node.run("restore", str(file), *sealed, "--yes")
    assert there.code == 1
    assert "a home is never overwritten" in there.stderr
    node.home = Home(found.base / "restored")
    asked = await node.run("restore", str(file), *sealed)
    assert asked.code == 2
    assert not node.home.path.exists()
    made = await node.run("restore", str(file), *sealed, "--yes")
    assert made.code == 0, made
    assert "may be delivered again" in made.stderr
    await node.start()
    assert "from the snapshot of" in (await node.run("status")).stdout
    heard: list[Received] = []
    async with connect(home=node.home, as_name="bob") as reader, connect(home=node.home, as_name="alice") as writer:
        latest = await writer.group(group).publish(b"latest")
        with trio.fail_after(HANG_S):
            async for message in await reader.join(group, timeout_s=HANG_S):
                await message.settle()
                if message.id == latest:
                    break
                heard.append(message)
    assert [int(one.body.split()[0]) for one in heard] == [*range(len(heard))] and len(heard) >= sure
    assert all(one.redelivered for one in heard), "each of them may have been given to bob since the snapshot"
    assert message.seq is not None and message.seq >= json.loads((node.home.path / "life").read_text())["life"]
    why = await node.run("why", heard[0].id.hex())
    assert "restored on" in why.stdout and "delivered" in why.stdout
    await node.stop()
    told = (await node.run("audit", str(found.base / "saved"), str(node.home.path), "--json")).json
    assert {name: told[name] for name in ("unaccounted", "contradictions", "residual")} == dict.fromkeys(
        ("unaccounted", "contradictions", "residual"), 0
    )
    assert [one["text"] for one in told["findings"] if one["level"] == "bad"] == []
    assert [one["status"] for one in told["files"]] == ["former", "tail", "tail"]
    assert any("was restored on" in one["text"] for one in told["findings"])


@pytest.mark.long
async def test_a_core_of_the_overlay_is_saved_under_load_and_what_it_had_accepted_crosses(tmp_path: Path) -> None:
    """Its pub/sub service has a state of its own, from which it goes on sending to the other core."""
    group = new_key()
    async with rig(tmp_path) as found:
        other = core(found, "other")
        await other.start()
        node = core(found, "saved", seeds=(await link_of(other),))
        await node.start()
        async with connect(home=other.home, key=new_key()) as reader:
            heard = (await reader.join(group.public, timeout_s=HANG_S)).messages()
            file = tmp_path / "snapshot"
            async with loaded(node, group) as accepted:
                for count in (BEFORE, 2 * BEFORE, 3 * BEFORE):

                    async def are_there(count: int = count) -> bool:
                        return len(accepted) >= count

                    await until("messages are in custody", are_there)
                    sure = set(accepted)
                    file.unlink(missing_ok=True)
                    taken = await node.run("backup", str(file), "--plain")
                    assert taken.code == 0, taken
                await node.kill()
            node.home = Home(found.base / "restored")
            made = await node.run("restore", str(file), "--yes")
            assert made.code == 0, made
            await node.start()
            got: list[MessageId] = []
            with trio.fail_after(HANG_S):
                while not sure <= set(got):
                    got.append((await anext(heard)).id)
            assert len(got) == len(set(got))
        await node.stop()
        await other.stop()
        audit = await node.run("audit", str(node.home.path), str(other.home.path), "--json")
        told = {name: audit.json[name] for name in ("residual", "unaccounted", "contradictions", "unknown")}
        assert set(told.values()) == {0}, told
        assert [row["text"] for row in audit.json["findings"] if row["level"] == "bad"] == []
