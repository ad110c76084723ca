"""The second scene of `router demo --meet`: laptops on one network, without a server, through a pulled cable and a
kill."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import IPv4Network
from typing import Any

import trio

from router.actors.process import program
from router.demo.counts import compare, read_book
from router.demo.meeting import SceneCounts
from router.demo.narrator import Telling
from router.demo.processes import App, DemoNode, Stage
from router.rig import machines

TITLE = "on a local network"
GROUP = "table"
NETWORK = IPv4Network("10.64.0.0/15")
AT_FIRST, APART = 10, 40

why_not = machines.why_not


async def play(stage: Stage, telling: Telling) -> SceneCounts:
    """Let two laptops talk and a third look on, each in a network namespace of its own; count what they hear."""
    with ExitStack() as held:
        return await _Play(stage, telling.say, held.enter_context(machines.bridged(NETWORK))).play()


async def first_message(stage: Stage, say: Callable[[str], None], deaf: int | None = None) -> float:
    """Let two laptops meet, and return the seconds from the start of the second's `router lan on` until each hears the
    other. `deaf`: the one of the two that no multicast reaches, 0 or 1."""
    with machines.bridged(NETWORK) as bridge:
        play = _Play(stage, say, bridge, laptops=2)
        if deaf is not None:
            play.machines[deaf].deafen()
        return await play.begin()


class _Play:
    def __init__(self, stage: Stage, say: Callable[[str], None], bridge: machines.Bridge, laptops: int = 3) -> None:
        self._say = say
        self._meeting = SceneCounts(TITLE)
        self._base = stage.base
        self.laptops = [stage.node(f"laptop {number}", f"laptop-{number}") for number in range(1, laptops + 1)]
        self.machines = [bridge.machine() for _ in self.laptops]
        for node, machine in zip(self.laptops, self.machines, strict=True):
            node.served_by = (*machine.enter, *program("router"))
        marker = f"words-{secrets.token_hex(4)}"
        talking = self.laptops[:2]
        self.speakers = [stage.app(f"the speaker on {one.name}", "speaker", one, GROUP, marker) for one in talking]
        self.listeners = [
            stage.app(f"the app on {one.name}", "listener", one, GROUP, str(self._book(one))) for one in talking
        ]

    async def begin(self) -> float:
        await self._start()
        await self._two_talk()
        return self._meeting.first_s

    async def play(self) -> SceneCounts:
        for step in (self.begin, self._third_looks_on, self._cable_is_pulled):
            await step()
        return self._meeting

    async def _start(self) -> None:
        self._say("Three laptops start on one network. None can be dialled, and none knows another.")
        async with trio.open_nursery() as nursery:
            for node in self.laptops:
                nursery.start_soon(self._begin, node)
        first, second, *others = self.laptops
        await first.router("group", "new", GROUP)
        await second.router("group", "add", json.loads(await first.router("group", "share", GROUP, "--json"))["link"])
        for third in others:
            await third.router("group", "new", GROUP)
        async with trio.open_nursery() as nursery:
            for app in (*self.speakers, *self.listeners):
                nursery.start_soon(app.start)

    async def _begin(self, node: DemoNode) -> None:
        node.address = json.loads(await node.router("init", "--json"))["address"]
        await node.start()

    async def _two_talk(self) -> None:
        first, second, *_ = self.laptops
        await first.router("lan", "on")
        began_s = time.monotonic()
        await second.router("lan", "on")
        await self._both_joined()
        await self._publish(1, 1)
        for app in self.listeners:
            await app.until_received(2)
        self._meeting.first_s = round(time.monotonic() - began_s, 2)
        await self._publish(2, AT_FIRST)
        self._say(
            "On both: $ router lan on. The second has the first one's group link. Each hears what both say, "
            f"{self._meeting.first_s} s after the second command."
        )

    async def _third_looks_on(self) -> None:
        third = self.laptops[2]
        await third.router("lan", "on")

        def sees_two(rows: list[dict[str, Any]]) -> bool:
            return len([one for one in rows if one["standing"] == "met" and one["state"] == "connected"]) == 2

        await third.until_answer("meeting both", "peers", sees_two)
        rows = await third.ask("peers")
        shared = sum(one["shared"] or 0 for one in rows if one["standing"] == "met")
        self._meeting.check("groups that laptop 3, without the link, finds in common", shared, 0)
        self._say("Laptop 3 has no link. It sees that two nodes are there, and learns nothing of their group.")

    async def _cable_is_pulled(self) -> None:
        second, cable = self.laptops[1], self.machines[1]
        cable.pull()
        await self._publish(AT_FIRST + 1, APART)
        await second.kill()
        await second.start()
        cable.plug()
        self._say(
            "The cable of laptop 2 is pulled. Both say things that the other does not hear yet; laptop 2 is killed and "
            "starts again. Then the cable is back."
        )
        said = [one for speaker in self.speakers for one in speaker.taken]
        self._meeting.published = len(said)
        self._meeting.check("acknowledged", len(said), 2 * APART)
        for node, app in zip(self.laptops[:2], self.listeners, strict=True):
            await app.until_received(len(said))
            self._meeting.heard += self._heard(node, app)
        self._say("Each has heard what itself and the other said, every message once and in order.")

    def _heard(self, node: DemoNode, app: App) -> list[Any]:
        """Compare an app's book with the acknowledged messages, speaker by speaker, because order holds for each."""
        ids, numbers = read_book(self._book(node))
        by_id = dict(zip(ids, numbers, strict=True))
        found = []
        for speaker in self.speakers:
            own = [id for id in ids if id in set(speaker.taken)]
            where = f"{node.name}, of {speaker.name.removeprefix('the speaker on ')}"
            found.append(compare(where, speaker.taken, own, [by_id[id] for id in own], app.news["again"]))
        strange = len(set(ids) - {id for speaker in self.speakers for id in speaker.taken})
        self._meeting.check(f"messages in the book on {node.name} that nobody acknowledged", strange, 0)
        self._meeting.check(f"messages twice in the book on {node.name}", len(numbers) - len(set(ids)), 0)
        return found

    # -- waiting -----------------------------------------------------------------------------------------------

    async def _publish(self, first: int, last: int) -> None:
        for speaker in self.speakers:
            await speaker.tell(f"{first} {last}")
        for speaker in self.speakers:
            await speaker.until(f"publish {last} messages", lambda one=speaker: one.news.get("done") == last)  # type: ignore[misc]

    async def _both_joined(self) -> None:
        """Wait until each laptop's router has joined the group at the other."""
        first, second, *_ = self.laptops
        for one, other in ((first, second), (second, first)):

            def is_there(groups: list[dict[str, Any]], other: DemoNode = other) -> bool:
                return other.address in (row["subscriber"] for row in groups)

            await one.until_answer(f"the joining of {other.name}", "groups", is_there)

    def _book(self, node: DemoNode) -> Any:
        return self._base / f"{node.name.replace(' ', '-')}.book"
