"""Every limit of the deciding core: each part reads its own here, and the configuration reads its defaults here."""

from __future__ import annotations

from msgspec import Struct, field

DAY_S = 86_400
MIB, GIB = 1 << 20, 1 << 30

LOG_KEEP_S = 7 * DAY_S  # on an edge node; the rejection log's budgets are shares of this log
LOG_KEEP_BYTES = 64 * MIB
REFUSED_PERCENT = 25
REFUSED_STRANGERS_PERCENT = 5


class AcceptanceLimits(Struct, frozen=True):
    """Limits of acceptance: the greatest ttl in seconds, and a source's rate in messages a second (0: no limit).

    `copy_s_max`: seconds that a copy sent on by a local service waits for a router known by meetings (R-C29)."""

    ttl_s_max: int = 7 * DAY_S
    copy_s_max: int = 60
    source_messages_per_s: int = 0
    sources_metered_max: int = 10_000


class AdmissionLimits(Struct, frozen=True):
    """Limits of links: messages a second of a neighbour, a stranger, all strangers (0: no limit), false signatures.

    `bad_signatures_max` false signatures a minute on one link bar its key for `bad_signatures_barred_s`. A stranger's
    link is closed after `strangers_idle_s` of silence, and may be displaced after `strangers_spared_s`; the link of a
    router known by meetings that shares no group is closed after `met_idle_s`, the `met_kept_max` heard last only after
    `met_kept_s`: a few routers that ask each other now and then need no new link each time. At most
    `met_per_prefix_max` such routers of one public address prefix have a link. `locals_max`: keys recorded as local."""

    messages_per_s_neighbour: int = 0
    messages_per_s_stranger: int = 50
    messages_per_s_strangers: int = 250
    bad_signatures_max: int = 64
    strangers_bad_signatures_max: int = 8
    bad_signatures_barred_s: float = 60.0
    barred_max: int = 10_000
    strangers_connections_max: int = 64
    strangers_idle_s: float = 60.0
    strangers_spared_s: float = 10.0
    met_idle_s: float = 30.0
    met_kept_s: float = 600.0
    met_kept_max: int = 16
    met_per_prefix_max: int = 8
    locals_max: int = 1000


class DeliveryLimits(Struct, frozen=True):
    """Limits of the back-off after a refusal that says *later*.

    At most `streams_held_max` streams of one queue back off separately; beyond that the whole queue backs off."""

    retry_s_min: float = 1.0
    retry_s_max: float = 300.0
    streams_held_max: int = 1024
    in_flight_recheck_s: int = 30


