"""Acceptance of messages: the inward half of deciding (specification, both routing algorithms; R-C1, R-C3, R-C4).

The messages passed `examination` and have been verified since. They are judged by the index on disk, the source's rate
and the room in queues; only then is an id remembered. Accepted messages become parcels.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Collection, Sequence
from itertools import chain
from operator import sub
from typing import Protocol

from router.core.link.allowance import Allowance
from router.core.log import events as ev
from router.core.neighbours.directory import Standing
from router.core.wire.crypto import ID_BYTES
from router.core.wire.message import MULTICAST, UNICAST
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

from .delivery import Delivery
from .effects import Settle
from .examination import is_source_routed, may_be_overtaken
from .intake import ArrivedMessage, Refusal
from .job import Job, LinkJobs
from .kernel import Kernel
from .links import Link
from .outcomes import FollowedOutcomes
from .parcel import U32, Parcel, words
from .parcel_draft import ParcelDraft
from .plans import ForUs, Introduces, Plans, plan_key
from .room import LeftOut, Rooms
from .route_changes import learn_route

UNLIMITED = 1 << 62


class HistoryRecipients(Protocol):
    """The messages that were asked for as history (`control/as_history.py`)."""

    def __bool__(self) -> bool: ...
    def has(self, row: ArrivedMessage) -> bool: ...
    def recipients(self, rows: list[ArrivedMessage], plan: tuple[bytes, ...]) -> tuple[bytes, ...]: ...


class IdRecorder(Protocol):
    """The messages of which a service is told the ids alone (`control/published.py`)."""

    def takes(self, parcel: Parcel, link: Link) -> bool: ...
    def note(self, parcel: Parcel) -> None: ...


class ForThisRouter(Protocol):
    """The messages to this router itself (`control/reception.py`)."""

    def hear(self, link: Link, row: ArrivedMessage, data: bytes, now: Now) -> tuple[Reason, str] | None: ...
    def overhear(self, link: Link, row: ArrivedMessage, data: bytes, now: Now) -> None: ...


class Acceptance:
    """Decides about acceptance; owns the sources' rates."""

    def __init__(
        self,
        kernel: Kernel,
        plans: Plans,
        rooms: Rooms,
        delivery: Delivery,
        outcomes: FollowedOutcomes,
        for_us: ForThisRouter,
        as_history: HistoryRecipients,
        published: IdRecorder,
    ) -> None:
        self._kernel = kernel
        self._directory = kernel.directory
        self._groups = kernel.groups
        self._queues = kernel.queues
        self._seen = kernel.seen
        self._index = kernel.index
        self._arrivals = kernel.arrivals
        self._pending = kernel.pending
        self._rejections = kernel.rejections
        self._limits = kernel.limits.acceptance
        self._plans = plans
        self._rooms = rooms
        self._delivery = delivery
        self._outcomes = outcomes
        self._for_us = for_us
        self._as_history = as_history
        self._published = published
        self._sources: dict[bytes, Allowance] = {}
        self._waiting: dict[Link, deque[LinkJobs]] = {}  # decided except for copies of undecided messages

    def decide(self, jobs: Sequence[Job], on_disk: Collection[bytes], now: Now) -> list[Link]:
        """Accept or refuse every message of these reads, and settle them. `on_disk`: the ids in the index on disk.

        Copies are judged last, because the first copy may have come over any of the links; until it is decided, they
        and all later messages of their link wait. Returns the links that have now exceeded their limit of false
        signatures.
        """
        by_link: dict[Link, list[Job]] = {}
        for job in jobs:
            job.look_up(on_disk)
            by_link.setdefault(job.link, []).append(job)
        batches = [LinkJobs(link, theirs) for link, theirs in by_link.items()]
        for batch in batches:
            self._decide_fresh(batch, on_disk, now)
        for batch in batches:
            self._decide_carried(batch, on_disk)
            self._waiting.setdefault(batch.link, deque()).append(batch)
        for link in list(self._waiting):
            self._settle_what_is_closed(link, now)
        return [one.link for one in batches if one.forged and not one.link.forgeries.take(one.forged, now.mono_s)]

    def _settle_what_is_closed(self, link: Link, now: Now) -> None:
        waiting = self._waiting[link]
        while waiting and not any(self._seen.is_open(row.id) for job in waiting[0].jobs for row in job.copies):
            batch = waiting.popleft()
            self._decide_copies(batch)
            self._log_turned(batch, now)
            if batch.link.standing is Standing.STRANGER:
                batch.refusals = [_for_a_stranger(*refusal) for refusal in batch.refusals]
            said = [*batch.refusals, *batch.known_told()]
            said.sort()
            last, size = batch.jobs[-1].arrived.last_k, sum(job.arrived.size for job in batch.jobs)
            self._pending.effects.append(Settle(batch.link.id, last, said, size))
        if not waiting:
            del self._waiting[link]

    def _decide_fresh(self, batch: LinkJobs, on_disk: Collection[bytes], now: Now) -> None:
        run, carriers = ParcelDraft(), ParcelDraft()  # carriers ask for nothing themselves and end no run
        source_rate, as_history = self._limits.source_messages_per_s, self._as_history
        head, is_old, is_other = None, False, True
        for job in batch.jobs:
            data, refused, may_be_old = job.arrived.data, 0, bool(as_history)
            for at, row, is_valid in job.verdicts():
                if row.k == refused:  # a carried message is refused with its carrier; true copies come again
                    self._seen.refuse(row.id, Reason.RATE_LIMITED, "its carrier was refused; send it again")
                elif not is_valid:
                    self._refuse(batch, row, Reason.BAD_SIGNATURE)
                    refused = row.k
                    batch.forged += _is_its_own(batch.link, job.fresh, at)
                elif on_disk and row.id in on_disk and not is_source_routed(batch.link, row):
                    self._seen.accept(row.id)
                    batch.known.append(row)
                elif source_rate and not self._may_send(row.head.signer, now):
                    self._refuse(batch, row, Reason.RATE_LIMITED, "this source sends too many messages a second")
                    refused = row.k
                else:
                    if row.head is not head or is_old or may_be_old:
                        head, is_old = row.head, as_history.has(row)
                        which = (head.kind, head.signer, head.destination, head.via, head.ttl_s == 0, is_old)
                        is_other = which != run.which
                    if row.head.kind == UNICAST and job.carries(at):
                        if which != carriers.which or carriers.is_full:
                            self._accept(batch, carriers, now)
                            carriers = ParcelDraft(which)
                        carriers.add(data, row)
                        continue
                    if is_other or run.is_full:
                        self._accept(batch, run, now)
                        run, is_other = ParcelDraft(which), False
                    run.add(data, row)
        self._accept(batch, carriers, now)
        self._accept(batch, run, now)

    def _decide_copies(self, batch: LinkJobs) -> None:
        """Give copies the first copy's verdict; a carried copy adds no second refusal for its carrier's number."""
        refused = {k for k, *_ in batch.refusals}
        for job in batch.jobs:
            for row in job.copies:
                verdict = self._seen.resolve(row.id)
                if verdict is None:
                    batch.known.append(row)
                elif row.k not in refused:
                    batch.refusals.append((row.k, *verdict))

    def _decide_carried(self, batch: LinkJobs, on_disk: Collection[bytes]) -> None:
        """Settle carried messages as duplicates if they were accepted before, else refuse their carriers, once each."""
        refused = {k for k, *_ in batch.refusals}
        for job in batch.jobs:
            for row, refusal in job.carried:
                if row.id in on_disk and may_be_overtaken(batch.link, row, refusal):
                    batch.known.append(row)
                elif row.k not in refused:
                    batch.refusals.append(refusal)

    def _may_send(self, source: bytes, now: Now) -> bool:
        """Whether the source's rate allows one more message; it is charged only for messages that it has signed."""
        allowance = self._sources.get(source)
        if allowance is None:
            if len(self._sources) >= self._limits.sources_metered_max:
                self._sources.clear()
            rate = self._limits.source_messages_per_s
            allowance = self._sources[source] = Allowance(rate, max(1.0, rate))
        return allowance.take(1, now.mono_s)

    def _refuse(self, batch: LinkJobs, row: ArrivedMessage, reason: Reason, text: str = "") -> None:
        if not is_source_routed(batch.link, row):
            self._seen.refuse(row.id, reason, text)
        batch.refusals.append((row.k, reason, text))

    def _accept(self, batch: LinkJobs, run: ParcelDraft, now: Now) -> None:
        if not run.count:
            return
        link, row = batch.link, run.first
        which = plan_key(row.head, link.id)
        plan = self._plans.of(which, link, now.judged_s)
        if isinstance(plan, Reason):
            for row in run.rows():
                self._refuse(batch, row, plan)
            return
        if isinstance(plan, Introduces):  # as above: twice is harmless
            for row in run.rows():
                learn_route(self._kernel, link, row, now)
            return
        if isinstance(plan, ForUs):  # never queued, and their ids are not kept (R-C4)
            for data, rows in run.pieces:
                for row in rows:
                    refusal = self._for_us.hear(link, row, data, now)
                    if refusal is not None:
                        self._refuse(batch, row, *refusal)
            return
        if self._as_history.has(row):
            plan = self._as_history.recipients(run.rows(), plan)
        if row.head.kind == MULTICAST and row.head.signer == link.key:
            for data, rows in run.pieces:
                for one in rows:
                    self._for_us.overhear(link, one, data, now)
        if row.head.ttl_s == 0:
            plan += self._plans.not_kept(which, link)  # these are logged as offline, like other recipients away
            for data, rows in run.pieces:
                for row in rows:
                    self._pass_on(batch, ParcelDraft.of(data, row), plan, now)
        else:
            learn_route(self._kernel, link, row, now)
            left_out = tuple((one, Reason.NOT_KEPT) for one in self._plans.not_kept(which, link))
            self._store(batch, run, plan, left_out, now)

    def _pass_on(self, batch: LinkJobs, run: ParcelDraft, plan: tuple[bytes, ...], now: Now) -> None:
        """Pass on a message with ttl 0 at most once, to recipients connected and with room; only its id is stored."""
        if (full := self._rooms.unable(batch.link)) is not None:
            self._refuse(batch, run.first, full)
            return
        parcel = self._parcel(batch.link, run, plan, now, stored=False)
        able = tuple(one for one in plan if self._delivery.can_take_now(one, parcel))
        if not able:
            self._arrivals.give_back(parcel.first)
            self._refuse(batch, run.first, Reason.RECIPIENT_OFFLINE_TTL0)
            return
        parcel.recipients = able
        away = tuple((one, Reason.RECIPIENT_OFFLINE_TTL0) for one in plan if one not in able)
        self._note_accepted(batch.link, parcel, now, away)
        self._delivery.offer_now_or_never(parcel, now)

    def _store(self, batch: LinkJobs, run: ParcelDraft, plan: tuple[bytes, ...], left_out: LeftOut, now: Now) -> None:
        while run.count:
            room, reason = self._rooms.of(batch.link, run.first, plan)
            if reason is not None:
                for row in run.no_smaller_than_first():
                    never = self._queues.fits_never(row.end - row.frame_at)
                    self._refuse(batch, row, Reason.TOO_LARGE if never else reason)
                run = run.cut(len(run.no_smaller_than_first()), UNLIMITED)[1]
                continue
            part, run = run.cut(room.messages, room.size)
            parcel = self._parcel(batch.link, part, room.recipients, now, stored=True)
            size = len(parcel.blob)
            self._queues.hold(parcel.neighbour, parcel.count, size)
            for recipient in parcel.recipients:
                self._queues.reserve(recipient, parcel.signer, parcel.neighbour, parcel.count, size)
            self._pending.changes.parcels.append(parcel)
            if self._groups.fanning in parcel.recipients and parcel.kind == MULTICAST and not parcel.is_copy:
                counted = self._directory.counted_as(batch.link.key, batch.link.standing)
                is_client = batch.link.standing is not Standing.LOCAL
                self._groups.begin_fan_out(parcel.signer, counted, is_client, now.mono_s)
            if self._published.takes(parcel, batch.link):
                parcel.recorded = True
                self._published.note(parcel)
            self._note_accepted(batch.link, parcel, now, room.full + left_out)
            self._delivery.offer(parcel, now)

    def _parcel(self, link: Link, run: ParcelDraft, recipients: tuple[bytes, ...], now: Now, *, stored: bool) -> Parcel:
        limits, is_copy = self._limits, is_source_routed(link, run.first)
        waits_little = is_copy and any(map(self._directory.is_met, recipients))
        parcel = run.parcel(
            self._arrivals.following,
            link.charged,
            None if link.standing is Standing.LOCAL else link.key,
            recipients,
            now.lives_from_s,
            limits.copy_s_max if waits_little else limits.ttl_s_max,
            stored=stored,
            indexed=not is_copy,
        )
        parcel.at_ns = now.mono_ns
        self._arrivals.take(parcel.count)
        return parcel

    def _note_accepted(self, link: Link, parcel: Parcel, now: Now, left_out: LeftOut) -> None:
        """Remember the ids, log the acceptance and those left out, and send the outcome to a publisher that asked."""
        pending = self._pending
        link.active_s = now.mono_s
        if parcel.indexed:
            self._seen.accept_all([parcel.ids[at : at + ID_BYTES] for at in range(0, len(parcel.ids), ID_BYTES)])
            self._index.add(parcel.holder, parcel.count)
        if not parcel.stored:
            pending.changes.parcels.append(parcel)
        sizes = array(U32, map(sub, parcel.ends, chain((0,), parcel.ends)))
        named = parcel.recipients + tuple(recipient for recipient, _ in left_out)
        pending.changes.events.append(
            ev.Accepted(
                now.wall_ns,
                now.mono_ns,
                parcel.first,
                ev.COPY if parcel.is_copy else parcel.kind,
                parcel.signer,
                parcel.destination,
                link.key,
                link.id,
                named,
                parcel.ids,
                words(sizes),
                words(parcel.ttls),
                words(parcel.expiries),
            )
        )
        whole = ((parcel.first, parcel.count),)
        for recipient, reason in left_out:
            pending.changes.events.append(
                ev.Outward(
                    now.wall_ns, now.mono_ns, "refused", recipient, link.id, whole, reason, 0, 0, 0, parcel.first
                )
            )
            self._outcomes.miss(recipient, parcel, 0, parcel.count, reason)
        self._outcomes.accepted(parcel, link, left_out)

    def _log_turned(self, batch: LinkJobs, now: Now) -> None:
        known = batch.known + [row for job in batch.jobs for row in job.known]
        if known:
            self._rejections.reject(batch.link, "duplicate", Reason.DUPLICATE, known, now)
        if not batch.refusals:
            return
        came = [row for job in batch.jobs for row in job.arrived.rows]
        by_k = {row.k: row for row in came}
        reasons: dict[Reason, list[ArrivedMessage]] = {}
        unread = 0
        for k, reason, _ in batch.refusals:
            if (row := by_k.get(k)) is None:
                unread += 1
            else:
                reasons.setdefault(reason, []).append(row)
        for reason, rows in reasons.items():
            self._rejections.reject(batch.link, "refused", reason, rows, now)
        if unread:
            size = sum(job.arrived.size for job in batch.jobs) - sum([row.end - row.frame_at for row in came])
            self._rejections.reject(batch.link, "refused", Reason.MALFORMED, (), now, unread, max(0, size))


def _is_its_own(link: Link, fresh: Sequence[ArrivedMessage], at: int) -> bool:
    """Whether the link is responsible for this row; it is not if a valid unicast of another key carries the row."""
    return not (at and fresh[at - 1].k == fresh[at].k and fresh[at - 1].head.signer != link.key)


def _for_a_stranger(k: int, reason: Reason, text: str) -> Refusal:
    """Return the refusal sent to a stranger, which does not reveal which keys exist; the log has the true reason."""
    if reason is Reason.EXPIRY_TOO_FAR:
        return k, reason, text  # it does not depend on the destination
    return k, Reason.RATE_LIMITED if reason.later else Reason.NOT_AUTHORISED, ""
