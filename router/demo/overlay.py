"""`router demo --overlay`: two families of nodes that never heard of each other share a group, through kills and a long
absence."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import trio

from router.demo.counts import BookCounts
from router.demo.meeting import SceneCounts
from router.demo.narrator import Telling
from router.demo.processes import App, DemoNode, Stage, on_stage
from router.demo.said import too_early
from router.demo.talker import TalkerBook

GROUP = "reunion"
IN_KILLS, WHILE_AWAY, SHORT = 50, 197, 3
"""Number of messages that each app publishes during kills, that are published while one node is away, and that live too
shortly for anybody to catch up with them."""
SHORT_MIN = 1

ENDING = "Each app has what the others published, once and after what it follows, but for what nobody has any more."


async def perform(base: Path, telling: Telling) -> list[SceneCounts]:
    """Play the three scenes with the same five nodes, and end every process."""
    return await on_stage(base, lambda stage: _Story(stage, telling).play())


class _Story:
    """The scenes: cores 1 and 2, edges A and B at the first, C at the second, each edge with an app that publishes in
    the group."""

    def __init__(self, stage: Stage, telling: Telling) -> None:
        self._say = telling.say
        self._stage = stage
        self.cores = [stage.node(f"core {number}", f"core-{number}") for number in (1, 2)]
        self.edges = [stage.node(f"edge {letter}", f"edge-{letter.lower()}") for letter in "ABC"]
        self.apps = [
            stage.app(f"the app on {edge.name}", "talker", edge, GROUP, edge.name, str(self._book(edge)))
            for edge in self.edges
        ]
        self._urls: dict[str, str] = {}
        self._said = dict.fromkeys((edge.name for edge in self.edges), 0)

    def __repr__(self) -> str:
        return f"<story of two families, {self._said}>"

    async def play(self) -> list[SceneCounts]:
        await self._set_up()
        found = [await scene() for scene in (self._families, self._kills, self._absence)]
        await self._count(found[-1])
        return found

    # -- setup -------------------------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        self._say(
            "Two cores and three edges start. Edges A and B belong to core 1, edge C to core 2. Neither core has ever "
            "heard of the other, and no edge knows more than its own core."
        )
        async with trio.open_nursery() as nursery:
            for core in self.cores:
                nursery.start_soon(self._start_core, core)
            for edge in self.edges:
                nursery.start_soon(self._init, edge, "edge")
        async with trio.open_nursery() as nursery:
            for edge, core in zip(self.edges, (self.cores[0], *self.cores), strict=True):
                nursery.start_soon(self._start_edge, edge, core)

    async def _init(self, node: DemoNode, role: str) -> None:
        node.address = json.loads(await node.router("init", "--role", role, "--json"))["address"]

    async def _start_core(self, core: DemoNode) -> None:
        await self._init(core, "core")
        await core.start("--listen", "tls://127.0.0.1:0")
        self._urls[core.name] = next(url for url in core.news["listeners"] if url.startswith("tls:"))

    async def _start_edge(self, edge: DemoNode, core: DemoNode) -> None:
        await core.router("peer", "add", edge.address, "--name", edge.home.path.name, "--grant", "join,store,relay,why")
        await edge.router("peer", "add", core.address, self._urls[core.name], "--name", "core", "--uplink")
        await edge.start()

    # -- the scenes ----------------------------------------------------------------------------------------------

    async def _families(self) -> SceneCounts:
        found = SceneCounts("two families")
        a, b, c = self.apps
        await self.edges[0].router("group", "new", GROUP)
        link = json.loads(await self.edges[0].router("group", "share", GROUP, "--json"))["link"]
        await self.edges[1].router("group", "add", link)
        async with trio.open_nursery() as nursery:
            for app in (a, b):
                nursery.start_soon(app.start)
        await self._until_joined(self.cores[0], self.edges[1])
        await self._order({a: 1})
        began_s = time.monotonic()
        await self.edges[2].router("group", "add", link)
        await c.start()
        await c.until_received(1)
        found.first_s = round(time.monotonic() - began_s, 1)
        self._say(
            "On A: $ router group new reunion. The link that `router group share` prints names core 1. B and C add it; "
            f"C tells its core, which calls core 1. C hears what A has said {found.first_s} s after it had the link."
        )
        await self._order({b: 1, c: 1})
        await self._until_all_have_all()
        for core, other in ((0, 1), (1, 0)):
            rows = await self.cores[core].ask("peers")
            met = [row["address"] for row in rows if row["standing"] == "met"]
            found.check(f"routers that core {core + 1} has met", len(met), 1)
            found.check(f"whether core {other + 1} is that one", met == [self.cores[other].address], True)
        self._end(found)
        return found

    async def _kills(self) -> SceneCounts:
        found = SceneCounts("kills")
        a, b, c = self.apps
        await self._begin({a: IN_KILLS, b: IN_KILLS, c: IN_KILLS})
        await self.cores[1].kill()
        await self.edges[1].kill()
        await self._until_done(a)
        await self.cores[0].kill()
        await self._start_again(self.cores[1])
        await self._start_again(self.cores[0])
        await self._start_again(self.edges[1])
        for app in (b, c):
            await self._until_done(app)
        await self._until_all_have_all()
        self._say(
            f"All three say {IN_KILLS} things. Core 2 and edge B are killed meanwhile, then core 1; they come back one "
            "after the other. The apps on A, B and C have everything, each message once and after what it follows."
        )
        self._end(found)
        return found

    async def _absence(self) -> SceneCounts:
        found = SceneCounts("a long absence")
        a, b, c = self.apps
        core, away = self.cores[0], self.edges[1]
        missed = WHILE_AWAY + SHORT
        await b.kill()
        await away.kill()
        await self._order({a: WHILE_AWAY // 2, c: WHILE_AWAY - WHILE_AWAY // 2})
        await self._until_all_have_all(but=b)
        await self._order({a: SHORT}, SHORT_MIN)
        await self._until_all_have_all(but=b)
        dropped = json.loads(await core.router("queue", "drop", away.address, "--json"))
        found.check(
            "messages that core 1 drops instead of keeping them for edge B", dropped["dropped"], WHILE_AWAY + SHORT
        )
        await away.start()
        await b.start()
        await self._until_all_have_all(lacks={b: SHORT})
        await b.until("hear that it has caught up", lambda: bool(b.news.get("of")))
        self._say(
            f"Edge B is away while A and C say {missed} things, the last {SHORT} of which live for a minute. On "
            "core 1: $ router queue drop edge-b. B comes back, asks its core what it missed, and its app hears: "
            f"{b.news['caught_up']}."
        )
        found.check(
            "expired of those that were missing", [b.news["missing"], b.news["of"]], [SHORT, WHILE_AWAY + SHORT]
        )
        self._end(found, lacks={b: SHORT})
        return found

    # -- counting ------------------------------------------------------------------------------------------------

    def _end(self, found: SceneCounts, lacks: dict[App, int] | None = None) -> None:
        """Compare each app's book with what the others have published so far."""
        found.published = sum(self._said.values())
        found.check("acknowledged", sum(len(app.taken) for app in self.apps), found.published)
        for edge, app in zip(self.edges, self.apps, strict=True):
            book = TalkerBook(self._book(edge))
            rows = book.rows()
            book.close()
            ids = {id for id, _ in rows}
            others = {id for other in self.apps if other is not app for id in other.taken}
            lost = len(others - ids) - (lacks or {}).get(app, 0)
            early = too_early((said for _, said in rows), edge.name)
            strange = len(ids - others)
            found.heard.append(
                BookCounts(edge.name, len(rows), lost, strange, len(rows) - len(ids), len(early), app.news["again"])
            )

    async def _count(self, found: SceneCounts) -> None:
        """Stop everything, and audit the logs of all five nodes."""
        for app in self.apps:
            await app.kill()
        for node in (*self.edges, *self.cores):
            await node.until_answer("the emptying of its queues", "queue", lambda queues: not queues)
        async with trio.open_nursery() as nursery:
            for node in (*self.edges, *self.cores):
                nursery.start_soon(node.stop)
        homes = [str(node.home.path) for node in (*self.cores, *self.edges)]
        audit = json.loads(await self.cores[0].router("audit", *homes, "--json"))
        for what in ("residual", "unaccounted", "duplicates"):
            found.check(f"{what}, in the audit of all five logs", audit[what], 0)
        found.facts["copies from core to core"] = audit["copies"]
        found.check("processes that printed a traceback", self._stage.tracebacks(), [])

    # -- waiting -------------------------------------------------------------------------------------------------

    async def _begin(self, counts: dict[App, int], life_min: int | None = None) -> None:
        """Order each app to publish that many more messages."""
        for app, count in counts.items():
            edge = self.edges[self.apps.index(app)]
            first = self._said[edge.name] + 1
            self._said[edge.name] += count
            await app.tell(f"{first} {self._said[edge.name]}" + (f" {life_min}" if life_min else ""))

    async def _until_done(self, app: App) -> None:
        last = self._said[self.edges[self.apps.index(app)].name]
        await app.until(f"publish {last} messages", lambda: app.news.get("done") == last)

    async def _order(self, counts: dict[App, int], life_min: int | None = None) -> None:
        await self._begin(counts, life_min)
        for app in counts:
            await self._until_done(app)

    async def _until_all_have_all(self, *, but: App | None = None, lacks: dict[App, int] | None = None) -> None:
        total = sum(self._said.values())
        for edge, app in zip(self.edges, self.apps, strict=True):
            if app is not but:
                await app.until_received(total - self._said[edge.name] - (lacks or {}).get(app, 0))

    async def _start_again(self, node: DemoNode) -> None:
        url = self._urls.get(node.name)
        await node.start(*(("--listen", url) if url else ()))

    async def _until_joined(self, core: DemoNode, edge: DemoNode) -> None:
        def has_joined(rows: list[dict[str, Any]]) -> bool:
            return edge.address in (row["subscriber"] for row in rows)

        await core.until_answer(f"the joining of {edge.name}", "groups", has_joined)

    def _book(self, edge: DemoNode) -> Path:
        return self._stage.base / f"{edge.home.path.name}.book"