class RejectionLimits(Struct, frozen=True):
    """Budgets of the rejection log, in bytes of log in any `keep_s` seconds, for apps, known neighbours and strangers.

    Each pays for messages turned away and for joins and leaves, and the latter two for their links. `ids_max`: ids
    named by the sums of one neighbour; the sums of all strangers together name an eighth as many."""

    ids_max: int = 256
    apps_bytes_max: int = LOG_KEEP_BYTES * REFUSED_PERCENT // 200
    known_bytes_max: int = LOG_KEEP_BYTES * REFUSED_PERCENT // 200
    strangers_bytes_max: int = LOG_KEEP_BYTES * REFUSED_STRANGERS_PERCENT // 100
    keep_s: float = LOG_KEEP_S

    @classmethod
    def shares(
        cls, ids_max: int, keep_bytes: int, keep_s: float, percent: int, strangers_percent: int
    ) -> RejectionLimits:
        """Return the budgets for a log of `keep_bytes`: apps and known neighbours get half of `percent` each."""
        half = keep_bytes * percent // 200
        return cls(ids_max, half, half, keep_bytes * strangers_percent // 100, keep_s)


class IndexLimits(Struct, frozen=True):
    """Limits of the duplicate index: ids, the longest life of a message in seconds, and shares of the ids in percent.

    `neighbour_percent` is the share of one client or peer in what strangers and apps leave, while no other client or
    peer has any; see `fair_room`. `strangers_percent` is the share of all strangers together, and of one router that
    was met.
    """

    entries_max: int = 10_000_000
    lifetime_s_max: int = 7 * DAY_S
    strangers_lifetime_s_max: int = 2 * DAY_S
    strangers_percent: int = 5
    apps_percent: int = 20
    neighbour_percent: int = 50


class MembershipLimits(Struct, frozen=True):
    """Most groups of one subscriber, and of all together; a JOIN of a further one fails."""

    groups_per_client_max: int = 1000
    groups_max: int = 100_000


class OutcomeLimits(Struct, frozen=True):
    """Limits of outcomes: parcels followed for their publishers, and recipients remembered as having missed something.

    `named`: local publishers get the recipients' keys, else only counts. `missed_kinds_max`: pairs of group and reason
    remembered for each recipient."""

    watched_max: int = 10_000
    named: bool = True
    missed_max: int = 10_000
    missed_kinds_max: int = 64


class PullLimits(Struct, frozen=True):
    """Limits of PULLs, asked and answered.

    Asked, for each service or app that names missing messages: in a second, and open at a time; a PULL is open until
    its message has come, for `open_s` at most (R-C18, R-C30). `history_open_max`: messages asked for as history that
    have not come yet; beyond it the oldest is treated like any other message.

    Answered in a second, and the bytes read for it: for one app of another node; `routers_…` for a client, a peer, or a
    router with which the group is agreed; `unknown_bytes_per_s` for all keys together that the operator does not know.
    The same message is not carried to the same neighbour within `again_s`. Apps and services of this node have the
    number of a router, and no limit of bytes or repetition."""

    per_s: float = 10.0
    routers_per_s: float = 2000.0
    bytes_per_s: float = 1.0 * MIB
    routers_bytes_per_s: float = 8.0 * MIB
    unknown_bytes_per_s: float = 16.0 * MIB
    again_s: float = 5.0
    asked_per_s: float = 2000.0
    open_max: int = 256
    open_of_app_max: int = 16
    open_s: float = 10.0
    history_open_max: int = 4096


class QueueLimits(Struct, frozen=True):
    """Limits of queues, in messages and bytes.

    One group, source or neighbour holds at most `share_percent` of a recipient's queue, except that a larger single
    message fits an empty share. All strangers together hold at most `strangers_percent` of the node's store.
    `neighbour_node_percent` is the share of one client or peer in it while nobody else has anything there
    (`core/routing/duplicate_index.py`, `fair_room`). `met_percent`: the share, in a recipient's queue and in the node's
    store, of one router known by meetings (R-C24)."""

    recipient_messages_max: int = 1_000_000
    recipient_bytes_max: int = GIB
    group_messages_max: int = 5_000_000
    group_bytes_max: int = 8 * GIB
    neighbour_messages_max: int = 5_000_000
    neighbour_bytes_max: int = 8 * GIB
    node_messages_max: int = 10_000_000
    node_bytes_max: int = 16 * GIB
    share_percent: int = 25
    strangers_percent: int = 1
    neighbour_node_percent: int = 50
    met_percent: int = 5

    def told(self) -> tuple[tuple[str, int], ...]:
        """Return the limits as logged: of a recipient's queue, of one group, source or neighbour in it and in all of
        them, of the node, and of who is not configured."""
        return (
            ("queue_messages_max", self.recipient_messages_max),
            ("queue_bytes_max", self.recipient_bytes_max),
            ("group_percent", self.share_percent),
            ("group_messages_max", self.group_messages_max),
            ("group_bytes_max", self.group_bytes_max),
            ("neighbour_messages_max", self.neighbour_messages_max),
            ("neighbour_bytes_max", self.neighbour_bytes_max),
            ("node_messages_max", self.node_messages_max),
            ("node_bytes_max", self.node_bytes_max),
            ("met_percent", self.met_percent),
            ("strangers_percent", self.strangers_percent),
        )


class RouteLimits(Struct, frozen=True):
    """Limits of learned routes, in all and through one neighbour.

    `neighbour_percent` is the share of one neighbour while no other has any (`duplicate_index.fair_room`). A route
    through a neighbour that has been down for `hold_s` seconds may be replaced."""

    routes_max: int = 100_000
    per_neighbour_max: int = 10_000
    neighbour_percent: int = 50
    hold_s: int = 60


class CoreLimits(Struct, frozen=True):
    """All limits, grouped by the part that enforces them, and those of the router itself."""

    acceptance: AcceptanceLimits = field(default_factory=AcceptanceLimits)
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    delivery: DeliveryLimits = field(default_factory=DeliveryLimits)
    rejections: RejectionLimits = field(default_factory=RejectionLimits)
    index: IndexLimits = field(default_factory=IndexLimits)
    membership: MembershipLimits = field(default_factory=MembershipLimits)
    outcomes: OutcomeLimits = field(default_factory=OutcomeLimits)
    queues: QueueLimits = field(default_factory=QueueLimits)
    routes: RouteLimits = field(default_factory=RouteLimits)
    seen_recent_max: int = 65_536
    away_s_max: int = 30 * DAY_S
    lan_keep_s: int = DAY_S
    clock_moves_s_max: int = 600
    learned_max: int = 1000
    guests_max: int = 1000
    introductions_max: int = 1000
    pulls: PullLimits = field(default_factory=PullLimits)

    def told(self) -> tuple[tuple[str, int], ...]:
        """Return the limits as logged: those of queues, the greatest ttl, by how many seconds the clock may jump
        without an event, how many messages may be open as history, which tells that such requests are logged, and how
        many groups one subscriber may join, which tells that whoever is logged to join is logged to leave."""
        return (
            *self.queues.told(),
            ("ttl_s_max", self.acceptance.ttl_s_max),
            ("clock_moves_s_max", self.clock_moves_s_max),
            ("history_open_max", self.pulls.history_open_max),
            ("groups_per_client_max", self.membership.groups_per_client_max),
        )
