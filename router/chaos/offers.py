"""Messages for the pools of the fleet, CAPD and DMQ at one core, by the commands that an operator would type."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import trio

import router
from router.actors.process import program
from router.chaos.fleet import DMQ_NETWORK, FleetNode
from router.chaos.pools import PoolOffer
from router.rig.process import HANG_S, RigFailed, run_command

OFFER_S = 15.0
"""Seconds between two messages for each pool: a command is a process, which costs a second of CPU."""
OFFERS_MAX = 90
"""A DMQ node takes 100 live messages of one pool (`services.dmq.pool_messages_max`)."""
CAPD_LIFE_S, DMQ_LIFE_S = 600.0, 1700.0
PREFIX = "chaos"


class PoolOffers:
    """Offers messages to the pools of `node` until cancelled, and keeps those that were accepted. `keys`: the directory
    of a test pool's keys, which `router dmq keygen` has made."""

    def __init__(self, node: FleetNode, keys: Path) -> None:
        self._node = node
        self._keys = keys
        self.accepted: list[PoolOffer] = []

    async def run(self) -> None:
        for number in range(OFFERS_MAX):
            await self._post(f"{PREFIX} {number}")
            await self._submit(f"{PREFIX} {number} ".ljust(90, "."))
            await trio.sleep(OFFER_S)

    async def _post(self, text: str) -> None:
        asked_s = time.time()
        done = await self._node.run("capd", "post", "--local", "--processes", "1", "--json", text)
        if not done.code:
            self.accepted.append(PoolOffer("capd", done.json["id"], asked_s, time.time(), asked_s + CAPD_LIFE_S))

    async def _submit(self, text: str) -> None:
        words = ("--network", DMQ_NETWORK)
        signed = await run_command(program("router", "dmq", "sign", *words, "--keys", str(self._keys), "--json", text))
        if signed.code:
            raise RigFailed(f"`router dmq sign` ended with {signed.code}: {signed.stderr.strip()}")
        asked_s, place = time.time(), ("--socket", str(self._node.home.path / "dmq-node.socket"))
        done = await self._node.run("dmq", "submit", *words, *place, "--json", signed.json["message"])
        if not done.code:
            self.accepted.append(PoolOffer("dmq", signed.json["id"], asked_s, time.time(), asked_s + DMQ_LIFE_S))

    async def held(self) -> dict[str, set[str]]:
        """Return the ids that each pool holds."""
        found = await self._node.run("capd", "query", "--prefix", PREFIX.encode().hex(), "--json")
        if found.code:
            raise RigFailed(f"`router capd query` ended with {found.code}: {found.stderr.strip()}")
        return {"capd": {one["id"] for one in found.lines}, "dmq": await self._mempool()}

    async def _mempool(self) -> set[str]:
        found, after = set[str](), 0
        async with router.connect(home=self._node.home) as app:
            while True:
                page: dict[str, Any] = json.loads(await app.ask("service", f"dmq mempool {after}", timeout_s=HANG_S))
                found |= {one["id"] for one in page["messages"]}
                if not (after := page["next"]):
                    return found
