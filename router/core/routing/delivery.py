"""Handing over and settling: the outward half of deciding (link layer, "Custody" and "Backpressure").

A recipient whose queue has been handed over completely gets new parcels straight from memory. Messages that do not
fit its window stay on disk, and its queue is `behind`: as the window opens, it is fetched from its position on.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from itertools import groupby

from router.core.log import events as ev
from router.core.log.histogram import WAITED_S, Histogram
from router.core.neighbours.directory import Standing
from router.core.wire import link_items
from router.core.wire.control import Report
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.lifetime import SECOND_NS
from router.core.wire.message import MULTICAST, UNICAST
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

from .backoff import OF_THE_NODE, longer
from .disorder import Disorder
from .effects import DialNeighbour, Fetch, Finished, SendItem, SendParcel
from .kernel import Kernel
from .links import Flight, Link
from .outcomes import FollowedOutcomes
from .owed import Damaged, Due, Owed
from .parcel import Parcel, unbroken
from .purges import Purges
from .queues import Queue
from .refusal_texts import RefusalTexts


class Delivery:
    """Hands over and settles; owns the queues' positions and the flights, and shares the links with the inward half.

    `times`: the seconds from acceptance until a recipient has settled, for each message and recipient."""

    def __init__(self, kernel: Kernel, purges: Purges, outcomes: FollowedOutcomes) -> None:
        self._links = kernel.links
        self._queues = kernel.queues
        self._pending = kernel.pending
        self._rejections = kernel.rejections
        self._limits = kernel.limits.delivery
        self._successors = kernel.directory.successors
        self._purges = purges
        self._outcomes = outcomes
        self._speaker = kernel.speaker
        self.disorder = Disorder(kernel.pending)
        self.times = Histogram(WAITED_S)
        self.refusals = RefusalTexts(kernel.directory, kernel.pending)
        self._wanting: dict[bytes, None] = {}  # recipients to fetch for at the end of this cycle, in order
        self.is_passing_over = False  # a fetch returned nothing that could be handed over: fetch on at once

    # -- handing over ---------------------------------------------------------------------------------------

    def offer(self, parcel: Parcel, now: Now) -> None:
        """Hand a parcel that was just accepted to the recipients that keep up."""
        for recipient in parcel.recipients:
            link = self._links.to(recipient)
            queue = self._queues.of(recipient)
            if link is None or link.shut or queue.behind:
                if link is None and not queue.behind:
                    self._pending.effects.append(DialNeighbour(recipient))
                queue.behind = True
                continue
            if not link.takes(parcel):
                queue.behind = True  # messages too long for it are ended as they are fetched
                self.want(recipient)
                continue
            if queue.held and queue.held.holds_back(parcel.stream):
                continue  # it will be fetched with the rest of its stream
            count = link.outgoing.fits(parcel.ends)
            if count:
                self._hand(link, parcel, 0, count, now)
                queue.position = queue.handed = parcel.first + count
            if count < parcel.count:
                queue.behind = True

    def offer_now_or_never(self, parcel: Parcel, now: Now) -> None:
        """Hand over a parcel with ttl 0, whose recipients were chosen because they have room."""
        for recipient in parcel.recipients:
            link = self._links.to(recipient)
            assert link is not None
            self._hand(link, parcel, 0, parcel.count, now)
            self._outward("unconfirmed", recipient, link.id, parcel.first, ((parcel.first, parcel.count),), None, now)

    def can_take_now(self, recipient: bytes, parcel: Parcel) -> bool:
        link = self._links.to(recipient)
        queue = self._queues.by_recipient.get(recipient)
        waits = queue is not None and (queue.behind or queue.held.holds_back(parcel.stream))
        if link is None or link.shut or waits or not link.takes(parcel):
            return False
        return link.outgoing.fits(parcel.ends) == parcel.count

    def _hand(self, link: Link, parcel: Parcel, start: int, stop: int, now: Now) -> None:
        if not link.is_named:
            self._rejections.name(link, now)
        n = link.outgoing.send(stop - start, parcel.size(start, stop))
        link.fly(Flight(n, parcel, start, stop, now.mono_ns))
        self._pending.effects.append(SendParcel(link.id, parcel, start, stop, link.standing is Standing.LOCAL))
        self._outward("forwarded", link.key, link.id, parcel.first, ((parcel.first + start, stop - start),), None, now)

    def fetched(self, recipient: bytes, owed: Sequence[Owed], more: bool, now: Now) -> None:
        """Hand over the messages that the store read for a `Fetch` and that fit; `more`: there are others.

        Messages past their deadline or being purged are passed over, as `expire` and `drop` will end them. So are those
        held back, and those in flight, because the position may have been set back for a stream that was held.
        """
        link = self._links.to(recipient)
        queue = self._queues.of(recipient)
        if link is None:
            return
        sent = link.outgoing.sent
        wall_s = now.earliest_ns // SECOND_NS if link.standing is Standing.LOCAL else now.judged_s
        flying = link.flying() if owed and owed[0].parcel.first < queue.handed else {}
        for parcel, start, stop in owed:
            in_flight = flying.get(parcel.first, ())
            runs = self._to_hand(queue, parcel, start, stop, in_flight, wall_s)
            if queue.repeats.ahead:
                is_held = queue.held and queue.held.passes_over(parcel.stream, parcel.first + start)
                passed = (at for at in range(start, stop) if is_held or parcel.deadlines[at] <= wall_s)
                queue.repeats.pass_over(sum(at not in in_flight for at in passed))
            for at, end in runs if link.takes(parcel) else self._short_enough(link, parcel, runs, now):
                count = min(end - at, link.outgoing.fits(parcel.ends, at))
                if count:
                    self._hand(link, parcel, at, at + count, now)
                    queue.repeats.handed(count)
                    queue.position = parcel.first + at + count
                    queue.handed = max(queue.handed, queue.position)
                if at + count < end:
                    return
            queue.position = parcel.first + stop
        if not more:
            queue.behind, queue.repeats.ahead = False, 0
        elif owed:
            self.want(recipient)
            self.is_passing_over |= link.outgoing.sent == sent

    def _to_hand(
        self, queue: Queue, parcel: Parcel, start: int, stop: int, flying: Collection[int], wall_s: int
    ) -> Iterable[tuple[int, int]]:
        if self._purges and self._purges.covers(queue.recipient, parcel):
            return ()
        if queue.held and queue.held.passes_over(parcel.stream, parcel.first + start):
            return ()
        deadlines = parcel.deadlines[start:stop]
        if min(deadlines) > wall_s and not flying:
            return ((start, stop),)
        alive = (index for index, one in enumerate(deadlines, start) if one > wall_s)
        return unbroken(index for index in alive if index not in flying)

    def _short_enough(
        self, link: Link, parcel: Parcel, runs: Iterable[tuple[int, int]], now: Now
    ) -> Sequence[tuple[int, int]]:
        """End messages longer than the neighbour accepts as `too-large`, since it would close the link on each try."""
        indexes = [index for run in runs for index in range(*run)]
        short = {index for index in indexes if parcel.item_size(index) <= link.frame_bytes_max}
        for start, stop in unbroken(index for index in indexes if index not in short):
            self.finish(link.key, parcel, start, stop, "refused", Reason.TOO_LARGE, now, link.id)
        return unbroken(index for index in indexes if index in short)

    def move(self, recipient: bytes, to: bytes) -> None:
        """Give what a recipient without a link is owed to another key, which is owed nothing; also what this cycle
        has decided of it."""
        queue, changes = self._queues.by_recipient.get(recipient), self._pending.changes
        if queue is not None:
            self.disorder.move(queue, to)
        self._queues.move(recipient, to)
        self._purges.move(recipient, to)
        changes.finished = [
            one._replace(recipient=to) if one.recipient == recipient else one for one in changes.finished
        ]
        changes.moved.append((recipient, to))

    def want(self, recipient: bytes) -> None:
        """Schedule a fetch for a recipient at the end of this cycle, if something waits for it and it has room."""
        self._wanting[recipient] = None

    def fetch_what_is_wanted(self) -> None:
        """Turn the recipients with room and a backlog into `Fetch` effects, one each."""
        for recipient in self._wanting:
            link = self._links.to(recipient)
            queue = self._queues.by_recipient.get(recipient)
            if link is None or link.shut or queue is None or not queue.behind or queue.retry_at:
                continue  # backing off: `retry` begins again from the oldest
            messages, size = link.outgoing.room()
            if messages > 0 and (size > 0 or not link.outgoing.in_flight):
                self._pending.effects.append(Fetch(recipient, queue.position, messages, max(size, 1)))
        self._wanting.clear()
        self.is_passing_over = False

    # -- links come and go ----------------------------------------------------------------------------------

    def recovered(self) -> None:
        """Dial, after a restart, every recipient that is owed something."""
        for recipient in self._queues.by_recipient:
            self.dial_if_owed(recipient)

    def dial_if_owed(self, recipient: bytes) -> None:
        queue = self._queues.by_recipient.get(recipient)
        if queue is not None and queue.total.messages:
            self._pending.effects.append(DialNeighbour(recipient))

    def link_up(self, link: Link) -> None:
        """Begin to hand over to a new link; first tell an app how many messages may be repeated, even if none.

        This also tells the app that it is admitted."""
        queue = self._queues.by_recipient.get(link.key)
        repeats = queue.repeats.begin(queue.total.messages, link.outgoing.window_messages) if queue is not None else 0
        if link.app:
            self._pending.effects.append(SendItem(link.id, link_items.Redelivered(repeats)))
        if queue is not None and queue.total.messages:
            queue.behind, queue.position = True, 0
            queue.retry_at = queue.backoff_s = 0.0
            queue.handed = 0
            queue.held.clear()
            self.want(link.key)

    def link_down(self, link: Link) -> None:
        queue = self._queues.by_recipient.get(link.key)
        if queue is None:
            return
        stored = [flight for flight in link.flights if flight.parcel is not None and flight.parcel.stored]
        flown = sum(flight.stop - flight.start for flight in stored)
        in_order = not queue.held and queue.position >= queue.handed
        queue.repeats.lost(flown if in_order else queue.total.messages)
        queue.behind, queue.position = queue.total.messages > 0, 0
        self._queues.forget_if_empty(link.key)

    # -- settling -------------------------------------------------------------------------------------------

    def settled(self, link: Link, n: int, now: Now) -> None:
        """Handle the settling of our first `n`: those not refused are in the neighbour's custody, or delivered."""
        link.outgoing.settle(n)
        flights = link.flights
        while flights and flights[0].n - (flights[0].stop - flights[0].start) < n:
            flight = flights[0]
            stop = flight.stop - max(0, flight.n - n)
            first_n = flight.n - (flight.stop - flight.start) + 1
            if flight.parcel is None:
                for k in range(first_n, first_n + stop - flight.start) if link.refused else ():
                    link.refused.pop(k, None)
            else:
                self._settle_run(link, flight.parcel, flight.start, stop, first_n, flight.at_ns, now)
            if stop == flight.stop:
                flights.popleft()
            else:
                flight.start = stop
        link.flights = flights or ()
        self.want(link.key)

    def _settle_run(
        self, link: Link, parcel: Parcel, start: int, stop: int, first_n: int, handed_ns: int, now: Now
    ) -> None:
        done, took_ns = "delivered" if link.standing is Standing.LOCAL else "acked", now.mono_ns - handed_ns
        if not link.refused:
            self.finish(link.key, parcel, start, stop, done, None, now, link.id, took_ns)
            return
        verdicts = [link.refused.pop(first_n + at, None) for at in range(stop - start)]
        for verdict, alike in groupby(verdicts):
            first, start = start, start + len(list(alike))
            if verdict is None or _was_known(link, parcel, verdict[0]):
                known = None if verdict is None else verdict[0]
                self.finish(link.key, parcel, first, start, done, known, now, link.id, took_ns)
                continue
            for index in range(first, start):
                self.refusals.refused(link, parcel, index, *verdict, now)
                if verdict[0].later and parcel.stored:
                    self._try_later(link, parcel, index, verdict[0], now)
                else:
                    self.finish(link.key, parcel, index, index + 1, "refused", verdict[0], now, link.id)

    def _try_later(self, link: Link, parcel: Parcel, index: int, reason: Reason, now: Now) -> None:
        """Keep a message queued that was refused for now, and hold back only the messages that the refusal concerns."""
        queue = self._queues.of(link.key)
        pause_s = self._limits.retry_s_min, self._limits.retry_s_max
        arrival = parcel.first + index
        self._outward("deferred", link.key, link.id, parcel.first, ((arrival, 1),), reason, now)
        if reason not in OF_THE_NODE and queue.held.refuse(
            parcel.stream, arrival, now.mono_s, pause_s, self._limits.streams_held_max
        ):
            if link.app:
                self.disorder.began(queue)
            return
        if not queue.retry_at:
            queue.backoff_s = longer(queue.backoff_s, *pause_s)
            queue.retry_at = now.mono_s + queue.backoff_s
        queue.behind = True

    def retry(self, now: Now) -> None:
        """Start queues again whose back-off has passed: from their oldest message, once nothing is in flight.

        Streams start again from where they were held; messages in flight are passed over."""
        for queue in self._queues.by_recipient.values():
            link = self._links.to(queue.recipient)
            if queue.retry_at and queue.retry_at <= now.mono_s and link is not None and not link.flights:
                queue.retry_at, queue.position, queue.behind = 0.0, 0, True
            if queue.held and link is not None:
                flying = {one.parcel.stream for one in link.flights if one.parcel is not None}
                if (first := queue.held.due(now.mono_s, flying)) is not None:
                    queue.position, queue.behind = min(queue.position, first), True
                    if queue.repeats.passed:  # what was refused again lies before them: all may come again
                        queue.repeats.lost(queue.total.messages)
                        self._mark_passed(queue, link)
            if queue.behind and link is not None and not queue.retry_at:
                self.want(queue.recipient)

    def clock_judged(self) -> None:
        """Start every queue again from its oldest message, since messages passed over may not be expired after all."""
        for queue in self._queues.by_recipient.values():
            if queue.total.messages:
                queue.position, queue.behind = 0, True
                self.want(queue.recipient)
                self._mark_passed(queue, self._links.to(queue.recipient))

    def _mark_passed(self, queue: Queue, link: Link | None) -> None:
        """Tell an app how many of the messages passed over, which come now, an earlier link may have brought."""
        if queue.repeats.passed and link is not None and link.app:
            repeats = queue.repeats.begin(queue.total.messages, link.outgoing.window_messages)
            self._pending.effects.append(SendItem(link.id, link_items.Redelivered(repeats)))

    def finish(
        self,
        recipient: bytes,
        parcel: Parcel,
        start: int,
        stop: int,
        state: str,
        reason: Reason | None,
        now: Now,
        link: int = 0,
        duration_ns: int = 0,
    ) -> None:
        """End messages start..stop-1 of a parcel for one recipient: free their room, log it, pass on the outcome.

        `reason` beside `acked`: the other router had the message already. Only the service that sent a copy hears
        so."""
        if not parcel.stored:
            return
        count, size = stop - start, parcel.size(start, stop)
        queue = self._queues.reserve(recipient, parcel.signer, parcel.neighbour, -count, -size)
        if state in ("delivered", "acked"):
            queue.backoff_s = 0.0
            self.times.observe(parcel.waited_s(now), count)
        if queue.repeats.is_disordered and not queue.total.messages:
            self.disorder.ended(queue)
        if queue.held:
            self._let_go(queue, parcel, state)
        self._pending.changes.finished.append(Finished(recipient, parcel.first, start, stop, size))
        ranges = ((parcel.first + start, count),)
        owed_as, told = self._successors.owed_as(recipient, parcel.first), reason
        if state == "acked":
            reason, told = None, reason if parcel.is_copy else None
        self._outward(state, recipient, link, parcel.first, ranges, reason, now, duration_ns)
        self._outcomes.follow(parcel, start, stop, owed_as, state, told)
        if reason is not None and (state == "expired" or reason is Reason.STORE_DAMAGED):
            self._outcomes.miss(recipient, parcel, start, stop, reason)
        if parcel.kind == UNICAST and reason is not None:
            for index in range(start, stop):
                self._report(parcel, index, state, reason, now)

    def _let_go(self, queue: Queue, parcel: Parcel, state: str) -> None:
        """Update the streams held back after messages of a queue have ended."""
        if state in ("delivered", "acked"):
            queue.held.took(parcel.stream)
        if not queue.owes(parcel.signer):
            queue.held.forget(parcel.stream)

    # -- deadlines, and queues that end ----------------------------------------------------------------------

    def expire(self, due: Iterable[Due], now: Now) -> None:
        """End messages past their deadline that are not in flight; check those in flight again later."""
        for parcel, first, owed in due:
            if parcel is None or not owed:
                self._pending.changes.defer.append((first, 0))
                continue
            passed = {index for index, one in enumerate(parcel.deadlines) if one <= now.wall_s}
            again_s = min((one for one in parcel.deadlines if one > now.wall_s), default=0)
            for recipient, runs in owed:
                dead = passed & {index for run in runs for index in range(*run)}
                flying = dead & self._in_flight(recipient, parcel.first)
                if flying:
                    again_s = min(again_s or 1 << 40, now.wall_s + self._limits.in_flight_recheck_s)
                for start, stop, reason in parcel.expired_runs(sorted(dead - flying)):
                    self.finish(recipient, parcel, start, stop, "expired", reason, now)
            self._pending.changes.defer.append((first, again_s))

    def _in_flight(self, recipient: bytes, first: int) -> set[int]:
        link = self._links.to(recipient)
        if link is None:
            return set()
        mine = (one for one in link.flights if one.parcel is not None and one.parcel.first == first)
        return {index for flight in mine for index in range(flight.start, flight.stop)}

    def drop(self, recipient: bytes, owed: Sequence[Owed], now: Now) -> None:
        """End messages owed to a recipient that left or was removed; each ends `dropped`, reason `left`."""
        self._ground(recipient, {one.parcel.first for one in owed})
        for parcel, start, stop in owed:
            self.finish(recipient, parcel, start, stop, "dropped", Reason.LEFT, now)
        self._queues.forget_if_empty(recipient)

    def _ground(self, recipient: bytes, gone: Container[int]) -> None:
        """Detach flights from their parcels, so that settling them later has no effect."""
        link = self._links.to(recipient)
        for flight in link.flights if link is not None else ():
            if flight.parcel is not None and flight.parcel.first in gone:
                flight.parcel = None

    def lose(self, damaged: Iterable[Damaged], now: Now) -> None:
        """End messages that were damaged on disk; each ends `dropped`, reason `store-damaged`.

        Messages in flight were sent intact, from memory, and are spared, unless the parcel's row is unreadable: then
        they cannot be identified.
        """
        for recipient, first, runs, size, signer, neighbour, parcel in damaged:
            if parcel is not None:
                flying = self._in_flight(recipient, first)
                for start, stop in unbroken(at for run in runs for at in range(*run) if at not in flying):
                    self.finish(recipient, parcel, start, stop, "dropped", Reason.STORE_DAMAGED, now)
            else:
                self._ground(recipient, (first,))
                self._queues.reserve(recipient, signer, neighbour, -sum(stop - start for start, stop in runs), -size)
                for at, (start, stop) in enumerate(runs):
                    self._pending.changes.finished.append(Finished(recipient, first, start, stop, 0 if at else size))
                ranges = tuple((first + start, stop - start) for start, stop in runs)
                self._outward("dropped", recipient, 0, first, ranges, Reason.STORE_DAMAGED, now)
            self._queues.forget_if_empty(recipient)

    def _outward(
        self,
        state: str,
        recipient: bytes,
        link: int,
        parcel: int,
        ranges: tuple[tuple[int, int], ...],
        reason: Reason | None,
        now: Now,
        duration_ns: int = 0,
    ) -> None:
        queue = self._queues.by_recipient.get(recipient)
        depth = queue.total.messages if queue is not None else 0
        if self._successors:
            recipient = self._successors.owed_as(recipient, parcel)
        self._pending.changes.events.append(
            ev.Outward(now.wall_ns, now.mono_ns, state, recipient, link, ranges, reason, 0, depth, duration_ns, parcel)
        )

    def _report(self, parcel: Parcel, index: int, state: str, reason: Reason, now: Now) -> None:
        """Report to the source of a unicast that it ended here; never about a report, which is itself not stored."""
        onward = self._links.to(parcel.signer) or self._links.to(parcel.neighbour)
        if onward is not None and onward.outgoing.room()[0] > 0:
            to, message = PublicKey(parcel.signer), MessageId(parcel.id(index))
            destination = PublicKey(parcel.destination or b"")
            self._speaker.say(onward, Report(message, destination, state, reason, now.wall_s), now, to)


def _was_known(link: Link, parcel: Parcel, reason: Reason) -> bool:
    """Whether another router says that it had a multicast already, which settles it like custody."""
    is_router = link.standing is not Standing.LOCAL and not link.app
    return reason is Reason.DUPLICATE and parcel.kind == MULTICAST and is_router
