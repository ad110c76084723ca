"""The router's latency beside a large pool that neighbours flood, on real sockets and a real disk."""

from __future__ import annotations

import json
import socket
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from router.actors.process import program
from router.bench.goal import Goal
from router.client.node import connect
from router.disk.state.service_state import Batch, State
from router.rig.process import HANG_S, Process, RigFailed, run_command, until
from services.capd.bench.flood import NETWORK
from services.capd.bench.pools import DATA_BYTES, HALF_BYTES, KEY_BYTES, first_half
from services.capd.core import rows
from services.capd.core.lives import Life
from services.capd.core.message import COUNTED_BYTES, CapdMessage
from services.capd.core.priority import LIFE_S, bits_for

MESSAGES_PER_S, QUERIES_PER_S = 2_000, 200
RATE, PAIR_MESSAGES = 200, 2_000
BATCH = 20_000
GROUP = "bench"


def fill(path: Path, count: int) -> None:
    """Write `count` messages of the last minutes into a pool's state, without doing their work."""
    state, chance = State(path), Random(7)
    now_s = int(time.time())
    rest = bytes(DATA_BYTES - KEY_BYTES)
    bits = [bits_for(4.0 + 40.0 * chance.random() ** 4, DATA_BYTES) for _ in range(256)]
    for first in range(0, count, BATCH):
        batch = Batch()
        for number in range(first, min(count, first + BATCH)):
            data = first_half(number, count) + chance.randbytes(HALF_BYTES) + rest
            message = CapdMessage(data, now_s - chance.randrange(LIFE_S // 4), bits[number % 256], b"\0")
            kept = rows.Kept(chance.randbytes(32), Life.HELD, message)
            batch.kept[rows.message_key(number + 1)] = rows.encode_kept(kept)
        batch.kept[rows.STATE] = rows.encode_state(count)
        state.commit(batch, now_s // 60)
    state.close()


class Node:
    """A node with a pool, in a home of its own."""

    def __init__(self, base: Path, count: int) -> None:
        self.home, self._base, self._count = base / "home", base, count
        self.place = f"127.0.0.1:{_free_port()}"
        self.process = Process(
            "the node", program("router", "--home", str(self.home), "serve", "--json"), base / "stderr"
        )

    async def start(self) -> None:
        """Make the home with its full pool, and return when the pool answers."""
        await self._run("init")
        pool_bytes = max(4096, self._count * (COUNTED_BYTES + DATA_BYTES))
        (self.home / "router.toml").write_text(
            '[node]\nservices = ["services.capd"]\n[services.capd]\n'
            f'network = "{NETWORK}"\nlisten = "{self.place}"\npool_bytes = {pool_bytes}\n'
        )
        fill(self.home / "services" / "capd", self._count)
        await self.process.start()
        await until("the pool answers", self._answers)
        await self._run("group", "new", GROUP)

    async def _run(self, *arguments: str) -> None:
        made = await run_command(program("router", "--home", str(self.home), *arguments))
        if made.code:
            raise RigFailed(f"`router {' '.join(arguments)}` has failed: {made.stderr}")

    async def _answers(self) -> bool:
        async with connect(home=self.home) as app:
            found = json.loads(await app.ask("service", "capd peers", timeout_s=HANG_S))
        return "error" not in found

    async def p50_ms(self) -> float:
        words = str(self.home), GROUP, str(PAIR_MESSAGES), str(RATE)
        pair = Process("the pair", program("router.bench.beside", *words), self._base / "pair.stderr")
        return float((await _result(pair))["p50_ms"])


async def _result(process: Process) -> dict[str, Any]:
    """Start a process, and return what it prints at its end."""
    await process.start()
    await process.tell("")
    return await _line(process)


async def _line(process: Process) -> dict[str, Any]:
    line = await process.line()
    if not line:
        raise RigFailed(f"{process.name} ended early, with code {await process.wait()}: {process.said()}")
    await process.kill()
    return dict(json.loads(line))


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def beside(count: int) -> list[Goal]:
    """Measure the latency without the flood and with it."""
    with tempfile.TemporaryDirectory(prefix="capd-bench-") as base:
        node = Node(Path(base), count)
        try:
            await node.start()
            quiet = await node.p50_ms()
            words = node.place, str(MESSAGES_PER_S), str(QUERIES_PER_S)
            flood = Process("the flood", program("services.capd.bench.flood", *words), Path(base) / "flood.stderr")
            await flood.start()
            await flood.tell("")
            loud = await node.p50_ms()
            await flood.tell("")
            said = await _line(flood)
        finally:
            if node.process.is_running:
                await node.process.stop()
    title = (
        f"The router beside {MESSAGES_PER_S:,} messages below the line and {QUERIES_PER_S} queries a second at a pool "
        f"of {count:,}: median latency at {RATE}/s, times that without"
    )
    answered = said["answers"] / max(1, said["queries"])
    remark = f"{loud:.2f} ms against {quiet:.2f} ms; {answered:.0%} of {said['queries']:,} queries answered"
    return [Goal(title, loud / quiet, 1.5, more=False, remark=remark)]
