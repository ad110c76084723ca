"""Answering questions about points: from the routers that are known by their places, and the records that lie here."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest

from msgspec import Struct

from router.core.link.allowance import Shares
from router.core.wire.advert import Advertisement
from router.core.wire.crypto import PublicKey
from services.pubsub.core.rendezvous.contacts import Contacts
from services.pubsub.core.rendezvous.points import PLACE_BYTES, Contact, place_of
from services.pubsub.core.rendezvous.store import RecordStore
from services.pubsub.core.rendezvous.words import BUT_MAX, NEAR_MAX, AskPoint, TellPoint


class AnswerLimits(Struct, frozen=True):
    """Questions of one router: so many a second, so many saved up; and the routers whose questions are counted."""

    asks_per_s: float = 2.0
    asks_burst: float = 256.0
    routers_max: int = 1_024


class PointAnswers:
    """Answers questions about points. `advert_of` returns the advertisement of a known router, None if it is gone."""

    __slots__ = ("_advert_of", "_asks", "_store", "contacts")

    def __init__(
        self,
        contacts: Contacts,
        store: RecordStore,
        advert_of: Callable[[PublicKey], Advertisement | None],
        limits: AnswerLimits | None = None,
    ) -> None:
        self.contacts = contacts
        self._store = store
        self._advert_of = advert_of
        limits = limits or AnswerLimits()
        self._asks: Shares[PublicKey] = Shares(limits.asks_per_s, limits.asks_burst, limits.routers_max)

    def __repr__(self) -> str:
        return f"<answers from {self.contacts!r} and {self._store!r}>"

    def answer(self, asked: AskPoint, by: Contact, now_s: float) -> TellPoint | None:
        """Return the answer to a router that is connected; None if it has asked too often."""
        if not self._asks.take(by.router, 1, now_s):
            return None
        place = place_of(asked.point)
        if asked.record is None:
            return TellPoint(asked.point, False, self._near(place, asked.but, by.router), ())
        cause = self._store.put(asked.point, asked.record, by, self.contacts.nearer(place), now_s)
        return TellPoint(asked.point, cause is None, (), self._store.told(asked.point, now_s, by.router))

    def _near(self, place: int, but: tuple[bytes, ...], asker: PublicKey) -> tuple[Advertisement, ...]:
        """Return the nearest routers that the asker does not know, and none that is farther than those it knows."""
        farthest = max([place_of(one) ^ place for one in but]) if len(but) >= BUT_MAX else 1 << 8 * PLACE_BYTES
        known = {asker[:PLACE_BYTES], *but}
        rows = [
            (one.place ^ place, one.router)
            for one in self.contacts
            if one.place ^ place < farthest and one.router[:PLACE_BYTES] not in known
        ]
        adverts = (self._advert_of(router) for _, router in nsmallest(NEAR_MAX, rows))
        return tuple([one for one in adverts if one is not None])
