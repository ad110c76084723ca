"""The first scene of `router demo --meet`: a core invites laptops by a link and a QR code, through kills of both."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from typing import Any

import trio

from router.cli.exits import Exit
from router.demo.counts import compare, read_book
from router.demo.meeting import SceneCounts
from router.demo.narrator import Telling
from router.demo.processes import DemoNode, Stage

TITLE = "by invitation"
GROUP = "friends"
MESSAGES = 50


def why_not() -> str:
    """Return "": this scene can be played on every machine."""
    return ""


async def play(stage: Stage, telling: Telling) -> SceneCounts:
    """Let three laptops in, one of them through kills of core and laptop, and count what they hear."""
    return await _Play(stage, telling.say).play()


async def first_message(stage: Stage, say: Callable[[str], None]) -> float:
    """Let two laptops in, and return the seconds from the start of `router invite` until one of them hears the
    other."""
    return await _Play(stage, say, laptops=2).begin()


class _Play:
    def __init__(self, stage: Stage, say: Callable[[str], None], laptops: int = 4) -> None:
        self._say = say
        self._meeting = SceneCounts(TITLE)
        self._core_url = ""
        self._base = stage.base
        self.core = stage.node("the core", "core")
        self.laptops = [stage.node(f"laptop {number}", f"laptop-{number}") for number in range(1, laptops + 1)]
        marker = f"words-{secrets.token_hex(4)}"
        self.speaker = stage.app("the app on laptop 1", "speaker", self.laptops[0], GROUP, marker)
        self.listeners = {
            node.name: stage.app(f"the app on {node.name}", "listener", node, GROUP, str(self._book(node)))
            for node in self.laptops[1:3]
        }

    async def begin(self) -> float:
        await self._start()
        await self._two_come()
        return self._meeting.first_s

    async def play(self) -> SceneCounts:
        for step in (self.begin, self._one_comes_through_kills, self._one_too_many, self._all_talk):
            await step()
        return self._meeting

    async def _start(self) -> None:
        self._say(
            f"A core and {len(self.laptops)} laptops start, each with a key and a home of its own. None knows another."
        )
        async with trio.open_nursery() as nursery:
            for node, role in ((self.core, "core"), *((laptop, "edge") for laptop in self.laptops)):
                nursery.start_soon(self._init, node, role)
        await self.core.router("group", "new", GROUP)
        await self.core.start("--listen", "tls://127.0.0.1:0")
        self._core_url = next(url for url in self.core.news["listeners"] if url.startswith("tls:"))
        async with trio.open_nursery() as nursery:
            for laptop in self.laptops:
                nursery.start_soon(laptop.start)

    async def _init(self, node: DemoNode, role: str) -> None:
        node.address = json.loads(await node.router("init", "--role", role, "--json"))["address"]

    async def _invite(self, uses: int, *more: str) -> dict[str, Any]:
        words = ("invite", "--group", GROUP, "--uses", str(uses), "--at", self._core_url, *more, "--json")
        found: dict[str, Any] = json.loads(await self.core.router(*words))
        return found

    async def _two_come(self) -> None:
        first, second, *_ = self.laptops
        code = self._base / "code.png"
        began_s = time.monotonic()
        link = (await self._invite(2, "--png", str(code)))["link"]
        self._say("On the core: $ router invite --group friends --uses 2 --png code.png")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(first.router, "peer", "add", link, "--yes")
            nursery.start_soon(second.router, "peer", "add", str(code), "--yes")
        heard = self.listeners[second.name]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(heard.start)
            nursery.start_soon(self.speaker.start)
        await self._joined(second)
        await self._publish(1, 1)
        await heard.until_received(1)
        self._meeting.first_s = round(time.monotonic() - began_s, 2)
        self._say(
            "Laptop 1 takes the link, laptop 2 the picture: $ router peer add code.png. The first message of laptop 1 "
            f"is heard on laptop 2, {self._meeting.first_s} s after the core began to make the invitation."
        )

    async def _one_comes_through_kills(self) -> None:
        third = self.laptops[2]
        self._link = (await self._invite(1))["link"]
        await self.core.kill()
        await third.router("peer", "add", self._link, "--yes", "--timeout", "0", or_code=Exit.TIMED_OUT)
        await third.kill()
        await self.core.start("--listen", self._core_url)
        await third.start()
        await self._let_in(third)
        await self.core.kill()
        await third.kill()
        await third.start()
        await self.core.start("--listen", self._core_url)
        await self.listeners[third.name].start()
        await self._joined(third)
        self._say(
            "The core invites once more and is killed. Laptop 3 takes the link, and is killed too. Both start again, "
            "and laptop 3 is let in. Both are killed once more, and it stays in."
        )

    async def _one_too_many(self) -> None:
        fourth = self.laptops[3]
        done = await fourth.run("peer", "add", self._link, "--yes", "--json")
        self._meeting.check("exit code for the guest too many", done.code, int(Exit.REFUSED))
        reason = json.loads(done.stdout)["reason"] if done.stdout else ""
        self._meeting.check("its reason", reason, "invite:used-up")
        rows = json.loads(await self.core.router("invite", "list", "--json"))
        uses = sorted((one["used"], one["uses"]) for one in rows)
        self._meeting.check("uses taken of those given", uses, [(1, 1), (2, 2)])
        peers = json.loads(await self.core.router("peer", "list", "--json"))
        self._meeting.check("guests of the core", len(peers), 3)
        self._say(f"Laptop 4 takes the same link and is told no, because of its uses ({reason}).")

    async def _all_talk(self) -> None:
        await self._publish(2, MESSAGES)
        published = self._meeting.published = len(self.speaker.taken)
        self._meeting.check("acknowledged", published, MESSAGES)
        for node, said in ((self.laptops[1], self.speaker.taken), (self.laptops[2], self.speaker.taken[1:])):
            app = self.listeners[node.name]
            await app.until_received(len(said))
            ids, numbers = read_book(self._book(node))
            self._meeting.heard.append(compare(node.name, said, ids, numbers, app.news["again"]))
        self._say(f"Laptop 1 says {published - 1} things more, and laptops 2 and 3 hear each once.")

    # -- waiting -----------------------------------------------------------------------------------------------

    async def _publish(self, first: int, last: int) -> None:
        await self.speaker.tell(f"{first} {last}")
        await self.speaker.until(f"publish {last} messages", lambda: self.speaker.news.get("done") == last)

    async def _let_in(self, laptop: DemoNode) -> None:
        def is_in(rows: list[dict[str, Any]]) -> bool:
            return [one["outcome"] for one in rows] == ["joined"]

        await laptop.until_answer("the core's yes", "invited", is_in)

    async def _joined(self, laptop: DemoNode) -> None:
        """Wait until the core knows that the laptop is in the group."""

        def is_there(groups: list[dict[str, Any]]) -> bool:
            return laptop.address in (one["subscriber"] for one in groups)

        await self.core.until_answer(f"the joining of {laptop.name}", "groups", is_there)

    def _book(self, node: DemoNode) -> Any:
        return self._base / f"{node.name.replace(' ', '-')}.book"
