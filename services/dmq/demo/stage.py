"""Play the demo: start the processes, kill the node and an aggregator between the answers, and wait until every
accepted message has been read."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from msgspec import Struct, field

from router.actors.process import program
from router.client.node import connect
from router.rig.process import Process, RigFailed, run_command, until
from services.dmq.core.protocols.handshake import MAGICS
from services.dmq.demo.script import Script

NETWORK = "preview"
CONSUMERS = ("first", "second")


class Played(Struct):
    """The results: the answer to each line of the script, and the lines that each aggregator has written."""

    answers: dict[int, dict[str, Any]] = field(default_factory=dict)
    replies: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    kills: int = 0
    seconds: float = 0.0


class Stage:
    """The processes of one demo, in a directory of their own. `tie`: as in `Process`."""

    def __init__(self, base: Path, script: Script, tie: int | None = None) -> None:
        self.home = base / "home"
        self._base = base
        self._script = script
        self._magic = str(MAGICS[NETWORK])
        (base / "stake.json").write_bytes(script.stake)
        (base / "script").write_text("".join(f"{one.signer} {one.wire.hex()}\n" for one in script.lines))
        serve = ["dmq", "serve", "--home", str(self.home), "--network", NETWORK]
        serve += ["--local-socket", str(base / "node.sock"), "--stake", str(base / "stake.json"), "--json"]
        for name in CONSUMERS:
            serve += ["--consumer", f"{name}={base / name}.sock"]
        self.node = Process("the node", program("router", *serve), base / "node.stderr", tie)
        self.aggregators = {
            name: Process(name, self._aggregator(name, chokes=name == CONSUMERS[0]), base / f"{name}.stderr", tie)
            for name in CONSUMERS
        }
        signers = program("services.dmq.demo.signers", str(base / "node.sock"), self._magic, str(base / "script"))
        self.signers = Process("the signers", signers, base / "signers.stderr", tie)

    def _aggregator(self, name: str, *, chokes: bool) -> list[str]:
        place = [str(self._base / f"{name}.sock"), self._magic, str(self._base / f"{name}.read")]
        return program("services.dmq.demo.aggregator", *place, *(["chokes"] if chokes else []))

    async def play(self, kills: int) -> Played:
        """Play to the end; kill the node and the first aggregator that often, at equal distances."""
        began_s, played = trio.current_time(), Played()
        total = len(self._script.lines)
        turns = {round(total * (at + 1) / (kills + 1)) for at in range(kills)}
        await self.node.start()
        for one in self.aggregators.values():
            await one.launch()
        await self.signers.launch()
        while line := await self.signers.line():
            found = json.loads(line)
            played.answers[found["number"]] = found
            if len(played.answers) in turns:
                played.kills += 1
                await self._kill()
        if code := await self.signers.wait():
            raise RigFailed(f"the signers ended with code {code}: {self.signers.said()}")
        await until("all that was accepted has been read", self._is_read)
        played.replies = {name: self.read(name) for name in CONSUMERS}
        played.seconds = trio.current_time() - began_s
        return played

    async def _kill(self) -> None:
        first = self.aggregators[CONSUMERS[0]]
        await self.node.kill()
        await first.kill()
        await self.node.start()
        await first.launch()

    async def _is_read(self) -> bool:
        status = await self.status()  # an error, while the service starts
        return "error" not in status and not any(one["lag"] for one in status["consumers"])

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.ask("service", "dmq status")
        return found

    async def mempool(self) -> list[dict[str, Any]]:
        """Return the live messages."""
        found: list[dict[str, Any]] = []
        after = 0
        while True:
            page = await self.ask("service", f"dmq mempool {after}")
            found += page["messages"]
            if not (after := page["next"]):
                return found

    async def ask(self, word: str, argument: str) -> Any:
        """Return the node's answer to an operator's question."""
        async with connect(home=self.home) as node:
            return json.loads(await node.ask(word, argument))

    def read(self, name: str) -> list[dict[str, Any]]:
        """Return the lines that an aggregator has written."""
        file = self._base / f"{name}.read"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    async def audit(self) -> dict[str, Any]:
        """Return the router's audit of the log, after the node has ended."""
        done = await run_command(program("router", "audit", str(self.home), "--json"))
        if done.code:
            raise RigFailed(f"the audit ended with code {done.code}: {done.stderr[-500:]}")
        found: dict[str, Any] = done.json
        return found

    async def end(self) -> None:
        for one in (self.signers, *self.aggregators.values(), self.node):
            await one.kill()


@asynccontextmanager
async def staged(base: Path, script: Script, *, tied: bool = True) -> AsyncIterator[Stage]:
    """Yield a stage whose processes end with the block, and if `tied` with this process however it ends."""
    reading, writing = os.pipe()
    stage = Stage(base, script, reading if tied else None)
    try:
        yield stage
    finally:
        with trio.CancelScope(shield=True):
            await stage.end()
        os.close(reading)
        os.close(writing)
