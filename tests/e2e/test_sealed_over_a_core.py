"""Two apps behind two edges speak over a core: a recorder with all that the core has finds no byte of any body."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest
import trio
from rig import NodeProcess, Rig, Tiers, three_tiers
from rigs.patience import HANG_S
from sealed_apps import MARK, SealedApp

from router import Node, connect
from router.rig.process import Process, until
from router.settings import keyring

DAY_S = 86_400


def app(node: NodeProcess, name: str) -> Node:
    return connect(home=node.home, as_name=name, journal=node.home.path / f"{name}.journal")


async def introduce(core: NodeProcess, *apps: tuple[NodeProcess, str]) -> None:
    """Let the core learn where each app is, which it does from what comes from there."""
    async with connect(home=core.home, as_name="porter") as porter:
        messages = porter.unicasts()
        for node, name in apps:
            async with app(node, name) as one:
                await one.send(porter.key, b"here I am", plain=True)
                await (await anext(messages)).settle()


def held_by(node: NodeProcess) -> list[bytes]:
    """Return what a frozen node has on its disk and, for root, in its memory, which nodes show to nobody else."""
    files = [path.read_bytes() for path in node.home.path.rglob("*") if path.is_file()]
    if os.geteuid():
        return files
    maps = Path(f"/proc/{node.pid}/maps").read_text()
    memory = []
    with Path(f"/proc/{node.pid}/mem").open("rb", 0) as read:
        for start, end, rights, path in re.findall(r"^(\w+)-(\w+) (\S+) \S+ \S+ \S+ *(.*)$", maps, re.MULTILINE):
            if rights.startswith("rw") and not path.startswith(("[v", "/dev")):
                read.seek(int(start, 16))
                memory.append(read.read(int(end, 16) - int(start, 16)))
    return files + memory


class Scene:
    """Both apps with their nodes, of which `here` writes while `away` is away."""

    def __init__(self, tiers: Tiers, seed: int) -> None:
        self.nodes = tiers.edge_a, tiers.core, tiers.edge_b
        self.core = tiers.core
        self.kills = 0
        self._chance = random.Random(seed)
        self._moved_s = 0
        self._moved_by = tiers.rig.base / "clock"
        self._moved_by.write_text("0")
        alice, bob = (tiers.edge_a, "alice"), (tiers.edge_b, "bob")
        self.here, self.away = (App(tiers.rig, *one, self._moved_by) for one in (alice, bob))
        self.here.writes_to(self.away)
        self.away.writes_to(self.here)

    async def kill_one(self) -> None:
        """Kill a node, or the app that is sending."""
        running: list[App | NodeProcess] = [node for node in self.nodes if node.is_running]
        victim = self._chance.choice([self.here, *running])
        await victim.kill()
        await victim.start()
        self.kills += 1

    async def pass_days(self, days: int) -> None:
        """Kill all nodes, and start them so many days later, less an hour, as messages live for seven days."""
        self._moved_s += days * DAY_S - 3600
        for node in self.nodes:
            self.kills += node.is_running
            await node.kill()
            node.move_clock(self._moved_s)
        await trio.to_thread.run_sync(self._moved_by.write_text, str(self._moved_s))
        async with trio.open_nursery() as nursery:
            for node in self.nodes:
                nursery.start_soon(node.start)

    async def check_recorder(self) -> None:
        """Search what the core has for what was said, and for who gets it, which it must know."""
        await self.core.freeze()
        held = held_by(self.core)
        self.core.thaw()
        assert not [one for one in held if MARK in one] and [one for one in held if bytes(self.away.key) in one]

    async def play(self, messages: int, days: int, kills: int) -> None:
        """Write while the other and its node are away for days, kill, and let the other read; then it is its turn."""
        here, away, last = self.here, self.away, self.here.wanted + messages
        await away.kill()
        await away.node.kill()
        self.kills += 2
        for _ in range(kills):
            await here.send(messages // (2 * kills))
            await self.kill_one()
            await here.until_sent()
        await self.check_recorder()
        await self.pass_days(days)
        await here.send(last - here.wanted)
        await here.until_sent()
        await away.start()
        await away.until_handled(here)
        self.here, self.away = away, here


class App:
    """One of the apps, a process, and what its book says."""

    process: Process

    def __init__(self, rig: Rig, node: NodeProcess, name: str, moved_by: Path) -> None:
        """`moved_by`: the file that moves its clock."""
        self.node, self.name, self.key = node, name, keyring.load_or_create(node.home, name).public
        self.wanted = self._open = 0
        self._rig, self._moved_by = rig, moved_by

    def writes_to(self, other: App) -> None:
        """Set the one to whom it writes, before it is started."""
        book, clock = self._rig.base / f"{self.name}.book", str(self._moved_by)
        self.script = SealedApp(str(self.node.home.path), self.name, other.key.hex(), clock, str(book))
        self.process = self._rig.process(self.name, *self.script.command)

    async def start(self) -> None:
        await self.process.start()
        if (rest := self.wanted - self.script.count("tries")) > 0:
            await self.process.tell(str(rest))

    async def kill(self) -> None:
        await self.process.kill()
        self._open = self.script.count("tries") - self.script.count("sent")

    async def send(self, count: int) -> None:
        self.wanted += count
        await self.process.tell(str(count))

    async def until_sent(self) -> None:
        async def is_so() -> bool:
            assert self.process.is_running, self.process.said()
            return self.script.count("tries") == self.wanted == self.script.count("sent") + self._open

        await until(f"the sending of {self.wanted} messages", is_so)

    async def until_handled(self, other: App) -> None:
        async def is_so() -> bool:
            assert self.process.is_running, self.process.said()
            return other.numbers("sent") <= self.numbers("handled")

        await until("the handling of all that was sent", is_so)

    def numbers(self, what: str) -> set[str]:
        return {of for said, of in self.script.lines() if said == what}

    def check(self, other: App) -> None:
        """Compare what was shown with what the other has sent, and find what was shown after it was handled."""
        handled, problems = set[str](), self.numbers("problem")
        for what, of in self.script.lines():
            assert what != "shows" or of not in handled, f"{of} is shown again"
            handled |= {of} if what == "handled" else set()
        assert other.numbers("sent") <= self.numbers("shows") <= other.numbers("tries")
        assert not [one for one in problems if "opened" in one or "expired" in one], problems


@pytest.mark.parametrize(
    ("messages", "days", "kills"),
    [(60, (7,), 2), pytest.param(450, (7, 7, 7, 7, *(7, 6, 5, 4, 3, 2, 1) * 3), 3, marks=pytest.mark.long)],
)
async def test_two_apps_away_in_turn_for_days_and_killed_lose_nothing_and_no_recorder_reads_it(
    tmp_path: Path, messages: int, days: tuple[int, ...], kills: int
) -> None:
    within_s = HANG_S * len(days)
    with trio.fail_after(within_s):
        async with three_tiers(tmp_path, within_s=within_s) as tiers:
            await introduce(tiers.core, (tiers.edge_a, "alice"), (tiers.edge_b, "bob"))
            scene = Scene(tiers, seed=len(days))
            alice, bob = scene.here, scene.away
            await alice.start()
            await bob.start()
            for one, other in ((alice, bob), (bob, alice)):
                await one.send(1)
                await one.until_sent()
                await other.until_handled(one)
            for turn in days:
                await scene.play(messages, turn, kills)
            alice.check(bob)
            bob.check(alice)
            sent = alice.numbers("sent") | {f"{one} of bob" for one in bob.numbers("sent")}
    assert len(sent) > len(days) * (messages - kills) and scene.kills >= len(days) * (kills + 4)


async def test_the_recorder_finds_what_goes_in_the_open(tmp_path: Path) -> None:
    with trio.fail_after(HANG_S):
        async with three_tiers(tmp_path) as (_, edge_a, core, edge_b):
            await introduce(core, (edge_a, "alice"), (edge_b, "bob"))
            bob = app(edge_b, "bob").key
            async with app(edge_a, "alice") as alice:
                await alice.send(bob, MARK, plain=True)
            async with app(edge_b, "bob") as node:
                message = await anext(node.unicasts())
                assert (message.body, message.sealed) == (MARK, False)
            await core.freeze()
            assert [one for one in held_by(core) if MARK in one]
            core.thaw()
