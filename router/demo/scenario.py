"""The story: the order in which nodes and apps are started, publish and are killed, and the counts at the end."""

from __future__ import annotations

import json
import secrets
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio

from router.cli.exits import Exit
from router.core.wire.crypto import SigningKey
from router.core.wire.text import key_text
from router.demo.counts import BookCounts, DemoCounts, WhyAnswer, compare, read_book, search
from router.demo.narrator import Telling
from router.demo.processes import App, DemoNode, Stage, on_stage
from router.rig.process import RigFailed
from router.settings.config import Role

GROUP = "friends"
FIRST = 100


async def perform(base: Path, messages: int, telling: Telling) -> DemoCounts:
    """Play the story in that directory, and end every process. Raise `RigFailed` if it cannot go on."""
    return await on_stage(base, lambda stage: Story(stage, messages, telling).play())


class Story:
    """The story: publish a hundred messages while all is well, then `messages` while edge B is away."""

    def __init__(self, stage: Stage, messages: int, telling: Telling) -> None:
        self._stage = stage
        self._telling = telling
        self._say = telling.say
        self._messages = messages
        self._counts = DemoCounts(FIRST + messages)
        self._words = f"words-that-only-members-may-read-{secrets.token_hex(8)}"
        self._group = ""
        self._all_up_until = ""
        self._core_url = ""
        self._delayed = ""  # the id of a message that A took while it was cut off
        self.core = stage.node("the core", "core")
        self.a = stage.node("edge A", "a")
        self.b = stage.node("edge B", "b")
        self.speaker = stage.app("the app on A", "speaker", self.a, GROUP, self._words)
        self.at_b = stage.app("the app on B", "listener", self.b, GROUP, str(stage.base / "b.book"))
        self.at_core = stage.app("the app on the core", "listener", self.core, GROUP, str(stage.base / "core.book"))
        for app in (self.speaker, self.at_b, self.at_core):
            app.on_news = self._progress

    def __repr__(self) -> str:
        return f"<story of {self._counts.published} messages, {len(self.speaker.taken)} of them acknowledged>"

    async def play(self) -> DemoCounts:
        """Play the steps one after the other; return what was counted."""
        began_s = time.monotonic()
        for step in (
            self._set_up,
            self._start,
            self._sign_on,
            self._publish_first,
            self._kill_b,
            self._kill_core,
            self._restart_core,
            self._bring_b_back,
            self._drain,
            self._ask_why,
            self._count,
        ):
            await step()
        self._counts.seconds = round(time.monotonic() - began_s, 1)
        return self._counts

    def _progress(self) -> None:
        taken, at_core, at_b = len(self.speaker.taken), self.at_core.received, self.at_b.received
        self._telling.progress(f"acknowledged {taken}, received on the core {at_core}, on B {at_b}")

    # -- setup: the commands that a person would type ------------------------------------------------------

    async def _set_up(self) -> None:
        self._say(
            "A core node and two edges, A and B, are set up, each with a key and a home of its own. The edges know "
            "only the core, and the core knows them."
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._init, self.core, "core")
            for edge in (self.a, self.b):
                nursery.start_soon(self._init, edge, "edge")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._let_edges_in)
            nursery.start_soon(self._share_group)

    async def _init(self, node: DemoNode, role: Role) -> None:
        node.home.create(role)  # without services, which are recipients as well: what is counted are the apps' messages
        node.address = json.loads(await node.router("init", "--role", role, "--json"))["address"]

    async def _let_edges_in(self) -> None:
        for edge, name in ((self.a, "edge-a"), (self.b, "edge-b")):
            await self.core.router("peer", "add", edge.address, "--name", name, "--grant", "join,store,relay,why")

    async def _share_group(self) -> None:
        self._group = json.loads(await self.a.router("group", "new", GROUP, "--json"))["group"]
        link = (await self.a.router("group", "share", GROUP)).strip()
        async with trio.open_nursery() as nursery:
            for node in (self.b, self.core):
                nursery.start_soon(node.router, "group", "add", link)

    async def _start(self) -> None:
        self._say("Each node starts as a process of its own. The edges link to the core by TLS, a key on each side.")
        await self.core.start("--listen", "tls://127.0.0.1:0")
        self._core_url = next(url for url in self.core.news["listeners"] if url.startswith("tls:"))
        async with trio.open_nursery() as nursery:
            for edge in (self.a, self.b):
                nursery.start_soon(self._start_edge, edge)

    async def _start_edge(self, edge: DemoNode) -> None:
        uplink = ("--name", "core", "--uplink", "--grant", "why")
        await edge.router("peer", "add", self.core.address, self._core_url, *uplink)
        await edge.start()

        def linked(peers: list[dict[str, Any]]) -> bool:
            return any(one["address"] == self.core.address and one["state"] == "connected" for one in peers)

        await edge.until_answer("the link to the core", "peers", linked)

    async def _sign_on(self) -> None:
        self._say(
            "An app on each node signs on over the node's Unix socket. A's app has made a group and given its link to "
            "the other two, who join."
        )
        async with trio.open_nursery() as nursery:
            for app in (self.speaker, self.at_b, self.at_core):
                nursery.start_soon(app.start)

        def joined(groups: list[dict[str, Any]]) -> bool:
            return (self._group, self.b.address) in ((one["group"], one["subscriber"]) for one in groups)

        await self.core.until_answer("B's joining of the group", "groups", joined)

    # -- what happens --------------------------------------------------------------------------------------

    async def _publish_first(self) -> None:
        await self._order(1, FIRST)
        await self._until_done(FIRST)
        for app in (self.at_core, self.at_b):
            await app.until_received(FIRST)
        for node in (self.a, self.core, self.b):
            await node.until_answer("the settling of the first messages", "queue", lambda queues: not queues)
        self._all_up_until = datetime.now(UTC).isoformat()
        self._say(f"A's app publishes {FIRST} sealed messages. The apps on B and on the core receive them.")

    async def _kill_b(self) -> None:
        await self.b.kill()
        await self.at_b.kill()
        self._say(f"Edge B and its app are killed. A's app goes on with {self._messages:,} messages more.")

    async def _kill_core(self) -> None:
        """Kill the core when half of the messages are acknowledged and three quarters ordered; A then goes on alone."""
        half, most, alone = (FIRST + self._messages * eighths // 8 for eighths in (4, 6, 7))
        await self._order(FIRST + 1, most)
        await self.speaker.until(f"publish {half} messages", lambda: len(self.speaker.taken) >= half)
        await self.core.kill()
        self._counts.core_away_s = [time.time()]
        known = len(self.speaker.taken)
        self._say(f"When {known - FIRST:,} of these are acknowledged, the core is killed too, in the midst of them.")
        await self._until_done(most)
        await self._order(most + 1, alone)
        await self._until_done(alone)
        self._delayed = self.speaker.taken[-1]
        self._counts.alone = alone - known
        kept = await self.a.waiting()
        self._say(
            f"A alone acknowledges {self._counts.alone:,} more. On its disk it keeps the {kept:,} messages that "
            "the core has not confirmed."
        )

    async def _restart_core(self) -> None:
        total = self._counts.published
        await self._order(len(self.speaker.taken) + 1, total)
        self._say("The core starts again, and A's app publishes the rest meanwhile.")
        await self.core.start("--listen", self._core_url)
        self._counts.core_away_s.append(time.time())
        await self._until_done(total)
        await self.at_core.until_received(total)
        await self.a.until_answer("the handing over of what it kept", "queue", lambda queues: not queues)
        self._counts.waited = await self.core.waiting()
        self._say(
            f"A hands over what it kept. The core's app has all {total:,} messages now; {self._counts.waited:,} wait "
            "at the core for B."
        )

    async def _bring_b_back(self) -> None:
        total = self._counts.published
        await self.b.start()
        await self.at_b.start()
        await self.at_b.until_received(total)
        self._say(f"Edge B and its app come back and receive what they missed: the app has all {total:,} now.")

    async def _order(self, first: int, last: int) -> None:
        await self.speaker.tell(f"{first} {last}")

    async def _until_done(self, last: int) -> None:
        await self.speaker.until(f"publish {last} messages", lambda: self.speaker.news.get("done") == last)

    # -- counting ------------------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Wait until the queues are empty, by which time duplicates would have arrived; record what is left in them."""
        for node in (self.a, self.core, self.b):
            try:
                await node.until_answer("the emptying of its queues", "queue", lambda queues: not queues)
            except RigFailed:
                self._counts.queued[node.name] = await node.waiting()
            else:
                self._counts.queued[node.name] = 0

    async def _ask_why(self) -> None:
        """Ask `router why` about two messages: a delayed one, and one refused because nobody has its recipient's
        address."""
        nobody = key_text("addr", SigningKey(secrets.token_bytes(32)).public)
        sent = await self.a.router("send", nobody, "is anybody there?", "--json", or_code=Exit.REFUSED)
        refused = json.loads(sent)["id"]
        await self.a.until_answer("the refusal of a message to nobody", "queue", lambda queues: not queues)
        for about, identity in (("delayed", self._delayed), ("refused", refused)):
            words = ("why", identity[:12], "--follow")
            self._counts.asked.append(WhyAnswer(about, f"router {' '.join(words)}", await self.a.router(*words)))
        self._say(
            "The queues of all three are empty. A is asked why one message took so long and another went nowhere. "
            "The nodes stop, everything is counted, and the logs of all three are audited."
        )

    async def _count(self) -> None:
        """Stop apps and nodes, then count."""
        for app in (self.speaker, self.at_b, self.at_core):
            await app.kill()
        async with trio.open_nursery() as nursery:
            for node in (self.a, self.b, self.core):
                nursery.start_soon(node.stop)
        counts = self._counts
        counts.acknowledged = len(self.speaker.taken)
        whose = (("edge B", self.at_b, "b.book"), ("the core", self.at_core, "core.book"))
        counts.heard = [self._compare(where, app, book) for where, app, book in whose]
        places = (self.core.home.path / "store", self.core.home.path / "log")
        counts.disk = search(places, self._words.encode(), bytes.fromhex(self._group))
        homes = [str(node.home.path) for node in (self.core, self.a, self.b)]
        counts.audit = json.loads(await self.core.router("audit", *homes, "--json"))
        for part, option in (("all_up", "--until"), ("kept", "--since")):
            told = json.loads(await self.core.router("audit", *homes, option, self._all_up_until, "--json"))
            counts.latency_ms[part] = told["latency_ms"]
        counts.tracebacks = self._stage.tracebacks()

    def _compare(self, where: str, app: App, book: str) -> BookCounts:
        ids, numbers = read_book(self._stage.base / book)
        return compare(where, self.speaker.taken, ids, numbers, app.news["again"])
