"""One router of the sample: what it owes whom, its log lines, and the expected sums."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from router.audit.sample.fleet import App, Place, Topic
from router.audit.sample.log import SampleLog
from router.audit.sample.truth import HOUR_NS, MINUTE_NS, RouterTruth, Truth
from router.core.log.events import Accepted, Outward, State, Turned
from router.core.wire.reasons import Reason
from spark_analytics.judgement.schema import EPOCH_NS

SECOND = 1_000_000_000
ZERO_BOOT = 5 * SECOND
Range = tuple[int, int]


@dataclass(eq=False, slots=True)
class Batch:
    """Messages of one signer that travel together, to a group or an app. `ttls` in seconds, `expiries` in minutes."""

    signer: bytes
    ids: bytes
    sizes: Sequence[int]
    ttls: Sequence[int]
    expiries: Sequence[int]
    to: Topic | App

    @property
    def destination(self) -> bytes | None:
        return self.to.address if isinstance(self.to, App) else None

    def part(self, which: Sequence[int]) -> Batch:
        if len(which) == len(self.sizes):
            return self
        sizes, ttls, expiries = ([column[at] for at in which] for column in (self.sizes, self.ttls, self.expiries))
        ids = b"".join([self.ids[at * 32 : at * 32 + 32] for at in which])
        return Batch(self.signer, ids, sizes, ttls, expiries, self.to)


class Parcel:
    """A batch as one router accepted it. `t`: its wall clock, ns; `mono` and `boot` of the line."""

    __slots__ = ("batch", "boot", "due_ns", "first", "minute", "mono", "t")

    def __init__(self, batch: Batch, first: int, log: SampleLog) -> None:
        self.batch = batch
        self.first = first
        self.t, self.mono, self.boot = log.t, log.mono, log.boot
        self.minute = log.t // MINUTE_NS
        self.due_ns = min(map(self.deadline, range(len(batch.ttls))))

    def deadline(self, at: int) -> int:
        return min(self.t + self.batch.ttls[at] * SECOND, EPOCH_NS + self.batch.expiries[at] * MINUTE_NS)

    def why_expired(self, at: int) -> Reason:
        is_ttl = self.deadline(at) == self.t + self.batch.ttls[at] * SECOND
        return Reason.TTL_EXPIRED if is_ttl else Reason.EXPIRY_PASSED


@dataclass(eq=False, slots=True)
class Owed:
    """The messages `left` of a parcel that one recipient is owed. `taken`: the recipient has them."""

    parcel: Parcel
    queue: Queue
    left: Sequence[int]
    was_handed: bool = False
    taken: bool = False
    backoff_ns: int = 0
    look_ns: int = 0


@dataclass(eq=False)
class Queue:
    """What a router owes one recipient: `total` in messages, and what waits until the recipient is `up`."""

    whom: App | Place
    up: bool = False
    link: int = 0
    total: int = 0
    waiting: dict[Owed, None] = field(default_factory=dict)
    witnessed: tuple[int, str] | None = None

    def __post_init__(self) -> None:
        self.event = "delivered" if isinstance(self.whom, App) else "acked"


def ranges(indexes: Iterable[int], first: int) -> tuple[Range, ...]:
    """Return ascending indexes, counted from `first`, as (start, count) of unbroken ranges."""
    if isinstance(indexes, range) and indexes.step == 1:
        return ((first + indexes.start, len(indexes)),)
    found: list[Range] = []
    for at in indexes:
        if found and sum(found[-1]) == first + at:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((first + at, 1))
    return tuple(found)


class RouterNode:
    """Write every line and count it. Times passed in are the fleet's `now`, in ns."""

    def __init__(self, place: Place, log: SampleLog, truth: Truth) -> None:
        self.place = place
        self.log = log
        self.fleet_truth = truth
        self.truth = RouterTruth(place.name, place.address.hex(), place.clock_ns)
        truth.routers.append(self.truth)
        self.queues: dict[App | Place, Queue] = {}
        self.routes: set[bytes] = set()
        self.joined: set[tuple[bytes, bytes]] = set()
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

    def start(self, now: int, boot: bytes) -> None:
        self.mono_base = now - ZERO_BOOT
        self.log.begin(boot)
        self.up = True
        self.clock(now)
        self.state("start", arrival=self.arrival)

    def join(self, subscriber: bytes, group: bytes, is_member: bool = True) -> None:
        """Let the subscriber join, or leave, a group that it has not joined, or has."""
        if ((subscriber, group) in self.joined) is not is_member:
            self.joined ^= {(subscriber, group)}
            self.state("join" if is_member else "leave", subscriber=subscriber, group=group)

    def queue(self, whom: App | Place) -> Queue:
        found = self.queues.get(whom)
        if found is None:
            found = self.queues[whom] = Queue(whom)
        return found

    # -- lines -----------------------------------------------------------------------------------------------

    def accepted(self, batch: Batch, peer: bytes, link: int, recipients: Sequence[App | Place]) -> Parcel:
        log, count = self.log, len(batch.sizes)
        parcel = Parcel(batch, self.arrival, log)
        columns = [array("I", column).tobytes() for column in (batch.sizes, batch.ttls, batch.expiries)]
        whom, is_multicast = tuple([one.address for one in recipients]), isinstance(batch.to, Topic)
        log.put(
            Accepted(
                log.t, log.mono, self.arrival, is_multicast, batch.signer, batch.destination, peer, link, whom,
                batch.ids, *columns,
            )
        )  # fmt: skip
        self.arrival += count
        self.truth.windows[parcel.minute]["owed"] += count * len(whom)
        self.truth.note("accepted", count)
        return parcel

    def _outward(self, event: str, owed: Owed, which: Sequence[int], reason: Reason | None, duration_ns: int) -> None:
        log, queue, first = self.log, owed.queue, owed.parcel.first
        log.put(
            Outward(
                log.t, log.mono, event, queue.whom.address, queue.link, ranges(which, first), reason, 0, queue.total,
                duration_ns, first,
            )
        )  # fmt: skip
        self.truth.note(event, len(which), reason)

    def end(
        self, event: str, owed: Owed, which: Sequence[int], reason: Reason | None = None, duration_ns: int = 0
    ) -> None:
        """Count the end of these units, some or all that are left, at this router."""
        count, parcel, truth, log = len(which), owed.parcel, self.truth, self.log
        owed.queue.total -= count
        owed.left = [at for at in owed.left if at not in which] if count < len(owed.left) else ()
        self._outward(event, owed, which, reason, duration_ns)
        truth.windows[parcel.minute][event] += count
        if event in ("delivered", "acked"):
            wait_ns = log.mono - parcel.mono if parcel.boot == log.boot else log.t - parcel.t
            self.fleet_truth.waits[event].add(wait_ns, count)
        if event == "acked":
            truth.acked[owed.queue.whom.address.hex()] += count

    def forwarded(self, owed: Owed) -> None:
        self._outward("forwarded", owed, owed.left, None, 0)
        self.truth.redelivered += owed.was_handed * len(owed.left)
        owed.was_handed = True

    def deferred(self, owed: Owed, reason: Reason) -> None:
        self._outward("deferred", owed, owed.left, reason, 0)

    def turned(
        self, event: str, peer: bytes, link: int, reason: Reason, ids: bytes, count: int, signer: bytes | None = None
    ) -> None:
        log, truth = self.log, self.truth
        log.put(Turned(log.t, log.mono, event, peer, link, reason, ids, count, signer))
        truth.note(event, count, reason, at_door=True)
        truth.abuse[log.t // HOUR_NS, peer.hex(), signer.hex() if signer else None, reason.word, event] += count

    def state(self, event: str, **fields: Any) -> None:
        self.log.put(State(self.log.t, self.log.mono, event, tuple(fields.items())))
        self.truth.note(event, 1)

    def finish(self) -> None:
        """Close the log; all that has not ended is pending."""
        self.log.close()
        self.truth.end_t = self.log.last_t
