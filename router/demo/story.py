"""The story: who is started, what is published, who is killed when, and who must have what in the end."""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import Any

import trio

from router.demo.cast import DemoFailed, Node, Stage
from router.demo.counts import Counts, heard, read_book, search
from router.demo.telling import Telling

GROUP = "friends"
FIRST = 100


async def perform(base: Path, messages: int, telling: Telling) -> Counts:
    """Play it in that directory; nobody is left when this returns. `DemoFailed` if it cannot go on."""
    async with trio.open_nursery() as nursery:
        story: Story | None = None
        stage = Stage(base, nursery, lambda: story.progress() if story else None)
        story = Story(stage, messages, telling)
        try:
            counts = await story.play()
        finally:
            await stage.clear()
        nursery.cancel_scope.cancel()
    return counts


class Story:
    """`messages` are published while B is away, after a first hundred."""

    def __init__(self, stage: Stage, messages: int, telling: Telling) -> None:
        self._stage = stage
        self._say = telling.say
        self._telling = telling
        self._marker = f"words-that-only-members-may-read-{secrets.token_hex(8)}"
        self._messages = messages
        self._counts = Counts(FIRST + messages)
        self.core = stage.node("the core", "core")
        self.a = stage.node("edge A", "a")
        self.b = stage.node("edge B", "b")
        self.speaker = stage.app("the app on A", "speaker", self.a, GROUP, self._marker)
        self.at_b = stage.app("the app on B", "listener", self.b, GROUP, str(stage.base / "app-on-b.db"))
        self.at_core = stage.app("the app on the core", "listener", self.core, GROUP, str(stage.base / "app-on-core.db"))
        self._group = ""
        self._tls: tuple[str, ...] = ()

    async def play(self) -> Counts:
        began = time.monotonic()
        for step in (
            self.wire, self.start, self.sign_on, self.publish_first, self.kill_b, self.kill_core, self.restart_core,
            self.bring_b_back, self.count, self.stop,
        ):  # fmt: skip
            await step()
        self._counts.seconds = round(time.monotonic() - began, 1)
        return self._counts

    def progress(self) -> None:
        taken, core, b = len(self.speaker.taken), self.at_core.received, self.at_b.received
        self._telling.progress(f"acknowledged {taken:,}, received on the core {core:,}, on B {b:,}")

    # -- beginning -----------------------------------------------------------------------------------------

    async def wire(self) -> None:
        """What a person would type: keys, neighbours, a group and its link."""
        self._say(
            "A core node and two edges, A and B, are set up, each with a key and a home of its own. The edges know only"
            " the core, and the core lets them in."
        )
        async with trio.open_nursery() as nursery:
            for node, role in ((self.core, "core"), (self.a, "edge"), (self.b, "edge")):
                nursery.start_soon(self._init, node, role)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wire_core)
            nursery.start_soon(self._share_group)

    async def _init(self, node: Node, role: str) -> None:
        node.address = json.loads(await node.router("init", "--role", role, "--json"))["address"]

    async def _wire_core(self) -> None:
        for edge, name in ((self.a, "edge-a"), (self.b, "edge-b")):
            await self.core.router("peer", "add", edge.address, "--name", name, "--grant", "join,store,relay")

    async def _share_group(self) -> None:
        made = json.loads(await self.a.router("group", "new", GROUP, "--json"))
        self._group = made["group"]
        link = (await self.a.router("group", "share", GROUP)).strip()
        async with trio.open_nursery() as nursery:
            for node in (self.b, self.core):
                nursery.start_soon(node.router, "group", "add", link)

    async def start(self) -> None:
        self._say("Each node is started as a process of its own. The edges link to the core by TLS, keys on both sides.")
        await self.core.start("--listen", "tls://127.0.0.1:0")
        url = next(one for one in self.core.said["listeners"] if one.startswith("tls:"))
        self._tls = ("--listen", url)
        async with trio.open_nursery() as nursery:
            for edge in (self.a, self.b):
                nursery.start_soon(self._start_edge, edge, url)
        for edge in (self.a, self.b):
            await self._until_linked(edge)

    async def _start_edge(self, edge: Node, url: str) -> None:
        await edge.router("peer", "add", self.core.address, url, "--name", "core", "--uplink")
        await edge.start()

    async def _until_linked(self, edge: Node) -> None:
        def linked(peers: list[dict[str, Any]]) -> bool:
            return any(one["address"] == self.core.address and one["state"] == "connected" for one in peers)

        await edge.until_answer("the link to the core", "peers", linked)

    async def sign_on(self) -> None:
        self._say(
            "An app on each node signs on to it over its Unix socket. The app on A has made a group and given its link"
            " to the other two, who join."
        )
        async with trio.open_nursery() as nursery:
            for app in (self.speaker, self.at_b, self.at_core):
                nursery.start_soon(app.start)

        def joined(groups: list[dict[str, Any]]) -> bool:
            return {self.b.address} <= {one["subscriber"] for one in groups if one["group"] == self._group}

        await self.core.until_answer("B's joining of the group", "groups", joined)

    # -- what happens --------------------------------------------------------------------------------------

    async def publish_first(self) -> None:
        began = time.monotonic()
        await self._publish(1, FIRST)
        await self._until_done(FIRST)
        for app in (self.at_b, self.at_core):
            await app.until(f"receive the first {FIRST}", lambda app=app: app.received >= FIRST)  # type: ignore[misc]
        took_s = time.monotonic() - began
        self._say(f"The app on A publishes {FIRST} sealed messages. B and the core have them all after {took_s:.1f} s.")

    async def kill_b(self) -> None:
        await self.b.kill()
        await self.at_b.kill()
        self._say(f"Edge B and its app are killed. The app on A goes on with {self._messages:,} more.")

    async def kill_core(self) -> None:
        """In the middle of the traffic: three quarters are ordered, after half of them the core dies."""
        last = FIRST + self._messages * 3 // 4
        await self._publish(FIRST + 1, last)
        half = FIRST + self._messages // 2
        await self.speaker.until(f"publish {half}", lambda: len(self.speaker.taken) >= half)
        await self.core.kill()
        known = len(self.speaker.taken)
        self._say(f"When {known - FIRST:,} of them are acknowledged, the core is killed too, while they stream through it.")
        await self._until_done(last)
        self._counts.alone = last - known
        kept = await self.a.waiting()
        self._say(
            f"A does not mind: it acknowledges {self._counts.alone:,} more, and keeps on disk the {kept:,} that the core"
            " has not confirmed."
        )

    async def restart_core(self) -> None:
        total = self._counts.published
        await self._publish(len(self.speaker.taken) + 1, total)
        await self.core.start(*self._tls)
        self._say("The core is started again; meanwhile the app on A publishes the rest.")
        await self._until_done(total)
        await self.at_core.until("receive the rest", lambda: self.at_core.received >= total)
        await self.a.until_answer("the handing over of the rest", "queue", lambda queues: not queues)
        self._counts.away = await self.core.waiting()
        self._say(
            f"A hands over what it kept. The app on the core has all {total:,}; for B, {self._counts.away:,} wait on the"
            " core's disk."
        )

    async def bring_b_back(self) -> None:
        total = self._counts.published
        began = time.monotonic()
        await self.b.start()
        await self.at_b.start()
        await self.at_b.until("receive the rest", lambda: self.at_b.received >= total)
        took_s = time.monotonic() - began
        self._say(f"Edge B and its app come back. {took_s:.1f} s later the app has everything.")

    async def _publish(self, first: int, last: int) -> None:
        await self.speaker.order(f"{first} {last}")

    async def _until_done(self, last: int) -> None:
        await self.speaker.until(f"publish all {last}", lambda: self.speaker.said.get("done") == last)

    # -- end -----------------------------------------------------------------------------------------------

    async def count(self) -> None:
        """When nothing waits any more, so that what comes twice has come."""
        self._say("Now everything is counted, and the core's disk is searched for the messages' words.")
        counts = self._counts
        for node in (self.a, self.core, self.b):
            try:
                await node.until_answer("the emptying of the queues", "queue", lambda queues: not queues)
            except DemoFailed:
                counts.waiting[node.name] = await node.waiting()
            else:
                counts.waiting[node.name] = 0
        counts.acknowledged = len(self.speaker.taken)

    async def stop(self) -> None:
        """Apps by closing them, nodes by SIGTERM; then nobody writes to what is read."""
        for app in (self.speaker, self.at_b, self.at_core):
            await app.kill()
        async with trio.open_nursery() as nursery:
            for node in (self.a, self.b, self.core):
                nursery.start_soon(self._stop, node)
        acknowledged = self.speaker.taken
        for where, app, file in (("edge B", self.at_b, "app-on-b.db"), ("the core", self.at_core, "app-on-core.db")):
            ids, numbers = read_book(self._stage.base / file)
            self._counts.heard.append(heard(where, acknowledged, ids, numbers, app.said["again"]))
        home = self.core.home
        places = [home / "store", home / "log"]
        self._counts.disk = search(places, self._marker.encode(), bytes.fromhex(self._group))
        self._counts.tracebacks = self._stage.tracebacks()

    async def _stop(self, node: Node) -> None:
        code = await node.stop()
        if code:
            raise DemoFailed(f"{node.name} ended with code {code} instead of draining and stopping")
