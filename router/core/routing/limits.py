"""Every limit of the deciding core: each part takes its own from here, the configuration takes its defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

DAY_S = 86_400
MIB, GIB = 1 << 20, 1 << 30

LOG_KEEP_S = 7 * DAY_S  # of an edge node; the budgets of the door's log are shares of this log
LOG_KEEP_BYTES = 64 * MIB
REFUSED_PERCENT = 25
REFUSED_STRANGERS_PERCENT = 5


@dataclass(frozen=True, slots=True)
class AcceptanceLimits:
    """The longest ttl that counts, in seconds; a source's rate in messages a second, 0 for none."""

    ttl_s_max: int = 7 * DAY_S
    source_messages_per_s: int = 0
    sources_metered_max: int = 10_000


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Messages a second of one neighbour, one stranger, all strangers (0: no limit); false signatures a minute on one
    link, and how long its key is shut out then; strangers' links, how long one may be silent, and how long it must have
    been before another takes its place."""

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


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    """Back-off after a refusal that says *later*, and how many streams of one queue may each have their own, beyond
    which the whole queue backs off."""

    retry_s_min: float = 1.0
    retry_s_max: float = 300.0
    streams_held_max: int = 1024
    in_flight_recheck_s: int = 30


@dataclass(frozen=True, slots=True)
class DoorLimits:
    """Bytes of log in any `keep_s` seconds for what is turned away from apps, from known neighbours and from strangers,
    for the links of the latter two, and for what any of them joins and leaves. `ids_max`: ids that one sum names; of
    all strangers together an eighth."""

    ids_max: int = 256
    apps_bytes_max: int = LOG_KEEP_BYTES * REFUSED_PERCENT // 200
    known_bytes_max: int = LOG_KEEP_BYTES * REFUSED_PERCENT // 200
    strangers_bytes_max: int = LOG_KEEP_BYTES * REFUSED_STRANGERS_PERCENT // 100
    keep_s: float = LOG_KEEP_S

    @classmethod
    def shares(cls, ids_max: int, keep_bytes: int, keep_s: float, percent: int, strangers_percent: int) -> DoorLimits:
        """`percent` of a log of `keep_bytes` for apps and known neighbours, half for each."""
        half = keep_bytes * percent // 200
        return cls(ids_max, half, half, keep_bytes * strangers_percent // 100, keep_s)


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """Ids, and the longest life of a message in seconds; shares of the ids in percent.

    `neighbour_percent` is the most that one client or peer gets of what strangers and apps leave to all of them, and it
    gets that while no other has anything there; see `fair_room`.
    """

    entries_max: int = 10_000_000
    lifetime_s_max: int = 7 * DAY_S
    strangers_lifetime_s_max: int = 2 * DAY_S
    strangers_percent: int = 5
    apps_percent: int = 20
    neighbour_percent: int = 50


@dataclass(frozen=True, slots=True)
class MembershipLimits:
    """Groups of one subscriber, and of all together; a JOIN of a further one fails."""

    groups_per_client_max: int = 1000
    groups_max: int = 100_000


@dataclass(frozen=True, slots=True)
class OutcomeLimits:
    """How many parcels are followed to their end for their publishers, and whether local ones hear names or numbers;
    how many recipients, with how many groups and reasons each, are remembered as having missed something."""

    watched_max: int = 10_000
    named: bool = True
    missed_max: int = 10_000
    missed_kinds_max: int = 64


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """In messages and bytes; `share_percent` of a recipient's queue is the most that one group, source or
    neighbour holds, but for a message that alone is more: it fits an empty share. `strangers_percent` of what the node
    holds is the most for all strangers together. `neighbour_node_percent` is the most that one client or peer gets of
    it, and it gets that while nobody else has anything there (`core/routing/duplicate_index.py`, `fair_room`)."""

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

    def told(self) -> tuple[tuple[str, int], ...]:
        """As the log tells them: a recipient's queue, of which one group, source or neighbour may fill a share."""
        return (
            ("queue_messages_max", self.recipient_messages_max), ("queue_bytes_max", self.recipient_bytes_max),
            ("group_percent", self.share_percent), ("node_messages_max", self.node_messages_max),
            ("node_bytes_max", self.node_bytes_max),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RouteLimits:
    """Learned routes in all and of one neighbour; `neighbour_percent` is the most that one neighbour gets, and it gets
    that while no other has any (`duplicate_index.fair_room`). A neighbour that has been down for `hold_s` seconds
    yields."""

    routes_max: int = 100_000
    per_neighbour_max: int = 10_000
    neighbour_percent: int = 50
    hold_s: int = 60


@dataclass(frozen=True, slots=True)
class Limits:
    """By the parts that keep them, and those of the router itself."""

    acceptance: AcceptanceLimits = field(default_factory=AcceptanceLimits)
    admission: AdmissionLimits = field(default_factory=AdmissionLimits)
    delivery: DeliveryLimits = field(default_factory=DeliveryLimits)
    door: DoorLimits = field(default_factory=DoorLimits)
    index: IndexLimits = field(default_factory=IndexLimits)
    membership: MembershipLimits = field(default_factory=MembershipLimits)
    outcomes: OutcomeLimits = field(default_factory=OutcomeLimits)
    queues: QueueLimits = field(default_factory=QueueLimits)
    routes: RouteLimits = field(default_factory=RouteLimits)
    seen_recent_max: int = 200_000
    locals_max: int = 1000
    away_s_max: int = 30 * DAY_S
    pulls_per_s: float = 10.0
