"""The life of the sample's fleet: nodes start, stop and are killed, links break, apps and strangers come and go."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop

from router.audit.sample.fleet import MS, App, Place, Topic, signing_key
from router.audit.sample.node import SECOND, Queue, RouterNode
from router.audit.sample.traffic import LINK_NS, Traffic
from router.core.wire.reasons import Reason

WITNESS_NS = 300 * SECOND
NEVER = 1 << 62
ABUSES = (Reason.RATE_LIMITED, Reason.BAD_SIGNATURE, Reason.NOT_AUTHORISED, Reason.EXPIRY_TOO_FAR)


class Simulation(Traffic):
    """Run until the last message is published, and stop in the middle of all activity."""

    def run(self) -> Iterable[int]:
        """Yield, now and then, how many messages have been published."""
        for place in self.fleet.places:
            self.after(self.chance.randrange(SECOND), self._start, place)
        self.after(20 * SECOND, self.publish)
        self.after(40 * SECOND, self._flood)
        self.after(self.span_ns // 5, self._clear)
        self.after(self.between(0, self.span_ns), self._step_clock)
        todo, limit, steps = self._todo, NEVER, 0
        while todo and todo[0][0] <= limit:
            self.now, _, call, given = heappop(todo)
            call(*given)
            steps += 1
            if limit == NEVER and self.truth.messages >= self.messages:
                limit = self.now + 20 * MS
            if not steps & 0xFFFF:
                yield self.truth.messages
        self.now = limit
        for node in self.nodes.values():
            node.finish()

    @property
    def _is_ending(self) -> bool:
        """Whether the end is near, when nodes no longer stop."""
        return self.truth.messages * 100 > self.messages * 97

    # -- nodes -----------------------------------------------------------------------------------------------

    def _start(self, place: Place) -> None:
        node = self.nodes[place]
        node.start(self.now, self.chance.randbytes(16))
        node.state("config", queue_messages_max=self.queue_max, queue_bytes_max=self.queue_max * 1024, group_percent=50)
        for queue in node.queues.values():
            self._hand_over_all(node, queue)
        for app in place.apps:
            self.after(self.between(10 * MS, SECOND), self._app_comes, app)
        for other in (*place.below, *([place.above] if place.above else [])):
            self.after(self.between(50 * MS, SECOND), self._link_up, place, other)
        self.after(self.between(self.span_ns // 2, self.span_ns * 2), self._stop, place)

    def _stop(self, place: Place) -> None:
        """Kill a node or stop it cleanly; restart it after seconds, sometimes only after a quarter of an hour."""
        node = self.clock(place)
        if self._is_ending or not node.up:
            return
        clean = self.chance.random() < 0.4
        for queue in node.queues.values():
            self._down(place, queue.whom, None if clean else node)
        if clean:
            node.state("stop")
        node.up = False
        away_ns = self.between(2 * SECOND, 60 * SECOND) if self.chance.random() < 0.9 else 900 * SECOND
        self.after(away_ns, self._start, place)

    def _clear(self) -> None:
        """Drop the longest queue of an absent recipient, as an operator would."""
        self.after(self.between(self.span_ns // 10, self.span_ns // 5), self._clear)
        away = [(node, queue) for node in self.nodes.values() if node.up for queue in node.queues.values()]
        if away:
            node, queue = max(away, key=lambda one: len(one[1].waiting))
            node.clock(self.now)
            self.drop(node, queue, None)

    def _step_clock(self) -> None:
        """Correct one node's clock, by up to a minute."""
        node = self.clock(self.chance.choice(self.fleet.places))
        if node.up:
            by_s = self.between(-60, 60)
            node.clock_ns += by_s * SECOND
            node.clock(self.now)
            node.state("clock_step", by_s=by_s)
            node.truth.clocks_ns.append(node.clock_ns)

    def _flood(self) -> None:
        """Let a stranger flood a core for a while, a second at a time; some of it is badly signed."""
        chance = self.chance
        node = self.clock(chance.choice(self.fleet.cores))
        stranger = signing_key(self.fleet.seed, f"stranger {chance.randrange(3)}").public
        if node.up:
            for reason in chance.sample(ABUSES, 2):
                node.turned("refused", stranger, 7, reason, b"", self.between(1, 5000))
        pause_ns = SECOND if chance.random() < 0.9 else self.span_ns // 8
        self.after(pause_ns, self._flood)

    # -- apps ------------------------------------------------------------------------------------------------

    def _app_comes(self, app: App) -> None:
        if not self._up(app.place, app):
            return
        for topic in self.fleet.groups:
            if app in topic.members:
                self.nodes[app.place].join(app.address, topic.address)
        if self.chance.random() < 0.3:
            self.after(self.between(self.span_ns // 20, self.span_ns), self._app_goes, app)
        elif self.chance.random() < 0.3:
            self.after(self.between(self.span_ns // 20, self.span_ns), self._leave, app, self.chance.random() < 0.5)

    def _app_goes(self, app: App) -> None:
        if self._down(app.place, app):
            away_ns = self.between(SECOND, 600 * SECOND) if self.chance.random() < 0.7 else self.span_ns
            self.after(away_ns, self._app_comes, app)

    def _leave(self, app: App, big: bool) -> None:
        """Let the app leave a group for a while, which drops the messages of that group that wait for it."""
        mine = [topic for topic in self.fleet.groups[0 if big else 1 :] if app in topic.members]
        node = self.clock(app.place)
        if node.up and mine:
            self.drop(node, node.queue(app), mine[0])
            self._toggle(app, mine[0])
            self.after(self.between(60 * SECOND, 1200 * SECOND), self._join, app, mine[0])

    def _join(self, app: App, topic: Topic) -> None:
        if self.clock(app.place).queue(app).up:
            self._toggle(app, topic)
        else:
            self.after(60 * SECOND, self._join, app, topic)

    def _toggle(self, app: App, topic: Topic) -> None:
        topic.toggle(app)
        self.nodes[app.place].join(app.address, topic.address, app in topic.members)
        self._uplink_hears(app.place, topic)

    def _uplink_hears(self, place: Place, topic: Topic) -> None:
        if place.is_edge and place.above is not None and self.nodes[place].queue(place.above).up:
            self.clock(place.above).join(place.address, topic.address, topic.under[place] > 0)

    # -- links -----------------------------------------------------------------------------------------------

    def _ends(self, place: Place, whom: App | Place) -> list[tuple[RouterNode, Queue]]:
        node = self.clock(place)
        if isinstance(whom, App):
            return [(node, node.queue(whom))]
        there = self.clock(whom)
        return [(node, node.queue(whom)), (there, there.queue(place))]

    def _up(self, place: Place, whom: App | Place) -> bool:
        """Connect the two, if they are there and are not connected yet; return whether they were."""
        ends = self._ends(place, whom)
        if ends[0][1].up or not all(node.up for node, _ in ends):
            return False
        for node, queue in ends:
            node.links += 1
            queue.up, queue.link = True, node.links
            node.state("link_up", peer=queue.whom.address, link=queue.link, standing=_standing(queue))
        for node, queue in ends:
            self._hand_over_all(node, queue)
        return True

    def _down(self, place: Place, whom: App | Place, killed: RouterNode | None = None) -> bool:
        """Disconnect the two, if they are connected; return whether they were. A `killed` node logs nothing."""
        ends = self._ends(place, whom)
        if not ends[0][1].up:
            return False
        for node, queue in ends:
            queue.up = False
            if node is not killed:
                node.state("link_down", peer=queue.whom.address, link=queue.link, standing=_standing(queue))
        return True

    def _hand_over_all(self, node: RouterNode, queue: Queue) -> None:
        for owed in list(queue.waiting):
            self.hand_over(node, owed)

    def _link_up(self, one: Place, other: Place) -> None:
        if not self._up(one, other):
            return
        for topic in self.fleet.groups:
            self._uplink_hears(one if one.above is other else other, topic)
        self.after(self.between(SECOND, WITNESS_NS), self._witness, one, other, self.nodes[one].queue(other).link)
        if self.chance.random() < 0.5:
            self.after(self.between(self.span_ns // 10, self.span_ns), self.break_link, one, other)

    def break_link(self, one: Place, other: Place) -> None:
        """Break a link; mostly it returns within minutes."""
        if not self._is_ending and self._down(one, other):
            away_ns = self.between(3 * SECOND, 120 * SECOND) if self.chance.random() < 0.9 else self.span_ns // 8
            self.after(away_ns, self._link_up, one, other)

    def _witness(self, one: Place, other: Place, link: int) -> None:
        """Log at each end what the other's pong said: the head of its log, and by how much its clock differs."""
        here, there = self._ends(one, other)
        if not here[1].up or here[1].link != link:
            return
        rtt_ns = 2 * self.between(*LINK_NS)
        for (node, queue), (peer, _) in ((here, there), (there, here)):
            head = peer.log.head
            if head is not None and head != queue.witnessed:
                queue.witnessed = head
                offset_ns = peer.clock_ns - node.clock_ns + self.between(-rtt_ns // 4, rtt_ns // 4)
                node.state(
                    "link", peer=peer.place.address, rtt_ns=rtt_ns, offset_ns=offset_ns, uncertainty_ns=rtt_ns // 2,
                    head_seq=head[0], head_digest=head[1],
                )  # fmt: skip
        self.after(WITNESS_NS, self._witness, one, other, link)


def _standing(queue: Queue) -> str:
    return "peer" if isinstance(queue.whom, Place) else "local"
