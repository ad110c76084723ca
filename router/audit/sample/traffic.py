"""Messages of the sample: published, taken in, handed over, settled, refused, expired, in order of time.

There is one list of things to do and one source of chance. A write reaches the next router after the link's delay;
custody comes back after its commit; when a link breaks in between, the same messages come again and are duplicates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from heapq import heappush
from random import Random
from typing import Any

from router.audit.sample.fleet import MS, App, Fleet, Place, Topic
from router.audit.sample.log import SECOND, SampleLog
from router.audit.sample.node import Batch, Columns, Parcel, Queue, RouterNode, Run, ranges
from router.audit.sample.truth import MINUTE_NS, Truth
from spark_analytics.judgement.schema import EPOCH_NS

START_NS = 1_772_438_400 * SECOND  # 2026-03-02T08:00Z
WINDOW = 1024
PROBE = 8  # messages sent at once to a recipient that has just refused with a *later* reason
LOOK_NS = 30 * SECOND
BACKOFF_NS = (SECOND, 300 * SECOND)
COMMIT_NS = 4 * MS
LINK_NS = (2 * MS, 30 * MS)
TTLS_S = (60, 600, 3600, 3600, 86_400, 86_400, 86_400, 86_400)
SIZES = (180, 240, 333, 512, 700, 1100, 2048, 9000)
LATER = ("rate-limited", "queue-full-recipient", "internal")
Verdict = str | None
"""The reason why the next router refused; None if it has taken custody."""


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
        node = self.nodes[app.place]
        if node.up and node.queue(app).up:
            node.clock(self.now)
            self._take(node, self._batch(app), app, node.queue(app).link)

    def _batch(self, app: App) -> Batch:
        chance, roll = self.chance, self.chance.random()
        count = 1 if roll < 0.65 else self.between(2, 5) if roll < 0.9 else self.between(5, 17)
        if roll > 0.985:
            count = self.between(17, 129) if roll < 0.9985 else self.between(129, 1025)
        count = min(count, self.messages - self.truth.messages)
        ttl_s = chance.choice(TTLS_S)
        ttls: tuple[int, ...] = (ttl_s,) * count
        if count > 1 and chance.random() < 0.1:
            ttls = tuple([ttl_s if at % 3 else 60 for at in range(count)])
        elif count == 1 and chance.random() < 0.05:
            ttls = (0,)
        minutes = (self.now - EPOCH_NS) // MINUTE_NS + (1440 if chance.random() < 0.95 else 20)
        columns: Columns = tuple(chance.choices(SIZES, k=count)), ttls, (minutes,) * count
        ids = chance.randbytes(32 * count).hex()
        way = chance.random()
        if way < 0.92 or len(self.fleet.apps) < 2:
            topic = self.fleet.groups[0] if way < 0.8 else chance.choice(self.fleet.groups)
            return Batch(topic.hex, ids, columns, None, topic)
        goal = next(one for one in chance.sample(self.fleet.apps, 2) if one is not app)
        return Batch(app.hex, ids, columns, goal, None)

    def _take(self, node: RouterNode, batch: Batch, source: App | Place, link: int) -> Verdict:
        """Decide for the router: accept and hand on, or refuse and log the reason."""
        if batch.topic is not None:
            plan = self.fleet.recipients(batch.topic, node.place, source)
        else:
            assert batch.goal is not None
            plan = (self.fleet.next_hop(node.place, batch.goal),)
            self._learn(node, batch.signer, source)
        queues = [node.queue(whom) for whom in plan]
        reason, now_or_never = "no-subscribers", batch.columns[1][0] == 0
        if now_or_never:
            able = [queue for queue in queues if queue.up and not queue.waiting and not queue.paused]
            reason = "recipient-offline-ttl0" if queues else reason
        else:
            able = [queue for queue in queues if queue.total + batch.count <= self.queue_max]
            reason = "queue-full-recipient" if queues else reason
        if not able:
            node.turned("refused", source.hex, link, reason, batch.ids, batch.count)
            return reason
        left_out = [queue for queue in queues if queue not in able] if len(able) < len(queues) else []
        parcel = node.accepted(batch, source.hex, link, tuple([queue.hex for queue in (*able, *left_out)]))
        if isinstance(source, App):
            self.truth.messages += batch.count
        whole = ((0, batch.count),)
        for queue in left_out:
            queue.total += batch.count
            node.end("refused", queue, parcel, whole, batch.count, reason)
        for queue in able:
            queue.total += batch.count
            if now_or_never:
                self._hand_over_once(node, queue, parcel)
                continue
            queue.waiting.append(Run(parcel, 0, batch.count))
            if queue.up and not queue.paused:
                self.hand_over(node, queue)
            if queue.waiting and queue.waiting[-1].parcel is parcel:
                self.watch(node, queue, parcel)
        return None

    def _learn(self, node: RouterNode, signer: str, source: App | Place) -> None:
        if isinstance(source, Place) and signer not in node.routes:
            node.routes.add(signer)
            node.state("route_add", destination=signer, neighbour=source.hex, until_s=self.now // SECOND + 3600)
            self.after(3600 * SECOND, self._forget, node, signer, source)

    def _forget(self, node: RouterNode, signer: str, source: Place) -> None:
        if node.up:
            node.clock(self.now)
            node.routes.discard(signer)
            node.state("route_del", destination=signer, neighbour=source.hex)

    # -- messages out ----------------------------------------------------------------------------------------

    def hand_over(self, node: RouterNode, queue: Queue) -> None:
        """Write the waiting messages that fit the window."""
        waiting, whom, chance = queue.waiting, queue.whom, self.chance
        window = PROBE if queue.backoff_ns else WINDOW
        while waiting and queue.in_flight < window:
            run = waiting.popleft()
            room = window - queue.in_flight
            if run.stop - run.start > room:
                waiting.appendleft(run.cut(run.start + room))
            queue.in_flight += run.stop - run.start
            queue.flying[run] = None
            node.forwarded(queue, run)
            if isinstance(whom, App):
                took_ns = whom.settle_ns // 4 + int(whom.settle_ns * 2 * chance.random() ** 4)
                self._settle_after(took_ns, node, queue, run, None)
                continue
            self.after(self.between(*LINK_NS), self.arrive, node, queue, queue.epoch, run)
            if chance.random() < self._break_share:
                self.after(self.between(0, 60 * MS), self.break_link, node.place, whom)

    def _hand_over_once(self, node: RouterNode, queue: Queue, parcel: Parcel) -> None:
        """Write messages with ttl 0, for which no answer is awaited."""
        batch = parcel.batch
        node.forwarded(queue, Run(parcel, 0, batch.count))
        node.end("unconfirmed", queue, parcel, ((0, batch.count),), batch.count)
        if isinstance(queue.whom, Place):
            self.after(self.between(*LINK_NS), self._arrive_once, node, queue, queue.epoch, batch)

    def _arrive_once(self, node: RouterNode, queue: Queue, epoch: int, batch: Batch) -> None:
        assert isinstance(queue.whom, Place)
        there = self.clock(queue.whom)
        if epoch == queue.epoch and there.up:
            self._take(there, batch, node.place, there.queue(node.place).link)

    def arrive(self, node: RouterNode, queue: Queue, epoch: int, run: Run, answers: bool = True) -> None:
        """Let a write reach the next router, unless the link broke."""
        assert isinstance(queue.whom, Place)
        there = self.clock(queue.whom)
        if epoch != queue.epoch or run not in queue.flying or not there.up:
            return
        batch = run.parcel.batch.part(run.start, run.stop)
        back = there.queue(node.place).link
        verdict = None
        if run.taken:
            there.turned("duplicate", node.place.hex, back, "duplicate", batch.ids, batch.count)
        else:
            verdict = self._take(there, batch, node.place, back)
            run.taken = verdict is None
        if answers:
            self._settle_after(COMMIT_NS + self.between(*LINK_NS), node, queue, run, verdict)

    # -- settling --------------------------------------------------------------------------------------------

    def _settle_after(self, ns: int, node: RouterNode, queue: Queue, run: Run, verdict: Verdict) -> None:
        """Settle after a delay. Settling is cumulative: nothing is settled before what was handed over earlier."""
        queue.settle_ns = max(queue.settle_ns, self.now + ns)
        self.after(queue.settle_ns - self.now, self._settled, node, queue, queue.epoch, run, verdict)

    def _settled(self, node: RouterNode, queue: Queue, epoch: int, run: Run, verdict: Verdict) -> None:
        if epoch != queue.epoch or run not in queue.flying:
            return
        node.clock(self.now)
        count, roll = run.stop - run.start, self.chance.random()
        is_app = isinstance(queue.whom, App)
        if verdict in LATER or (is_app and roll < 0.004):
            self._defer(node, queue, run, verdict or "rate-limited")
            return
        if count > 1 and roll > 0.96:  # in two steps
            rest = run.cut(run.start + self.between(1, count))
            queue.flying[rest] = None
            self._settle_after(self.between(MS, 20 * MS), node, queue, rest, verdict)
            count = run.stop - run.start
        del queue.flying[run]
        queue.in_flight -= count
        queue.backoff_ns = 0
        if verdict is not None:
            node.end("refused", queue, run.parcel, ((run.start, count),), count, verdict)
        elif is_app and roll < 0.006:
            self._refuse_some(node, queue, run)
        else:
            node.end(queue.event, queue, run.parcel, ((run.start, count),), count, None, COMMIT_NS)
        if queue.waiting and not queue.paused:
            self.hand_over(node, queue)

    def _refuse_some(self, node: RouterNode, queue: Queue, run: Run) -> None:
        """Refuse every third message for good, as an app would."""
        bad = range(run.start, run.stop, 3)
        good = [at for at in range(run.start, run.stop) if at not in bad]
        node.end("refused", queue, run.parcel, ranges(bad), len(bad), "peer-refused")
        if good:
            node.end(queue.event, queue, run.parcel, ranges(good), len(good), None, COMMIT_NS)

    def _defer(self, node: RouterNode, queue: Queue, run: Run, reason: str) -> None:
        """Let messages that were refused with a *later* reason wait, and all behind them."""
        count = run.stop - run.start
        node.deferred(queue, run, reason)
        del queue.flying[run]
        queue.in_flight -= count
        queue.waiting.appendleft(run)
        self.watch(node, queue, run.parcel)
        if not queue.paused:
            queue.paused = True
            queue.backoff_ns = min(max(BACKOFF_NS[0], 2 * queue.backoff_ns), BACKOFF_NS[1])
            self.after(queue.backoff_ns, self._retry, node, queue, queue.epoch)

    def _retry(self, node: RouterNode, queue: Queue, epoch: int) -> None:
        if epoch == queue.epoch and queue.up:
            queue.paused = False
            node.clock(self.now)
            self.hand_over(node, queue)

    # -- other ends ----------------------------------------------------------------------------------------

    def watch(self, node: RouterNode, queue: Queue, parcel: Parcel) -> None:
        """Look at the queue when the parcel's earliest deadline has passed, unless that happens soon anyway."""
        at_ns = min(parcel.deadlines or (parcel.due_ns,)) - node.clock_ns + SECOND
        self._look_at(node, queue, max(at_ns, self.now + LOOK_NS))

    def _look_at(self, node: RouterNode, queue: Queue, at_ns: int) -> None:
        if not queue.look_ns or at_ns < queue.look_ns - LOOK_NS:
            queue.look_ns = at_ns
            self.after(at_ns - self.now, self.expire, node, queue, at_ns)

    def expire(self, node: RouterNode, queue: Queue, at_ns: int) -> None:
        """End waiting messages past their deadline; look again at the rest. A node that is down looks when it
        starts."""
        if at_ns != queue.look_ns:
            return
        queue.look_ns = 0
        if not node.up:
            return
        node.clock(self.now)
        wall, later_ns = node.log.t, 0
        due: dict[Parcel, None] = {}
        for run in queue.waiting:
            first_ns = run.parcel.next_deadline(run.start, run.stop)
            if first_ns <= wall:
                due[run.parcel] = None
            elif not later_ns or first_ns < later_ns:
                later_ns = first_ns
        for parcel in due:
            self._expire(node, queue, parcel, wall)
        if queue.waiting:
            self._look_at(node, queue, max(later_ns - node.clock_ns + SECOND, self.now + LOOK_NS))

    def _expire(self, node: RouterNode, queue: Queue, parcel: Parcel, wall: int) -> None:
        dead = queue.past(parcel, wall)
        for reason in ("ttl-expired", "expiry-passed"):
            ended = [at for at in dead if parcel.why_expired(at) == reason]
            if ended:
                node.end("expired", queue, parcel, ranges(ended), len(ended), reason)

    def drop(self, node: RouterNode, queue: Queue, topic: Topic | None) -> None:
        """Drop all that is owed, or all of that group; messages in flight are no longer this router's affair."""
        runs = [run for run in (*queue.flying, *queue.waiting) if topic is None or run.parcel.batch.topic is topic]
        for run in runs:
            if run in queue.flying:
                del queue.flying[run]
                queue.in_flight -= run.stop - run.start
        gone = set(runs)
        queue.waiting = deque(run for run in queue.waiting if run not in gone)
        for run in runs:
            count = run.stop - run.start
            node.end("dropped", queue, run.parcel, ((run.start, count),), count, "left")
