"""A fleet in the simulated world, and its life: nodes stop and are killed, links break, apps and strangers come and go.

Everything follows from the world's seed. All decisions and log lines are made by the code that ships.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from msgspec.structs import replace
from world.app import App, Habits
from world.node import Node, Settings
from world.world import Cable, World

from router.core.routing.limits import CoreLimits, QueueLimits
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast
from router.node.housekeeping import HousekeepingLimits
from router.node.wall_clock import ClockLimits

START_S = int(datetime(2025, 2, 19, 23, 50, tzinfo=UTC).timestamp())
"""Ten minutes before a new day."""
SPAN_S = 1200.0
EDGES_PER_CORE = 8
GRANTS = "join store relay"
TTLS_S = (60, 300, 3600, 3600, 86_400, 86_400, 86_400, 86_400)
SIZES = (40, 100, 200, 400, 600, 1000, 1900, 8800)
SETTLE_S = (0.0002, 0.001, 0.002, 0.005, 0.02, 0.06)
CLOCKS_APART_S = 0.04
CLOCK_STEPS_S = (-45.0, -25.0, 25.0, 45.0)
CLOCK_STEP_S = 20.0
"""The least step of its clock that a node notices."""
ENDING = 0.97
"""The share of messages after which nothing breaks any more."""


class Fleet:
    """Cores with edges spread over them, two or three apps on each node, and groups of these apps, one of them big."""

    def __init__(self, world: World, nodes: int, messages: int) -> None:
        world.time.wall_ahead_ns = START_S * 10**9
        self.world = world
        self.random = world.time.random
        self.messages = messages
        self.published = 0
        self.clocks_ns: dict[Node, list[int]] = {}
        self._cables: list[Cable] = []
        self._settings = Settings(
            strangers=True, window_messages=256, window_bytes=1 << 18, tick_s=2.0,
            limits=replace(
                CoreLimits(), queues=QueueLimits(recipient_messages_max=40 + messages // 20, share_percent=100)
            ),
            housekeeping=HousekeepingLimits(idle_close_s=86_400.0),
            clock=ClockLimits(CLOCK_STEP_S, 86_400, CLOCK_STEP_S),
        )  # fmt: skip
        count = max(1, (nodes + EDGES_PER_CORE - 1) // (EDGES_PER_CORE + 1))
        self.cores = [self._node(f"core-{n:03d}") for n in range(count)]
        self._cables += [world.link(core, self.cores[0], grants=GRANTS, grants_back=GRANTS) for core in self.cores[1:]]
        for n in range(nodes - count):
            core = self.cores[n % count]
            self._cables.append(world.link(self._node(f"edge-{n:03d}"), core, uplink=True, grants=GRANTS))
        self.apps = [self._app(node, n) for node in world.nodes for n in range(self.random.choice((2, 3)))]
        self.groups = [world.group(f"group-{n}") for n in range(max(2, nodes // 2))]
        self._stranger = world.app(self.cores[0], "stranger", owner=False)
        self._pause_s = SPAN_S * 4 / messages  # between two batches, of four messages on average

    def __repr__(self) -> str:
        return f"<fleet of {len(self.world.nodes)} nodes: {self.published} of {self.messages} messages published>"

    def _node(self, name: str) -> Node:
        node = self.world.node(name, self._settings, CLOCKS_APART_S)
        self.clocks_ns[node] = [node.clocks.ahead_ns]
        return node

    def _app(self, node: Node, n: int) -> App:
        habits = Habits(self.random.choice(SETTLE_S), refuse=0.006, window_messages=256, window_bytes=1 << 18)
        return self.world.app(node, f"{node.name} app {n}", habits=habits)

    def _between(self, least: float, most: float) -> float:
        return least + (most - least) * self.random.random()

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        self.world.time.after(seconds, call)

    @property
    def _is_ending(self) -> bool:
        return self.published >= self.messages * ENDING

    # -- running ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until the last message is published, and stop in the middle of all activity."""
        for n, app in enumerate(self.apps):
            self._join_some(app, must=n < 3)
            self._app_life(app)
        for node in self.world.nodes:
            self._after(self._between(SPAN_S / 4, SPAN_S * 1.5), lambda node=node: self._stop(node))  # type: ignore[misc]
        for cable in self._cables:
            self._after(self._between(SPAN_S / 10, SPAN_S), lambda cable=cable: self._break(cable))  # type: ignore[misc]
        self._after(20, self._publish)
        self._after(40, self._flood)
        self._after(SPAN_S / 3, self._clear)
        self._after(self._between(SPAN_S / 4, SPAN_S / 2), self._step_clock)
        while self.published < self.messages or not all(node.alive for node in self.world.nodes):
            self.world.run(1)
        self.published -= 10
        self._publish()
        self.world.run(0.02)

    def end(self) -> None:
        """Bring everybody back, set all clocks right, as nothing expires by one that is doubted, and let all messages
        end; then stop all nodes."""
        self.published = self.messages
        for app in self.apps:
            if not app.running:
                app.start()
        for cable in self._cables:
            if not cable.whole:
                self.world.heal(cable)
        self.world.run(SPAN_S)
        for node, ahead_ns in self.clocks_ns.items():
            if ahead_ns[-1] != ahead_ns[0]:
                self._set_clock(node, (ahead_ns[0] - ahead_ns[-1]) / 1e9)
        self.world.run_until_quiet()
        for node in self.world.nodes:
            node.stop(lambda: None)
        self.world.run(5)

    # -- messages --------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Publish one batch of one app, to a group (the big one four times of five) or to another app."""
        if self.published >= self.messages:
            return
        self._after(self._pause_s * 2 * self.random.random(), self._publish)
        app, to = self.random.choice(self.apps), self.random.choice(self.apps)
        if not (app.running and app.end.is_up):
            return
        count = min(self._count(), self.messages - self.published)
        self.published += count
        ttl_s = 0 if self.random.random() < 0.03 else self.random.choice(TTLS_S)
        life_s = 86_400 if self.random.random() < 0.95 else 900
        how = {"size": self.random.choice(SIZES), "ttl_s": ttl_s, "life_s": life_s}
        way = self.random.random()
        if way >= 0.92 and to is not app:
            app.send(to.key.public, count, **how)
            return
        group = self.groups[0] if way < 0.8 else self.random.choice(self.groups)
        short = count // 3 if self.random.random() < 0.1 else 0
        app.publish(group, count - short, **how)
        app.publish(group, short, **how | {"ttl_s": 60})
        if self.random.random() < 0.02 and app.diary.settled:
            app.replay(app.diary.sent[next(reversed(app.diary.settled))])

    def _count(self) -> int:
        roll = self.random.random()
        if roll > 0.985:
            return self.random.randrange(17, 129)
        return 1 if roll < 0.65 else self.random.randrange(2, 6) if roll < 0.9 else self.random.randrange(5, 18)

    def _flood(self) -> None:
        """Let a stranger, or an app with false signatures, flood its router for a while."""
        app = self.random.choice((self._stranger, self.apps[0], self.apps[-1]))
        expiry = expiry_min(self.world.time.now().wall_s + 3600)
        for _ in range(self.random.randrange(1, 6) if app.end.is_up else 0):
            wire = seal_multicast(self.groups[0], self.random.randbytes(50), ttl_s=60, expiry_min=expiry)
            app.put(wire[:-1] + bytes((wire[-1] ^ 1,)))
        self._after(1 if self.random.random() < 0.6 else SPAN_S / 8, self._flood)

    # -- apps ------------------------------------------------------------------------------------------------

    def _join_some(self, app: App, *, must: bool) -> None:
        if must or self.random.random() < 0.5:
            app.join(self.groups[0])
        for group in self.groups[1:]:
            if self.random.random() < 0.125:
                app.join(group)

    def _app_life(self, app: App) -> None:
        roll = self.random.random()
        if roll < 0.3:
            self._after(self._between(SPAN_S / 20, SPAN_S), lambda: self._go(app))
        elif roll < 0.5:
            self._after(self._between(SPAN_S / 20, SPAN_S), lambda: self._leave(app))

    def _go(self, app: App) -> None:
        if app.running and not self._is_ending:
            app.stop()
            self._after(self._between(1, SPAN_S / 4) if self.random.random() < 0.7 else SPAN_S, lambda: self._come(app))

    def _come(self, app: App) -> None:
        if not app.running:
            app.start()

    def _leave(self, app: App) -> None:
        """Leave a group for a while, with messages in its queue, which are dropped."""
        mine = [group for group in self.groups if group.public in app.diary.wanted]
        if mine:
            group = self.random.choice(mine)
            app.stop()
            self._after(120, app.start)
            self._after(121, lambda: app.leave(group))
            self._after(self._between(180, SPAN_S / 2), lambda: app.join(group))

    # -- nodes and links -------------------------------------------------------------------------------------

    def _stop(self, node: Node) -> None:
        """Kill a node or stop it cleanly; restart it after a minute at most, sometimes after minutes."""
        if node.alive and not self._is_ending:
            away_s = self._between(2, 60) if self.random.random() < 0.9 else 200
            (self.world.stop if self.random.random() < 0.4 else self.world.crash)(node, away_s)

    def _break(self, cable: Cable) -> None:
        """Cut a link, or part its nodes for minutes."""
        if not self._is_ending:
            if self.random.random() < 0.5:
                self.world.cut(cable)
            elif cable.whole:
                self.world.part(cable)
                self._after(self._between(3, 180), lambda: self.world.heal(cable))
            self._after(self._between(SPAN_S / 10, SPAN_S), lambda: self._break(cable))

    def _clear(self) -> None:
        """Drop the queue of an app that is away, as an operator would."""
        away = [app for app in self.apps if not app.running]
        if away:
            app = self.random.choice(away)
            for node in self.world.nodes:
                if node.alive and node.address == app.router:
                    node.clear_queue(app.key.public)
        self._after(SPAN_S / 6, self._clear)

    def _step_clock(self) -> None:
        """Set one node's clock wrong, and in most cases right again a little later: an edge's, if there is one, as
        what two logs tell by their clocks is asked of those that hand to each other, which all do to a core."""
        able = [node for node in self.world.nodes if node not in self.cores]
        node, by_s = self.random.choice(able or self.cores), self.random.choice(CLOCK_STEPS_S)
        self._set_clock(node, by_s)
        if self.random.random() < 0.7:
            self._after(self._between(10, 200), lambda: self._set_clock(node, -by_s))

    def _set_clock(self, node: Node, by_s: float) -> None:
        node.step_clock(by_s)
        self.clocks_ns[node].append(node.clocks.ahead_ns)
