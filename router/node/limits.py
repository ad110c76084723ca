"""The limits of the node's parts, made from what the configuration says."""

from __future__ import annotations

import os

from router.disk.log.eventlog import Limits as LogLimits
from router.disk.store.terms import StoreLimits
from router.node.connection import ConnectionLimits
from router.node.dialler import DialLimits
from router.node.housekeeping import HousekeepingLimits
from router.node.message_router import CycleLimits
from router.node.wall_clock import ClockLimits
from router.settings.config import Config
from router.settings.config_limits import Limits
from router.transport.handshakes import HandshakeLimits
from router.transport.pace import PaceLimits

UNKNOWN_MORE = 64  # connections of unknown keys that come or go, besides those of strangers


def strangers_max(limits: Limits) -> int:
    """Half of the connections are for keys that are known."""
    return min(limits.strangers_connections_max, limits.connections_max // 2)


def unknown_max(limits: Limits) -> int:
    """Those that are let in, those that give way to them, and those that are being told that they are not."""
    return min(UNKNOWN_MORE + strangers_max(limits), max(1, limits.connections_max * 3 // 4))


def in_flight_bytes(limits: Limits) -> tuple[int, int]:
    """Of all links, and of that of strangers."""
    return limits.in_flight_bytes_max, limits.in_flight_bytes_max * limits.strangers_in_flight_percent // 100


def handshake_limits(limits: Limits) -> HandshakeLimits:
    return HandshakeLimits(
        limits.handshakes_max_per_prefix, limits.handshakes_per_s_per_prefix, limits.handshakes_per_s, limits.hello_s,
        limits.handshake_spared_s,
    )  # fmt: skip


def pace_limits(limits: Limits) -> PaceLimits:
    return PaceLimits(
        limits.messages_per_s_stranger, limits.messages_per_s_strangers, limits.strangers_bytes_per_s
    )  # fmt: skip


def store_limits(config: Config) -> StoreLimits:
    store, queues = config.store, config.queues
    return StoreLimits(
        synced=store.durability == "synced", map_bytes_initial=store.map_bytes_initial,
        map_bytes_max=store.map_bytes_max, keep_s=queues.keep_s, keep_bytes_max=queues.keep_bytes_max,
    )  # fmt: skip


def commit_bytes_max(config: Config) -> int:
    """A small store is filled in small steps, so that what fits is not refused with what does not."""
    store = config.store
    return min(store.commit_bytes_max, store.map_bytes_max // 16 or store.commit_bytes_max)


def connection_limits(config: Config, *, is_known: bool) -> ConnectionLimits:
    limits = config.limits
    hello_s = limits.hello_s if is_known else limits.strangers_hello_s
    return ConnectionLimits(hello_s, limits.frame_s, limits.link_items_per_s, config.link.goodbye_s)


def cycle_limits(config: Config) -> CycleLimits:
    return CycleLimits(config.store.commit_messages_max, commit_bytes_max(config), config.link.goodbye_s)


def housekeeping_limits(config: Config) -> HousekeepingLimits:
    return HousekeepingLimits(config.store.disk_free_bytes_min, config.link.idle_close_s, config.link.ping_s)


def clock_limits(config: Config) -> ClockLimits:
    limits = config.limits
    ahead_s_max = max(limits.clock_step_s_max, limits.lifetime_s_max)
    return ClockLimits(limits.clock_step_s_max, ahead_s_max, limits.clock_offset_s_max)


def log_limits(config: Config) -> LogLimits:
    return LogLimits(config.log.segment_bytes, config.log.segment_s)


def dial_limits(config: Config) -> DialLimits:
    link = config.link
    return DialLimits(link.dial_timeout_s, link.dial_backoff_s_min, link.dial_backoff_s_max, link.dials_max)


def verifiers(config: Config) -> int:
    """One process per core where there is more than one; the loop itself takes what they leave."""
    if config.verify.verifiers >= 0:
        return config.verify.verifiers
    cores = len(os.sched_getaffinity(0))
    return cores if cores > 1 else 0
