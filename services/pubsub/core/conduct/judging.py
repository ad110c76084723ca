"""What comparisons tell of the other routers: whether they hold what they took, and send what they hold."""

from __future__ import annotations

from router.core.wire.crypto import PublicKey
from router.service import contract as c
from services.pubsub.core.comparison.fetching import Fetch, Fetching
from services.pubsub.core.comparison.id_set import minute_of
from services.pubsub.core.comparison.negentropy import IdRange
from services.pubsub.core.comparison.plan import CompareLimits, Plans, Session
from services.pubsub.core.known import Known


class Judging:
    """Tells `Withholding` what comparisons show, and has those begun that it wants."""

    def __init__(self, known: Known, fetching: Fetching, plans: Plans, limits: CompareLimits) -> None:
        self._known = known
        self._proofs = known.withholding
        self._fetching = fetching
        self._plans = plans
        self._limits = limits

    def __repr__(self) -> str:
        return f"<judging by {self._proofs!r}>"

    @property
    def due_s(self) -> float:
        """Return the second at which `begin_due` may have something to do; infinity: never."""
        return self._proofs.check_due_s

    def begin_due(self, now: c.Now) -> None:
        """Plan the comparison by which a router is to be judged."""
        for router, group in self._proofs.checks(now.mono_s, self._plans):
            self._plans.name(group, router, now.mono_s, self._limits.apart_s)
            self._plans[group].singly.add(router)

    def watched(self, router: PublicKey, group: PublicKey, now: c.Now) -> list[bytes]:
        """Return the keys of the messages by which a router is judged."""
        return self._proofs.watched(router, group, now.mono_s)

    def arrived(self, message: c.Message, now: c.Now) -> None:
        """Judge the router that has sent a message because it was asked."""
        if message.via is not None and self._fetching.is_asked(message.id):
            self._proofs.came(message.id, message.via, now.mono_s)

    def compared(self, session: Session, view: IdRange, now: c.Now) -> None:
        """Judge the other router by a comparison that is whole, but not if its window is empty."""
        if view.lo >= view.hi:
            return
        router, group, found = session.router, session.group, session.found
        nearest = self._known.nearest_since(group)
        window = {key for key in found.watched if key in view.ids and view.lo <= minute_of(key) < view.hi}
        self._proofs.compared(router, group, found.lacked, window - found.lacked, now.mono_s)
        news = [id for id in session.fetch.lacked if not session.fetch.is_old(id)]
        if not found.is_cut:
            session.fetch.whole_s = now.mono_s
            self._proofs.listed(router, group, news, nearest.get(router))
        if news:
            self._proofs.doubt(group, nearest)

    def fetched(self, fetch: Fetch) -> None:
        """Record that this node has all that the other held at the time of a whole comparison."""
        if fetch.whole_s is not None and not fetch.missing:
            self._proofs.even(fetch.router, fetch.group, fetch.whole_s)

    def left(self, group: PublicKey) -> None:
        """Forget a topic."""
        self._proofs.left(group)
