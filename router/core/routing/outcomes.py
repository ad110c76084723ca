"""Telling what became of messages: to publishers that asked and may know it, and to recipients that will never get
them."""

from __future__ import annotations

from collections.abc import Iterable

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.link_items import Missed, Outcome, RecipientOutcome
from router.core.wire.message import UNICAST
from router.core.wire.reasons import Reason

from .directory import Standing
from .effects import Pending, SendItem
from .limits import OutcomeLimits
from .links import Link, Links
from .parcel import Parcel


class Outcomes:
    """What recipients have missed outlives a restart (`missed`, of each recipient); whom publishers follow does not: of
    what was sent before it the log alone knows more. Beyond `watched_max` parcels the oldest are followed no further.
    """

    def __init__(
        self, links: Links, pending: Pending, limits: OutcomeLimits, missed: Iterable[tuple[bytes, Missed]] = ()
    ) -> None:
        self._links = links
        self._pending = pending
        self._limits = limits
        self._watched: dict[int, Link] = {}  # first arrival of a parcel -> the app that follows it
        self._missed: dict[bytes, dict[tuple[bytes | None, int], Missed]] = {}
        for recipient, one in missed:
            self._missed.setdefault(recipient, {})[one.group, one.reason] = one
        self._to_tell: dict[bytes, None] = {}  # those of them to look at in this cycle: they may be here

    def __repr__(self) -> str:
        return f"<outcomes: {len(self._watched)} parcels followed, {len(self._missed)} recipients missed something>"

    # -- to publishers --------------------------------------------------------------------------------------

    def accepted(self, parcel: Parcel, origin: Link, left_out: tuple[tuple[bytes, Reason], ...]) -> None:
        """Tell an app that asked to whom each message is owed, and who was left out; what is stored is followed."""
        if not origin.outcomes:
            return
        what = self._of(origin, parcel.recipients, "queued" if parcel.stored else "unconfirmed")
        for recipient, reason in left_out:
            what += self._of(origin, (recipient,), "refused", reason)
        self._tell(origin, parcel, 0, parcel.count, what)
        if parcel.stored:
            while len(self._watched) >= self._limits.watched_max:
                del self._watched[next(iter(self._watched))]
            self._watched[parcel.first] = origin

    def follow(
        self, parcel: Parcel, start: int, stop: int, recipient: bytes, state: str, reason: Reason | None
    ) -> None:
        """Messages start..stop-1 have come to their end for this recipient."""
        origin = self._watched.get(parcel.first)
        if origin is not None and origin.up and origin.outcomes:
            self._tell(origin, parcel, start, stop, self._of(origin, (recipient,), state, reason))

    def _of(
        self, origin: Link, recipients: tuple[bytes, ...], state: str, reason: Reason | None = None
    ) -> tuple[RecipientOutcome, ...]:
        """Names are for local apps alone, and where the configuration allows them."""
        if self._limits.named and origin.standing is Standing.LOCAL:
            return tuple(RecipientOutcome(PublicKey(one), state, reason) for one in recipients)
        return (RecipientOutcome(len(recipients), state, reason),) if recipients else ()

    def _tell(self, origin: Link, parcel: Parcel, start: int, stop: int, what: tuple[RecipientOutcome, ...]) -> None:
        ids = (MessageId(parcel.id(index)) for index in range(start, stop))
        self._pending.effects += [SendItem(origin.id, Outcome(one, what)) for one in ids]

    # -- to recipients --------------------------------------------------------------------------------------

    def miss(self, recipient: bytes, parcel: Parcel, start: int, stop: int, reason: Reason) -> None:
        """Some of what was for this recipient it will never get; it is told when it is there. Beyond `missed_max`
        recipients only the log knows."""
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
        """It is here, and hears at the end of the cycle what it has missed."""
        self._to_tell[recipient] = None

    def tell_missed(self) -> None:
        """The end of a cycle: those who are here hear what they have missed."""
        for recipient in self._to_tell:
            link = self._links.to(recipient)
            if link is not None:
                self._pending.effects += [SendItem(link.id, item) for item in self.forget(recipient)]
        self._to_tell.clear()

    def forget(self, recipient: bytes) -> Iterable[Missed]:
        """It has been told, or will never be here again; what it had missed."""
        gone = self._missed.pop(recipient, {})
        self._pending.changes.missed |= {(recipient, *kind): None for kind in gone}
        return gone.values()
