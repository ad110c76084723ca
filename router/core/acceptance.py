"""Taking messages in: the inward half of deciding (specification, both routing algorithms; R-C1, R-C3, R-C4).

The order is that of R-C1: size and shape (in `intake`), expiry, destination or group known, duplicate, the
neighbour's rate, then the signature (outside, in batches), then the source's rate; only then is an id remembered. What
is accepted leaves as parcels.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from . import events as ev
from .crypto import MessageId, PublicKey
from .delivery import Delivery
from .effects import Desk, Now, Say, Settle
from .intake import Arrived, Refusal, Row
from .lifetime import deadline_s, expiry_min, expiry_s
from .link import Outcome, RecipientOutcome
from .links import Link, Links
from .message import UNICAST
from .parcel import U32, Parcel
from .queues import Queues
from .reasons import Reason
from .rights import Standing
from .routes import Route, Routes
from .routing import ForUs, Plan, Routing
from .seen import Seen
from .session import Allowance

PLANS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class AcceptanceLimits:
    """Lifetimes in seconds; rates in messages a second, 0 for none; the index in ids."""

    ttl_s_max: int = 7 * 86_400
    lifetime_s_max: int = 7 * 86_400
    seen_index_max: int = 10_000_000
    neighbour_messages_per_s: float = 0.0
    source_messages_per_s: float = 0.0
    sources_metered_max: int = 10_000


@dataclass(slots=True)
class Job:
    """One read on its way through verification.

    `fresh` need their signature checked; `copies` are copies of messages in flight; `known` were accepted before.
    `positions` holds start, end and signer_at of every fresh row, for the verifiers.
    """

    link: Link
    arrived: Arrived
    fresh: list[Row]
    positions: array[int]
    copies: list[Row] = field(default_factory=list)
    known: list[Row] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    valid: bytes = b""


class Room(NamedTuple):
    """The recipients of a plan that have room, how much the tightest has, and who was left out, with the reason."""

    recipients: tuple[bytes, ...]
    messages: int
    size: int
    full: tuple[tuple[bytes, Reason], ...]


class Acceptance:
    """Owns the recent ids and the arrival numbers."""

    def __init__(
        self, links: Links, queues: Queues, routing: Routing, routes: Routes, seen: Seen, delivery: Delivery,
        desk: Desk, limits: AcceptanceLimits, for_us: Callable[[Link, Row, bytes, Now], None],
        uplinks: Callable[[], tuple[bytes, ...]],
    ) -> None:  # fmt: skip
        self._links = links
        self._queues = queues
        self._routing = routing
        self._routes = routes
        self._seen = seen
        self._delivery = delivery
        self._desk = desk
        self._limits = limits
        self._for_us = for_us
        self._uplinks = uplinks
        self._plans: dict[tuple[int, bytes, bytes | None, bytes | None, int], Plan] = {}
        self._plans_of: object = None
        self._sources: dict[bytes, Allowance] = {}
        self.next_arrival = 1
        self.index_entries = 0
        self.disk_full = False

    # -- before the signature --------------------------------------------------------------------------------

    def examine(self, link: Link, arrived: Arrived, now: Now, revision: object) -> Job:
        """Refuse what needs no cryptography to refuse, and set known messages apart."""
        job = Job(link, arrived, [], array(U32), refusals=list(arrived.refusals))
        if self._plans_of != revision:
            self._plans, self._plans_of = {}, revision
        wall_s = now.wall_s
        earliest, latest = expiry_min(wall_s - 59), expiry_min(wall_s + self._horizon_s())
        seen, plans, fresh, positions = self._seen, self._plans, job.fresh, job.positions
        number = link.id
        for row in arrived.rows:
            k, identity, kind, signer, destination, _, expiry, via, _, start, end, signer_at = row
            if not earliest <= expiry <= latest and (refusal := self._out_of_time(k, expiry, wall_s)):
                job.refusals.append(refusal)
                continue
            which = (kind, signer, destination, via, number)
            plan = plans.get(which)
            if plan is None:
                plan = self._plan(which, link, wall_s)
            if plan.__class__ is Reason:
                job.refusals.append((k, plan, ""))
            elif identity in seen and plan.__class__ is not ForUs:
                job.known.append(row)
            elif not seen.begin(identity):
                job.copies.append(row)
            elif not link.allowance.take(1, now.mono_s):
                seen.refuse(identity, Reason.RATE_LIMITED, "")
                job.refusals.append((k, Reason.RATE_LIMITED, "this neighbour sends too many messages a second"))
            else:
                fresh.append(row)
                positions.extend((start, end, signer_at))
        return job

    def _horizon_s(self) -> int:
        """From half full on, the index accepts ever shorter lives (R-C5)."""
        left = 1 - self.index_entries / self._limits.seen_index_max
        return int(self._limits.lifetime_s_max * min(1.0, max(0.0, 2 * left)))

    def _out_of_time(self, k: int, expiry: int, wall_s: int) -> Refusal | None:
        if expiry_s(expiry) <= wall_s:
            return k, Reason.EXPIRY_PASSED, ""
        if expiry_s(expiry) > wall_s + self._horizon_s() + 60:
            if self.index_entries >= self._limits.seen_index_max:
                return k, Reason.INDEX_FULL, ""
            return k, Reason.EXPIRY_TOO_FAR, f"at most {self._horizon_s()} s ahead"
        return None

    def _plan(self, which: tuple[int, bytes, bytes | None, bytes | None, int], link: Link, wall_s: int) -> Plan:
        kind, signer, destination, via, _ = which
        plan = self._routing.plan(kind, signer, destination, via, link.key, link.standing, wall_s)
        if len(self._plans) >= PLANS_MAX:
            self._plans.clear()
        self._plans[which] = plan
        return plan

    # -- after the signature ---------------------------------------------------------------------------------

    def decide(self, job: Job, on_disk: Collection[bytes], now: Now, revision: object) -> None:
        """Accept or refuse every message of the read and settle it. `on_disk`: which fresh ids the index knows."""
        refusals = job.refusals
        known = [row.id for row in job.known]
        run: list[Row] = []
        if self._plans_of != revision:
            self._plans, self._plans_of = {}, revision
        which: object = None
        valid = job.valid
        source_rate = self._limits.source_messages_per_s
        for at, row in enumerate(job.fresh):
            if not valid[at]:
                self._refuse(refusals, row, Reason.BAD_SIGNATURE)
                continue
            if row.id in on_disk:
                self._seen.accept(row.id)
                known.append(row.id)
                continue
            if source_rate and not self._may_send(row.signer, now):
                self._refuse(refusals, row, Reason.RATE_LIMITED, "this source sends too many messages a second")
                continue
            same = (row.signer, row.destination, row.via, row.kind, row.ttl_s == 0)
            if run and (same != which or run[-1].end != row.frame_at):
                self._accept(job.link, run, job.arrived.data, refusals, now)
                run = []
            which = same
            run.append(row)
        if run:
            self._accept(job.link, run, job.arrived.data, refusals, now)
        for row in job.copies:
            verdict = self._seen.resolve(row.id)
            if verdict is None:
                known.append(row.id)
            else:
                refusals.append((row.k, *verdict))
        self._log_turned(job, known, refusals, now)
        refusals.sort()
        self._desk.effects.append(Settle(job.link.id, job.arrived.last_k, refusals, job.arrived.size))

    def _may_send(self, source: bytes, now: Now) -> bool:
        """The source's own rate, charged only for what it has signed."""
        allowance = self._sources.get(source)
        if allowance is None:
            if len(self._sources) >= self._limits.sources_metered_max:
                self._sources.clear()
            rate = self._limits.source_messages_per_s
            allowance = self._sources[source] = Allowance(rate, max(1.0, rate))
        return allowance.take(1, now.mono_s)

    def _refuse(self, refusals: list[Refusal], row: Row, reason: Reason, text: str = "") -> None:
        self._seen.refuse(row.id, reason, text)
        refusals.append((row.k, reason, text))

    def _accept(self, link: Link, run: list[Row], data: bytes, refusals: list[Refusal], now: Now) -> None:
        """Rows that share link, signer, destination and ttl class, contiguous in `data`."""
        row = run[0]
        which = (row.kind, row.signer, row.destination, row.via, link.id)
        plan = self._plans.get(which) or self._plan(which, link, now.wall_s)
        if isinstance(plan, Reason):
            for row in run:
                self._refuse(refusals, row, plan)
        elif isinstance(plan, ForUs):
            self._take_for_us(link, run, data, now)
        elif row.ttl_s == 0:
            for row in run:
                self._pass_on(link, row, plan, data, refusals, now)
        else:
            self._learn(link, row, now)
            self._store(link, run, plan, data, refusals, now)

    def _take_for_us(self, link: Link, run: list[Row], data: bytes, now: Now) -> None:
        """Control messages are never queued, and doing one twice is harmless; their ids are not kept (R-C4)."""
        for row in run:
            self._seen.drop(row.id)
            self._for_us(link, row, data[row.start : row.end], now)

    def _pass_on(
        self, link: Link, row: Row, plan: tuple[bytes, ...], data: bytes, refusals: list[Refusal], now: Now
    ) -> None:
        """ttl 0: to those connected now and with room, at most once; nothing is stored but the id."""
        parcel = self._parcel(link, [row], plan, data, now, stored=False)
        able = tuple(one for one in plan if self._delivery.can_take_now(one, parcel.ends))
        if not able:
            self._refuse(refusals, row, Reason.RECIPIENT_OFFLINE_TTL0)
            return
        parcel.recipients = able
        self._note_accepted(link, parcel, now, tuple((one, Reason.RECIPIENT_OFFLINE_TTL0) for one in plan if one not in able))
        self._delivery.offer_now_or_never(parcel, now)

    def _store(
        self, link: Link, run: list[Row], plan: tuple[bytes, ...], data: bytes, refusals: list[Refusal], now: Now
    ) -> None:
        while run:
            room, reason = self._room(link, run[0], plan)
            count = _fitting(run, room.messages, room.size)
            if reason is not None or not count:
                for row in run[: max(1, count)]:
                    self._refuse(refusals, row, reason or Reason.QUEUE_FULL_RECIPIENT)
                run = run[max(1, count) :]
                continue
            parcel = self._parcel(link, run[:count], room.recipients, data, now, stored=True)
            size = len(parcel.blob)
            self._queues.node.add(count, size)
            for recipient in parcel.recipients:
                self._queues.reserve(recipient, parcel.signer, parcel.neighbour, count, size)
            self._desk.changes.parcels.append(parcel)
            self._note_accepted(link, parcel, now, room.full)
            self._delivery.offer(parcel, link, now)
            run = run[count:]

    def _room(self, link: Link, row: Row, plan: tuple[bytes, ...]) -> tuple[Room, Reason | None]:
        """Who has room. A multicast is refused only if no recipient has any, or an uplink has none."""
        size = row.end - row.frame_at
        messages, most, reason = self._queues.node_room()
        if self.disk_full:
            return Room((), 0, 0, ()), Reason.DISK_FULL
        if self.index_entries >= self._limits.seen_index_max:
            return Room((), 0, 0, ()), Reason.INDEX_FULL
        if messages < 1 or most < size:
            return Room((), 0, 0, ()), reason
        able, full = [], []
        uplinks = self._uplinks()
        for recipient in plan:
            its_messages, its_bytes, why = self._queues.room(recipient, row.signer, link.key)
            if its_messages < 1 or its_bytes < size:
                if recipient in uplinks:
                    return Room((), 0, 0, ()), why
                full.append((recipient, why))
                continue
            able.append(recipient)
            messages, most = min(messages, its_messages), min(most, its_bytes)
        return Room(tuple(able), messages, most, tuple(full)), None if able else full[0][1]

    def _parcel(
        self, link: Link, rows: list[Row], recipients: tuple[bytes, ...], data: bytes, now: Now, *, stored: bool
    ) -> Parcel:
        first, last = rows[0], rows[-1]
        base, wall_s, ttl_max = first.frame_at, now.wall_s, self._limits.ttl_s_max
        ttls = array(U32, [row.ttl_s for row in rows])
        expiries = array(U32, [row.expiry_min for row in rows])
        alike = rows[0][5:7] == rows[-1][5:7] and len(set(ttls)) == len(set(expiries)) == 1
        if alike:
            deadlines = array(U32, [deadline_s(wall_s, first.ttl_s, first.expiry_min, ttl_max)]) * len(rows)
        else:
            deadlines = array(U32, [deadline_s(wall_s, row.ttl_s, row.expiry_min, ttl_max) for row in rows])
        parcel = Parcel(
            first=self.next_arrival, kind=first.kind, signer=first.signer, destination=first.destination,
            neighbour=link.key, via=None if link.standing is Standing.LOCAL else link.key, recipients=recipients,
            at_s=wall_s, blob=data[base : last.end], ends=array(U32, [row.end - base for row in rows]),
            ids=b"".join([row.id for row in rows]), ttls=ttls, expiries=expiries, deadlines=deadlines, stored=stored,
        )  # fmt: skip
        self.next_arrival += len(rows)
        return parcel

    def _note_accepted(
        self, link: Link, parcel: Parcel, now: Now, left_out: tuple[tuple[bytes, Reason], ...]
    ) -> None:
        """Remember the ids, log, and tell a publisher who asked what is owed to whom."""
        desk = self._desk
        accept = self._seen.accept
        for at in range(0, len(parcel.ids), 32):
            accept(parcel.ids[at : at + 32])
        self.index_entries += parcel.count
        if not parcel.stored:
            desk.changes.parcels.append(parcel)
        sizes = array(U32, [stop - start for start, stop in zip([0, *parcel.ends], parcel.ends, strict=False)])
        named = parcel.recipients + tuple(recipient for recipient, _ in left_out)
        desk.changes.events.append(
            ev.Accepted(
                now.wall_ns, now.mono_ns, parcel.first, parcel.kind, parcel.signer, parcel.destination, link.key, link.id,
                named, parcel.ids, sizes.tobytes(), parcel.ttls.tobytes(), parcel.expiries.tobytes(),
            )
        )  # fmt: skip
        whole = ((parcel.first, parcel.count),)
        for recipient, reason in left_out:
            desk.changes.events.append(
                ev.Outward(now.wall_ns, now.mono_ns, "refused", recipient, link.id, whole, reason, 0, 0, 0)
            )
        if link.outcomes:
            state = "queued" if parcel.stored else "unconfirmed"
            what = tuple(RecipientOutcome(PublicKey(one), state) for one in parcel.recipients)
            what += tuple(RecipientOutcome(PublicKey(one), "refused", reason) for one, reason in left_out)
            desk.effects += [Say(link.id, Outcome(MessageId(parcel.id(at)), what)) for at in range(parcel.count)]

    def _learn(self, link: Link, row: Row, now: Now) -> None:
        """Step 2 of the unicast algorithm, from fresh, verified messages only (R-C2)."""
        if row.kind != UNICAST or link.standing is Standing.LOCAL or row.signer == link.key:
            return
        if self._links.to(row.signer) is not None:
            return
        route = Route(row.signer, link.key, expiry_s(row.expiry_min))
        if self._routes.learn(route, now.wall_s):
            self._desk.changes.routes.append(route)
            fields = (("destination", row.signer), ("neighbour", link.key), ("until_s", route.until_s))
            self._desk.changes.events.append(ev.State(now.wall_ns, now.mono_ns, "route_add", fields))

    def _log_turned(self, job: Job, known: list[bytes], refusals: list[Refusal], now: Now) -> None:
        events = self._desk.changes.events
        if known:
            events.append(
                ev.Turned(
                    now.wall_ns, now.mono_ns, "duplicate", job.link.key, job.link.id, Reason.DUPLICATE,
                    b"".join(known), len(known), None,
                )
            )  # fmt: skip
        if not refusals:
            return
        by_k = {row.k: row for row in job.arrived.rows}
        reasons: dict[Reason, list[bytes]] = {}
        for k, reason, _ in refusals:
            reasons.setdefault(reason, []).append(by_k[k].id if k in by_k else b"")
        for reason, ids in reasons.items():
            events.append(
                ev.Turned(
                    now.wall_ns, now.mono_ns, "refused", job.link.key, job.link.id, reason,
                    b"".join(ids), len(ids), None,
                )
            )  # fmt: skip


def _fitting(rows: list[Row], messages: int, size: int) -> int:
    """How many of the rows fit so many messages and bytes."""
    base = rows[0].frame_at
    if len(rows) <= messages and rows[-1].end - base <= size:
        return len(rows)
    count = 0
    while count < min(len(rows), messages) and rows[count].end - base <= size:
        count += 1
    return count
