"""A node under traffic worth hours in a minute: its use of disk and memory stops growing."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from router import connect
from router.bench import traffic
from router.bench.rig import Clients, Rig, workbench
from router.bench.scenarios import keys
from router.core.wire.crypto import SigningKey

ROUNDS, SETTLED_AFTER = 24, 8
MESSAGES = 20_000  # of a round
ID_ROW_BYTES_MAX = 200  # what stays of a message until it expires: its id, in a tree that is filled half
LITTLE = {"log.segment_bytes": "1048576", "queues.keep_bytes_max": str(16 << 20)}


class Held(NamedTuple):
    """A node's use of memory and files after a round."""

    memory_mib: float
    file_bytes: int
    files_open: int


async def held(rig: Rig) -> Held:
    async with connect(home=rig.home) as node:
        status = json.loads(await node.ask("status"))
    return Held(rig.memory_mib(), (rig.home.path / "store" / "data.mdb").stat().st_size, status["descriptors"]["open"])


@pytest.mark.long
async def test_rounds_of_queueing_and_draining_leave_nothing_behind() -> None:
    publisher, absent, present = keys(3)
    with workbench() as base:
        signed = traffic.make(base / "traffic", ROUNDS * MESSAGES, 1024)
        rig = Rig(base / "home", "unix", dict(LITTLE))
        await rig.start()
        async with rig.running() as running:
            await running("subscribe", [absent], signed, count=0, durable=True).whole()
            found = [
                await _round(rig, running, number, (publisher, absent, present), signed) for number in range(ROUNDS)
            ]
    settled, last = found[SETTLED_AFTER], found[-1]
    assert last.memory_mib < settled.memory_mib * 1.15
    assert last.file_bytes - settled.file_bytes < (ROUNDS - 1 - SETTLED_AFTER) * MESSAGES * ID_ROW_BYTES_MAX
    assert last.files_open == settled.files_open


async def _round(rig: Rig, running: Clients, number: int, who: tuple[SigningKey, ...], signed: traffic.Traffic) -> Held:
    """One subscriber reads during publishing, the other comes back afterwards; neither misses or repeats anything."""
    publisher, absent, present = who
    span = {"first": number * MESSAGES, "count": MESSAGES}
    reader = running("subscribe", [present], signed, **span)
    writer = running("publish", [publisher], signed, **span)
    for client in (reader, writer):
        await client.start()
    for client in (reader, writer):
        await client.go()
    assert (await writer.result())["refused"] == []
    back = await running("subscribe", [absent], signed, **span, durable=True, back=True).whole()
    for result in (await reader.result(), back):
        assert (result["lost"], result["doubled"], result["out_of_order"]) == (0, 0, 0)
    return await held(rig)
