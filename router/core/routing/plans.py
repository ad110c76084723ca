"""The two algorithms of the specification, which decide to whom a message is owed (sections "Unicast routing",
"Multicast routing").

Signatures, duplicates and expiry are judged elsewhere; plans decide recipients only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from router.core.neighbours.directory import UNKNOWN, Directory, Standing
from router.core.wire.message import MULTICAST
from router.core.wire.reasons import NOT_SHARED, Reason

from .groups import Groups
from .intake import Head
from .links import Link
from .routes import Routes


class ForUs:
    """The plan of a unicast that is addressed to this router itself."""


class Introduces:
    """The plan of a unicast to the client that brought it: its signer is reached through that client. Nobody is owed
    it."""


FOR_US: Final = ForUs()
INTRODUCES: Final = Introduces()
Plan = tuple[bytes, ...] | Reason | ForUs | Introduces
PlanKey = tuple[int, bytes, bytes | None, bytes | None, int]
"""Kind, signer, destination, VIA, and the number of the link that brought the message: everything on which a plan
depends."""
PLANS_MAX = 10_000


def plan_key(head: Head, link: int) -> PlanKey:
    return head.kind, head.signer, head.destination, head.via, link


class Routing:
    """Decides the recipients of a message, a reason for refusing it, `FOR_US` or `INTRODUCES`; stateless.

    `connected(key)` returns the standing of a key's open link, `advertised_by(service)` the router that names this
    service as its own; each may return None. `is_app(key)`: whether its open link is an app's.
    """

    def __init__(
        self,
        directory: Directory,
        groups: Groups,
        routes: Routes,
        connected: Callable[[bytes], Standing | None],
        advertised_by: Callable[[bytes], bytes | None],
        is_app: Callable[[bytes], bool],
    ) -> None:
        self._directory = directory
        self._groups = groups
        self._routes = routes
        self._connected = connected
        self._advertised_by = advertised_by
        self._is_app = is_app

    def plan(
        self,
        kind: int,
        signer: bytes,
        destination: bytes | None,
        via: bytes | None,
        neighbour: bytes,
        standing: Standing,
        now_s: int,
    ) -> Plan:
        """Return the plan for a message that `neighbour` brought."""
        if self._directory.is_shut_out(neighbour, standing):
            return Reason.NOT_AUTHORISED
        if kind == MULTICAST:
            return self.multicast(signer, via, neighbour, standing)
        assert destination is not None
        return self.unicast(signer, destination, via, neighbour, standing, now_s)

    # -- unicast: steps 2 to 4 of the unicast routing algorithm -----------------------------------------------

    def unicast(
        self, source: bytes, destination: bytes, via: bytes | None, neighbour: bytes, standing: Standing, now_s: int
    ) -> Plan:
        """Return to whom a unicast of a source to a destination goes, or the reason why it is not taken."""
        directory = self._directory
        from_local = standing is Standing.LOCAL
        if directory.successors:
            ends = self._of_today(source, destination, neighbour, now_s)
            if isinstance(ends, Reason):
                return ends
            source, destination = ends
        if from_local and source != neighbour:
            return Reason.NOT_LOCAL_SOURCE
        if not from_local and (source == directory.me or self.is_local(source)):
            return Reason.NOT_LOCAL_SOURCE  # a replay (R-C3)
        if destination == directory.me:  # 3.1
            return FOR_US
        if directory.is_blocked(destination):
            return Reason.BLOCKED if standing not in UNKNOWN else Reason.NOT_AUTHORISED
        if self.is_local(destination):  # 3.2
            return (destination,) if directory.may_reach(destination, standing) else Reason.NOT_AUTHORISED
        served = self._served(destination, now_s)
        may_relay = from_local or directory.may_relay(neighbour)
        if served is not None and standing not in UNKNOWN:  # a client of ours, or behind one (R-C11)
            if served != neighbour:
                return (served,)
            return INTRODUCES if destination == neighbour != source else Reason.NO_ROUTE
        if not may_relay:  # 3.3: only for local sources
            return Reason.NOT_AUTHORISED if standing in UNKNOWN else Reason.NO_ROUTE
        if via is not None and from_local:  # 3.3.1
            return self._through(via)
        return self._next_hops(destination, neighbour, now_s) or Reason.NO_ROUTE  # 3.3.2, 4

    def _of_today(
        self, source: bytes, destination: bytes, neighbour: bytes, now_s: int
    ) -> tuple[bytes, bytes] | Reason:
        """Return source and destination, for each renewed key the one that has its place; a reason if its time is over,
        or if another neighbour than its successor brings what it has signed."""
        successors = self._directory.successors
        if source in successors and not successors.speaks_for(neighbour, source, now_s):
            return Reason.RENEWED
        reader = successors.reader_of(destination, now_s) if destination in successors else destination
        return Reason.RENEWED if reader is None else (successors.newest(source), reader)

    def is_local(self, key: bytes) -> bool:
        return key in self._directory.locals or self._connected(key) is Standing.LOCAL

    def _served(self, destination: bytes, now_s: int) -> bytes | None:
        """Return the client that `destination` is, or from which it was learned; None if there is none.

        The client needs the right to relay and, while it is away, the right to a queue."""
        directory, neighbour = self._directory, destination
        if not directory.may_relay(neighbour):
            neighbour = self._routes.neighbour_of(destination, now_s) or b""
        has_queue = directory.may_store(neighbour) or self._connected(neighbour) is not None
        return neighbour if directory.may_relay(neighbour) and has_queue else None

    def _through(self, via: bytes) -> Plan:
        """Return the plan for a router that a local service names as VIA."""
        if self._directory.is_blocked(via):
            return Reason.BLOCKED
        return (via,) if self._is_neighbour(via) else Reason.NO_ROUTE

    def _is_neighbour(self, key: bytes) -> bool:
        return self._directory.may_be_next(key, self._connected(key))

    def _leads_on(self, key: bytes) -> bool:
        """Whether a route through `key` may be used: not if the key has become a stranger's."""
        return self._directory.rank(key) > 0 and self._is_neighbour(key)

    def _next_hops(self, destination: bytes, neighbour: bytes, now_s: int) -> tuple[bytes, ...]:
        """Return the next hop, and where that is an uplink that is away, the first other one that is connected too.

        Whether the uplink comes back, and whether the other way leads to the destination, is not known; a message that
        comes twice is known by its id. Another router than an uplink may be away for being idle: it is dialled."""
        if self._is_neighbour(destination):
            return (destination,)
        ways = list(self._ways(destination, neighbour, now_s))
        if ways and ways[0] in self._directory.uplinks and self._connected(ways[0]) is None:
            return (ways[0], *[one for one in ways if self._connected(one) is not None][:1])
        return tuple(ways[:1])

    def _ways(self, destination: bytes, neighbour: bytes, now_s: int) -> Iterator[bytes]:
        learned = self._routes.neighbour_of(destination, now_s)
        if learned is not None and learned != neighbour and self._leads_on(learned):
            yield learned
        uplinks = [one for one in self._directory.uplinks if one != neighbour]
        yield from [one for one in uplinks if self._connected(one) is not None] or uplinks
        named_by = self._advertised_by(destination)  # a hint, which displaces nothing (R-C2, R-D24)
        if named_by is not None and named_by != neighbour and self._is_neighbour(named_by):
            yield named_by

    # -- multicast: steps 2, 3 and 8 of the multicast routing algorithm ----------------------------------------

    def multicast(self, group: bytes, via: bytes | None, neighbour: bytes, standing: Standing) -> Plan:
        """Return to whom a multicast in a group goes, or the reason why it is not taken."""
        directory = self._directory
        if not directory.may_bring(neighbour, standing, group):
            return NOT_SHARED if standing is Standing.MET else Reason.NOT_AUTHORISED
        if directory.is_node_local(group) and standing is not Standing.LOCAL:
            return Reason.NOT_LOCAL_SOURCE  # a replay
        if via is not None and standing is Standing.LOCAL:  # 2, local sources alone (R-C6)
            return self._through(via)
        uplinks = directory.uplinks
        published_here = directory.may_publish(neighbour, standing) and neighbour not in uplinks
        if published_here and standing is not Standing.LOCAL and self._is_service_to_join(group):
            return NOT_SHARED  # in a moment: other nodes would never hear of it otherwise
        recipients = [
            one
            for one in self._groups.members(group)  # 3, 8
            if one != neighbour
            and one not in uplinks
            and self._waits_for(one, group)
            and (published_here or not directory.is_lan(one, group))  # R-C25
        ]
        is_kept_here = published_here and self._is_kept_here(group, neighbour)
        is_of_ours = published_here and standing in (Standing.LOCAL, Standing.CLIENT)
        if is_of_ours and not is_kept_here and self._is_fanned_out(group, neighbour, recipients):
            recipients = self._fanned_out(group, neighbour, standing)
        if published_here and not is_kept_here:
            recipients += [one for one in uplinks if one != neighbour]  # R-C23
        if published_here and len(recipients) > 1 and self._is_told(group, neighbour):
            recipients = [one for one in recipients if one != self._groups.told_ids(group)]
        if not recipients and group == neighbour and group in directory.services:
            return FOR_US  # this router is in the group of each of its services, and hears it there
        return tuple(recipients) if recipients else Reason.NO_SUBSCRIBERS

    def not_kept(self, group: bytes, neighbour: bytes) -> tuple[bytes, ...]:
        """Return the subscribers that get nothing of a multicast because they are away and have no right `store`."""
        directory = self._directory
        return tuple(
            one
            for one in self._groups.members(group)
            if one != neighbour
            and one not in directory.uplinks
            and directory.may_join(one, None)
            and not self._waits_for(one, group)
        )

    def _is_service_to_join(self, group: bytes) -> bool:
        """Whether the pub/sub service is connected, and about to join a group that has just become wanted (R-C27)."""
        service = self._groups.awaited(group)
        return service is not None and self._connected(service) is Standing.LOCAL

    def unread_text(self, group: bytes, publisher: bytes, standing: Standing) -> str:
        """Return why the pub/sub service does not take a message that has no subscribers: the bound, as a sentence;
        empty if that is not asked."""
        is_asked = standing in (Standing.LOCAL, Standing.CLIENT) and self._is_fanned_out(group, publisher, [])
        counted = self._directory.counted_as(publisher, standing)
        return self._groups.fanned.bound(group, counted, standing is not Standing.LOCAL) if is_asked else ""

    def _fanned_out(self, group: bytes, publisher: bytes, standing: Standing) -> list[bytes]:
        """Return the pub/sub service if it takes the message, else nobody."""
        counted = self._directory.counted_as(publisher, standing)
        takes = self._groups.may_fan_out(group, counted, standing is not Standing.LOCAL)
        return [one for one in (self._groups.fanning,) if one is not None and takes]

    def _is_fanned_out(self, group: bytes, publisher: bytes, recipients: list[bytes]) -> bool:
        """Whether a message that nobody else here is owed goes to the pub/sub service, as no uplink is there to take
        it."""
        fanning = self._groups.fanning
        if fanning is None or publisher == fanning or group in self._directory.services:
            return False
        if any(one != fanning for one in recipients):
            return False
        return all(self._connected(one) is None for one in self._directory.uplinks if one != publisher)

    def _is_told(self, group: bytes, publisher: bytes) -> bool:
        """Whether the pub/sub service is told the ids of what this app publishes, in place of the messages."""
        service = self._groups.told_ids(group)
        return service is not None and self._connected(service) is Standing.LOCAL and self._is_app(publisher)

    def _is_kept_here(self, group: bytes, publisher: bytes) -> bool:
        """Whether the message stays on this node (R-C14).

        It does if its apps, or the publisher itself, have local subscriptions and there are no others. In the group of
        each service's own key this router is such a subscriber, by configuration."""
        if group in self._directory.services:
            return self._directory.is_node_local(group) or not self._groups.is_wanted(group)
        return self._groups.is_local_only(group, lambda one: one == publisher or self.is_local(one))

    def _waits_for(self, subscriber: bytes, group: bytes) -> bool:
        """Whether a message is owed to a subscriber: it may join groups, and is connected or has the right `store`.

        A LAN neighbour's messages are kept while it is away (R-C25)."""
        if self._directory.is_lan(subscriber, group):
            return True
        standing = self._connected(subscriber)
        may_wait = standing is not None or self._directory.may_store(subscriber)
        return may_wait and self._directory.may_join(subscriber, standing)


