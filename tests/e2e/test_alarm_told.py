"""A loss at one of two nodes whose logs a stream audits is said to a command, once, and once more when it is over."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest
import trio
from rig import NodeProcess, Rig, new_key, rig
from rigs.patience import HANG_S

from router import connect
from router.core.wire.crypto import PublicKey

STREAM_S = 900
"""Seconds that a stream may take to begin, and for two batches, on a machine with much else to do."""
LITTLE_SEGMENTS = {"log.segment_s": 2}
TELL = "import sys; print(sys.stdin.read(), end='', file=open(sys.argv[1], 'a'))"


class Rows:
    """The rows of one queue, taken out of the store of a node that is stopped, and put back."""

    def __init__(self, node: NodeProcess, recipient: PublicKey) -> None:
        self._path, self._recipient = str(node.home.store_path), bytes(recipient)
        self._taken: dict[bytes, bytes] = {}

    def take(self) -> None:
        with lmdb.open(self._path, max_dbs=64, lock=False) as env:
            queues = env.open_db(b"queues", create=False)
            with env.begin(write=True) as txn:
                rows = {bytes(key): bytes(row) for key, row in txn.cursor(queues)}
                self._taken = {key: row for key, row in rows.items() if key[:32] == self._recipient}
                for key in self._taken:
                    txn.delete(key, db=queues)
        assert self._taken

    def put_back(self) -> None:
        with lmdb.open(self._path, max_dbs=64, lock=False) as env:
            queues = env.open_db(b"queues", create=False)
            with env.begin(write=True) as txn:
                for key, row in self._taken.items():
                    txn.put(key, row, db=queues)


@asynccontextmanager
async def a_stream(base: Path, *logs: Path) -> AsyncIterator[Path]:
    """Audit these logs as they grow; yield the file of what the command is told."""
    told = base / "told"
    told.touch()
    command = shlex.join([sys.executable, "-c", TELL, str(told)])
    arguments = ["-m", "spark_analytics.streaming", *map(str, logs), "--out", str(base / "out"), "--every", "0.5"]
    with (base / "stream.log").open("wb") as log:
        process = await trio.lowlevel.open_process(
            [sys.executable, *arguments, "--notify", command], stdout=log, stderr=log
        )
        try:
            yield told
        finally:
            process.terminate()
            with trio.fail_after(HANG_S):
                await process.wait()
    assert process.returncode == 0, (base / "stream.log").read_text()[-2000:]


def alarms(told: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.read_text().splitlines()]


async def until_told(told: Path, finding: str, change: str) -> dict[str, Any]:
    with trio.fail_after(STREAM_S):
        while not (found := [one for one in alarms(told) if (one["finding"], one["change"]) == (finding, change)]):
            await trio.sleep(0.2)
    return found[0]


@pytest.mark.long
@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("packaged_java")
async def test_a_loss_is_said_while_it_happens_and_once_more_when_it_is_over(tmp_path: Path) -> None:
    async with rig(tmp_path, within_s=3 * STREAM_S) as found:
        await _play(found, tmp_path)


async def _play(found: Rig, base: Path) -> None:
    reader = new_key()
    core, edge = found.node("core", "core", LITTLE_SEGMENTS), found.node("edge", "edge", LITTLE_SEGMENTS, listens=False)
    core.serves(edge)
    await core.start()
    await edge.start()
    async with connect(home=core.home, key=reader):
        await edge.until_connected(core.address)
    async with connect(home=edge.home) as writer:
        for n in range(3):
            await writer.send(reader.public, b"%d" % n, plain=True)
    await core.until_answer("three messages that wait", "queue", lambda rows: sum(r["messages"] for r in rows) == 3)
    async with a_stream(base, core.home.log_path, edge.home.log_path) as told:
        rows = Rows(core, reader.public)
        await core.stop()
        rows.take()
        await core.start()
        raised = await until_told(told, "alarm:unaccounted", "raised")
        assert (raised["router"], raised["peer"], raised["level"]) == (core.address.hex(), reader.public.hex(), "bad")
        assert json.loads(raised["evidence"])[0]["number"] == 3
        status = await core.ask("status")
        assert [one["alarm"] for one in status["alarms"]] == ["unaccounted"]
        await core.stop()
        rows.put_back()
        await core.start()
        async with connect(home=core.home, key=reader) as app:
            unicasts = app.unicasts(settle_on_next=False)
            for n in range(3):
                message = await anext(unicasts)
                assert message.body == b"%d" % n
                await message.settle()
        over = await until_told(told, "alarm:unaccounted", "cleared")
        assert (over["router"], over["peer"]) == (raised["router"], raised["peer"])
        assert not (await core.ask("status"))["alarms"]
    said = [(one["finding"], one["change"]) for one in alarms(told) if one["level"] == "bad"]
    assert said == [("alarm:unaccounted", "raised"), ("alarm:unaccounted", "cleared")]
    assert len({one["key"] for one in alarms(told)}) == len(alarms(told))
