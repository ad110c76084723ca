"""What messages that come change in the plans of comparisons: a topic in which none comes rests (R-C35)."""

from __future__ import annotations

from router.core.wire.crypto import PublicKey
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.comparison.caught_up import Figures
from services.pubsub.core.comparison.held import Held
from services.pubsub.core.comparison.plan import CompareLimits, Plans, Session


class Arrivals:
    """Counts the messages that come in topics of which some are missed, and lets silent topics rest.

    A neighbour that gets a message compares within a period, and brings it to those that lack it; nobody does so for a
    leaf, so its topics do not rest."""

    def __init__(
        self, plans: Plans, held: Held, figures: Figures, chance: c.Chance, limits: CompareLimits, *, is_leaf: bool
    ) -> None:
        self._plans = plans
        self._held = held
        self._figures = figures
        self._chance = chance
        self._limits = limits
        self._is_leaf = is_leaf

    def __repr__(self) -> str:
        return f"<arrivals in {len(self._plans)} topics>"

    def came(self, group: PublicKey, now: c.Now) -> tuple[list[c.Deed], bool]:
        """Record a message of a topic; return what follows, and whether the topic rests no more."""
        if (plan := self._plans.get(group)) is None:
            return [], False
        deeds = list[c.Deed]()
        if plan.missed:
            plan.arrived += 1
            deeds.append(self._figures.missed(group, plan.missed, plan.arrived))
        return deeds, self._wake(group, now)

    def was_published(self, heard: c.Heard, now: c.Now) -> bool:
        """Record what apps published here, if an event tells it; return whether a topic rests no more."""
        return isinstance(heard, o.Published) and heard.group in self._plans and self._wake(heard.group, now)

    def compared(self, session: Session, now: c.Now) -> None:
        """Let a topic rest after a whole comparison that found both sides equal."""
        if not (session.found.need or session.found.have):
            self.equal(session.group, now)

    def equal(self, group: PublicKey, now: c.Now) -> None:
        """Let a topic rest of which this node and another hold the same messages."""
        limits = self._limits
        self._plans.equal(group)
        if not self._is_leaf:
            self._plans.rest(group, now.mono_s - limits.quiet_after_s, now.mono_s + limits.quiet_s * self.spread())

    def spread(self) -> float:
        """Return by how much a period is longer or shorter, so that comparisons of topics come at random times."""
        return 0.75 + 0.5 * self._chance.random()

    def _wake(self, group: PublicKey, now: c.Now) -> bool:
        plan = self._plans[group]
        self._held.arrived(group)
        plan.heard_s, was_quiet, plan.is_equal = now.mono_s, plan.is_quiet, False
        if was_quiet:
            self._plans.wake(group, now.mono_s + plan.period_s * self.spread())
        return was_quiet
