"""Messages for the pools of the fleet, CAPD and DMQ at one core, by the commands that an operator would type."""

from __future__ import annotations

import json
import time
from itertools import count
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
CAPD_LIFE_S, DMQ_LIFE_S = 600, 1740
SIGNING_S = 40
"""Seconds that signing may take, of the life of a message for DMQ."""
PREFIX = "chaos"


class PoolOffers:
    """Offers messages to the pools of `node` until cancelled, and keeps those that were accepted. `keys`: the directory
    of a test pool's keys, which `router dmq keygen` has made. `life_s`: of each message, so that the pools stay as full
    as they are after that; None: as long as by default, and no more than `OFFERS_MAX` are offered."""

    def __init__(self, node: FleetNode, keys: Path, life_s: int | None = None) -> None:
        self._node = node
        self._keys = keys
        self._life_s = life_s
        self.accepted: list[PoolOffer] = []

    async def run(self) -> None:
        for number in count() if self._life_s else range(OFFERS_MAX):
            await self._post(f"{PREFIX} {number}")
            await self._submit(f"{PREFIX} {number} ".ljust(90, "."))
            await trio.sleep(OFFER_S)

    async def _post(self, text: str) -> None:
        asked_s, life = time.time(), ("--expires", str(self._life_s)) if self._life_s else ()
        done = await self._node.run("capd", "post", "--local", "--processes", "1", *life, "--json", text)
        if not done.code:
            until_s = asked_s + (self._life_s or CAPD_LIFE_S)
            self.accepted.append(PoolOffer("capd", done.json["id"], asked_s, time.time(), until_s))

    async def _submit(self, text: str) -> None:
        words, life_s = ("--network", DMQ_NETWORK), self._life_s or DMQ_LIFE_S
        draft = ("--ttl", str(life_s), "--keys", str(self._keys), "--json", text)
        signed = await run_command(program("router", "dmq", "sign", *words, *draft))
        if signed.code:
            raise RigFailed(f"`router dmq sign` ended with {signed.code}: {signed.stderr.strip()}")
        asked_s, place = time.time(), ("--socket", str(self._node.home.path / "dmq-node.socket"))
        done = await self._node.run("dmq", "submit", *words, *place, "--json", signed.json["message"])
        if not done.code:
            until_s = asked_s + life_s - SIGNING_S
            self.accepted.append(PoolOffer("dmq", signed.json["id"], asked_s, time.time(), until_s))

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