class Plans:
    """A cache of plans, cleared when anything they depend on changes, or when it holds `PLANS_MAX`."""

    def __init__(self, routing: Routing, revision: Callable[[], object]) -> None:
        self._routing = routing
        self._revision = revision
        self._made_at = revision()
        self._plans: dict[PlanKey, Plan] = {}
        self._not_kept: dict[tuple[bytes, bytes], tuple[bytes, ...]] = {}

    def current(self) -> Mapping[PlanKey, Plan]:
        """Return the plans that are still valid: what is decided about one message may change those of the next."""
        if (revision := self._revision()) != self._made_at:
            self._plans, self._not_kept, self._made_at = {}, {}, revision
        return self._plans

    def stays_here(self, plan: Plan) -> bool:
        """Whether the plan involves no other router."""
        return isinstance(plan, ForUs) or (isinstance(plan, tuple) and all(map(self._routing.is_local, plan)))

    def of(self, which: PlanKey, link: Link, wall_s: int) -> Plan:
        plan = self.current().get(which)
        if plan is None:
            kind, signer, destination, via, _ = which
            plan = self._routing.plan(kind, signer, destination, via, link.key, link.standing, wall_s)
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            self._plans[which] = plan
        return plan

    def refusal_text(self, reason: Reason, which: PlanKey, link: Link) -> str:
        """Return what is to be said of a message whose plan is this reason, beyond its sentence."""
        kind, group, *_ = which
        if reason is not Reason.NO_SUBSCRIBERS or kind != MULTICAST:
            return ""
        return self._routing.unread_text(group, link.key, link.standing)

    def not_kept(self, which: PlanKey, link: Link) -> tuple[bytes, ...]:
        """Return the subscribers that get nothing of a message because nothing is kept for them while away."""
        kind, group, _, via, _ = which
        if kind != MULTICAST or (via is not None and link.standing is Standing.LOCAL):
            return ()
        self.current()
        found = self._not_kept.get((group, link.key))
        if found is None:
            if len(self._not_kept) >= PLANS_MAX:
                self._not_kept.clear()
            found = self._not_kept[group, link.key] = self._routing.not_kept(group, link.key)
        return found
