"""A loss at one of two nodes whose logs a stream audits is said to a command, once, and once more when it is over; also
where the command hangs and the stream is killed. A node that is silent is said as well."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest
from fleet_alarms import STREAM_S, Pager, Rows, of, stream_of
from rig import NodeProcess, Rig, new_key, rig

from router import connect
from router.core.wire.crypto import SigningKey

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("packaged_java")]
LITTLE_SEGMENTS = {"log.segment_s": 2}
LOST = "alarm:unaccounted"
SENT = 3
SEGMENT_S = 10
"""Three times as long may a log be silent. A node that has nothing to do may be so, too: it tells of its links once a
minute."""


class Scene(NamedTuple):
    """Two nodes, of which the core has messages for a reader that is away."""

    rig: Rig
    core: NodeProcess
    edge: NodeProcess
    reader: SigningKey
    pager: Pager


@asynccontextmanager
async def scene(base: Path) -> AsyncIterator[Scene]:
    async with rig(base, within_s=5 * STREAM_S) as found:
        reader, pager = new_key(), Pager(base / "pager")
        core, edge = found.node("core", "core", LITTLE_SEGMENTS), found.node("edge", "edge", LITTLE_SEGMENTS)
        core.serves(edge)
        await core.start()
        await edge.start()
        async with connect(home=core.home, key=reader):
            await edge.until_connected(core.address)
        async with connect(home=edge.home) as writer:
            for n in range(SENT):
                await writer.send(reader.public, b"%d" % n, plain=True)
        await core.until_answer("messages that wait", "queue", lambda rows: sum(r["messages"] for r in rows) == SENT)
        try:
            yield Scene(found, core, edge, reader, pager)
        finally:
            pager.close()


async def _read(core: NodeProcess, reader: SigningKey) -> None:
    async with connect(home=core.home, key=reader) as app:
        unicasts = app.unicasts(settle_on_next=False)
        for n in range(SENT):
            message = await anext(unicasts)
            assert message.body == b"%d" % n
            await message.settle()


async def test_a_loss_is_said_while_it_happens_and_once_more_when_it_is_over(tmp_path: Path) -> None:
    async with scene(tmp_path) as (found, core, edge, reader, pager):
        stream = stream_of(found, pager, [core, edge])
        await stream.launch()
        rows = Rows(core, reader.public)
        await rows.take()
        raised = await pager.until_told(LOST, "raised", core.address)
        assert (raised["peer"], raised["level"]) == (reader.public.hex(), "bad")
        assert json.loads(raised["evidence"])[0]["number"] == SENT
        status = await core.ask("status")
        assert [one["alarm"] for one in status["alarms"]] == ["unaccounted"]
        await rows.put_back()
        await _read(core, reader)
        over = await pager.until_told(LOST, "cleared", core.address)
        assert over["peer"] == raised["peer"]
        assert not (await core.ask("status"))["alarms"]
        assert await stream.stop() == 0, stream.said()
        assert len({one["key"] for one in pager.told}) == len(pager.told)
        said = [(one["finding"], one["change"]) for one in pager.told if one["level"] == "bad"]
        assert said == [(LOST, "raised"), (LOST, "cleared")]


async def test_a_stream_that_is_killed_while_its_command_hangs_tells_the_same_alarm_again(tmp_path: Path) -> None:
    """Then one of the nodes is away for a while."""
    async with scene(tmp_path) as (found, core, edge, reader, pager):
        stream = stream_of(found, pager, [core, edge], "--segment", str(SEGMENT_S))
        pager.hang(LOST)
        await stream.launch()
        rows = Rows(core, reader.public)
        await rows.take()
        given = await pager.until_given(LOST, "raised", core.address)
        await stream.kill()
        pager.hang(None)
        await stream.launch()
        assert await pager.until_told(LOST, "raised", core.address) == given
        await rows.put_back()
        await _read(core, reader)
        await pager.until_told(LOST, "cleared", core.address)

        await edge.stop()
        await pager.until_standing("head-late", edge.address)
        over = len(of(pager.told, "head-late", "cleared", edge.address))
        await edge.start()
        await pager.until_told("head-late", "cleared", edge.address, again=over)
        assert await stream.stop() == 0, stream.said()
        table = duckdb.sql(f"FROM read_parquet('{tmp_path}/out/alarm/*/*/*.parquet')")
        assert table is not None
        written = table.project("finding, change, key").fetchall()
        told = {(one["finding"], one["change"], one["key"]) for one in pager.told}  # after a kill perhaps once more
        assert sorted(written) == sorted(told)
        assert [one["change"] for one in pager.about(LOST, core.address)] == ["raised", "cleared"]
        late = [one["change"] for one in pager.about("head-late", edge.address)]
        assert late == ["raised", "cleared"] * (len(late) // 2) + ["raised"] * (len(late) % 2)
