"""Revoked rights: everything that depends on them ends at once, and is logged (R-C10, R-C11).

This happens on a running node when its neighbours are reconfigured, and at a start for the state on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from router.core.neighbours.advertisements import SAMPLED
from router.core.neighbours.directory import JOIN, RELAY, STORE, Neighbour, Standing
from router.core.routing.admission import Admission
from router.core.routing.delivery import Delivery
from router.core.routing.effects import Reconcile
from router.core.routing.kernel import Kernel
from router.core.routing.purges import Purges
from router.core.routing.route_changes import end_route
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

from .departure import Departure
from .linked import LinkedServices
from .logged_rights import grants_of, log_rights
from .membership import Membership
from .terms_said import TermsSaid
from .upstream import Upstream

NEW_TERMS = "its operator has changed who this node is there; sign on again"


class Revocation:
    """Decides what a new configuration of neighbours ends."""

    def __init__(
        self,
        kernel: Kernel,
        membership: Membership,
        upstream: Upstream,
        linked: LinkedServices,
        terms: TermsSaid,
        departure: Departure,
        delivery: Delivery,
        admission: Admission,
        purges: Purges,
    ) -> None:
        self._kernel = kernel
        self._directory = kernel.directory
        self._links = kernel.links
        self._groups = kernel.groups
        self._queues = kernel.queues
        self._routes = kernel.routes
        self._pending = kernel.pending
        self._membership = membership
        self._upstream = upstream
        self._linked = linked
        self._terms = terms
        self._delivery = delivery
        self._admission = admission
        self._departure = departure
        self._purges = purges

    def change(self, act: Callable[[], None], now: Now) -> None:
        """Let `act` change the neighbours, and apply the consequences for the keys whose entry has changed.

        Recipients among these keys that are owed something and not connected are dialled: they may have an address now.
        """
        before = self._directory.neighbours
        act()
        after = self._directory.neighbours
        self._pending.effects.append(Reconcile(tuple(after.values())))
        for key in {**before, **after}:
            old, new = before.get(key), after.get(key)
            if old != new:
                lost = grants_of(old) - grants_of(new)
                if _terms(old) != _terms(new):
                    log_rights(self._kernel, key, lost, now)
                if (link := self._links.to(key)) is not None:
                    self._terms.changed(link, now)
                self._look_at_link(key, JOIN in grants_of(new) - grants_of(old), now)
                self._end(key, lost, now)
                if self._links.to(key) is None:
                    self._delivery.dial_if_owed(key)

    def recovered(self, fleeting: Collection[bytes], now: Now) -> None:
        """End, at a start, everything of the `fleeting` (throwaway) keys, and everything that others have no right to
        any more."""
        for key in dict.fromkeys([*(one.subscriber for one in self._groups), *self._queues.by_recipient]):
            if key in fleeting:
                self._departure.gone(key, now)
            else:
                self._end(key, frozenset(), now)
                if key in self._directory.uplinks and self._membership.is_in_any(key):  # and is owed nothing by that
                    log_rights(self._kernel, key, frozenset(), now)

    def went_away(self, key: bytes, now: Now) -> None:
        """End everything that a key has here only while it is connected."""
        self._end(key, frozenset(), now)

    def met(self, keys: Iterable[bytes], now: Now) -> None:
        """Apply the changes in the agreements with these routers.

        Messages that wait for a connected one still go to it."""
        self._directory.count_met()
        for key in keys:
            self._look_at_link(key, False, now)
            self._membership.revoke(key, now, drains=True)
            self._upstream.agreed(key, now)
            if not self._directory.is_known(key) and self._links.to(key) is None:
                self._departure.gone(key, now)

    def _look_at_link(self, key: bytes, may_join_now: bool, now: Now) -> None:
        """Give an open link its new standing, or close it if its key must sign on again.

        It must if it has become a stranger's, or may join only now, because a router sends its JOINs when the link
        comes up."""
        link = self._links.to(key)
        if link is None:
            return
        standing = self._directory.standing(key, link.owner)
        if standing is None:
            self._admission.close(link, Reason.NOT_AUTHORISED, "", "revoked", now)
        elif (standing is Standing.STRANGER and link.standing is not standing) or (
            may_join_now and standing is not Standing.LOCAL
        ):
            self._admission.close(link, Reason.SHUTDOWN, NEW_TERMS, "revoked", now)
        else:
            was_uplink, was = link.uplink, link.standing
            link.admit(standing, self._directory)
            if link.standing is not was:
                self._admission.measure(link)
            if link.uplink and not was_uplink:
                self._linked.link_up(link, now)
                self._upstream.link_up(link, now)
            elif was_uplink and not link.uplink:
                self._upstream.uplink_ends(link, now)

    def _end(self, key: bytes, lost: frozenset[str], now: Now) -> None:
        """End everything that the key has here without the right to it. `lost`: the rights that it had until now."""
        directory, link = self._directory, self._links.to(key)
        if not directory.is_known(key) and link is None:
            self._departure.gone(key, now)
            self._routes_end(key, now)
            return
        queue_ends = STORE in lost or not directory.keeps_queue(key)
        if not directory.may_join(key, link.standing if link is not None else None):
            kept = directory.may_store(key) or key in directory.agreements.lan
            queue_ends |= self._membership.revoke(key, now) and not kept
        if queue_ends and link is None:
            self._purges.queue_ends(key, None)
        if RELAY in lost:
            self._routes_end(key, now)

    def _routes_end(self, neighbour: bytes, now: Now) -> None:
        for route in self._routes.through(neighbour):
            end_route(self._routes, self._pending, route, now)


def _terms(one: Neighbour | None) -> tuple[frozenset[str], bool, bool] | None:
    """Return the part of a neighbour's configuration that is logged; for an advertised one, the event `advert` has
    it."""
    return None if one is None or one.learned == SAMPLED else (one.grants, one.uplink, one.blocked)
