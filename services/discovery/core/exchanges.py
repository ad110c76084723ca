"""SAMPLE and SAMPLED between discovery services, by which each core gets to know all others (R-D21).

`Sampling` decides whom to ask and which entries to keep; here its questions become messages, and received entries are
checked before they count. Partners are asked through their routers, which this node's router is told of first, so no
route is needed: the answer takes the link of the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from router.core.service.adverts import Verified, replaces, verified
from router.core.wire.address import AddressSource, refusal_of
from router.core.wire.admin import next_page, rows_in
from router.core.wire.advert import ADVERTISEMENT_BYTES_MAX, Advertisement, decode_advertisement
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import discovery as d
from services.discovery.core import sampling as s
from services.discovery.core.known import Known
from services.discovery.core.looks import LOOK_S, Looks
from services.discovery.core.messages import Entry, Message, Sample, Sampled, encode_message
from services.discovery.core.own import TAG as OWN
from services.discovery.core.refusals import RouterRefusals, notes
from services.discovery.core.view import Advertised, ViewEntry

TTL_S = 30
KEPT_MAX = 50
LEARNED_S = 2 * 86_400
LEARN_AGAIN_S = 86_400
ANNOUNCE_AGAIN_S = 600
ANNOUNCED_MAX = 4_096
KEPT, SEED = b"advert/", b"seed/"
LOOK = "sampling/neighbours"
TAG = "sampling"
"""The tag of messages whose end is not logged for the operator: a partner that is away is noticed by its silence."""


class Exchanges:
    """Asks a partner each period, answers every question, and announces the nodes drawn.

    The advertisements drawn last are kept, so that a node that starts again knows whom to ask even if its seeds are
    gone.
    """

    def __init__(self, setup: c.Setup, known: Known, seeds: Iterable[Advertisement], limits: s.SamplingLimits) -> None:
        self._kept = setup.kept
        self._known = known
        self._chance = setup.chance
        self._limits = limits
        self._seeds = {one.router: one for one in seeds}
        self._sampling: s.Sampling | None = None
        self._refusals = RouterRefusals()
        self._learn_at_s = self._look_at_s = 0.0
        self._looks = Looks()
        self._announced: dict[PublicKey, tuple[int, float]] = {}  # revision and monotonic second

    def __repr__(self) -> str:
        return f"<exchanges of {self._sampling!r}>"

    # -- hearing -----------------------------------------------------------------------------------------------------

    def hear(self, heard: c.Heard, now: c.Now) -> list[c.Deed]:
        match heard:
            case c.Started():
                self._load()
                return list(self._name_seeds(now))
            case d.Signed(tag=tag) if tag == OWN and self._known.own is not None:
                return self._renewed(verified(self._known.own, int(now.wall_s)), now)
            case d.Linked(router, service) if self._sampling is not None:
                return self._deeds(self._sampling.hear(s.Linked(router, is_up=service is not None), now), now)
            case c.Told(tag, _, answer) if tag == LOOK and isinstance(peers := rows_in(answer), list):
                more = next_page(answer)
                return [*self._dialled(peers, now), *([c.Inquire("peers", more, LOOK)] if more else [])]
            case c.Asked(number, "sampling"):
                return [c.Answer(number, self._view())]
            case c.Tick() if self._sampling is not None:
                again = list(self._name_seeds(now)) if now.wall_s >= self._learn_at_s else []
                if now.mono_s >= self._look_at_s:
                    self._look_at_s = now.mono_s + LOOK_S
                    self._looks.begin()
                    again.append(c.Inquire("peers", tag=LOOK))
                return [*again, *notes(self._refusals), *self._deeds(self._sampling.hear(c.Tick(), now), now)]
        return []

    def read(self, message: c.Message, said: Message, now: c.Now) -> list[c.Deed]:
        assert isinstance(said, Sample | Sampled)
        if self._sampling is None or message.via is None:
            return [c.Refuse(Reason.NOT_AUTHORISED, "this node exchanges no advertisements")]
        by = message.via
        refused: dict[PublicKey, tuple[Reason, str]] = {}
        view = tuple(self._judged(by, said.view, refused, now))
        named = self._known.service_of(by)
        if named != message.source:
            if named is None and by in refused:
                return [c.Refuse(*refused[by])]
            self._refusals.refuse(by, Reason.NOT_AUTHORISED)
            return [c.Refuse(Reason.NOT_AUTHORISED, "only the discovery service that a router names speaks for it")]
        event = s.Question(by, view) if isinstance(said, Sample) else s.Response(by, view)
        return self._deeds(self._sampling.hear(event, now), now)

    def _judged(
        self, by: PublicKey, entries: Iterable[Entry], refused: dict[PublicKey, tuple[Reason, str]], now: c.Now
    ) -> Iterator[ViewEntry]:
        """Yield the entries that count; add to `refused`, and count, why the others do not."""
        for age, advert in entries:
            if advert.router == self._known.router:
                continue
            found = self._known.take(advert, AddressSource.ANYBODY, now.wall_s)
            if isinstance(found, Verified):
                yield ViewEntry(age, found)
            else:
                refused[advert.router] = found
                self._refusals.refuse(by, found[0])

    # -- the beginning -----------------------------------------------------------------------------------------------

    def _load(self) -> None:
        for advert in [*self._remembered(), *self._seeds.values()]:
            if replaces(advert, self._known.newest(advert.router)):
                self._known.remember(advert)

    def _remembered(self) -> list[Advertisement]:
        """Return the advertisements drawn last before the service ended; all were verified."""
        rows = [value for key, value in self._kept.items() if key.startswith(KEPT)]
        return [decode_advertisement(value, ADVERTISEMENT_BYTES_MAX) for value in rows]

    def _renewed(self, own: Verified, now: c.Now) -> list[c.Deed]:
        if self._sampling is not None:
            return self._deeds(self._sampling.hear(s.Renewed(own), now), now)
        remembered = [one.router for one in self._remembered()]
        secret = self._chance.randbytes(16)
        self._sampling = s.Sampling(own, self._seeds, secret, self._chance, self._limits, remembered)
        events: list[s.Event] = [*(s.Linked(router, is_up=True) for router in self._known.linked), c.Tick()]
        decided = [deed for event in events for deed in self._sampling.hear(event, now)]
        return self._deeds(decided, now)

    def _name_seeds(self, now: c.Now) -> Iterator[c.Deed]:
        """Make the seeds known to the router, and end this for those that the settings do not name any more."""
        self._learn_at_s = now.wall_s + LEARN_AGAIN_S
        for key in [PublicKey(row[len(SEED) :]) for row in self._kept if row.startswith(SEED)]:
            if key not in self._seeds:
                yield c.AddNeighbour(key)
                yield c.Put(SEED + key, None)
        for key, one in self._seeds.items():
            urls = [a.url for a in one.addresses if refusal_of(a, AddressSource.OPERATOR, on_loopback=True) is None]
            yield c.AddNeighbour(key, tuple(urls), int(now.wall_s) + LEARNED_S, "seed")
            yield c.Put(SEED + key, b"")

    def _dialled(self, peers: Iterable[Mapping[str, Any]], now: c.Now) -> Iterator[d.Dial]:
        is_alone = self._sampling is None or not self._sampling.view
        yield from map(d.Dial, self._looks.due(peers, now.mono_s, is_alone=is_alone))

    def _view(self) -> dict[str, Any]:
        """Return from whom this node learns of others, and of how many it knows now, None without an address; and
        whether others are told of it in vain, as all its addresses lie in a private network."""
        return {
            "seeds": [key.hex() for key in self._seeds],
            "neighbours": [key.hex() for key in self._known.linked],
            "known": None if self._sampling is None else len(self._sampling.view),
            "private": self._known.is_private,
        }

    # -- what follows ------------------------------------------------------------------------------------------------

    def _deeds(self, decided: Iterable[s.Deed], now: c.Now) -> list[c.Deed]:
        return [deed for one in decided for deed in self._carry_out(one, now)]

    def _carry_out(self, one: s.Deed, now: c.Now) -> Iterator[c.Deed]:
        match one:
            case c.Wake():
                yield one
            case s.Ask(to, advert, view):
                if isinstance(advert, Verified):
                    yield from self._announce(advert, now)
                yield from self._send(to, Sample, view)
            case s.Reply(to, _, view):
                yield from self._send(to, Sampled, view)
            case s.Announce(adverts):
                for each in adverts:
                    if self._is_due(each, now):
                        yield from self._announce(each, now)
                yield from self._keep(adverts)
            case s.Drop(by, cause, entries):
                self._refusals.drop(by, cause, entries)

    def _send(
        self, to: PublicKey, kind: Callable[[tuple[Entry, ...]], Message], view: Iterable[ViewEntry]
    ) -> Iterator[c.Deed]:
        service = self._known.service_of(to)
        if service is not None:
            body = encode_message(kind(tuple(Entry(age, _advert(one)) for age, one in view)))
            yield c.Send(service, body, TTL_S, via=to, tag=TAG, kept=False)  # the next period asks again

    def _is_due(self, one: Advertised, now: c.Now) -> bool:
        """Whether it is new, or was not announced lately, as the router keeps the advertisements heard last."""
        rev, at_s = self._announced.get(one.key, (-1, 0.0))
        return rev != one.rev or now.mono_s - at_s >= ANNOUNCE_AGAIN_S

    def _announce(self, one: Advertised, now: c.Now) -> Iterator[c.Deed]:
        """Publish verified advertisements in the service's own group, where this node's router hears them (R-C26)."""
        self._announced.pop(one.key, None)
        while len(self._announced) >= ANNOUNCED_MAX:
            del self._announced[next(iter(self._announced))]
        self._announced[one.key] = one.rev, now.mono_s
        yield c.Publish(_advert(one).message, ttl_s=0, tag=TAG)

    def _keep(self, drawn: Iterable[Advertised]) -> Iterator[c.Deed]:
        """Keep the advertisements drawn, in place of those that have left the sampler's memory, then of earlier
        ones."""
        assert self._sampling is not None
        drawn = tuple(drawn)
        memory, stays = {KEPT + one.key for one in self._sampling.sampled}, {KEPT + one.key for one in drawn}
        kept = [key for key in self._kept if key.startswith(KEPT) and key not in stays]
        kept.sort(key=memory.__contains__)
        for key in kept[: max(0, len(kept) + len(stays) - KEPT_MAX)]:
            yield c.Put(key, None)
        for one in drawn:
            message = _advert(one).message
            if self._kept.get(KEPT + one.key) != message:
                yield c.Put(KEPT + one.key, message)


def _advert(one: Advertised) -> Advertisement:
    assert isinstance(one, Verified)
    return one.advert
