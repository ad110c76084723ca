"""The limits of the node's parts, made from the configuration."""

from __future__ import annotations

import os

from router.core.link.liveness import LivenessLimits
from router.core.link.table import LinkLimits
from router.core.routing.limits import (
    AcceptanceLimits,
    AdmissionLimits,
    CoreLimits,
    DeliveryLimits,
    IndexLimits,
    MembershipLimits,
    OutcomeLimits,
    PullLimits,
    QueueLimits,
    RejectionLimits,
    RouteLimits,
)
from router.disk.limits import LogLimits, StoreLimits
from router.node.cycle import CycleLimits
from router.node.housekeeping import HousekeepingLimits
from router.node.wall_clock import ClockLimits
from router.settings.config import Config
from router.settings.config_limits import Limits
from router.transport.limits import HandshakeLimits
from router.transport.pace import PaceLimits

UNKNOWN_MORE = 64  # connections of unknown keys that come or go, besides those of strangers


def strangers_max(limits: Limits) -> int:
    """Return the most connections of strangers: half of all connections are for known keys."""
    return min(limits.strangers_connections_max, limits.connections_max // 2)


def unknown_max(limits: Limits) -> int:
    """Return the most connections of unknown keys: strangers that are let in, and some more that are being closed or
    refused."""
    return min(UNKNOWN_MORE + strangers_max(limits), max(1, limits.connections_max * 3 // 4))


def in_flight_bytes(limits: Limits) -> tuple[int, int]:
    """Return the most bytes in flight of all links, and of strangers' links."""
    return limits.in_flight_bytes_max, limits.in_flight_bytes_max * limits.strangers_in_flight_percent // 100


def handshake_limits(limits: Limits) -> HandshakeLimits:
    return HandshakeLimits(
        max_per_prefix=limits.handshakes_max_per_prefix,
        per_s_per_prefix=limits.handshakes_per_s_per_prefix,
        per_s=limits.handshakes_per_s,
        timeout_s=limits.hello_s,
        spared_s=limits.handshake_spared_s,
    )


def pace_limits(limits: Limits) -> PaceLimits:
    return PaceLimits(
        messages_per_s=limits.messages_per_s_stranger,
        all_messages_per_s=limits.messages_per_s_strangers,
        all_bytes_per_s=limits.strangers_bytes_per_s,
    )


def store_limits(config: Config) -> StoreLimits:
    store, queues = config.store, config.queues
    return StoreLimits(
        synced=store.durability == "synced",
        map_bytes_initial=store.map_bytes_initial,
        map_bytes_max=store.map_bytes_max,
        keep_s=queues.keep_s,
        keep_bytes_max=queues.keep_bytes_max,
        history_s=queues.history_s,
        history_bytes_max=queues.history_bytes_max,
    )


def core_limits(config: Config) -> CoreLimits:
    """Return the deciding core's limits, from the configuration's names."""
    limits, queues, link, log = config.limits, config.queues, config.link, config.log
    return CoreLimits(
        acceptance=AcceptanceLimits(
            ttl_s_max=limits.ttl_s_max,
            source_messages_per_s=limits.messages_per_s_source,
        ),
        admission=AdmissionLimits(
            messages_per_s_neighbour=limits.messages_per_s_neighbour,
            messages_per_s_stranger=limits.messages_per_s_stranger,
            messages_per_s_strangers=limits.messages_per_s_strangers,
            bad_signatures_max=limits.bad_signatures_max,
            strangers_bad_signatures_max=limits.strangers_bad_signatures_max,
            bad_signatures_barred_s=limits.bad_signatures_barred_s,
            strangers_connections_max=strangers_max(limits),
            strangers_idle_s=limits.strangers_idle_s,
            strangers_spared_s=limits.strangers_spared_s,
            locals_max=limits.local_services_max,
        ),
        delivery=DeliveryLimits(
            retry_s_min=link.retry_backoff_s_min,
            retry_s_max=link.retry_backoff_s_max,
        ),
        rejections=RejectionLimits.shares(
            ids_max=log.refused_ids_per_s,
            keep_bytes=log.keep_bytes,
            keep_s=log.keep_s,
            percent=log.refused_percent,
            strangers_percent=log.strangers_percent,
        ),
        index=IndexLimits(
            entries_max=limits.seen_index_max,
            lifetime_s_max=limits.lifetime_s_max,
            strangers_lifetime_s_max=limits.strangers_lifetime_s_max,
            strangers_percent=limits.strangers_index_percent,
            apps_percent=limits.apps_index_percent,
            neighbour_percent=limits.neighbour_index_percent,
        ),
        outcomes=OutcomeLimits(named=config.log.outcomes == "names"),
        membership=MembershipLimits(groups_per_client_max=limits.groups_per_client_max, groups_max=limits.groups_max),
        queues=QueueLimits(
            recipient_messages_max=queues.recipient_messages_max,
            recipient_bytes_max=queues.recipient_bytes_max,
            group_messages_max=queues.group_messages_max,
            group_bytes_max=queues.group_bytes_max,
            neighbour_messages_max=queues.neighbour_messages_max,
            neighbour_bytes_max=queues.neighbour_bytes_max,
            node_messages_max=queues.node_messages_max,
            node_bytes_max=queues.node_bytes_max,
            share_percent=queues.share_percent,
            strangers_percent=queues.strangers_percent,
            neighbour_node_percent=queues.neighbour_node_percent,
            met_percent=queues.met_percent,
        ),
        routes=RouteLimits(
            routes_max=limits.routes_max,
            per_neighbour_max=limits.routes_per_neighbour_max,
            neighbour_percent=limits.routes_neighbour_percent,
            hold_s=limits.route_hold_s,
        ),
        seen_recent_max=limits.seen_recent_max,
        away_s_max=queues.away_s_max,
        lan_keep_s=queues.lan_keep_s,
        clock_moves_s_max=min(limits.clock_step_s_max, limits.clock_offset_s_max),
        learned_max=limits.learned_max,
        guests_max=limits.guests_max,
        introductions_max=limits.introductions_max,
        pulls=PullLimits(
            per_s=limits.pulls_per_s,
            routers_per_s=limits.pulls_routers_per_s,
            bytes_per_s=limits.pulls_bytes_per_s,
            routers_bytes_per_s=limits.pulls_routers_bytes_per_s,
            unknown_bytes_per_s=limits.pulls_unknown_bytes_per_s,
            asked_per_s=limits.pulls_asked_per_s,
        ),
    )


def commit_bytes_max(config: Config) -> int:
    """Return the most bytes of a commit; fewer for a small store, so that messages that fit are not refused with those
    that do not."""
    store = config.store
    return min(store.commit_bytes_max, store.map_bytes_max // 16 or store.commit_bytes_max)


def link_limits(config: Config, *, is_known: bool) -> LinkLimits:
    limits = config.limits
    hello_s = limits.hello_s if is_known else limits.strangers_hello_s
    return LinkLimits(
        hello_s=hello_s,
        goodbye_s=config.link.goodbye_s,
        frame_s=limits.frame_s,
        link_items_per_s=limits.link_items_per_s,
    )


def cycle_limits(config: Config) -> CycleLimits:
    return CycleLimits(
        messages_max=config.store.commit_messages_max, bytes_max=commit_bytes_max(config), drain_s=config.link.goodbye_s
    )


def housekeeping_limits(config: Config) -> HousekeepingLimits:
    return HousekeepingLimits(
        disk_free_bytes_min=config.store.disk_free_bytes_min,
        idle_close_s=config.link.idle_close_s,
        liveness=LivenessLimits(
            ping_s=config.link.ping_s, owed_ping_s=config.link.owed_ping_s, unacked_s=config.link.unacked_s
        ),
    )


def clock_limits(config: Config) -> ClockLimits:
    limits = config.limits
    ahead_s_max = max(limits.clock_step_s_max, limits.lifetime_s_max)
    return ClockLimits(
        step_s_max=limits.clock_step_s_max, ahead_s_max=ahead_s_max, offset_s_max=limits.clock_offset_s_max
    )


def log_limits(config: Config) -> LogLimits:
    log = config.log
    return LogLimits(segment_bytes=log.segment_bytes, segment_s=log.segment_s, compress_after_s=log.compress_after_s)


def verifiers(config: Config) -> int:
    """Return the configured number of verifier processes; by default one per core, none on a single core."""
    if config.verify.verifiers >= 0:
        return config.verify.verifiers
    cores = len(os.sched_getaffinity(0))
    return cores if cores > 1 else 0
