"""The life of the sample's fleet: nodes start, stop and are killed, links break, apps and strangers come and go."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heappop

from router.audit.sample.fleet import MS, App, Place, Topic, signing_key
from router.audit.sample.log import SECOND
from router.audit.sample.node import Queue, RouterNode
from router.audit.sample.traffic import LINK_NS, Traffic

WITNESS_NS = 300 * SECOND
NEVER = 1 << 62
ABUSES = ("rate-limited", "bad-signature", "not-authorised", "expiry-too-far")


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
        node.boot(self.now, self.chance.randbytes(16).hex())
        node.state("config", queue_messages_max=self.queue_max, queue_bytes_max=self.queue_max * 1024, group_percent=50)
        for queue in node.queues.values():
            queue.look_ns = self.now
            self.expire(node, queue, self.now)
        for app in place.apps:
            self.after(self.between(10 * MS, SECOND), self._app_comes, app, node.log.boot)
        for other in (*place.edges, *place.cores, *([place.uplink] if place.uplink else [])):
            self.after(self.between(50 * MS, SECOND), self._link_up, place, other)
        self.after(self.between(self.span_ns // 2, self.span_ns * 2), self._stop, place)

    def _stop(self, place: Place) -> None:
        """Kill a node or stop it cleanly; restart it after seconds, sometimes only after a quarter of an hour."""
        node = self.clock(place)
        if self._is_ending or not node.up:
            return
        clean = self.chance.random() < 0.4
        for queue in node.queues.values():
            if queue.up:
                if isinstance(queue.whom, Place):
                    self._other_end_goes(queue.whom, place, 50 * MS)
                self._down(node, queue, said=clean)
        if clean:
            node.state("stop")
        node.up = False
        away_ns = self.between(2 * SECOND, 60 * SECOND) if self.chance.random() < 0.9 else 900 * SECOND
        self.after(away_ns, self._start, place)

    def _clear(self) -> None:
        """Drop the longest queue of an absent recipient, as an operator would."""
        self.after(self.between(self.span_ns // 10, self.span_ns // 5), self._clear)
        nodes = [node for node in self.nodes.values() if node.up]
        away = [(node, queue) for node in nodes for queue in node.queues.values() if not queue.up and queue.waiting]
        if away:
            node, queue = max(away, key=lambda one: one[1].total)
            node.clock(self.now)
            self.drop(node, queue, None)

    def _step_clock(self) -> None:
        """Correct one node's clock, by up to a minute."""
        place = self.chance.choice(self.fleet.places)
        node = self.clock(place)
        if node.up:
            by_s = self.between(-60, 60)
            node.clock_ns += by_s * SECOND
            node.clock(self.now)
            node.state("clock_step", by_s=by_s)
            node.truth.clocks_ns.append(node.clock_ns)

    def _flood(self) -> None:
        """Let a stranger flood a core for a while, a second at a time; some of it is badly signed."""
        chance = self.chance
        node = self.clock(self.fleet.cores[chance.randrange(len(self.fleet.cores))])
        stranger = signing_key(self.fleet.seed, f"stranger {chance.randrange(3)}").public.hex()
        if node.up:
            for reason in chance.sample(ABUSES, 2):
                node.turned("refused", stranger, 7, reason, "", self.between(1, 5000))
        pause_ns = SECOND if chance.random() < 0.9 else self.span_ns // 8
        self.after(pause_ns, self._flood)

    # -- apps ------------------------------------------------------------------------------------------------

    def _app_comes(self, app: App, boot: str) -> None:
        node = self.clock(app.place)
        queue = node.queue(app)
        if not node.up or node.log.boot != boot or queue.up:
            return
        self._up(node, queue, "local")
        for topic in self.fleet.groups:
            if app in topic.members:
                node.join(app.hex, topic.hex)
        if self.chance.random() < 0.3:
            self.after(self.between(self.span_ns // 20, self.span_ns), self._app_goes, app, boot)
        elif self.chance.random() < 0.3:
            self.after(self.between(self.span_ns // 20, self.span_ns), self._leave, app, self.chance.random() < 0.5)

    def _app_goes(self, app: App, boot: str) -> None:
        node = self.clock(app.place)
        queue = node.queue(app)
        if not (node.up and queue.up and node.log.boot == boot):
            return
        self._down(node, queue)
        away_ns = self.between(SECOND, 600 * SECOND) if self.chance.random() < 0.7 else self.span_ns
        self.after(away_ns, self._app_comes, app, boot)

    def _leave(self, app: App, big: bool) -> None:
        """Let the app leave a group for a while, which drops the messages of that group it was still owed."""
        mine = [topic for topic in self.fleet.groups[0 if big else 1 :] if app in topic.members]
        node = self.clock(app.place)
        if not node.up or not mine:
            return
        topic = mine[0]
        topic.toggle(app)
        self.drop(node, node.queue(app), topic)
        node.leave(app.hex, topic.hex)
        self._uplink_hears(app.place, topic)
        self.after(self.between(60 * SECOND, 1200 * SECOND), self._join, app, topic)

    def _join(self, app: App, topic: Topic) -> None:
        node = self.clock(app.place)
        if node.up and node.queue(app).up:
            topic.toggle(app)
            node.join(app.hex, topic.hex)
            self._uplink_hears(app.place, topic)
        else:
            self.after(60 * SECOND, self._join, app, topic)

    def _uplink_hears(self, place: Place, topic: Topic) -> None:
        if place.uplink is None or not self.nodes[place].queue(place.uplink).up:
            return
        core = self.clock(place.uplink)
        if topic.members.isdisjoint(place.apps):
            core.leave(place.hex, topic.hex)
        else:
            core.join(place.hex, topic.hex)

    # -- links -----------------------------------------------------------------------------------------------

    def _link_up(self, one: Place, other: Place) -> None:
        here, there = self.clock(one), self.clock(other)
        if not (here.up and there.up) or here.queue(other).up:
            return
        if there.queue(one).up:
            self._down(there, there.queue(one))
        self._up(here, here.queue(other), "peer")
        self._up(there, there.queue(one), "peer")
        for edge in (one, other):
            for topic in self.fleet.groups if edge.uplink is not None else ():
                self._uplink_hears(edge, topic)
        self.after(self.between(SECOND, WITNESS_NS), self._witness, one, other, here.queue(other).epoch)
        if self.chance.random() < 0.5:
            self.after(self.between(self.span_ns // 10, self.span_ns), self.break_link, one, other)

    def break_link(self, one: Place, other: Place) -> None:
        """Break a link: this end notices at once, the other within seconds; mostly it returns within minutes."""
        here = self.clock(one)
        if self._is_ending or not here.up or not here.queue(other).up:
            return
        self._other_end_goes(other, one, 3 * SECOND)
        self._down(here, here.queue(other))
        away_ns = self.between(3 * SECOND, 120 * SECOND) if self.chance.random() < 0.9 else self.span_ns // 8
        self.after(away_ns + 5 * SECOND, self._link_up, one, other)

    def _other_end_goes(self, place: Place, gone: Place, within_ns: int) -> None:
        epoch = self.nodes[place].queue(gone).epoch
        self.after(self.between(MS, within_ns), self._other_end_down, place, gone, epoch)

    def _other_end_down(self, place: Place, gone: Place, epoch: int) -> None:
        node = self.clock(place)
        queue = node.queue(gone)
        if node.up and queue.up and queue.epoch == epoch:
            self._down(node, queue)

    def _up(self, node: RouterNode, queue: Queue, standing: str) -> None:
        node.links += 1
        queue.up, queue.link, queue.paused, queue.settle_ns, queue.backoff_ns = True, node.links, False, 0, 0
        node.state("link_up", peer=queue.hex, link=queue.link, standing=standing)
        self.hand_over(node, queue)

    def _down(self, node: RouterNode, queue: Queue, said: bool = True) -> None:
        """Put messages in flight back into the queue; half the time they have arrived there, and only the answer is
        lost."""
        whom = queue.whom
        if isinstance(whom, Place) and self.chance.random() < 0.5:
            for run in [run for run in queue.flying if not run.taken]:
                self.arrive(node, queue, queue.epoch, run, answers=False)
        queue.up = False
        queue.epoch += 1
        queue.in_flight = 0
        for parcel in dict.fromkeys(run.parcel for run in queue.flying):
            self.watch(node, queue, parcel)
        back = sorted((*queue.flying, *queue.waiting), key=lambda run: (run.parcel.first, run.start))
        queue.waiting, queue.flying = deque(back), {}
        if said:
            standing = "peer" if isinstance(whom, Place) else "local"
            node.state("link_down", peer=queue.hex, link=queue.link, standing=standing)

    def _witness(self, one: Place, other: Place, epoch: int) -> None:
        """Log at each end what the other's pong said: the head of its log, and by how much its clock differs."""
        here, there = self.clock(one), self.clock(other)
        if not (here.up and there.up and here.queue(other).up and here.queue(other).epoch == epoch):
            return
        rtt_ns = 2 * self.between(*LINK_NS)
        for node, peer in ((here, there), (there, here)):
            queue, head = node.queue(peer.place), peer.log.head
            if head is not None and head != queue.witnessed:
                queue.witnessed = head
                offset_ns = peer.clock_ns - node.clock_ns + self.between(-rtt_ns // 4, rtt_ns // 4)
                node.state(
                    "link", peer=queue.hex, rtt_ns=rtt_ns, offset_ns=offset_ns, uncertainty_ns=rtt_ns // 2,
                    head_seq=head[0], head_digest=head[1],
                )  # fmt: skip
        self.after(WITNESS_NS, self._witness, one, other, epoch)
