"""One round of chaos: a fleet is started, faults are done to it, what waits is delivered, and everything is judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio
from msgspec import Struct, field

from router.actors.process import program
from router.chaos.app import APP
from router.chaos.audited import FleetAudit, disagreements, load_tables
from router.chaos.faults import Faults
from router.chaos.fleet import Fleet
from router.chaos.ledger import Judged
from router.chaos.offers import PoolOffers
from router.chaos.pools import missing
from router.chaos.schedule import Schedule
from router.chaos.shape import FleetShape
from router.cli.exits import innermost
from router.client.errors import ClientError
from router.rig.node import address_of
from router.rig.process import RigFailed, run_command
from router.settings import keyring

DRAIN_S = 120.0
"""Seconds after the last fault is mended within which everything must be delivered; what was not by then is lost."""
POLL_S = 0.5


class ChaosResult(Struct):
    """The outcome of a round. `faults`: how many were done; `offers`: how many messages the pools accepted;
    `failures`: a sentence for each thing that is wrong."""

    faults: int = 0
    restores: int = 0
    offers: int = 0
    seconds: float = 0.0
    drained_s: float = 0.0
    judged: Judged = field(default_factory=Judged)
    audit: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class RoundPlan(Struct, frozen=True):
    """How a round is played: for `seconds` seconds at least, with `per_s` messages a second of each app. `pools`:
    whether one core has the pools of CAPD and DMQ as well."""

    shape: FleetShape
    seconds: float
    per_s: float
    pools: bool


async def play_round(base: Path, plan: RoundPlan, schedule: Schedule, say: Callable[[str], None]) -> ChaosResult:
    """Play a schedule in this directory, and end every process."""
    began = trio.current_time()
    fleet, found = Fleet(base, plan.shape, plan.per_s, pools=plan.pools), ChaosResult()
    async with trio.open_nursery() as nursery:
        await fleet.serve_relays(nursery)
        try:
            await _play(fleet, schedule, plan.seconds, say, found)
        except Exception as error:
            failed = innermost(error)
            if not isinstance(failed, RigFailed | ClientError):
                raise
            found.failures.append(str(failed))
        finally:
            with trio.CancelScope(shield=True):
                await fleet.end()
        nursery.cancel_scope.cancel()
    found.restores = len(fleet.ledger.restores)
    found.failures += fleet.tracebacks()
    found.seconds = round(trio.current_time() - began, 1)
    return found


async def _play(
    fleet: Fleet, schedule: Schedule, seconds: float, say: Callable[[str], None], found: ChaosResult
) -> None:
    say("nodes and apps start")
    await fleet.start()
    faults, ends = Faults(fleet, say), trio.current_time() + seconds
    offers = PoolOffers(fleet.nodes[fleet.shape.apart], fleet.pool_keys) if fleet.pool_keys else None
    async with trio.open_nursery() as beside:
        if offers:
            beside.start_soon(offers.run)
        try:
            await faults.carry_out(schedule)
        finally:
            found.faults = faults.done
        await trio.sleep_until(ends)
        beside.cancel_scope.cancel()
    fleet.check_running()
    await fleet.hush()
    found.drained_s = round(await _drain(fleet, say), 1)
    found.judged = fleet.ledger.judge(time.time())
    found.failures += found.judged.failures()
    found.failures += await fleet.left_in_queues(DRAIN_S)
    if offers:
        found.offers = len(offers.accepted)
        restores = [one for one in fleet.ledger.restores if one.node == fleet.shape.apart]
        found.failures += missing(offers.accepted, await offers.held(), restores, time.time())
    say("the nodes stop, and their logs are audited")
    apps = {name: (bytes(address_of(node.home)).hex(), _app_of(fleet, name)) for name, node in fleet.nodes.items()}
    found.failures += await fleet.stop()
    fleet.read_ledgers()
    audit = await _audited(fleet, apps)
    found.audit = dict(audit.summary)
    found.failures += disagreements(fleet.ledger, audit, time.time())


async def _drain(fleet: Fleet, say: Callable[[str], None]) -> float:
    """Wait until nothing is lost any more; return how many seconds that took, `DRAIN_S` at most."""
    began = trio.current_time()
    while (took_s := trio.current_time() - began) < DRAIN_S:
        fleet.read_ledgers()
        waits = fleet.ledger.waits(time.time())
        if not waits:
            break
        say(f"{waits} deliveries are awaited")
        await trio.sleep(POLL_S)
    return took_s


def _app_of(fleet: Fleet, name: str) -> str:
    return bytes(keyring.load(fleet.nodes[name].home, APP).public).hex()


async def _audited(fleet: Fleet, apps: Mapping[str, tuple[str, str]]) -> FleetAudit:
    out = fleet.base / "audit"
    homes = [str(node.home.path) for node in fleet.nodes.values()]
    done = await run_command(program("router", "audit", *homes, "--out", str(out), "--json"))
    if done.code:
        raise RigFailed(f"`router audit` ended with {done.code}: {done.stderr.strip()}")
    return load_tables(out, apps, done.json)
