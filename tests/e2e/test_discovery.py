"""Cores that know one other core come to know all, on real sockets (R-D21, R-D24)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import trio
from rig import QUICK, NodeProcess, Rig, rig
from rigs.machines import bridged
from rigs.ports import free_port

from router.actors.process import program
from router.core.wire.crypto import PublicKey
from router.rig.machines import NamespaceMachine
from router.settings.config_services import NewHomeService
from router.settings.home import Home

PERIOD_S = 1.0
PERIODS = 30


class Core:
    """A core that runs discovery, on a machine of its own or on this one."""

    def __init__(
        self, found: Rig, name: str, machine: NamespaceMachine | None = None, *, seeds: tuple[str, ...] = ()
    ) -> None:
        url = f"tls://{machine.ip}:4100" if machine is not None else f"tls://127.0.0.1:{free_port()}"
        settings: Mapping[str, object] = {"sampling": True, "period_s": PERIOD_S, "seeds": seeds}
        self.url = url
        Home(found.base / name).create("core", (url,), {"discovery": NewHomeService(settings)})
        self.node: NodeProcess = found.node(name, "core", QUICK, listens=False)
        if machine is not None:
            self.node.served_by = (*machine.enter, *program("router"))

    @property
    def address(self) -> PublicKey:
        return self.node.address

    async def link(self) -> str:
        return (await self.node.run("id", "--link")).stdout.strip()

    async def until_it_knows(self, others: Iterable[Core]) -> None:
        wanted = {one.address.hex() for one in others if one is not self}

        def knows(rows: list[dict[str, object]]) -> bool:
            return wanted <= {str(row["address"]) for row in rows}

        await self.node.until_answer(f"the finding of {len(wanted)} others", "peers", knows)


async def start(cores: Iterable[Core]) -> None:
    async with trio.open_nursery() as nursery:
        for one in cores:
            nursery.start_soon(one.node.start)


async def until_all_know(who: list[Core], others: list[Core]) -> float:
    """Return how long it took until each of these cores knew all others."""
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        for one in who:
            nursery.start_soon(one.until_it_knows, others)
    return trio.current_time() - began_s


@pytest.mark.parametrize("known_as", ("seed", "neighbour"))
async def test_three_cores_of_which_two_are_told_of_the_first_know_each_other(tmp_path: Path, known_as: str) -> None:
    async with rig(tmp_path) as found:
        first = Core(found, "1")
        seeds = (await first.link(),) if known_as == "seed" else ()
        cores = [first, *(Core(found, name, seeds=seeds) for name in ("2", "3"))]
        for one in cores[1:] if known_as == "neighbour" else ():
            one.node.knows(first.address, url=first.url)
            first.node.knows(one.address)
        await start(cores)
        await until_all_know(cores, cores)
        for one in cores:
            [service] = (await one.node.ask("status"))["services"]
            assert (service["name"], service["problem"]) == ("discovery", "")


@pytest.mark.long
async def test_nine_cores_know_each_other_without_the_first_and_a_tenth_is_known_to_all(tmp_path: Path) -> None:
    """Nine machines: eight know only the first, which then dies; a tenth knows only the third."""
    with bridged() as bridge:
        async with rig(tmp_path) as found:
            first = Core(found, "1", bridge.machine())
            link = await first.link()
            cores = [first, *(Core(found, str(n), bridge.machine(), seeds=(link,)) for n in range(2, 10))]
            await start(cores)
            took_s = await until_all_know(cores, cores)
            await first.node.kill()
            tenth = Core(found, "10", bridge.machine(), seeds=(await cores[2].link(),))
            alive = [*cores[1:], tenth]
            await start([tenth])
            later_s = await until_all_know(alive, alive)
            print(
                f"nine know each other after {took_s / PERIOD_S:.0f} periods, all of the tenth after "
                f"{later_s / PERIOD_S:.0f}; the aim is {PERIODS}"
            )
