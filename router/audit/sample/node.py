"""One router of the sample: its queues, its log lines, and the expected sums."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from router.audit.sample.fleet import App, Place
from router.audit.sample.log import Range, SampleLog
from router.audit.sample.truth import HOUR_NS, MINUTE_NS, RouterTruth, Truth
from spark_analytics.judgement.schema import EPOCH_NS, GRACE_NS

SECOND = 1_000_000_000
ZERO_BOOT = 5 * SECOND
Columns = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class Batch:
    """Messages of one signer that travel together. `columns`: sizes, ttls in seconds, expiries in minutes."""

    __slots__ = ("columns", "count", "destination", "goal", "ids", "signer", "topic")

    def __init__(self, signer: str, ids: str, columns: Columns, goal: App | None, topic: Any) -> None:
        self.signer = signer
        self.ids = ids
        self.columns = columns
        self.goal = goal
        self.topic = topic
        self.destination = goal.hex if goal else None
        self.count = len(ids) >> 6

    def part(self, start: int, stop: int) -> Batch:
        if stop - start == self.count:
            return self
        sizes, ttls, expiries = self.columns
        columns = sizes[start:stop], ttls[start:stop], expiries[start:stop]
        return Batch(self.signer, self.ids[start << 6 : stop << 6], columns, self.goal, self.topic)


class Parcel:
    """A batch as one router accepted it. `t` and `deadlines`: its wall clock, ns; `mono` and `boot` of the line."""

    __slots__ = ("batch", "boot", "deadlines", "due_ns", "first", "minute", "mono", "t")

    def __init__(self, batch: Batch, first: int, t: int, mono: int, boot: str) -> None:
        self.batch = batch
        self.first = first
        self.t = t
        self.mono = mono
        self.boot = boot
        self.minute = t // MINUTE_NS
        _, ttls, expiries = batch.columns
        self.due_ns = min(t + max(ttls) * SECOND, EPOCH_NS + max(expiries) * MINUTE_NS)
        self.deadlines = [
            min(t + ttl * SECOND, EPOCH_NS + expiry * MINUTE_NS) for ttl, expiry in zip(ttls, expiries, strict=True)
        ] if len(set(ttls)) > 1 else None  # fmt: skip

    def deadline(self, at: int) -> int:
        return self.due_ns if self.deadlines is None else self.deadlines[at]

    def next_deadline(self, start: int, stop: int) -> int:
        return self.due_ns if self.deadlines is None else min(self.deadlines[start:stop])

    def why_expired(self, at: int) -> str:
        return "ttl-expired" if self.deadline(at) == self.t + self.batch.columns[1][at] * SECOND else "expiry-passed"


class Run:
    """Messages start..stop-1 of a parcel that one recipient is owed. `taken`: the recipient has them."""

    __slots__ = ("handed", "parcel", "start", "stop", "taken")

    def __init__(self, parcel: Parcel, start: int, stop: int, handed: bool = False, taken: bool = False) -> None:
        self.parcel = parcel
        self.start = start
        self.stop = stop
        self.handed = handed
        self.taken = taken

    def cut(self, at: int) -> Run:
        """End this run before `at`, and return the rest."""
        rest = Run(self.parcel, at, self.stop, self.handed, self.taken)
        self.stop = at
        return rest


def ranges(indexes: Iterable[int]) -> tuple[Range, ...]:
    """Return ascending indexes as (start, count) of unbroken ranges."""
    found: list[Range] = []
    for at in indexes:
        if found and sum(found[-1]) == at:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((at, 1))
    return tuple(found)


@dataclass(eq=False)
class Queue:
    """Messages that a router owes one recipient: waiting runs, in order, and runs in flight. `total` in messages."""

    whom: App | Place
    hex: str
    event: str

    def __post_init__(self) -> None:
        self.up = False
        self.epoch = 0
        self.link = 0
        self.total = 0
        self.in_flight = 0
        self.settle_ns = 0
        self.paused = False
        self.backoff_ns = 0
        self.look_ns = 0
        self.waiting: deque[Run] = deque()
        self.flying: dict[Run, None] = {}
        self.witnessed: tuple[int, str] | None = None

    def past(self, parcel: Parcel, wall: int) -> list[int]:
        """Return the messages of the parcel whose deadline has passed, and stop waiting for them."""
        kept: deque[Run] = deque()
        dead: list[int] = []
        for run in self.waiting:
            if run.parcel is not parcel:
                kept.append(run)
                continue
            gone = {at for at in range(run.start, run.stop) if parcel.deadline(at) <= wall}
            dead += sorted(gone)
            left = ranges(at for at in range(run.start, run.stop) if at not in gone)
            kept.extend(Run(parcel, start, start + n, run.handed, run.taken) for start, n in left)
        self.waiting = kept
        return dead


class RouterNode:
    """Write every line and count it. Times passed in are the fleet's `now`, in ns."""

    def __init__(self, place: Place, log: SampleLog, truth: Truth) -> None:
        self.place = place
        self.log = log
        self.fleet_truth = truth
        self.truth = RouterTruth(place.name, place.hex, place.clock_ns)
        truth.routers.append(self.truth)
        self.queues: dict[App | Place, Queue] = {}
        self.routes: set[str] = set()
        self.joined: set[tuple[str, str]] = set()
        self.clock_ns = place.clock_ns
        self.arrival = 1
        self.links = 0
        self.up = False
        self.mono_base = 0

    def __repr__(self) -> str:
        return f"<{self.place.name}: {len(self.queues)} queues, arrival {self.arrival} is next>"

    def clock(self, now: int) -> None:
        self.log.t = now + self.clock_ns
        self.log.mono = now - self.mono_base

    def boot(self, now: int, boot: str) -> None:
        self.mono_base = now - ZERO_BOOT
        self.log.boot = boot
        self.up = True
        self.clock(now)
        self.state("start", arrival=self.arrival)

    def join(self, subscriber: str, group: str) -> None:
        if (subscriber, group) not in self.joined:
            self.joined.add((subscriber, group))
            self.state("join", subscriber=subscriber, group=group)

    def leave(self, subscriber: str, group: str) -> None:
        if (subscriber, group) in self.joined:
            self.joined.remove((subscriber, group))
            self.state("leave", subscriber=subscriber, group=group)

    def queue(self, whom: App | Place) -> Queue:
        found = self.queues.get(whom)
        if found is None:
            found = self.queues[whom] = Queue(whom, whom.hex, "delivered" if isinstance(whom, App) else "acked")
        return found

    # -- lines -----------------------------------------------------------------------------------------------

    def accepted(self, batch: Batch, peer: str, link: int, named: tuple[str, ...]) -> Parcel:
        log, truth, count = self.log, self.truth, batch.count
        parcel = Parcel(batch, self.arrival, log.t, log.mono, log.boot)
        kind = "unicast" if batch.goal else "multicast"
        log.accepted(kind, batch.signer, batch.destination, peer, link, parcel.first, batch.ids, batch.columns, named)
        self.arrival += count
        units = count * len(named)
        truth.accepted += count
        truth.owed += units
        truth.windows[parcel.minute]["owed"] += units
        truth.lines["accepted"] += 1
        truth.counts["accepted"] += count
        return parcel

    def outward(
        self, event: str, queue: Queue, parcel: Parcel, ranges: tuple[Range, ...], count: int,
        reason: str | None = None, duration_ns: int = 0,
    ) -> None:  # fmt: skip
        """Write an outward line. `ranges` count from the parcel's first message."""
        first = parcel.first
        whole = tuple([(first + start, n) for start, n in ranges])
        self.log.outward(event, queue.hex, queue.link, first, whole, count, reason, queue.total, duration_ns)
        truth = self.truth
        truth.lines[event] += 1
        truth.counts[event] += count
        if reason is not None:
            truth.reasons[event, reason, False] += count

    def end(
        self, event: str, queue: Queue, parcel: Parcel, ranges: tuple[Range, ...], count: int,
        reason: str | None = None, duration_ns: int = 0,
    ) -> None:  # fmt: skip
        """Count the end of these units at this router."""
        queue.total -= count
        self.outward(event, queue, parcel, ranges, count, reason, duration_ns)
        truth, log = self.truth, self.log
        truth.end(event, count, parcel.minute)
        if event in ("delivered", "acked"):
            wait_ns = log.mono - parcel.mono if parcel.boot == log.boot else log.t - parcel.t
            if event == "delivered":
                truth.deliveries += count
                self.fleet_truth.delivered.add(wait_ns, count)
            else:
                truth.acked[queue.hex] += count
                self.fleet_truth.acked.add(wait_ns, count)

    def forwarded(self, queue: Queue, run: Run) -> None:
        count = run.stop - run.start
        self.outward("forwarded", queue, run.parcel, ((run.start, count),), count)
        self.truth.forwards += count
        if run.handed:
            self.truth.redelivered += count
        run.handed = True

    def deferred(self, queue: Queue, run: Run, reason: str) -> None:
        count = run.stop - run.start
        self.outward("deferred", queue, run.parcel, ((run.start, count),), count, reason)
        self.truth.deferred += count

    def turned(
        self, event: str, peer: str, link: int, reason: str, ids: str, count: int, signer: str | None = None
    ) -> None:
        self.log.turned(event, peer, link, reason, ids, count, signer)
        truth = self.truth
        truth.lines[event] += 1
        truth.counts[event] += count
        truth.reasons[event, reason, True] += count
        truth.abuse[self.log.t // HOUR_NS, peer, signer, reason, event] += count

    def state(self, event: str, **fields: Any) -> None:
        self.log.state(event, **fields)
        self.truth.lines[event] += 1
        self.truth.counts[event] += 1

    # -- the end ---------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Count units still owed as pending, or as unaccounted if they should have ended long before the log did."""
        truth = self.truth
        truth.end_t = self.log.last_t
        for queue in self.queues.values():
            for run in (*queue.waiting, *queue.flying):
                late = run.parcel.due_ns + GRACE_NS <= truth.end_t
                truth.end("unaccounted" if late else "pending", run.stop - run.start, run.parcel.minute)
        self.log.close()
