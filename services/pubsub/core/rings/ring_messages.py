"""RINGS between pub/sub services: members of the topics that two routers share (R-C32).

`Overlay` decides which members to ask and to meet; here its questions become messages, with the advertisements of the
members that they name, and received data is checked before it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from router.core.link.allowance import Allowance, Shares
from router.core.service.adverts import Verified
from router.core.wire.address import AddressSource
from router.core.wire.advert import Advertisement, decode_advertisement
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.conduct.refusals import Refusals
from services.pubsub.core.known import Known, Neighbour
from services.pubsub.core.meetings.partners import Partners
from services.pubsub.core.messages import (
    ADVERTS_MAX,
    BODY_BYTES_MAX,
    AskRings,
    Member,
    Ring,
    TellRings,
)
from services.pubsub.core.others import Others
from services.pubsub.core.rings.overlay import Deed, ExchangeRings, MeetWith, Overlay, Reply, RingOf
from services.pubsub.core.rings.topic_ring import Told
from services.pubsub.core.saying import say
from services.pubsub.reasons import MEET_FIRST

RENEW_S = 8 * 3600
AGAIN_S = 60
OWN = "rings-own"
TAG = "rings"
WAKE_MIN_S = 0.01
_HEADS = 4_096
"""Bytes of a message that remain for its rings."""


class RingsLimits(Struct, frozen=True):
    """The cost that one router may cause: questions a second, some of which may come at once, and signatures verified a
    second.

    `routers_max`: routers whose questions are counted; the one counted longest is forgotten."""

    asks_per_s: float = 1.0
    asks_burst: float = 4.0
    signatures_per_s: float = 100.0
    signatures_burst: float = 1_000.0
    routers_max: int = 256


class Rings:
    """Asks a neighbour each period, answers each question, and has candidates met."""

    def __init__(
        self, setup: c.Setup, known: Known, others: Others, partners: Partners, limits: RingsLimits | None = None
    ) -> None:
        self._known = known
        self._others = others
        self._partners = partners
        self._limits = limits = limits or RingsLimits()
        self._asks: Shares[PublicKey] = Shares(limits.asks_per_s, limits.asks_burst, limits.routers_max)
        self._signatures = Allowance(limits.signatures_per_s, limits.signatures_burst)
        self._refusals = Refusals()
        self._renew_s = 0.0

    def __repr__(self) -> str:
        return f"<rings of {self._others.overlay!r}>"

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        overlay = self._others.overlay
        if overlay is None or isinstance(heard, c.Message | c.Sent | c.Pulled):
            return []
        deeds: list[c.Deed] = []
        if isinstance(heard, c.Tick):
            deeds += self._partners.tick(now)
        match heard:
            case c.Started() | c.Tick() if now.wall_s >= self._renew_s:
                self._renew_s = now.wall_s + AGAIN_S
                deeds.append(o.Advertise(tag=OWN))
            case o.Signed(tag=tag, message=message) if tag == OWN and message:
                self._others.adverts.own = decode_advertisement(message)
                self._renew_s = now.wall_s + RENEW_S
        return [*deeds, *self._go_on(overlay, now)]

    def read(self, message: c.Message, said: AskRings | TellRings, now: c.Now) -> list[c.Deed]:
        """Return what follows from members of rings that a partner asks for or tells; a router with which no group is
        shared is refused, and a question that comes within a second of the last one."""
        overlay, router = self._others.overlay, message.via
        if overlay is None or router is None:
            return [c.Refuse(Reason.UNSUPPORTED, "this node keeps no rings")]
        if not self._known.is_partner(router):
            self._refusals.count(router, MEET_FIRST)
            return [c.Refuse(MEET_FIRST, "no group is shared; meet first")]
        if isinstance(said, AskRings) and not self._asks.take(router, 1, now.mono_s):
            self._refusals.count(router, Reason.RATE_LIMITED)
            return [c.Refuse(Reason.RATE_LIMITED, "one question about rings a second is answered")]
        members = [self._judged(router, one, now) for one in said.adverts]
        by = self._others.neighbour(router)
        if by is None or by.service != message.source:
            self._refusals.count(router, Reason.NOT_AUTHORISED)
            return [c.Refuse(Reason.NOT_AUTHORISED, "only the pub/sub service that a router names speaks for it")]
        rings = [RingOf(t, tuple(_told(members, row))) for t, row in said.rings]
        if isinstance(said, AskRings):
            reply = overlay.hear_question(by, rings)
            decided = [] if reply is None else [reply]
        else:
            decided = []
            if not overlay.hear_answer(by, rings):
                self._refusals.count(router, Reason.NOT_AUTHORISED)
        return [*self._partners.keep(router), *self._carry_out(decided, now), *self._go_on(overlay, now)]

    # -- what comes in -----------------------------------------------------------------------------------------------

    def _judged(self, by: PublicKey, advert: Advertisement, now: c.Now) -> Neighbour | None:
        """Return the member that an advertisement names, None if the advertisement does not count."""
        adverts = self._others.adverts
        if advert.router == self._known.router:
            return None
        if not adverts.is_known(advert) and not self._signatures.take(1, now.mono_s):
            self._refusals.count(by, Reason.RATE_LIMITED)
            return None
        found = adverts.take(advert, AddressSource.ANYBODY, now.wall_s)
        if isinstance(found, Verified):
            return self._others.named(advert)
        if found[0] is not Reason.EXPIRY_PASSED:
            self._refusals.count(by, found[0])
        return None

    # -- what follows ------------------------------------------------------------------------------------------------

    def _go_on(self, overlay: Overlay, now: c.Now) -> Iterator[c.Deed]:
        if now.mono_s >= overlay.due_s:
            yield from self._carry_out(overlay.tick(now.mono_s), now)
        yield from self._refusals.take(now)
        due_s = min(overlay.due_s, self._partners.due_s)
        yield c.Wake(now.wall_s + max(WAKE_MIN_S, due_s - now.mono_s))

    def _carry_out(self, decided: Iterable[Deed], now: c.Now) -> Iterator[c.Deed]:
        for one in decided:
            match one:
                case ExchangeRings(to, rings):
                    yield from self._others.learn(to.router, now)
                    yield self._send(to, AskRings, rings)
                case Reply(to, rings):
                    yield self._send(to, TellRings, rings)
                case MeetWith(candidate):
                    yield from self._partners.meet(candidate.router, now)

    def _send(
        self,
        to: Neighbour,
        kind: Callable[[tuple[Advertisement, ...], tuple[Ring, ...]], AskRings | TellRings],
        rings: Iterable[RingOf],
    ) -> c.Send:
        """Return a message with the rings, the advertisements that they need, and our own, as far as they fit."""
        own = self._others.adverts.own
        adverts: dict[PublicKey, Advertisement] = {}
        room = BODY_BYTES_MAX - _HEADS - (0 if own is None else len(own.wire))
        rows = list[Ring]()
        for t, members in rings:
            row = list[Member]()
            for neighbour, age in members:
                advert = adverts.get(neighbour.router) or self._others.adverts.newest(neighbour.router)
                if advert is None:
                    continue
                if neighbour.router not in adverts:
                    if len(adverts) >= ADVERTS_MAX - 1 or len(advert.wire) > room:
                        continue
                    adverts[neighbour.router] = advert
                    room -= len(advert.wire)
                row.append(Member(list(adverts).index(neighbour.router), age))
            rows.append(Ring(t, tuple(row)))
        named = (*adverts.values(), *([] if own is None else [own]))
        return say(to.service, kind(named, tuple(rows)), to.router, TAG)


def _told(members: list[Neighbour | None], row: Iterable[Member]) -> Iterator[Told]:
    for at, age in row:
        neighbour = members[at]
        if neighbour is not None:
            yield Told(neighbour, age)
