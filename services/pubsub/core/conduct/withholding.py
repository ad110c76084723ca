"""Who takes messages and passes none on: routers are judged by what their comparisons show (R-C33, R-C35).

A proof is about one partner and one whole comparison with it, which this node itself has made:

    lost        it acknowledged a copy from here 2 to 10 minutes before, and does not hold the message
    withheld    it is the nearest on a side of the ring, holds a message that this node lacks and that it has taken
                since the last comparison, and sends it only because it is asked

Any message that it brings unasked clears all proofs. A lost message counts twice as much as one that was withheld;
after four lost ones within `within_s`, each of another comparison, or eight withheld ones, a router is barred: it loses
its place among the live neighbours for `bar_s`, each time twice as long. Proofs are not sent to anybody, so nobody can
make others bar a router.

Copies of before a lost link do not count, as the partner may have begun anew. Neither do copies that a partner with
little room for history has deleted: then it lacks the oldest, and holds newer ones. State is in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Iterable
from math import inf
from typing import NamedTuple

from msgspec import Struct, field

from router.core.wire.crypto import MessageId, PublicKey
from services.pubsub.core.comparison.id_set import MINUTE_BYTES

LOST_POINTS, WITHHELD_POINTS = 2, 1
"""How much a proof counts. What was withheld counts half: a router that did not hear from this node for some seconds
sends it nothing until it does, and rightly so."""
LATEST_MAX = 4
"""Number of messages of a group that are remembered as having come last."""
Doubt = tuple[int, float]
"""The order in which routers are checked: by cause, then by the last comparison."""


class WithholdingLimits(Struct, frozen=True):
    """The times and bounds of proofs, in seconds.

    Of the copies to a router one in `sample_s` is remembered, `samples_max` in all. It counts from `least_s` to
    `most_s` after its acknowledgement. Proofs at least `apart_s` from each other that come to `points_max` within
    `within_s` bar a router for `bar_s`, each time twice as long up to `bar_max_s`. A comparison to judge a router
    begins every `check_s` at most, with the same router every `recheck_s`, or every `least_s` while proofs of it
    stand; after `idle_max` of these without another proof no sooner than with others. Where one shows that it lacks all
    and nothing has come just then to prove it by, up to `idle_max` follow, every `least_s`, in groups where something
    has. `listed_max`: messages of one
    comparison that may come only when asked for. `routers_max`: routers that are judged; beyond it those without proofs
    are forgotten first. `groups_max`: groups of one router whose last whole comparison is remembered.

    A copy counts as held or lacked only `settled_s` after its acknowledgement. A history without room deletes the
    oldest, so a copy counts as lost only if an older one is held, or if all are lacked, and all messages that came here
    within `fresh_s` as well, of which one in `latest_s` is remembered, for `latest_groups_max` groups. As copies may
    overtake each other, those held count as older from `mixed_s` on.
    """

    sample_s: float = 15.0
    samples_max: int = 48
    least_s: float = 120.0
    most_s: float = 600.0
    points_max: int = 8
    apart_s: float = 60.0
    within_s: float = 7_200.0
    bar_s: float = 3_600.0
    bar_max_s: float = 86_400.0
    check_s: float = 30.0
    recheck_s: float = 3_600.0
    idle_max: int = 8
    listed_max: int = 64
    routers_max: int = 256
    groups_max: int = 64
    settled_s: float = 5.0
    fresh_s: float = 30.0
    latest_s: float = 8.0
    latest_groups_max: int = 256
    mixed_s: float = 60.0


class Proof(NamedTuple):
    """One proof: its second, one message of it, and whether that message is lost or was withheld."""

    at_s: float
    id: MessageId
    is_lost: bool


class Barred(NamedTuple):
    """Report that a router is barred for that many seconds, and by which proofs."""

    router: PublicKey
    for_s: float
    proofs: tuple[Proof, ...]


class _Sample(Struct, eq=False):
    """A copy that was sent: its group and key (expiry minute, id), and when it was acknowledged; infinity: not yet."""

    group: PublicKey
    key: bytes
    acked_s: float = inf


class _Judged(Struct, eq=False):
    """The state of one router. Seconds are monotonic.

    `linked_s`: since when it is connected; infinity: it is not. `samples`: copies by id, in the order of sending.
    `listed`: messages that it holds, that this node lacks, and that it has not sent. `even_s`: by group, the last whole
    comparison after which this node had all that it held. `checked_s`: the last whole comparison of any group.
    `doubted`: a group to compare with it, as messages were missed there; `idle`: how many comparisons
    since the last proof have given none; `unproved`: how many in a row showed that it lacks all and proved nothing,
    as nothing had come in that group just then. `times`: how often it was barred; `until_s`: for how long."""

    linked_s: float = inf
    sampled_s: float = -inf
    checked_s: float = -inf
    idle: int = 0
    unproved: int = 0
    doubted: PublicKey | None = None
    samples: dict[MessageId, _Sample] = field(default_factory=dict)
    listed: set[MessageId] = field(default_factory=set)
    even_s: dict[PublicKey, float] = field(default_factory=dict)
    proofs: list[Proof] = field(default_factory=list)
    times: int = 0
    until_s: float = -inf


class Withholding:
    """The proofs of one node against its partners. `barred`: the routers that have no place now. Seconds are
    monotonic."""

    def __init__(self, limits: WithholdingLimits | None = None) -> None:
        self._limits = limits or WithholdingLimits()
        self._judged: dict[PublicKey, _Judged] = {}
        self._next_check_s = -inf
        self._is_idle = True  # nobody can be due for a check
        self._decided: list[Barred] = []
        self._latest: dict[PublicKey, deque[tuple[bytes, float]]] = {}  # by group, what came last, with the second
        self.barred: set[PublicKey] = set()
        self.is_changed = False
        """Whether `barred` has changed since `take_decided`."""

    def __repr__(self) -> str:
        return f"<{len(self._judged)} routers judged, {len(self.barred)} barred>"

    # -- links and copies --------------------------------------------------------------------------------------------

    def linked(self, router: PublicKey, now_s: float) -> None:
        """Record that a router is connected."""
        one = self._of(router)
        one.linked_s = min(one.linked_s, now_s)

    def gone(self, router: PublicKey) -> None:
        """Record that a router is not connected: it may begin anew, so what it took before does not count."""
        if (one := self._judged.get(router)) is not None:
            one.linked_s = inf
            one.samples.clear()
            one.listed.clear()
            one.even_s.clear()

    def wants(self, router: PublicKey, now_s: float) -> bool:
        """Whether the next copy to a router is to be remembered."""
        one = self._judged.get(router)
        return one is None or now_s - one.sampled_s >= self._limits.sample_s

    def sent(self, router: PublicKey, group: PublicKey, key: bytes, now_s: float) -> None:
        """Remember a copy that is sent to a router. `key`: expiry minute and id."""
        one = self._of(router)
        one.sampled_s, self._is_idle = now_s, False
        while len(one.samples) >= self._limits.samples_max:
            del one.samples[next(iter(one.samples))]
        one.samples[MessageId(key[MINUTE_BYTES:])] = _Sample(group, key)

    def taken(self, router: PublicKey, id: MessageId, now_s: float) -> None:
        """Record that a router has acknowledged a copy."""
        one = self._judged.get(router)
        if one is not None and (sample := one.samples.get(id)) is not None:
            sample.acked_s = now_s

    def wants_latest(self, group: PublicKey, now_s: float) -> bool:
        """Whether the message of a group that has come just now is to be remembered."""
        latest = self._latest.get(group)
        return not latest or now_s - latest[-1][1] >= self._limits.latest_s

    def arrived(self, group: PublicKey, key: bytes, now_s: float) -> None:
        """Remember a message that has come from somebody. `key`: expiry minute and id."""
        latest = self._latest.pop(group, None) or deque(maxlen=LATEST_MAX)
        while len(self._latest) >= self._limits.latest_groups_max:
            del self._latest[next(iter(self._latest))]
        latest.append((key, now_s))
        self._latest[group] = latest

    def stalled(self) -> None:
        """Record that this node stood still: others sent it nothing meanwhile, and did right."""
        for one in self._judged.values():
            one.listed.clear()
            one.even_s.clear()

    def brought(self, router: PublicKey) -> None:
        """Record that a router brought a message, or named it, without being asked: nothing stands against it."""
        if (one := self._judged.get(router)) is None:
            return
        one.samples.clear()
        one.listed.clear()
        one.doubted, one.unproved = None, 0
        if one.proofs or one.times:
            one.proofs.clear()
            one.times, one.until_s = 0, -inf
            self._release(router)

    def left(self, group: PublicKey) -> None:
        """Forget what came last of a group that is not wanted here any more; copies to others still count."""
        self._latest.pop(group, None)

    # -- comparisons -------------------------------------------------------------------------------------------------

    @property
    def check_due_s(self) -> float:
        """Return the second at which `checks` may have something to do; infinity: never."""
        return inf if self._is_idle else self._next_check_s

    @property
    def due_s(self) -> float:
        """Return the second at which `tick` has something to do; infinity: never."""
        return min((self._judged[one].until_s for one in self.barred), default=inf)

    def checks(self, now_s: float, wanted: Container[PublicKey]) -> list[tuple[PublicKey, PublicKey]]:
        """Return the router to judge next, and the group to compare with it, one of `wanted`; none before it is
        time."""
        if now_s < self.check_due_s:
            return []
        self._next_check_s = now_s + self._limits.check_s
        self._is_idle = not any(one.samples or one.proofs or one.doubted for one in self._judged.values())
        found: list[tuple[Doubt, PublicKey, PublicKey]] = []
        for router, one in self._judged.items():
            if router not in self.barred and (due := self._due(one, now_s, wanted)) is not None:
                found.append((due[0], router, due[1]))
        if not found:
            return []
        _, router, group = min(found)
        self._judged[router].checked_s = now_s  # also if no comparison follows, so that each is considered in turn
        return [(router, group)]

    def _due(self, one: _Judged, now_s: float, wanted: Container[PublicKey]) -> tuple[Doubt, PublicKey] | None:
        """Return whether a router is to be judged now: with which precedence, and by which group."""
        limits, since_s = self._limits, now_s - one.checked_s
        if since_s < limits.least_s:
            return None
        samples = (sample for sample in one.samples.values() if self._is_of_age(sample, now_s))
        groups = dict.fromkeys(sample.group for sample in samples if sample.group in wanted)
        busy = next((group for group in groups if self._fresh(group, now_s)), None)
        of_age = busy or next(iter(groups), None)
        if one.proofs and one.idle < limits.idle_max:
            group, rank = of_age or one.doubted, 0 if of_age else 1
        elif one.doubted is not None:
            group, rank = one.doubted, 1
        elif 0 < one.unproved <= limits.idle_max and busy is not None:
            group, rank = busy, 2
        else:
            group, rank = of_age if since_s >= limits.recheck_s else None, 2
        return ((rank, one.checked_s), group) if group is not None and group in wanted else None

    def _fresh(self, group: PublicKey, now_s: float) -> list[bytes]:
        """Return the keys of messages of a group that came here a moment ago."""
        limits = self._limits
        return [key for key, at_s in self._latest.get(group, ()) if limits.settled_s <= now_s - at_s <= limits.fresh_s]

    def _is_of_age(self, sample: _Sample, now_s: float) -> bool:
        return self._limits.least_s <= now_s - sample.acked_s <= self._limits.most_s

    def watched(self, router: PublicKey, group: PublicKey, now_s: float) -> list[bytes]:
        """Return the keys, in order, of the messages of a group by which a comparison with a router judges it: copies
        that it has acknowledged, and what has come here a moment ago."""
        one = self._judged.get(router)
        samples = () if one is None else one.samples.values()
        copies = {sample.key for sample in samples if sample.group == group and sample.acked_s < inf}
        return sorted(copies.union(self._fresh(group, now_s))) if copies else []

    def doubt(self, group: PublicKey, routers: Iterable[PublicKey]) -> None:
        """Record that messages of a group were missed here, which these routers should have brought."""
        for router in routers:
            self._of(router).doubted, self._is_idle = group, False

    def compared(
        self, router: PublicKey, group: PublicKey, lacked: Collection[bytes], held: Collection[bytes], now_s: float
    ) -> None:
        """Judge a router by a whole comparison of a group: by the keys of `watched` that it lacks and holds."""
        one = self._of(router)
        one.idle += 1
        if one.doubted == group:
            one.doubted = None
        limits = self._limits
        settled = [
            (id, sample)
            for id, sample in one.samples.items()
            if sample.group == group and now_s - sample.acked_s >= limits.settled_s
        ]
        if any(self._is_of_age(sample, now_s) for _, sample in settled):
            one.checked_s = now_s
        first_held_s = min((sample.acked_s for _, sample in settled if sample.key in held), default=inf)
        lost = [(id, sample) for id, sample in settled if sample.key in lacked and self._is_of_age(sample, now_s)]
        if first_held_s < inf:
            one.unproved = 0
            lost = [(id, sample) for id, sample in lost if sample.acked_s >= first_held_s + limits.mixed_s]
        elif held or not any(key in lacked for key in self._fresh(group, now_s)):
            one.unproved = 0 if held else one.unproved + bool(lost)
            lost = []  # it may hold what has just come: its history may have no room
        if lost and self._prove(router, one, lost[0][0], now_s, is_lost=True):
            for id, _ in lost:
                one.samples.pop(id, None)

    def listed(self, router: PublicKey, group: PublicKey, ids: Iterable[MessageId], nearest_s: float | None) -> None:
        """Record what a whole comparison shows that a router holds and this node lacks. `nearest_s`: since when it is
        the nearest on a side of the ring; None: it is not.

        It counts if there was another comparison since then, after which this node had all that the router held."""
        one = self._of(router)
        one.listed.clear()
        even_s = one.even_s.get(group, -inf)
        if nearest_s is not None and max(nearest_s, one.linked_s) <= even_s:
            for id in ids:
                if len(one.listed) >= self._limits.listed_max:
                    break
                one.listed.add(id)

    def even(self, router: PublicKey, group: PublicKey, at_s: float) -> None:
        """Record that this node has all that a router held at that second."""
        one = self._of(router)
        one.even_s.pop(group, None)
        while len(one.even_s) >= self._limits.groups_max:
            del one.even_s[next(iter(one.even_s))]
        one.even_s[group] = at_s

    def came(self, id: MessageId, by: PublicKey, now_s: float) -> None:
        """Judge a router that has sent a message because it was asked after a comparison."""
        one = self._judged.get(by)
        if one is not None and id in one.listed:
            one.listed.clear()
            self._prove(by, one, id, now_s, is_lost=False)

    # -- what follows ------------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        """Let routers whose time is over have a place again."""
        for router in [one for one in self.barred if self._judged[one].until_s <= now_s]:
            self._release(router)

    def take_decided(self) -> list[Barred]:
        """Return the routers that were barred since the last call."""
        decided, self._decided, self.is_changed = self._decided, [], False
        return decided

    def proofs(self, router: PublicKey, now_s: float) -> tuple[int, int]:
        """Return how many proofs stand against a router: of lost messages, and of withheld ones."""
        one = self._judged.get(router)
        found = [] if one is None else [proof for proof in one.proofs if proof.at_s > now_s - self._limits.within_s]
        lost = sum(proof.is_lost for proof in found)
        return lost, len(found) - lost

    def barred_for_s(self, router: PublicKey, now_s: float) -> float:
        """Return for how many seconds a router has no place yet; 0: it may have one."""
        return max(0.0, self._judged[router].until_s - now_s) if router in self.barred else 0.0

    @property
    def suspects(self) -> list[PublicKey]:
        """Return the routers that are barred, or against which there is a proof."""
        return [router for router, one in self._judged.items() if one.proofs or router in self.barred]

    def _prove(self, router: PublicKey, one: _Judged, id: MessageId, now_s: float, *, is_lost: bool) -> bool:
        """Count a proof, unless the last one is too young; return whether it counts."""
        limits = self._limits
        one.proofs = [proof for proof in one.proofs if proof.at_s > now_s - limits.within_s]
        if router in self.barred or (one.proofs and now_s - one.proofs[-1].at_s < limits.apart_s):
            return False
        one.proofs.append(Proof(now_s, id, is_lost))
        one.idle, self._is_idle = 0, False
        if sum(LOST_POINTS if proof.is_lost else WITHHELD_POINTS for proof in one.proofs) >= limits.points_max:
            for_s = min(limits.bar_max_s, limits.bar_s * 2.0 ** min(one.times, 16))
            self._decided.append(Barred(router, for_s, tuple(one.proofs)))
            one.times, one.until_s = one.times + 1, now_s + for_s
            one.proofs = []
            one.samples.clear()
            one.doubted = None
            self.barred.add(router)
            self.is_changed = True
        return True

    def _release(self, router: PublicKey) -> None:
        if router in self.barred:
            self.barred.discard(router)
            self.is_changed = True

    def _of(self, router: PublicKey) -> _Judged:
        """Return the state of a router; if there are too many, forget one without proofs, else the first one."""
        if (found := self._judged.get(router)) is None:
            if len(self._judged) >= self._limits.routers_max:
                harmless = (key for key, one in self._judged.items() if not (one.proofs or one.times))
                forgotten = next(harmless, next(iter(self._judged)))
                self._release(forgotten)
                del self._judged[forgotten]
            found = self._judged[router] = _Judged()
        return found
