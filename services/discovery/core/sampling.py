"""Random peer sampling between core nodes: Cyclon's exchange, followed by the stream sampler (R-D21).

`Sampling.hear` takes one event after the other and returns deeds. It checks no signature: its caller decodes and
verifies first, and knows the router of each service.

The exchange is that of Cyclon (Voulgaris, Gavidia, van Steen 2005): each period the oldest entry is removed and asked,
with the own entry and some others; both sides put what they receive into empty places, then in place of what they sent.
The announced nodes are not those of the view, which frequent senders can fill, but a sample of all nodes heard. So that
frequent senders do not decide which nodes are heard either, a router of that sample is asked in each period as well,
with the own entry alone: it answers from its own sample, and its answer goes into the sample, not into the view.

Where the view holds fewer than an exchange, and nothing new was heard for `settled_periods`, only one period of so many
asks: a few nodes that all know each other cost little.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from enum import Enum

from msgspec import Struct, field

from router.core.wire.crypto import PublicKey
from router.service.contract import Chance, Now, Tick, Wake
from services.discovery.core.messages import VIEW_MAX
from services.discovery.core.stream_sampler import SamplerLimits, StreamSampler
from services.discovery.core.view import Advertised, View, ViewEntry, ViewLimits

WAKE_MIN_S = 0.01
"""The shortest wait: a wake that rounding brings a moment early is not repeated at once."""

REVS_MAX = 64
"""Revisions of advertisements that are remembered to tell what is new; beyond it the oldest are forgotten."""


class SamplingLimits(Struct, frozen=True):
    """The numbers of D21. A period lasts `period_s`, give or take `jitter` of it.

    `askers_max`: most nodes that are answered in a period. A node that does not answer is in quarantine for
    `quarantine_periods`, or `few_quarantine_periods` while the view holds fewer entries than an exchange. One in
    `seeds_part` of the questions for the sample goes to a seed.
    `settled_periods`: those without news after which few nodes ask each other more rarely.
    """

    period_s: float = 10.0
    jitter: float = 0.25
    answer_s: float = 5.0
    shuffle: int = VIEW_MAX
    merged_questions: int = 4
    quarantine_periods: int = 30
    few_quarantine_periods: int = 3
    askers_max: int = 1_024
    seeds_part: int = 8
    settled_periods: int = 7
    view: ViewLimits = field(default_factory=ViewLimits)
    sampler: SamplerLimits = field(default_factory=SamplerLimits)


class Cause(Enum):
    """Why an input was not used."""

    UNASKED = "an answer to no question of ours, or after its time"
    OVERSIZED = "more entries than an exchange has"
    EMPTY = "a question without an entry"
    NOT_ITS_OWN = "a question that does not begin with the asker's own entry at age 0"
    OWN_KEY = "a question in this node's own name"
    EXPIRED = "an advertisement that has expired"
    REPEATED = "a key for the second time in one exchange"
    TOO_SOON = "a second question of that key or public prefix in a period"
    TOO_MANY = "a question beyond those that are remembered in a period"
    NOT_MERGED = "entries of others in a question after the first few of a period"


# -- what sampling hears, beside `Tick` -------------------------------------------------------------------------------


class Question(Struct, frozen=True):
    """A question (SAMPLE) of the router `by`."""

    by: PublicKey
    view: tuple[ViewEntry, ...]


class Response(Struct, frozen=True):
    """An answer (SAMPLED) of the router `by`."""

    by: PublicKey
    view: tuple[ViewEntry, ...]


class Renewed(Struct, frozen=True):
    """The node's own advertisement was signed anew."""

    advert: Advertised


class Linked(Struct, frozen=True):
    """A router from which this node may learn of others is connected, or is not any more."""

    router: PublicKey
    is_up: bool


Event = Tick | Question | Response | Renewed | Linked


# -- deeds, beside `Wake` ---------------------------------------------------------------------------------------------


class Ask(Struct, frozen=True):
    """Send SAMPLE to the discovery service of that router; `advert` is None for a seed."""

    to: PublicKey
    advert: Advertised | None
    view: tuple[ViewEntry, ...]


class Reply(Struct, frozen=True):
    """Send SAMPLED to the discovery service of that router; `advert` is the asker's, from its question."""

    to: PublicKey
    advert: Advertised
    view: tuple[ViewEntry, ...]


class Announce(Struct, frozen=True):
    """Announce the nodes drawn in this period."""

    adverts: tuple[Advertised, ...]


class Drop(Struct, frozen=True):
    """Count input of that router that was not used: the whole exchange, or `entries` of it."""

    by: PublicKey
    cause: Cause
    entries: int


