"""Run a service's rules: hear, commit, carry out, in cycles like the router's own.

A cycle passes new events to the rules, all at one moment, commits the values, notes and messages of their deeds in one
transaction, and then carries the deeds out. A crash in between loses nothing: messages to be sent are in the state, and
a message that was handled is known there.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import trio
from msgspec import Struct, field

from router.client.composer import Lifetime
from router.client.received import Received
from router.core.wire.lifetime import EXPIRY_MIN
from router.core.wire.message import with_via
from router.service import clock
from router.service import contract as c
from router.service.alarm import Alarm
from router.service.deed_checks import answer_of, event_of
from router.service.doors import Doors, admit_all
from router.service.gathering import Gathering
from router.service.host import Place, Service
from router.service.jobs import Jobs
from router.service.linked_routers import LinkedRouters
from router.service.passing import copied_to
from router.service.requests import Requests
from router.service.roles import discovery as d
from router.service.roles import overlay as o
from router.service.sending import UNKEPT, Sending, ToSend
from router.service.state import Batch, State
from router.service.verbs.verb import news_of
from router.transport import contract as transport
from router.transport.contract import Stream

CYCLE_HEARD_MAX = 256
WAITING_MAX = 2_000
"""Most events that wait for the rules; beyond it doors and messages wait as well."""
REQUESTS_MAX = 1_000
"""Most requests to the router that wait for their turn; beyond it the rules wait."""
DIAL_S = 10.0
EXPIRY_MIN_UNKEPT = 60
_CHANCE = random.SystemRandom()

Done = Callable[[], None]
"""Called when what follows from something has been carried out."""

log = logging.getLogger(__name__)
informing = logging.getLogger("router.service.informing")
"""For what operators are told though nothing is wrong; they see it without --verbose, too."""
informing.setLevel(logging.INFO)


class Kept(Mapping[bytes, bytes]):
    """The state as the rules see it, including the values that the present cycle keeps."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.changed: dict[bytes, bytes | None] = {}

    def __getitem__(self, key: bytes) -> bytes:
        if key not in self.changed:
            return self._state[key]
        if (value := self.changed[key]) is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[bytes]:
        yield from (key for key in self._state if key not in self.changed)
        yield from (key for key, value in self.changed.items() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def has_room(self) -> bool:
        """Whether the disk has room for more; see `contract.has_room`."""
        return self._state.has_room

    def under(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the keys that begin so, without the prefix, each with its value; see `contract.kept_under`."""
        found = dict(self._state.under(prefix))
        for key, value in self.changed.items():
            if key.startswith(prefix):
                found.pop(key[len(prefix) :], None)
                if value is not None:
                    found[key[len(prefix) :]] = value
        return sorted(found.items())

    def several(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the values of these keys; see `contract.kept_values`."""
        if self.changed.keys().isdisjoint(keys):
            return self._state.several(keys)
        return [self[key] for key in keys]


class CycleChanges(Struct):
    """The changes that one cycle commits, and the deeds that it then carries out."""

    batch: Batch = field(default_factory=Batch)
    deeds: list[c.Deed] = field(default_factory=list)
    handled: list[Received] = field(default_factory=list)
    refused: list[tuple[Received, c.Refuse]] = field(default_factory=list)
    awaited: list[Done] = field(default_factory=list)

    def take(self, other: CycleChanges) -> None:
        """Add the deeds that follow from one more event."""
        self.batch.kept.update(other.batch.kept)
        self.batch.events += other.batch.events
        self.batch.outbox += other.batch.outbox
        self.deeds += other.deeds
        self.refused += other.refused


class RulesHost(Service):
    """A service whose rules decide everything."""

    elsewhere = "let it Compute that work"
    hears_outcomes = True

    def __init__(self, place: Place, rules: type[c.Rules]) -> None:
        super().__init__(place)
        self._kind = rules
        self._heard: deque[tuple[c.Heard, Received | Done | None]] = deque()
        self._work = trio.Event()
        self._gathering: Gathering | None = None
        self._room = trio.lowlevel.ParkingLot()
        self._alarm = Alarm(lambda: self.hear(c.Tick()))
        self._sending = Sending(self.hear, lambda: self._work.set())
        self._linked = LinkedRouters()
        self._ask = Requests(self, self.hear)
        self._requests, self._requested = trio.open_memory_channel[c.Deed | list[ToSend]](REQUESTS_MAX)

    async def live(self) -> None:
        state = self.state
        self._kept = Kept(state)
        self._doors = Doors(self._came, self.hear, self._dial_as_guest, self.place.home.path)
        self._jobs = Jobs(self._computed)
        self._rules = self._kind(c.Setup(self.name, self.place.key.public, self.settings, self._kept, _CHANCE))
        self._settled: Callable[[c.Now], list[c.Deed]] | None = getattr(self._rules, "settled", None)
        self._gathering = Gathering() if self._settled is not None else None
        self._batch_delay_s: Callable[[c.Now], float] = getattr(self._rules, "batch_delay_s", lambda now: 0.0)
        admits = getattr(self._rules, "admits", admit_all)
        await self._doors.open(self.nursery, getattr(self._rules, "doors", dict)(), admits)
        self._sending.put(state.outbox())
        self._heard.appendleft((c.Started(await self.node.until_up()), None))  # before what has come at doors
        self._work.set()
        self.node.wires.on_lost = self._lost
        self.nursery.start_soon(self._read_messages)
        self.nursery.start_soon(self._hear_words)
        self.nursery.start_soon(self._sending.run, self.node.wires)
        self.nursery.start_soon(self._request)
        self.nursery.start_soon(self._jobs.run)
        self.nursery.start_soon(self._alarm.run)
        await self._cycle()  # it hears that it has started, which may fail
        self.place.on_open()
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._heard or self._sending.has_many_sent:
                if self._gathering is not None:
                    await self._gathering.until_enough(len(self._heard), self._batch_delay_s(clock.now()))
                await self._cycle()

    # -- hearing -------------------------------------------------------------------------------------------

    def hear(self, heard: c.Heard, source: Received | Done | None = None) -> None:
        """Let the rules hear this: a message that was `received`, or what somebody wants to know to be carried out."""
        self._heard.append((heard, source))
        self._work.set()
        if self._gathering is not None:
            self._gathering.came(len(self._heard))

    async def _until_room(self) -> None:
        while len(self._heard) >= WAITING_MAX:
            await self._room.park()

    async def _read_messages(self) -> None:
        async for one in self.node.messages(settle_on_next=False):
            if self._attempts.are_used_up(one.id):
                await self.give_up(one)
            elif self.state.has_heard(one.id):
                await one.settle()
            else:
                await self._until_room()
                self.hear(_message(one), one)

    async def _came(self, came: c.Came) -> None:
        heard = trio.Event()
        self.hear(came, heard.set)
        await heard.wait()

    async def _dial_as_guest(self) -> Stream:
        place = self.place
        return await transport.dial(place.guests, place.key, None, timeout_s=DIAL_S)

    def _computed(self, tag: str, result: bytes, error: str) -> None:
        self.hear(c.Computed(tag, result, error))

    async def _hear_words(self) -> None:
        """Handle the router's words: groups that are wanted, results of requests, and operators' questions."""
        async for inquiry in self.node.words:
            if isinstance(inquiry, o.Wanted | o.Hinted):
                self.hear(inquiry)
            elif (heard := news_of(inquiry)) is not None:
                self._linked.note(heard)
                self.hear(heard)

    def _lost(self) -> None:
        for gone in self._linked.lost():
            self.hear(gone)

    # -- a cycle -------------------------------------------------------------------------------------------

    async def _cycle(self) -> None:
        cycle, failed, now = CycleChanges(), None, clock.now()
        events = min(len(self._heard), CYCLE_HEARD_MAX)
        for _ in range(CYCLE_HEARD_MAX):
            if not self._heard:
                break
            heard, source = self._heard.popleft()
            self._in_hand = received = source if isinstance(source, Received) else None
            try:
                if not self._doors.is_handed(heard) and (deeds := self._rules.hear(heard, now)):
                    self._take(cycle, deeds, received)
            except Exception as error:
                failed = received, error
                break
            self._in_hand = None
            if isinstance(source, Received):
                cycle.handled.append(source)
            elif source is not None:
                cycle.awaited.append(source)
        try:
            self._settle(cycle)
        except Exception as error:
            failed = failed or (None, error)
        self._room.unpark_all()
        await self._commit_and_carry_out(cycle)
        if self._gathering is not None:
            self._gathering.ended(events)
        if failed is not None:
            await self._fail(*failed)

    def _settle(self, cycle: CycleChanges) -> None:
        """Let the rules decide what follows from all that they have heard in this cycle."""
        if self._settled is not None and (deeds := self._settled(clock.now())):
            self._take(cycle, deeds, None)

    def _take(self, cycle: CycleChanges, deeds: list[c.Deed], received: Received | None) -> None:
        """Take all deeds that follow from one thing into the cycle, or none if one of them is wrong."""
        follows = CycleChanges()
        kept = follows.batch.kept
        for deed in deeds:
            if type(deed) is c.Put:  # as most are
                kept[deed.key] = deed.value
            else:
                self._lay_down(follows, deed, received)
        for deed in follows.deeds:
            if isinstance(deed, c.HandOver):
                self._doors.decide(deed)
        cycle.take(follows)
        self._kept.changed.update(follows.batch.kept)

    async def _fail(self, received: Received | None, error: Exception) -> None:
        self._in_hand = None
        if received is None or not await self.failed_on(received, error):
            raise error

    def _lay_down(self, cycle: CycleChanges, deed: c.Deed, received: Received | None) -> None:
        """Sort a deed: notes and messages belong to the transaction, as kept values do, the rest comes after it."""
        match deed:
            case c.LogEvent():
                cycle.batch.events.append(event_of(deed, self.place.events))
            case c.Send(kept=False):
                cycle.deeds.append(deed)
            case c.Send() | c.Publish() | c.Forward():
                cycle.batch.outbox.append((deed.tag, self._wire(deed)))
            case c.Refuse() if received is not None:
                cycle.refused.append((received, deed))
            case c.Answer():
                cycle.deeds.append(given := answer_of(deed))
                if given is not deed:
                    self.warn(given.value["error"])
            case _:
                cycle.deeds.append(deed)

    def _wire(self, deed: c.Send | c.Publish | c.Forward) -> bytes:
        wires = self.node.wires
        match deed:
            case c.Send(to, body, ttl_s, via):
                return wires.unicast(to, body, lifetime_of(ttl_s), via)
            case c.Publish(body, group, ttl_s):
                return self.node.group(group or self.place.key).signed(body, lifetime_of(ttl_s))
            case c.Forward(wire, via):
                return with_via(wire, via)

    async def _commit_and_carry_out(self, cycle: CycleChanges) -> None:
        batch, later = cycle.batch, {one.id for one, deed in cycle.refused if deed.reason.later}
        batch.heard = [(one.id, one.expiry_min) for one in cycle.handled if one.id not in later]
        batch.sent = self._sending.take_sent()
        batch.outbox.sort(key=lambda one: copied_to(one[1]) or b"")  # copies for one router share a parcel there
        ready: list[ToSend] = []
        if batch:
            numbers = await self.commit(batch)
            ready = [(number, *one) for number, one in zip(numbers, batch.outbox, strict=True)]
        self._kept.changed.clear()
        for deed in cycle.deeds:
            if type(deed) is c.Write:  # as most are
                self._doors.write(deed.door, deed.peer, deed.data)
            else:
                await self._carry_out(deed)
        if ready:
            await self._requests.send(ready)
        for one, refusal in cycle.refused:
            await one.refuse(refusal.reason, refusal.text)
        for one in cycle.handled:
            await one.settle()
            self._attempts.end(one.id)
        for done in cycle.awaited:
            done()

    # -- carrying out --------------------------------------------------------------------------------------

    async def _carry_out(self, deed: c.Deed) -> None:
        match deed:
            case d.WriteOnClose(door, peer, data):
                self._doors.write_at_end(door, peer, data)
            case c.Connect():
                self._doors.connect(deed)
            case d.UseInterfaces(door, interfaces):
                self._doors.attend(door, interfaces)
            case c.HandOver(door, peer):
                self._doors.hand(door, peer)
            case c.Compute(function, argument, tag):
                self._jobs.put(function, argument, tag)
            case c.Wake(at_s):
                self._alarm.set(at_s)
            case o.Attest(tag=tag):
                self.hear(o.Attested(tag, self.place.key.sign(deed.signed())))
            case c.Warn(text):
                self.warn(text)
            case c.Inform(text):
                informing.info("%s: %s", self, text)
            case c.Send():
                await self._requests.send([(UNKEPT, deed.tag, self._wire(deed))])
            case c.Pull() | d.DialBack() | o.ListHeld():
                self.nursery.start_soon(self._ask.do, deed)
            case o.PullFrom():
                if self._ask.pulls.add(deed):
                    await self._requests.send(deed)
            case _:
                await self._requests.send(deed)

    async def _request(self) -> None:
        """Send the requests to the router one after the other, so that of two about one key the later one holds;
        messages go after them, so that a neighbour is known before messages to it."""
        async for asked in self._requested:
            if isinstance(asked, list):
                self._sending.put(asked)
            else:
                await self._ask.do(asked)


def lifetime_of(ttl_s: int) -> Lifetime:
    """Return the lifetime of a message; nobody keeps one with ttl 0, so its id need not be remembered for a day."""
    return Lifetime(ttl_s, EXPIRY_MIN if ttl_s else EXPIRY_MIN_UNKEPT)


def _message(one: Received) -> c.Message:
    return c.Message(one.id, one.body, one.source, one.group, one.via, one.seen, one.wire, one.redelivered)
