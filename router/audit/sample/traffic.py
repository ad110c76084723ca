"""Messages of the sample: published, taken in, handed over, settled, refused, expired, in order of time.

There is one list of things to do and one source of chance. A write reaches the next router after the link's delay;
custody comes back after its commit; when a link breaks in between, the same messages come again and are duplicates.
Nobody decides here as a router does: chance says what happens, and the logs and the truth are kept in step with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from heapq import heappush
from random import Random
from typing import Any

from router.audit.sample.fleet import MS, App, Fleet, Place, Topic, next_hop
from router.audit.sample.log import SampleLog
from router.audit.sample.node import SECOND, Batch, Owed, Queue, RouterNode
from router.audit.sample.truth import MINUTE_NS, Truth
from router.core.wire.reasons import Reason
from spark_analytics.judgement.schema import EPOCH_NS

START_NS = 1_772_438_400 * SECOND  # 2026-03-02T08:00Z
BACKOFF_NS = (SECOND, 300 * SECOND)
COMMIT_NS = 4 * MS
LINK_NS = (2 * MS, 30 * MS)
TTLS_S = (60, 600, 3600, 3600, 86_400, 86_400, 86_400, 86_400)
SIZES = (180, 240, 333, 512, 700, 1100, 2048, 9000)


class Traffic(ABC):
    """Run until `messages` were accepted from apps. `now` is the fleet's time in ns; no node's clock is exactly
    right."""

    def __init__(self, fleet: Fleet, messages: int, logs: Callable[[Place], SampleLog]) -> None:
        self.fleet = fleet
        self.chance = Random(f"traffic {fleet.seed}")
        self.truth = Truth()
        self.nodes = {place: RouterNode(place, logs(place), self.truth) for place in fleet.places}
        self.now = START_NS
        self.messages = messages
        self.queue_max = max(200, min(messages // 20, 5_000))
        self.span_ns = (1800 + min(messages // 40, 84_600)) * SECOND
        self._pause_ns = self.span_ns * 4 // max(1, messages)  # between two batches, of four messages on average
        self._break_share = max(0.0002, min(0.004, 20 / messages))
        self._todo: list[tuple[Any, ...]] = []
        self._count = 0

    def __repr__(self) -> str:
        return f"<traffic of {self.fleet!r}: {self.truth.messages} of {self.messages} messages>"

    def after(self, ns: int, call: Callable[..., None], *given: Any) -> None:
        self._count += 1
        heappush(self._todo, (self.now + ns, self._count, call, given))

    def clock(self, place: Place) -> RouterNode:
        """Return the node with its clock set to this moment, ready to write lines."""
        node = self.nodes[place]
        node.clock(self.now)
        return node

    def between(self, least: int, most: int) -> int:
        return least + int((most - least) * self.chance.random())

    @abstractmethod
    def break_link(self, one: Place, other: Place) -> None:
        """Break the link: messages in flight on it are handed over again."""

    # -- messages in -----------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Publish one batch of one app, to a group (the big one four times of five) or to another app."""
        chance = self.chance
        if self.truth.messages >= self.messages:
            return
        self.after(int(self._pause_ns * 2 * chance.random()), self.publish)
        app = chance.choice(self.fleet.apps)
        node = self.clock(app.place)
        if node.queue(app).up:
            self._take(node, self._batch(app), app, node.queue(app).link)

    def _batch(self, app: App) -> Batch:
        chance, roll = self.chance, self.chance.random()
        count = 1 if roll < 0.65 else self.between(2, 5) if roll < 0.9 else self.between(5, 17)
        if roll > 0.985:
            count = self.between(17, 129) if roll < 0.9985 else self.between(129, 1025)
        count = min(count, self.messages - self.truth.messages)
        ttl_s = chance.choice(TTLS_S)
        ttls = [ttl_s] * count
        if count > 1 and chance.random() < 0.1:
            ttls = [ttl_s if at % 3 else 60 for at in range(count)]
        elif count == 1 and chance.random() < 0.05:
            ttls = [0]
        minutes = (self.now - EPOCH_NS) // MINUTE_NS + (1440 if chance.random() < 0.95 else 20)
        way, to = chance.random(), chance.choice(self.fleet.apps)
        columns = chance.randbytes(32 * count), chance.choices(SIZES, k=count), ttls, [minutes] * count
        if way < 0.92 or to is app:
            topic = self.fleet.groups[0] if way < 0.8 else chance.choice(self.fleet.groups)
            return Batch(topic.address, *columns, topic)
        return Batch(app.address, *columns, to)

    def _take(self, node: RouterNode, batch: Batch, source: App | Place, link: int) -> Reason | None:
        """Decide for the router: accept and hand on, or refuse with a reason."""
        count, once = len(batch.sizes), batch.ttls[0] == 0
        if isinstance(batch.to, Topic):
            whom = batch.to.recipients(node.place, source)
        else:
            whom = [next_hop(node.place, batch.to)]
            self._learn(node, batch.signer, source)
        queues = [node.queue(one) for one in whom]
        able = [queue for queue in queues if (queue.up if once else queue.total + count <= self.queue_max)]
        reason = Reason.RECIPIENT_OFFLINE_TTL0 if once else Reason.QUEUE_FULL_RECIPIENT
        if not able:
            reason = reason if queues else Reason.NO_SUBSCRIBERS
            node.turned("refused", source.address, link, reason, batch.ids, count)
            return reason
        parcel = node.accepted(batch, source.address, link, whom)
        if isinstance(source, App):
            self.truth.messages += count
        for queue in queues:
            queue.total += count
            owed = Owed(parcel, queue, range(count))
            if queue not in able:
                node.end("refused", owed, owed.left, reason)
            elif once:
                self._hand_over_once(node, owed)
            else:
                self.hand_over(node, owed)
        return None

    def _learn(self, node: RouterNode, signer: bytes, source: App | Place) -> None:
        if isinstance(source, Place) and signer not in node.routes:
            node.routes.add(signer)
            until_s = self.now // SECOND + 3600
            node.state("route_add", destination=signer, neighbour=source.address, until_s=until_s)
            self.after(3600 * SECOND, self._forget, node, signer, source)

    def _forget(self, node: RouterNode, signer: bytes, source: Place) -> None:
        if node.up:
            node.clock(self.now)
            node.routes.discard(signer)
            node.state("route_del", destination=signer, neighbour=source.address)

    # -- messages out ----------------------------------------------------------------------------------------

    def hand_over(self, node: RouterNode, owed: Owed) -> None:
        """Write what is left to the recipient, if both are there; else let it wait, until it is over."""
        queue = owed.queue
        queue.waiting.pop(owed, None)
        if node.up:
            node.clock(self.now)
            self._expire(node, owed)
        if not owed.left:
            return
        if not queue.up:
            queue.waiting[owed] = None
            self._look_later(node, owed)
            return
        node.forwarded(owed)
        if isinstance(queue.whom, App):
            usual_ns = queue.whom.settle_ns
            took_ns = usual_ns // 4 + int(usual_ns * 2 * self.chance.random() ** 4)
            self.after(took_ns, self._settled, node, owed, queue.link, None)
            return
        self.after(self.between(*LINK_NS), self._arrive, node, owed, queue.link)
        if self.chance.random() < self._break_share:
            self.after(self.between(0, 60 * MS), self.break_link, node.place, queue.whom)

    def _hand_over_once(self, node: RouterNode, owed: Owed) -> None:
        """Write messages with ttl 0, for which no answer is awaited."""
        node.forwarded(owed)
        node.end("unconfirmed", owed, owed.left)
        if isinstance(owed.queue.whom, Place):
            self.after(self.between(*LINK_NS), self._arrive_once, node, owed.queue, owed.parcel.batch, owed.queue.link)

    def _arrive_once(self, node: RouterNode, queue: Queue, batch: Batch, link: int) -> None:
        if queue.up and queue.link == link:
            assert isinstance(queue.whom, Place)
            there = self.clock(queue.whom)
            self._take(there, batch, node.place, there.queue(node.place).link)

    def _arrive(self, node: RouterNode, owed: Owed, link: int) -> None:
        """Let a write reach the next router, unless the link broke."""
        queue, batch = owed.queue, owed.parcel.batch.part(owed.left)
        verdict = None
        if queue.up and queue.link == link:
            assert isinstance(queue.whom, Place)
            there = self.clock(queue.whom)
            back = there.queue(node.place).link
            if owed.taken:
                count = len(batch.sizes)
                there.turned("duplicate", node.place.address, back, Reason.DUPLICATE, batch.ids, count)
            else:
                verdict = self._take(there, batch, node.place, back)
                owed.taken = verdict is None
        self.after(COMMIT_NS + self.between(*LINK_NS), self._settled, node, owed, link, verdict)

    def _settled(self, node: RouterNode, owed: Owed, link: int, verdict: Reason | None) -> None:
        """End what the recipient has answered; if the link broke before the answer, hand over again."""
        queue, roll = owed.queue, self.chance.random()
        if not (queue.up and queue.link == link):
            self.hand_over(node, owed)
            return
        node.clock(self.now)
        is_app = isinstance(queue.whom, App)
        if (verdict is not None and verdict.later) or (is_app and roll < 0.004):
            node.deferred(owed, verdict or Reason.RATE_LIMITED)
            owed.backoff_ns = min(max(BACKOFF_NS[0], 2 * owed.backoff_ns), BACKOFF_NS[1])
            self.after(owed.backoff_ns, self.hand_over, node, owed)
            return
        if verdict is not None:
            node.end("refused", owed, owed.left, verdict)
        elif is_app and roll < 0.006:
            node.end("refused", owed, owed.left[::3], Reason.PEER_REFUSED)
        if owed.left:
            node.end(queue.event, owed, owed.left, None, COMMIT_NS)

    # -- other ends ----------------------------------------------------------------------------------------

    def _look_later(self, node: RouterNode, owed: Owed) -> None:
        """Look at what waits when its earliest deadline has passed. A node that is down looks when it starts."""
        if not owed.look_ns:
            due_ns = min(map(owed.parcel.deadline, owed.left))
            owed.look_ns = max(due_ns - node.clock_ns, self.now) + SECOND
            self.after(owed.look_ns - self.now, self._look, node, owed)

    def _look(self, node: RouterNode, owed: Owed) -> None:
        owed.look_ns = 0
        if node.up and owed in owed.queue.waiting:
            self.hand_over(node, owed)

    def _expire(self, node: RouterNode, owed: Owed) -> None:
        wall, parcel = node.log.t, owed.parcel
        dead = [at for at in owed.left if parcel.deadline(at) <= wall] if parcel.due_ns <= wall else []
        for reason in (Reason.TTL_EXPIRED, Reason.EXPIRY_PASSED):
            ended = [at for at in dead if parcel.why_expired(at) is reason]
            if ended:
                node.end("expired", owed, ended, reason)

    def drop(self, node: RouterNode, queue: Queue, topic: Topic | None) -> None:
        """Drop all that waits, or all of that group."""
        for owed in [one for one in queue.waiting if topic in (None, one.parcel.batch.to)]:
            del queue.waiting[owed]
            node.end("dropped", owed, owed.left, Reason.LEFT)
