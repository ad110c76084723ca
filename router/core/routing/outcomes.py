"""Outcomes of messages, sent to publishers that asked for and may know them, and to recipients that missed them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from router.core.neighbours.directory import Directory, Standing
from router.core.service.roles import Role
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.link_items import OUTCOME_MORE_MAX, Missed, Outcome, RecipientOutcome
from router.core.wire.message import UNICAST
from router.core.wire.reasons import Reason

from .effects import Pending, SendItem
from .limits import OutcomeLimits
from .links import Link, Links
from .parcel import Parcel


class FollowedOutcomes:
    """The parcels that publishers follow, and what each recipient has missed.

    The latter survives a restart (`missed`), the former does not: outcomes of earlier messages are then only in the
    log. Beyond `watched_max` parcels the oldest are no longer followed.
    """

    def __init__(
        self,
        directory: Directory,
        links: Links,
        pending: Pending,
        limits: OutcomeLimits,
        missed: Iterable[tuple[bytes, Missed]] = (),
    ) -> None:
        self._directory = directory
        self._links = links
        self._pending = pending
        self._limits = limits
        self._watched: dict[int, tuple[Link, int]] = {}  # by first arrival: the follower, and units without an end
        self._missed: dict[bytes, dict[tuple[bytes | None, int], Missed]] = {}
        for recipient, one in missed:
            self._missed.setdefault(recipient, {})[one.group, one.reason] = one
        self._to_tell: dict[bytes, None] = {}  # recipients to check in this cycle: they may be connected

    def __repr__(self) -> str:
        return f"<outcomes: {len(self._watched)} parcels followed, {len(self._missed)} recipients missed something>"

    # -- to publishers --------------------------------------------------------------------------------------

    def accepted(self, parcel: Parcel, origin: Link, left_out: tuple[tuple[bytes, Reason], ...]) -> None:
        """Send an app that asked for it each message's recipients and those left out; follow the parcel if it is
        stored."""
        if not origin.outcomes:
            return
        if not (parcel.is_copy and parcel.stored):  # a service that names the one recipient hears when it has ended
            what = self._of(origin, parcel, parcel.recipients, "queued" if parcel.stored else "unconfirmed")
            for recipient, reason in left_out:
                what += self._of(origin, parcel, (recipient,), "refused", reason)
            self._tell(origin, parcel, 0, parcel.count, what)
        if parcel.stored and (units := parcel.count * len(parcel.recipients)):
            while len(self._watched) >= self._limits.watched_max:
                del self._watched[next(iter(self._watched))]
            self._watched[parcel.first] = origin, units

    def are_awaited(self, link: Link, n: int) -> bool:
        """Whether a publisher waits for the outcome of one of the first `n` messages on a link; of a copy none does."""
        sent = takewhile(lambda flight: flight.n - (flight.stop - flight.start) < n, link.flights)
        parcels = [one.parcel for one in sent if one.parcel is not None]
        return any(not one.is_copy and one.first in self._watched for one in parcels)

    def follow(
        self, parcel: Parcel, start: int, stop: int, recipient: bytes, state: str, reason: Reason | None
    ) -> None:
        """Send the publisher the outcome of messages start..stop-1 for one recipient, if it follows them.

        A parcel of which the last unit has ended is forgotten."""
        if (found := self._watched.get(parcel.first)) is None:
            return
        origin, units = found
        if units > stop - start:
            self._watched[parcel.first] = origin, units - (stop - start)
        else:
            del self._watched[parcel.first]
        if origin.up and origin.outcomes:
            what = self._of(origin, parcel, (recipient,), state, reason)
            if what:
                self._tell(origin, parcel, start, stop, what)

    def _of(
        self, origin: Link, parcel: Parcel, recipients: tuple[bytes, ...], state: str, reason: Reason | None = None
    ) -> tuple[RecipientOutcome, ...]:
        """Return the outcome by recipient key for a local app, if the configuration allows it or the app has named the
        recipient itself; else as a count. The service that keeps a group's messages for readers at other nodes reads
        none itself, and is not counted."""
        if (self._limits.named or parcel.is_copy) and origin.standing is Standing.LOCAL:
            return tuple(RecipientOutcome(PublicKey(one), state, reason) for one in recipients)
        reading = sum(parcel.kind == UNICAST or not self._directory.has_role(one, Role.OVERLAY) for one in recipients)
        return (RecipientOutcome(reading, state, reason),) if reading else ()

    def _tell(self, origin: Link, parcel: Parcel, start: int, stop: int, what: tuple[RecipientOutcome, ...]) -> None:
        at_once = OUTCOME_MORE_MAX + 1 if origin.takes_outcome_runs else 1
        for first in range(start, stop, at_once):
            id, *more = (MessageId(parcel.id(index)) for index in range(first, min(stop, first + at_once)))
            self._pending.effects.append(SendItem(origin.id, Outcome(id, what, tuple(more))))

    # -- to recipients --------------------------------------------------------------------------------------

    def miss(self, recipient: bytes, parcel: Parcel, start: int, stop: int, reason: Reason) -> None:
        """Note that a recipient will never get messages start..stop-1, to tell it when it is connected.

        Beyond `missed_max` recipients this is only in the log; so are copies, whose message others pass on, and what
        services of routers say to each other, who ask again by themselves."""
        if parcel.is_copy or self._directory.is_between_services(parcel.signer, parcel.destination):
            return
        if recipient not in self._missed and len(self._missed) >= self._limits.missed_max:
            return
        self._to_tell[recipient] = None
        group = None if parcel.kind == UNICAST else PublicKey(parcel.signer)
        missed = self._missed.setdefault(recipient, {})
        first, last = MessageId(parcel.id(start)), MessageId(parcel.id(stop - 1))
        known = missed.get((group, reason))
        if known is None and len(missed) >= self._limits.missed_kinds_max:
            return
        count, first = (known.count, known.first) if known is not None else (0, first)
        missed[group, reason] = one = Missed(group, count + stop - start, first, last, reason)
        self._pending.changes.missed[recipient, group, reason] = one

    def missed_by(self, recipient: bytes, reason: Reason) -> int:
        """Return how many messages the recipient has missed for that reason since it was here last."""
        return sum(one.count for (_, why), one in self._missed.get(recipient, {}).items() if why == reason)

    def link_up(self, recipient: bytes) -> None:
        """Record that a recipient is connected; at the end of the cycle it is told what it has missed."""
        self._to_tell[recipient] = None

    def tell_missed(self) -> None:
        """Tell the connected recipients what they have missed, at the end of a cycle."""
        for recipient in self._to_tell:
            link = self._links.to(recipient)
            if link is not None:
                self._pending.effects += [SendItem(link.id, item) for item in self.forget(recipient)]
        self._to_tell.clear()

    def move(self, recipient: bytes, to: bytes) -> None:
        """Tell another key what this recipient has missed."""
        for one in self.forget(recipient):
            self._missed.setdefault(to, {})[one.group, one.reason] = one
            self._pending.changes.missed[to, one.group, one.reason] = one

    def forget(self, recipient: bytes) -> Iterable[Missed]:
        """Remove and return what a recipient has missed: it is being told, or the key is gone for good."""
        gone = self._missed.pop(recipient, {})
        self._pending.changes.missed |= {(recipient, *kind): None for kind in gone}
        return gone.values()