Deed = Ask | Reply | Announce | Drop | Wake


class Pending(Struct, frozen=True):
    """A question that waits for its answer until a monotonic second, and the entries sent with it; None: the answer is
    for the sample alone."""

    until_s: float
    sent: tuple[ViewEntry, ...] | None


class Sampling:
    """A node's part in peer sampling.

    `secret` keys the sampler's hash. `seeds` are asked first, and while the view is empty; then so are nodes in the
    sampler's memory and those `remembered` from before a restart. A seed that does not answer is asked again after its
    quarantine; a remembered node is not, since many of these may be gone. A configured or invited neighbour is a seed
    while it is connected.
    """

    def __init__(
        self,
        own: Advertised,
        seeds: Iterable[PublicKey],
        secret: bytes,
        chance: Chance,
        limits: SamplingLimits,
        remembered: Iterable[PublicKey] = (),
    ) -> None:
        self._own = own
        self._remembered = tuple(key for key in remembered if key != own.key)
        self._named = tuple(key for key in seeds if key != own.key)
        self._linked: dict[PublicKey, None] = {}
        self._unmet = list(self._named)
        self._asked_last: tuple[PublicKey, ...] = ()
        self._chance = chance
        self._limits = limits
        self._view = View(own.key, limits.view)
        self._sampler = StreamSampler(secret, chance, limits.sampler)
        self._period = 0
        self._period_at_s: float | None = None
        self._pending: dict[PublicKey, Pending] = {}
        self._quarantine: dict[PublicKey, int] = {}
        self._askers: set[PublicKey] = set()
        self._exchanges = 0
        self._prefixes: set[bytes] = set()
        self._revs: dict[PublicKey, int] = {}  # of entries heard while the view holds few
        self._news_period = 0

    def __repr__(self) -> str:
        return f"<sampling: period {self._period}, {self._view!r}, {self._sampler!r}>"

    @property
    def view(self) -> tuple[ViewEntry, ...]:
        return self._view.entries

    @property
    def sampled(self) -> tuple[Advertised, ...]:
        """Return the sampler's memory, from which each period draws the nodes to announce."""
        return self._sampler.memory

    def hear(self, event: Event, now: Now) -> list[Deed]:
        """Return the deeds that follow from one event."""
        self._give_up(now)
        match event:
            case Tick():
                return self._tick(now)
            case Question():
                return self._answer(event, now)
            case Response():
                return self._take_answer(event, now)
            case Renewed():
                self._own, self._news_period = event.advert, self._period
                return []
            case Linked():
                return self._take_link(event, now)

    @property
    def _seeds(self) -> tuple[PublicKey, ...]:
        return tuple(dict.fromkeys((*self._named, *self._linked)))

    def _take_link(self, link: Linked, now: Now) -> list[Deed]:
        """Ask a neighbour that is connected, at once if no node is known yet; it is no seed any more when it is
        gone."""
        router = link.router
        if router == self._own.key:
            return []
        self._linked.pop(router, None)
        self._news_period = self._period
        if not link.is_up:
            self._unmet = [key for key in self._unmet if key != router or key in self._named]
            return []
        self._linked[router] = None
        self._quarantine.pop(router, None)
        if router not in self._unmet:
            self._unmet.append(router)
        if not self._view:
            self._period_at_s = None
        return self._tick(now)

    # -- a period --------------------------------------------------------------------------------------------------

    def _tick(self, now: Now) -> list[Deed]:
        deeds = list[Deed]()
        if self._period_at_s is None or now.mono_s >= self._period_at_s:
            spread = self._limits.jitter * (2 * self._chance.random() - 1)
            self._period_at_s = now.mono_s + self._limits.period_s * (1 + spread)
            deeds += self._begin_period(now)
        next_s = min([self._period_at_s, *(one.until_s for one in self._pending.values())])
        return [*deeds, Wake(now.wall_s + max(WAKE_MIN_S, next_s - now.mono_s))]

    def _begin_period(self, now: Now) -> Iterator[Deed]:
        self._period += 1
        self._askers.clear()
        self._exchanges = 0
        self._prefixes.clear()
        self._quarantine = {key: end for key, end in self._quarantine.items() if end > self._period}
        self._view.grow_older(now.wall_s)
        self._sampler.pass_period(self._period, now.wall_s)
        drawn = self._sampler.draw()
        partner = self._next_partner(drawn) if self._asks else None
        sampled = None if self._has_few else self._next_sampled(partner)
        self._asked_last = tuple(one[0] for one in (partner, sampled) if one is not None)
        if partner is not None:
            yield self._ask(*partner, now)
        if sampled is not None:
            self._pending[sampled[0]] = Pending(now.mono_s + self._limits.answer_s, None)
            yield Ask(*sampled, (ViewEntry(0, self._own),))
        if drawn:
            yield Announce(drawn)

    def _next_partner(self, drawn: Sequence[Advertised]) -> tuple[PublicKey, Advertised | None] | None:
        """Return the next partner, and its advertisement: a seed that never answered, then the oldest of the view.

        While the view is empty it is any seed, or a node that was drawn; while it holds fewer than an exchange, every
        second time a node outside of it, as few nodes might otherwise lose each other for good. No node is asked in two
        periods running, because the second question might come within one period of the other side, and would not be
        answered.
        """
        not_now = {*self._asked_last, *self._pending}
        strangers = [key for key in self._unmet if key not in self._quarantine and key not in not_now]
        if strangers:
            return strangers[0], None
        if self._has_few and self._view and self._period % 2:
            not_in_view = self._known_beside(drawn, {*not_now, *self._quarantine, *self._view.keys})
            if not_in_view:
                return not_in_view[self._chance.randrange(len(not_in_view))]
        oldest = self._view.take_oldest(but=not_now)
        if oldest is not None:
            return oldest.advert.key, oldest.advert
        waiting = [] if self._view else self._known_beside(drawn, not_now)
        return waiting[self._chance.randrange(len(waiting))] if waiting else None

    def _next_sampled(
        self, partner: tuple[PublicKey, Advertised | None] | None
    ) -> tuple[PublicKey, Advertised | None] | None:
        """Return whom to ask for its sample: one of this node's own, now and then a seed, whom no flood displaces."""
        not_now = {*self._asked_last, *self._pending, *self._quarantine, *(partner[:1] if partner is not None else ())}
        seeds = [key for key in self._seeds if key not in not_now]
        if seeds and not self._chance.randrange(self._limits.seeds_part):
            return seeds[self._chance.randrange(len(seeds))], None
        found = self._sampler.next_asked(self._period, but=not_now)
        return (found.key, found) if found is not None else None

    @property
    def _has_few(self) -> bool:
        """Whether the view holds fewer entries than an exchange: there are few nodes, or this one knows few."""
        return len(self._view) < self._limits.shuffle

    @property
    def _asks(self) -> bool:
        """Whether this period asks a partner."""
        quiet = self._period - self._news_period
        is_settled = self._has_few and bool(self._view) and quiet > self._limits.settled_periods
        return not is_settled or quiet % self._limits.settled_periods == 0

    def _note(self, entry: ViewEntry) -> None:
        """Record the news that an entry brings, if there are few: a node, or a revision of its advertisement."""
        key, rev = entry.advert.key, entry.advert.rev
        if not self._has_few:
            self._revs.clear()
        elif rev > self._revs.get(key, -1):
            while len(self._revs) >= REVS_MAX:
                del self._revs[next(iter(self._revs))]
            self._revs[key], self._news_period = rev, self._period

    def _known_beside(
        self, drawn: Sequence[Advertised], but: Container[PublicKey]
    ) -> list[tuple[PublicKey, Advertised | None]]:
        """Return the seeds, the remembered nodes and those drawn, except these keys."""
        found: dict[PublicKey, Advertised | None] = dict.fromkeys((*self._seeds, *self._remembered))
        found |= {one.key: one for one in drawn}
        return [one for one in found.items() if one[0] not in but]

    def _ask(self, key: PublicKey, advert: Advertised | None, now: Now) -> Ask:
        sent = self._view.pick(self._limits.shuffle - 1, self._chance)
        self._pending[key] = Pending(now.mono_s + self._limits.answer_s, sent)
        return Ask(key, advert, (ViewEntry(0, self._own), *sent))

    def _give_up(self, now: Now) -> None:
        """Quarantine the nodes that did not answer in time."""
        for key in [key for key, one in self._pending.items() if one.until_s <= now.mono_s]:
            del self._pending[key]
            if key not in self._unmet:
                self._news_period = self._period
            rest = self._limits.few_quarantine_periods if self._has_few else self._limits.quarantine_periods
            self._quarantine[key] = self._period + rest
            self._sampler.forget(key)

    # -- exchanges -------------------------------------------------------------------------------------------------

    def _answer(self, question: Question, now: Now) -> list[Deed]:
        cause = self._why_unanswered(question, now)
        if cause is not None:
            return [Drop(question.by, cause, len(question.view))]
        advert = question.view[0].advert
        self._askers.add(question.by)
        if advert.prefix is not None:
            self._prefixes.add(advert.prefix)
        if len(question.view) == 1:
            period = self._period + self._has_half_passed(now)
            sampled = self._sampler.pick(self._limits.shuffle, period, but=question.by)
            replaces = () if self._has_few else None  # a view that is full enough keeps all it has: nothing is given
            return [Reply(question.by, advert, sampled), *self._merge(question.by, question.view, replaces, now)]
        self._exchanges += 1
        received, rest = question.view, 0
        if self._exchanges > self._limits.merged_questions:
            received, rest = question.view[:1], len(question.view) - 1
        sent = self._choose_answer(question.view, received, now)
        deeds: list[Deed] = [Reply(question.by, advert, sent), *_drops(question.by, {Cause.NOT_MERGED: rest})]
        return [*deeds, *self._merge(question.by, received, sent, now)]

    def _choose_answer(
        self, asked: Sequence[ViewEntry], received: Sequence[ViewEntry], now: Now
    ) -> tuple[ViewEntry, ...]:
        """Return the entries that both sides have, which neither then gives away, and others at random.

        They are fewer by the number of entries not merged, so that the asker replaces no more than are kept here, and
        the in-degree of all nodes stays even.
        """
        common = self._view.among([entry.advert.key for entry in received[1:]])
        count = self._limits.shuffle - (len(asked) - len(received)) - len(common)
        chosen = common + self._view.pick(count, self._chance, but=[entry.advert.key for entry in asked])
        begun = self._has_half_passed(now)
        return tuple(ViewEntry(age + begun, advert) for age, advert in chosen)

    def _has_half_passed(self, now: Now) -> bool:
        """Whether the present period counts in the ages of an answer, because half of it is over.

        The asker's period has just begun; otherwise an entry that is often given in answers would hardly grow older.
        """
        return self._period_at_s is not None and self._period_at_s - now.mono_s < self._limits.period_s / 2

    def _why_unanswered(self, question: Question, now: Now) -> Cause | None:
        own = question.view[0] if question.view else None
        prefix = own.advert.prefix if own else None
        if own is None:
            return Cause.EMPTY
        if len(question.view) > self._limits.shuffle:
            return Cause.OVERSIZED
        if question.by == self._own.key:
            return Cause.OWN_KEY
        if own.advert.key != question.by or own.age:
            return Cause.NOT_ITS_OWN
        if own.advert.exp <= now.wall_s:
            return Cause.EXPIRED
        if question.by in self._askers or prefix in self._prefixes:
            return Cause.TOO_SOON
        return Cause.TOO_MANY if len(self._askers) >= self._limits.askers_max else None

    def _take_answer(self, answer: Response, now: Now) -> list[Deed]:
        if answer.by not in self._pending:
            return [Drop(answer.by, Cause.UNASKED, len(answer.view))]
        if len(answer.view) > self._limits.shuffle:
            return [Drop(answer.by, Cause.OVERSIZED, len(answer.view))]
        if answer.by in self._unmet:
            self._unmet.remove(answer.by)
        return self._merge(answer.by, answer.view, self._pending.pop(answer.by).sent, now)

    def _merge(
        self, by: PublicKey, received: Sequence[ViewEntry], sent: Sequence[ViewEntry] | None, now: Now
    ) -> list[Deed]:
        """Pass the usable entries to the sampler, and merge them into the view unless `sent` is None."""
        used = dict[PublicKey, ViewEntry]()
        dropped = dict[Cause, int]()
        for entry in received:
            key = entry.advert.key
            if entry.advert.exp <= now.wall_s:
                dropped[Cause.EXPIRED] = dropped.get(Cause.EXPIRED, 0) + 1
            elif key in used:
                dropped[Cause.REPEATED] = dropped.get(Cause.REPEATED, 0) + 1
            elif key != self._own.key and not self._is_quarantined(entry):
                used[key] = entry
                self._note(entry)
                self._sampler.hear(entry, self._period)
        if sent is not None:
            self._view.merge(used.values(), sent)
        return _drops(by, dropped)

    def _is_quarantined(self, entry: ViewEntry) -> bool:
        """Whether the entry's node did not answer lately; with age 0 it has been alive since."""
        if not entry.age:
            self._quarantine.pop(entry.advert.key, None)
        return entry.advert.key in self._quarantine


def _drops(by: PublicKey, counts: dict[Cause, int]) -> list[Deed]:
    return [Drop(by, cause, count) for cause, count in counts.items() if count]
