"""A disk that damages its data: one message ends, the operator is warned, and nothing else changes; and expired data
leaves the disk of an idle node."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import lmdb
from disk import read_disk
from raw_link import RawLink, linked, multicast
from rig import NodeProcess, new_key, rig

from router.core.wire.crypto import MessageId, SigningKey
from router.core.wire.link_items import Missed
from router.core.wire.message import message_id
from router.core.wire.reasons import Reason
from router.rig.process import until

MESSAGES = 20


def body(number: int) -> bytes:
    return f"the body of number {number} ".encode() * 20


async def left_waiting(node: NodeProcess, group: SigningKey, *keys: SigningKey) -> list[bytes]:
    """Queue messages for these keys, all of which are away, and return them."""
    for key in keys:
        async with linked(node, key, durable=True) as app:
            assert await app.join(group.public)
    wires = [multicast(group, body(number)) for number in range(MESSAGES)]
    async with linked(node, new_key()) as publisher:
        assert await publisher.publish(*wires) == [None] * MESSAGES
    return wires


def missed(app: RawLink) -> list[tuple[int, bytes, int]]:
    return [(item.count, item.first, item.reason) for item in app.heard if isinstance(item, Missed)]


async def all_but_one_come(
    node: NodeProcess, key: SigningKey, group: SigningKey, whole: list[bytes], spoilt: MessageId
) -> bytes:
    """Check that all but the damaged message come, then a fresh one over the same link; return the fresh one."""
    fresh = multicast(group, os.urandom(9))
    async with linked(node, key, durable=True) as app:
        await app.until("all others come", lambda: app.got == whole)
        await app.until("it is told of the one", lambda: bool(missed(app)))
        assert missed(app) == [(1, spoilt, Reason.STORE_DAMAGED)]
        async with linked(node, new_key()) as publisher:
            assert await publisher.publish(fresh) == [None]
        await app.until_got(fresh)
    return fresh


async def test_a_message_that_the_disk_has_spoilt(tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        node, group, keys = found.node("node"), new_key(), [new_key(), new_key()]
        await node.start()
        wires = await left_waiting(node, group, *keys)
        await node.kill()
        data = node.home.store_path / "data.mdb"
        content = bytearray(data.read_bytes())
        content[content.index(body(7)) + 100] ^= 1
        data.write_bytes(content)
        await node.start()
        whole, spoilt = [wire for wire in wires if wire is not wires[7]], message_id(wires[7])
        for key in keys:
            whole.append(await all_but_one_come(node, key, group, whole, spoilt))
        await node.until_drained(keys[1].public)
        status = await node.ask("status")
        assert status["reasons"]["store-damaged"] == 2 and status["counters"]["dropped"] == 2
        assert await node.stop() == 0
        said = [line for line in node.said().splitlines() if "damaged" in line]
        assert len(said) == 2 and all(
            f"{node.home.store_path} holds (messages: 1, recipients: 1)" in one for one in said
        )
        disk = read_disk(node.home, node.address, tmp_path / "scratch")
        for key in keys:
            assert disk.ended("dropped", key.public) == {spoilt}


def rows(node: NodeProcess, scratch: Path) -> dict[str, int]:
    """Return the number of rows in each database of a frozen node's store."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(node.home.store_path, scratch)
    with lmdb.open(str(scratch), max_dbs=30, lock=False, readonly=True) as env, env.begin() as txn:
        names = [bytes(name) for name, _ in txn.cursor()]
        return {name.decode(): txn.stat(env.open_db(name, txn, create=False))["entries"] for name in names}


async def test_an_idle_node_sweeps(tmp_path: Path) -> None:
    """Kept bytes and sealed events are removed, though no message causes a commit."""
    async with rig(tmp_path) as found:
        node = found.node("node", settings={"queues.keep_s": 1, "log.segment_s": 1})
        await node.start()
        key, group = new_key(), new_key()
        await left_waiting(node, group, key)
        async with linked(node, key, durable=True) as app:
            await app.until("they come", lambda: len(app.got) == MESSAGES)

        async def is_swept() -> bool:
            await node.freeze()
            found = rows(node, tmp_path / "scratch")
            node.thaw()
            return not (found["frames"] or found["parcels"] or found["kept"] or found["log"])

        await until("nothing is left but ids", is_swept)
        assert await node.stop() == 0
        read_disk(node.home, node.address, tmp_path / "scratch")
