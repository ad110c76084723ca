"""Run a service's rules: hear, commit, carry out, in cycles like the router's own.

A cycle passes new events to the rules, all at one moment, commits the values, notes and messages of their deeds in one
transaction, and then carries the deeds out. A crash in between loses nothing: messages to be sent are in the state, and
a message that was handled is known there.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import trio

from router.actors.actor import as_failure
from router.client.received import Received
from router.disk.state.environment import StateError
from router.disk.state.service_state import State
from router.service import clock
from router.service import contract as c
from router.service.alarm import Alarm
from router.service.carrying_out import CarryingOut
from router.service.confined_failures import ConfinedFailures
from router.service.confinement import Confinement
from router.service.copies_alone import CopiesAlone
from router.service.cycle_changes import CycleChanges, DeedSorter, Source, listed
from router.service.deed_checks import DeedChecks
from router.service.doors import Doors, admit_all, door_urls
from router.service.gathering import Gathering, never_urgent, no_delay_s
from router.service.heard_again import HeardAgain
from router.service.heard_lately import HeardLately
from router.service.host import Place, SaidError, Service
from router.service.jobs import Jobs
from router.service.linked_routers import LinkedRouters
from router.service.passing import copied_to
from router.service.request_queue import RequestQueue
from router.service.requests import Requests
from router.service.roles import overlay as o
from router.service.sending import Sending, ToSend
from router.service.verbs.groups_wanted import GroupsWanted
from router.service.verbs.verb import news_of
from router.transport import contract as transport
from router.transport.contract import Stream

CYCLE_HEARD_MAX = 256
WAITING_MAX = 2_000
"""Most events that wait for the rules; beyond it doors and messages wait as well."""
DIAL_S = 10.0
_CHANCE = random.SystemRandom()

log = logging.getLogger(__name__)


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


class RulesHost(Service):
    """A service whose rules decide everything."""

    elsewhere = "let it Compute that work"
    hears_outcomes = True

    def __init__(self, place: Place, rules: type[c.Rules]) -> None:
        super().__init__(place)
        self._kind = rules
        self._lately, self._linked = HeardLately(), LinkedRouters()
        self._heard: deque[tuple[c.Heard, Source]] = deque()
        self._work, self._room = trio.Event(), trio.lowlevel.ParkingLot()
        self._gathering: Gathering | None = None
        self._alarm = Alarm(lambda: self.hear(c.Tick()))
        self._sending = Sending(self.hear, lambda: self._work.set(), self._say)
        self._copies_alone = CopiesAlone(lambda one: self._attempts.end(one.id))
        self._failures = ConfinedFailures(self._log_failure, place.on_warning)
        self._again = HeardAgain(self, place.pauses, _CHANCE, self.hear)
        self._confinement = Confinement(
            self._failures,
            place.in_a_row,
            place.attempts.most,
            lambda door, peer: self._doors.end(door, peer),
            self.hear,
            self._again.later,
            lambda failures: self._alarm.set(time.time() + self._again.pause_s(failures)),
        )
        self._ask = Requests(self, self.hear, self._failures.was_not_done)
        self._requests = RequestQueue(self._ask.do, self._sending.put, self._ask.until_answered)

    async def live(self) -> None:
        """Make the rules of the kept state, and run their cycles until the service is to end."""
        self._kept = Kept(self.state)
        self._doors = Doors(self._came, self.hear, self._dial_as_guest, self.place.home.path, self.warn)
        self._jobs = Jobs(lambda tag, result, error: self.hear(c.Computed(tag, result, error)))
        key, find = self.place.key.public, self.place.find_over_http
        given = self.name, key, self.settings, self._kept, _CHANCE, find, self.scratch(), self.place.node_name
        self._rules = self._kind(c.Setup(*given))
        self._settled: Callable[[c.Now], object] | None = getattr(self._rules, "settled", None)
        delay_s = self._failures.guarded("batch_delay_s", getattr(self._rules, "batch_delay_s", no_delay_s), 0.0)
        is_urgent = self._failures.guarded("is_urgent", getattr(self._rules, "is_urgent", never_urgent), True)
        if self._settled is not None or hasattr(self._rules, "batch_delay_s"):
            self._gathering = Gathering(delay_s, is_urgent, self._doors)
        patient = self._failures.guarded("patient_doors", getattr(self._rules, "patient_doors", tuple), ())
        admits = self._failures.guarded("admits", getattr(self._rules, "admits", admit_all), False)
        doors = door_urls(getattr(self._rules, "doors", dict)())
        self._checks = DeedChecks(doors, self._failures.doubt)
        self._sorter = DeedSorter(self._checks, self.node, self.place.key, self.place.events, self.warn)
        asked, told = (self._ask, self._requests, self._sorter), (self.hear, self._sending.not_sent)
        self._carrying = CarryingOut(self, self._doors, self._jobs, self._alarm, *asked, *told)
        await self._doors.open(self.nursery, doors, admits, patient())
        self._sending.put([ToSend(*one) for one in self.state.outbox()])
        self._heard.appendleft((c.Started(await self.node.until_up()), None))  # before what has come at doors
        self._work.set()
        self._start_tasks()
        await self._cycle()  # it hears that it has started, which may fail
        self.nursery.start_soon(self._read_messages)  # by now it is known which groups come as they were published
        self.place.on_open()
        while True:
            await self._sending.until_due_or(self._work)
            self._work = trio.Event()
            while self._heard or self._sending.is_due:
                if self._gathering is not None:
                    await self._gathering.until_enough(len(self._heard))
                await self._requests.until_room()
                await self._cycle()

    # -- hearing -------------------------------------------------------------------------------------------

    def hear(self, heard: c.Heard, source: Source = None) -> None:
        """Let the rules hear this: a message that was `received`, or what somebody wants to know to be carried out."""
        self._heard.append((heard, source))
        self._work.set()
        if self._gathering is not None:
            self._gathering.came(heard, len(self._heard))

    def _say(self, text: str) -> None:
        self.log.warning("%s: %s", self, text)

    async def _until_room(self) -> None:
        while len(self._heard) >= WAITING_MAX:
            await self._room.park()

    async def _read_messages(self) -> None:
        async for one in self.node.messages(settle_on_next=False):
            if self._attempts.are_used_up(one.id):
                await self.give_up(one)
            elif one.id in self._lately or self.state.has_heard(one.id):
                await one.settle()
            else:
                await self._until_room()
                self.hear(_message(one), one)

    async def _came(self, came: c.Came) -> None:
        heard = trio.Event()
        self.hear(came, heard.set)
        await heard.wait()

    def _start_tasks(self) -> None:
        """Start what runs beside the cycles."""
        self.node.wires.on_lost = self._lost
        self.nursery.start_soon(self._sending.run, self.node.wires)
        beside = self._requests.run, self._ask.memberships.run, self._jobs.run, self._alarm.run, self._copies_alone.run
        for task in (self._hear_words, *beside):
            self.nursery.start_soon(task)

    async def _dial_as_guest(self) -> Stream:
        return await transport.dial(self.place.guests, self.place.key, None, timeout_s=DIAL_S)

    async def _hear_words(self) -> None:
        """Handle the router's words: groups that are wanted, results of requests, and operators' questions."""
        async for inquiry in self.node.words:
            if isinstance(inquiry, o.Wanted | o.Hinted):
                self.hear(inquiry)
                continue
            heard = self._failures.guarded(f"the router's word {inquiry.ask}", news_of, None)(inquiry)
            if heard is not None and not self._ask.answers(heard):
                self._linked.note(heard)
                for one in wanted_one_by_one(heard):
                    self.hear(one)

    def _lost(self) -> None:
        for gone in self._linked.lost():
            self.hear(gone)

    # -- a cycle -------------------------------------------------------------------------------------------

    async def _cycle(self) -> None:
        cycle = CycleChanges()
        failure, is_settled = self._hear_waiting(cycle), False
        try:
            self._settle(cycle)
            is_settled = True
            await self._commit(cycle)
        except Exception as error:  # nothing of this cycle is kept
            self._kept.changed.clear()
            if failure is not None:
                raise failure from None
            cycle = await self._without_event(cycle, error, is_settled)
        await self._carry_out_all(cycle)
        self._room.unpark_all()
        if self._gathering is not None:
            self._gathering.ended(cycle.events)
        if failure is not None:
            raise failure
        for one, why in cycle.failed:
            await self._count_failure(one, why)

    def _hear_waiting(self, cycle: CycleChanges) -> Exception | None:
        """Let the rules hear what waits. A message that one failed with, or may have, is alone in its cycle. Return the
        failure for which the service has to start again."""
        now = clock.now()
        most = 1 if self.place.in_a_row.is_careful(trio.current_time()) else CYCLE_HEARD_MAX
        while self._heard and cycle.events < most:
            heard, source = self._heard[0]
            is_doubted = isinstance(source, Received) and self._attempts.has_failed(source.id)
            if is_doubted and cycle.events:
                break
            cycle.heard.append(self._heard.popleft())
            cycle.events += 1
            self._in_hand = received = source if isinstance(source, Received) else None
            try:
                self._hear_one(cycle, heard, received, now)
                self._confinement.went_well(heard)
            except BaseException as error:
                self._in_hand, cycle.is_confined = None, True
                failed = as_failure(error, KeyboardInterrupt)
                if (fatal := self._confinement.confine(cycle, self._checks, heard, source, failed)) is not None:
                    return fatal
                continue
            self._in_hand = None
            if isinstance(heard, c.Sent):
                cycle.told.append(heard)
            if isinstance(source, Received):
                cycle.handle(source)
            elif source is not None:
                cycle.awaited.append(source)
            if is_doubted:
                break
        return None

    def _hear_one(self, cycle: CycleChanges, heard: c.Heard, received: Received | None, now: c.Now) -> None:
        if self._doors.is_handed(heard) or self._doors.is_of_failed(heard):
            return
        if isinstance(heard, c.Asked):
            self._checks.asked(heard.number)
        follows = self._take(cycle, self._rules.hear(heard, now), received)
        if follows and isinstance(heard, c.Came) and heard.data:
            self._doors.talked(heard.door, heard.peer)

    def _settle(self, cycle: CycleChanges) -> None:
        """Let the rules decide what follows from all that they have heard in this cycle."""
        try:
            if self._settled is not None:
                self._take(cycle, self._settled(clock.now()), None)
        except Exception:
            raise
        except BaseException as error:
            raise as_failure(error, KeyboardInterrupt) from error

    def _take(self, cycle: CycleChanges, decided: object, received: Received | None) -> bool:
        """Take all deeds that follow from one thing into the cycle, or none if one of them is wrong; return whether
        there are any."""
        if not (deeds := listed(decided)):
            return False
        follows = self._sorter.sort(deeds, received)
        cycle.trace(deeds, follows, received)
        for deed in follows.deeds:
            if isinstance(deed, c.HandOver):
                self._doors.decide(deed)
        cycle.take(follows)
        self._kept.changed.update(follows.batch.kept)
        return True

    async def _commit(self, cycle: CycleChanges) -> None:
        batch, refused = cycle.batch, {one.id: reason for one, reason, _ in cycle.refused}
        if batch or cycle.leaves_trace or cycle.told or self._sending.is_due:  # else the next transaction deletes them
            batch.sent = self._sending.take_sent(cycle.told)
        if batch or cycle.leaves_trace:
            later = {id for id, reason in refused.items() if reason.later}
            batch.heard = [(one.id, one.expiry_min) for one in cycle.handled if one.id not in later]
        else:
            self._lately.add(one.id for one in cycle.handled if one.id not in refused)
        batch.outbox.sort(key=lambda one: copied_to(one[1]) or b"")  # copies for one router share a parcel there
        if batch:
            numbers = await self.commit(batch)
            cycle.ready = [ToSend(number, *one) for number, one in zip(numbers, batch.outbox, strict=True)]
        self._kept.changed.clear()

    # -- failing -------------------------------------------------------------------------------------------

    async def _without_event(self, cycle: CycleChanges, error: Exception, is_settled: bool) -> CycleChanges:
        """Return the cycle that takes the place of one that failed: its only event was to blame, since `settled` goes
        well without it. Raise the failure if the service has to start again."""
        if isinstance(error, StateError | c.CannotServe):
            raise error
        if not is_settled and (suspect := cycle.suspect) is not None:
            instead = cycle.without_event()
            if self._settles_well(instead):
                heard, source = suspect
                if cycle.is_confined:
                    instead.deeds += [one for one in cycle.deeds if isinstance(one, c.Answer)]
                    fatal = None
                else:
                    source = source if isinstance(source, Received) else None  # who waits is among the awaited
                    fatal = self._confinement.confine(instead, self._checks, heard, source, error)
                if fatal is not None:
                    raise fatal
                await self._commit(instead)
                return instead
        if not is_settled:
            self.place.in_a_row.doubt(trio.current_time())
        for one in (*cycle.handled, *(one for one, _ in cycle.copies)):
            if cycle.events == 1:
                await self.failed_on(one, error)
            else:
                self._attempts.fail(one.id)
        raise error

    def _settles_well(self, cycle: CycleChanges) -> bool:
        """Whether `settled` goes well now; its deeds are in the cycle then."""
        try:
            self._settle(cycle)
        except Exception:
            self._kept.changed.clear()
            return False
        return True

    async def _count_failure(self, one: Received, error: Exception) -> None:
        """Count a failure against a message; refuse it after the last, else let the rules hear it again."""
        if not await self.failed_on(one, error):
            failures = self._attempts.count(one.id)
            self._confinement.message(one, failures, error)
            self._again.later(failures, _message(one), one)

    def _log_failure(self, text: str, error: Exception) -> None:
        self.log.error("%s %s", self, text, exc_info=None if isinstance(error, SaidError) else error)  # it says all

    # -- carrying out --------------------------------------------------------------------------------------

    async def _carry_out_all(self, cycle: CycleChanges) -> None:
        for deed in (*cycle.deeds, *cycle.unkept):  # requests come before messages, whether these are kept or not
            try:
                if type(deed) is c.Write:  # as most are
                    self._doors.write(deed.door, deed.peer, deed.data)
                else:
                    self._carrying.carry_out(deed)
            except Exception as error:  # whatever is wrong with one deed, it stops no other
                self._failures.was_not_done(deed, error)
        for sent in cycle.unsent:
            self._carrying.was_not_made(sent)
        if ready := [*cycle.ready, *self._copies_alone.take(cycle.copies)]:
            self._requests.put(ready)
        for one, reason, text in cycle.refused:
            await one.refuse(reason, text)
        for one in cycle.handled:
            await one.settle()
            self._attempts.end(one.id)
        for done in cycle.awaited:
            done()


def wanted_one_by_one(heard: c.Heard) -> tuple[c.Heard, ...]:
    """Return what rules hear of news: several groups that are told as wanted together are heard one by one."""
    if isinstance(heard, GroupsWanted):
        return tuple([o.Wanted(group, True) for group in heard.groups])
    return (heard,)


def _message(one: Received) -> c.Message:
    return c.Message(
        one.id,
        one.body,
        one.source,
        one.group,
        one.via,
        one.seen,
        one.wire,
        one.redelivered,
        one.sender,
        one.seq,
        one.deps,
    )
