"""The alarms of a stream over the logs of real nodes: its process, the command of `--notify`, and a loss in a store."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import lmdb
import trio
from rig import NodeProcess, Rig

from router.core.wire.crypto import PublicKey
from router.rig.process import Process

STREAM_S = 900
"""Seconds that a stream may take to begin, and for two batches, on a machine with much else to do."""
PAGER = """
import os, signal, sys
place, alarm = sys.argv[1], sys.stdin.read()
print(alarm, end="", file=open(place + "/given", "a"))
if os.path.exists(place + "/hangs") and open(place + "/hangs").read() in alarm:
    print(os.getpid(), file=open(place + "/pids", "a"))
    while True:
        signal.pause()
print(alarm, end="", file=open(place + "/told", "a"))
"""
Alarm = dict[str, Any]


class Pager:
    """The command of `--notify`. `given`: what it has read; `told`: that for which it has ended with code 0."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir()
        self.command = shlex.join([sys.executable, "-c", PAGER, str(directory)])

    @property
    def given(self) -> list[Alarm]:
        return self._lines("given")

    @property
    def told(self) -> list[Alarm]:
        return self._lines("told")

    def _lines(self, name: str) -> list[Alarm]:
        path = self._directory / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def hang(self, finding: str | None) -> None:
        """Let it hang from now on when it is given this finding; None: no more."""
        mark = self._directory / "hangs"
        if finding is None:
            mark.unlink()
        else:
            mark.write_text(json.dumps(finding))

    def close(self) -> None:
        """Kill what hangs although the stream that started it is gone."""
        path = self._directory / "pids"
        for pid in path.read_text().split() if path.exists() else ():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    async def until_told(self, finding: str, change: str, router: PublicKey, *, again: int = 0) -> Alarm:
        """Wait until it is told this of that router, beyond so many times; return the alarm."""
        return await _until(lambda: of(self.told, finding, change, router)[again:])

    async def until_standing(self, finding: str, router: PublicKey) -> None:
        """Wait until the last that it is told of this finding and router is that it is raised."""
        await _until(lambda: [one for one in self.about(finding, router)[-1:] if one["change"] == "raised"])

    def about(self, finding: str, router: PublicKey) -> list[Alarm]:
        return [one for one in self.told if (one["finding"], one["router"]) == (finding, router.hex())]

    async def until_given(self, finding: str, change: str, router: PublicKey) -> Alarm:
        """Wait until it has read this of that router; return the alarm."""
        return await _until(lambda: of(self.given, finding, change, router))


async def _until(found: Callable[[], list[Alarm]]) -> Alarm:
    with trio.fail_after(STREAM_S):
        while not (alarms := found()):
            await trio.sleep(0.2)
    return alarms[0]


def of(alarms: list[Alarm], finding: str, change: str, router: PublicKey) -> list[Alarm]:
    wanted = finding, change, router.hex()
    return [one for one in alarms if (one["finding"], one["change"], one["router"]) == wanted]


def stream_of(found: Rig, pager: Pager, nodes: list[NodeProcess], *more: str) -> Process:
    """Return the process of a stream over the logs of these nodes, which writes below the rig's directory."""
    logs = [str(node.home.log_path) for node in nodes]
    asked = [*logs, "--out", str(found.base / "out"), "--every", "0.5", "--notify", pager.command, *more]
    return found.process("stream", sys.executable, "-m", "spark_analytics.streaming", *asked)


class Rows:
    """The rows of one queue, taken out of the store of a node that is stopped, and put back."""

    def __init__(self, node: NodeProcess, recipient: PublicKey) -> None:
        self._node, self._recipient = node, bytes(recipient)
        self._taken: dict[bytes, bytes] = {}

    async def take(self) -> None:
        """Stop the node, lose the rows, and start it again."""
        await self._node.stop()
        with self._store() as env:
            queues = env.open_db(b"queues", create=False)
            with env.begin(write=True) as txn:
                rows = {bytes(key): bytes(row) for key, row in txn.cursor(queues)}
                self._taken = {key: row for key, row in rows.items() if key[:32] == self._recipient}
                for key in self._taken:
                    txn.delete(key, db=queues)
        assert self._taken
        await self._node.start()

    async def put_back(self) -> None:
        """Stop the node, put the rows back, and start it again."""
        await self._node.stop()
        with self._store() as env:
            queues = env.open_db(b"queues", create=False)
            with env.begin(write=True) as txn:
                for key, row in self._taken.items():
                    txn.put(key, row, db=queues)
        await self._node.start()

    def _store(self) -> lmdb.Environment:
        return lmdb.open(str(self._node.home.store_path), max_dbs=64, lock=False)
