"""Faults done to a fleet, and mended: signals to processes, files, and relays, with no rights but the user's own."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack

import trio

from router.chaos.fleet import FULL, Fleet, FleetNode
from router.chaos.ledger import NodeRestore
from router.chaos.schedule import DRIFT_EVERY_S, Fault, Schedule
from router.rig.process import RigFailed


class Faults:
    """Carries out a schedule. `say` is called with a sentence when a fault begins."""

    def __init__(self, fleet: Fleet, say: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._say = say
        self._turns: defaultdict[str, trio.Lock] = defaultdict(trio.Lock)
        self.done = 0

    async def carry_out(self, schedule: Schedule) -> None:
        """Begin and mend each fault in its time; return when all are mended."""
        async with trio.open_nursery() as nursery:
            for fault in schedule:
                nursery.start_soon(self._in_its_time, fault, trio.current_time() + fault.at_s)

    async def _in_its_time(self, fault: Fault, begins: float) -> None:
        """Wait for the time of the fault, and for the end of one before it that took longer than it should."""
        await trio.sleep_until(begins)
        async with AsyncExitStack() as held:
            for one in fault.claims:
                await held.enter_async_context(self._turns[one])
            self._fleet.check_running()
            self._say(str(fault))
            await (self._link_fault if ">" in fault.target else self._node_fault)(fault)
            self.done += 1

    async def _link_fault(self, fault: Fault) -> None:
        relays = self._fleet.relays(fault.target)
        for relay in relays:
            match fault.kind:
                case "cut":
                    relay.cut()
                case "break":
                    relay.break_off()
                case _:
                    relay.slow(fault.amount)
        await trio.sleep(fault.for_s)
        for relay in relays:
            relay.mend()

    async def _node_fault(self, fault: Fault) -> None:
        node, app = self._fleet.nodes[fault.target], self._fleet.apps[fault.target]
        match fault.kind:
            case "kill":
                await node.kill()
                await trio.sleep(fault.for_s)
                await node.start()
            case "stop":
                await _stop(node)
                await trio.sleep(fault.for_s)
                await node.start()
            case "freeze":
                await node.freeze()
                await trio.sleep(fault.for_s)
                node.thaw()
            case "fill":
                await _stop(node)
                await node.start("--set", FULL)
                await trio.sleep(fault.for_s)
                await _stop(node)
                await node.start()
            case "clock":
                node.step_clock(fault.amount)
                await trio.sleep(fault.for_s)
                node.step_clock(-fault.amount)
            case "drift":
                await _drift(node, fault)
            case "restore":
                await self._restore(node, fault)
            case "app":
                await app.kill()
                await trio.sleep(fault.for_s)
                await app.launch()
            case _:
                await node.kill_apart()

    async def _restore(self, node: FleetNode, fault: Fault) -> None:
        """Lose the node's machine some time after a snapshot: its app ends with it, and begins anew in the restored
        home."""
        file, saved_s, app = self._fleet.base / f"{fault.number}.snapshot", time.time(), self._fleet.apps[node.name]
        await node.save(file)
        await trio.sleep(fault.for_s)
        await app.kill()
        await node.kill()
        self._fleet.ledger.restores.append(NodeRestore(node.name, saved_s, time.time()))
        await node.restore(file)
        await node.start()
        await app.launch()
        file.unlink()


async def _drift(node: FleetNode, fault: Fault) -> None:
    """Step a node's clock at once and then every `DRIFT_EVERY_S`, in all by `fault.drifted_s`."""
    begins = trio.current_time()
    for number in range(round(fault.drifted_s / fault.amount)):
        await trio.sleep_until(begins + number * DRIFT_EVERY_S)
        node.step_clock(fault.amount)
    await trio.sleep_until(begins + fault.for_s)


async def _stop(node: FleetNode) -> None:
    """Stop a node as its operator would. Raise `RigFailed` unless it drains and ends in order."""
    if code := await node.stop():
        raise RigFailed(f"{node.name} did not drain and stop, code {code}: {node.said()}")
