"""Check arrived messages in every way that needs no cryptography (R-C1).

The order is that of R-C1: size and shape (in `intake`), expiry, destination or group known, duplicate, the neighbour's
rate. The signature is checked elsewhere after this, and then comes `acceptance`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

from router.core.neighbours.directory import Standing
from router.core.wire.codec import Malformed
from router.core.wire.lifetime import SECOND_NS, apart_words, clock_text, expiry_min
from router.core.wire.message import MULTICAST
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

from .intake import Arrived, ArrivedMessage, Head, Refusal, carried
from .job import Job
from .kernel import Kernel
from .links import Link
from .parcel import U32
from .plans import INTRODUCES, ForUs, Plans, plan_key
from .seen import CopyState

OVERTAKEN = (
    Reason.EXPIRY_PASSED, Reason.EXPIRY_TOO_FAR, Reason.CLOCK_DOUBTED, Reason.INDEX_FULL,
    Reason.NO_SUBSCRIBERS, Reason.NO_ROUTE, Reason.BLOCKED,
)  # fmt: skip


class Examination:
    """Judges reads before verification; ids sent to the verifiers begin in `seen`, so that copies wait for the first
    one.

    `judge` returns why a unicast for this router itself is refused undecoded, or None.
    """

    def __init__(
        self, kernel: Kernel, plans: Plans, judge: Callable[[Link, ArrivedMessage, bytes], tuple[Reason, str] | None]
    ) -> None:
        self._plans = plans
        self._seen = kernel.seen
        self._index = kernel.index
        self._judge = judge

    def examine(self, link: Link, arrived: Arrived, now: Now) -> Job:
        """Refuse messages that fail without cryptography, and set known ones apart; return a job with all of them."""
        job = Job(link, arrived, [], array(U32), refusals=list(arrived.refusals))
        wall_s, holder = now.judged_s, link.holder
        earliest, latest = expiry_min(wall_s + 1), expiry_min(wall_s + self._index.horizon_s(holder))
        seen, plans, fresh, positions = self._seen, self._plans.current(), job.fresh, job.positions
        number, mono_s, may_send = link.id, now.mono_s, link.allowance.take
        begin, first, accepted = seen.begin, CopyState.FIRST, CopyState.ACCEPTED
        head: Head | None = None
        for row in arrived.rows:
            k, identity, its_head, _, start, end, signer_at = row
            if its_head is not head:
                head = its_head
                is_in_time = earliest <= head.expiry_min <= latest
                which = plan_key(head, number)
                plan = plans.get(which)
                if plan is None:
                    plan = self._plans.of(which, link, wall_s)
            if not is_in_time and (refusal := self._out_of_time(link, row, now)):
                self._turn_away(job, row, (k, *refusal))
                continue
            if plan.__class__ is Reason:
                self._turn_away(job, row, (k, plan, self._plans.refusal_text(plan, which, link)))
                continue
            for_us = plan.__class__ is ForUs
            if for_us and (verdict := self._judge(link, row, arrived.data)):
                job.refusals.append((k, *verdict))
                continue
            once = not for_us and plan is not INTRODUCES and (head.via is None or not is_source_routed(link, row))
            met = begin(identity) if once else first
            if met is accepted:
                job.known.append(row)  # control is never a duplicate: doing it twice is harmless (R-C4)
            elif met is not first:
                job.copies.append(row)
            elif not may_send(1, mono_s):
                if once:
                    seen.refuse(identity, Reason.RATE_LIMITED, "")
                job.refusals.append((k, Reason.RATE_LIMITED, "this neighbour sends too many messages a second"))
            elif not once and head.via is not None and identity in seen:
                job.vouched.append(row)
            else:
                fresh.append(row)
                positions.extend((start, end, signer_at))
                if for_us and not self._unwrap(job, row, now):
                    job.requests.append(row)
        arrived.join()
        return job

    def _out_of_time(self, link: Link, row: ArrivedMessage, now: Now) -> tuple[Reason, str] | None:
        """Return why a message is refused for its expiry, or None.

        It is refused for good only if the clocks concerned agree: both our times while our clock is doubted, and the
        clock of the router that brought it. For messages that stay on this machine, its own clock counts alone."""
        expiry = row.head.expiry_min
        verdict = self._index.out_of_time(link.holder, expiry, now.judged_s)
        if verdict is None or verdict[0].later:
            return verdict
        shown_s = now.shown_ns // SECOND_NS
        if now.ahead_ns and not self._is_verdict_at(verdict[0], link, expiry, shown_s):
            which = plan_key(row.head, link.id)
            if link.standing is Standing.LOCAL and self._plans.stays_here(self._plans.of(which, link, now.judged_s)):
                return self._index.out_of_time(link.holder, expiry, shown_s)
            return Reason.CLOCK_DOUBTED, clock_text(now.ahead_ns)
        if link.app or link.standing not in (Standing.PEER, Standing.CLIENT):
            return verdict
        if link.offset_ns is None:
            return Reason.CLOCK_DOUBTED, "the clocks of both routers have not been compared yet"
        if not self._is_verdict_at(verdict[0], link, expiry, shown_s + link.offset_ns // SECOND_NS):
            return Reason.CLOCK_DOUBTED, f"the clock that you send by is {apart_words(link.offset_ns)} this router's"
        return verdict

    def _is_verdict_at(self, reason: Reason, link: Link, expiry: int, wall_s: int) -> bool:
        verdict = self._index.out_of_time(link.holder, expiry, wall_s)
        return verdict is not None and verdict[0] is reason

    def _turn_away(self, job: Job, row: ArrivedMessage, refusal: Refusal) -> None:
        """Refuse the message, but settle it as a duplicate if it was accepted before and would only now be refused.

        If its id is not in memory, it is looked up on disk first."""
        if not may_be_overtaken(job.link, row, refusal):
            job.refusals.append(refusal)
        elif row.id in self._seen:
            job.known.append(row)
        else:
            job.overtaken.append((row, refusal))

    def _unwrap(self, job: Job, outer: ArrivedMessage, now: Now) -> bool:
        """Add to the job the multicast carried by a unicast to us; it counts as brought by the carrying router (R-C7).
        Return whether the unicast is a carrier.

        It follows its carrier in the job; both signatures are checked (R-C8). A carrier is refused together with the
        carried message, and its own reason takes precedence.
        """
        try:
            row = carried(job.arrived, outer)
        except Malformed as error:
            job.carried.append((outer, (outer.k, Reason.MALFORMED, str(error))))
            return True
        if row is None:
            return False
        verdict = self._out_of_time(job.link, row, now)
        plan = self._plans.of(plan_key(row.head, job.link.id), job.link, now.judged_s)
        if verdict is None and isinstance(plan, Reason):
            verdict = plan, ""
        refusal = (row.k, *verdict) if verdict is not None else None
        if row.id in self._seen and (refusal is None or may_be_overtaken(job.link, row, refusal)):
            job.known.append(row)
        elif refusal is not None:
            job.carried.append((row, refusal))
        elif self._seen.begin(row.id) is CopyState.LATER:
            job.copies.append(row)
        else:
            job.fresh.append(row)
            job.positions.extend((row.start, row.end, row.signer_at))
        return True


def may_be_overtaken(link: Link, row: ArrivedMessage, refusal: Refusal) -> bool:
    """Whether a message with this refusal may have been accepted before, and is then settled as a duplicate."""
    return refusal[1] in OVERTAKEN and link.standing is not Standing.STRANGER and not is_source_routed(link, row)


def is_source_routed(link: Link, row: ArrivedMessage) -> bool:
    """Whether a local service sends this multicast on through a router that it names (multicast algorithm, step 2;
    R-C6).

    The algorithm ends there, before the duplicate check, because the same message goes to one router after the other.
    """
    return row.head.via is not None and row.head.kind == MULTICAST and link.standing is Standing.LOCAL
