"""A store that may grow no further refuses messages with `disk-full` for now: it does not crash, delivers those that it
holds, and then accepts messages again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from disk import read_disk
from raw_link import RawLink, linked, multicast
from rig import new_key, rig

from router.core.wire.crypto import SigningKey
from router.core.wire.reasons import Reason
from router.rig.process import until

MAP_BYTES = 4 << 20
SMALL = {
    "store.map_bytes_initial": 1 << 20, "store.map_bytes_max": MAP_BYTES, "queues.keep_s": 0,
    "queues.share_percent": 100, "log.segment_s": 1, "log.segment_bytes": 1 << 16,
}  # fmt: skip


async def fill(publisher: RawLink, group: SigningKey, size: int, batch: int) -> tuple[int, int]:
    """Publish until a whole batch is refused; return how many messages were taken, and how many refused."""
    taken = refused = 0
    while taken * size < 2 * MAP_BYTES:
        reasons = await publisher.publish(*[multicast(group, os.urandom(size)) for _ in range(batch)])
        assert set(reasons) <= {None, Reason.DISK_FULL}
        taken += reasons.count(None)
        refused += reasons.count(Reason.DISK_FULL)
        if None not in reasons:
            return taken, refused
    raise AssertionError(f"{taken} messages of {size} bytes were taken")


@pytest.mark.parametrize(
    ("size", "batch"),
    [(1000, 500), *(pytest.param(*one, marks=pytest.mark.long) for one in ((100_000, 10), (50, 4000)))],
)
async def test_a_full_store_refuses_for_now(size: int, batch: int, tmp_path: Path) -> None:
    async with rig(tmp_path) as found:
        node = found.node("node", "edge", SMALL)
        await node.start()
        group, away = new_key(), new_key()
        async with linked(node, away, durable=True) as app:
            assert await app.join(group.public)
        async with linked(node, new_key()) as publisher:
            taken, refused = await fill(publisher, group, size, batch)
            assert taken * (size + 200) > MAP_BYTES // 10
            assert Reason.DISK_FULL.later
            status = await node.ask("status")
            assert status["reasons"]["disk-full"] == refused
            assert status["queue"]["messages"] == taken

            async with linked(node, away, durable=True) as app:
                await app.until("everything taken is delivered", lambda: len(app.got) == taken)
                assert len(set(app.ids)) == taken
                await node.until_drained()

                async def is_taken() -> bool:
                    return await publisher.publish(multicast(group, os.urandom(size))) == [None]

                await until("there is room again", is_taken)
                await app.until("what comes after is delivered", lambda: len(app.got) == taken + 1)
            await node.until_drained()
        assert await node.stop() == 0
        assert (node.home.store_path / "data.mdb").stat().st_size < MAP_BYTES * 5 // 4
        read_disk(node.home, node.address, tmp_path / "scratch")
