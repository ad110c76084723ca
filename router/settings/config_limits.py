"""The section [limits] of `router.toml`: bounds for connections, senders, strangers and tables."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from router.core.link.liveness import LivenessLimits
from router.core.link.table import LinkLimits
from router.core.routing.limits import CoreLimits
from router.core.wire.codec import FRAME_BYTES_MAX
from router.settings.config_units import DAY_S, GIB, HOUR_S, KIB, MIB, span
from router.transport.limits import CONNECTIONS_MAX, HandshakeLimits

CORE, LINK, LIVENESS, HANDSHAKES = CoreLimits(), LinkLimits(), LivenessLimits(), HandshakeLimits()


# fmt: off
class Limits(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds for connections, senders and tables; beyond them the newcomer is refused."""

    frame_bytes_max: Annotated[int, span(4 * KIB, 64 * MIB,
        "The largest frame. A longer one is refused with reason too-large as soon as its length is read.",
        )] = FRAME_BYTES_MAX
    hello_s: Annotated[float, span(0.1, 600,
        "How long handshake, hello and proof may each take; then the connection is closed.")] = LINK.hello_s
    frame_s: Annotated[float, span(1, HOUR_S,
        "How long to wait for the rest of a frame that has begun; then the connection is closed.")] = LINK.frame_s
    window_messages: Annotated[int, span(1, 1_000_000,
        "The most messages that a neighbour may have sent here and not yet seen settled. One more closes the link with "
        "reason window-exceeded.")] = 4096
    window_bytes: Annotated[int, span(4 * KIB, GIB,
        "The most bytes of messages that a neighbour may have sent here and not yet seen settled. One message of any "
        "allowed size always fits.")] = 8 * MIB
    in_flight_bytes_max: Annotated[int, span(MIB, 64 * GIB,
        "The most bytes received and not yet settled, over all links. While they are used up, nothing more is read.",
        )] = 64 * MIB
    connections_max: Annotated[int, span(1, 1_000_000,
        "The most open connections; a further one is closed. Half of them are reserved for keys that this node knows.",
        )] = CONNECTIONS_MAX
    handshakes_max_per_prefix: Annotated[int, span(1, 100_000,
        "The most handshakes under way from one address prefix, or of one user of this machine; a further one waits or "
        "is closed.",
        )] = HANDSHAKES.max_per_prefix
    handshakes_per_s_per_prefix: Annotated[float, span(0, 100_000,
        "Handshakes begun in a second from one address prefix; more wait. At first as many may begin at once as "
        "handshakes_max_per_prefix allows. 0: no limit.")] = HANDSHAKES.per_s_per_prefix
    handshakes_per_s: Annotated[float, span(0, 100_000,
        "Handshakes begun in a second from all addresses; more wait. At first those of two seconds may begin at once. "
        "0: no limit.",
        )] = HANDSHAKES.per_s
    handshake_spared_s: Annotated[float, span(0.1, 600,
        "How long a handshake may take while others from its address prefix wait; then it is cut.",
        )] = HANDSHAKES.spared_s
    groups_per_client_max: Annotated[int, span(1, 1_000_000,
        "The most groups that one subscriber may join; a further JOIN fails.")] = CORE.membership.groups_per_client_max
    groups_max: Annotated[int, span(1, 10_000_000,
        "The most groups with subscribers on this node; a JOIN of a further one fails.")] = CORE.membership.groups_max
    local_services_max: Annotated[int, span(1, 1_000_000,
        "The most keys recorded of apps and services at the owner's socket; a further kept key is refused with reason "
        "not-authorised.",
        )] = CORE.admission.locals_max
    lifetime_s_max: Annotated[int, span(60, 366 * DAY_S,
        "The longest time until a message expires; one that expires later is refused with reason expiry-too-far.",
        )] = CORE.index.lifetime_s_max
    ttl_s_max: Annotated[int, span(0, 366 * DAY_S, "The longest ttl; a longer one counts as this.",
        )] = CORE.acceptance.ttl_s_max
    strangers_lifetime_s_max: Annotated[int, span(60, 366 * DAY_S,
        "The longest time until a message from a stranger expires; one that expires later is refused with reason "
        "expiry-too-far.")] = CORE.index.strangers_lifetime_s_max
    seen_index_max: Annotated[int, span(1000, 10**10,
        "The most ids of accepted messages kept on disk, by which duplicates are known. A neighbour that fills more "
        "than half of its share may only bring messages of shorter lifetimes; others are refused with reason "
        "index-full.")] = CORE.index.entries_max
    strangers_index_percent: Annotated[int, span(0, 40,
        "Share of seen_index_max that all strangers together may fill.")] = CORE.index.strangers_percent
    apps_index_percent: Annotated[int, span(1, 50,
        "Share of seen_index_max reserved for apps of this node.",
        )] = CORE.index.apps_percent
    neighbour_index_percent: Annotated[int, span(1, 100,
        "Share of the rest of seen_index_max that one client or peer may fill. Where there are several, it is the "
        "share of what the others leave free.",
        )] = CORE.index.neighbour_percent
    seen_recent_max: Annotated[int, span(0, 10**9,
        "The most ids that are kept in memory as well, the newest, 16 bytes each; older ones are looked up on disk.",
        )] = CORE.seen_recent_max
    route_hold_s: Annotated[int, span(0, DAY_S,
        "How long a neighbour must be down before a route through it may be replaced by another.")] = CORE.routes.hold_s
    routes_max: Annotated[int, span(1, 10**8,
        "The most learned routes. A further one is not learned, except that a client's takes the place of a peer's.",
        )] = CORE.routes.routes_max
    routes_per_neighbour_max: Annotated[int, span(1, 10**8,
        "The most learned routes through one neighbour; a further one is not learned.")] = CORE.routes.per_neighbour_max
    routes_neighbour_percent: Annotated[int, span(1, 100,
        "Share of routes_max that may lead through one neighbour. Where there are several, it is the share of what the "
        "others leave free.",
        )] = CORE.routes.neighbour_percent
    learned_max: Annotated[int, span(1, 100_000,
        "Neighbours that services of this node make known, and advertisements heard of them; a further neighbour is "
        "refused, and the advertisement heard least lately gives way.")] = CORE.learned_max
    guests_max: Annotated[int, span(0, 100_000,
        "Neighbours up to which an invitation lets in another one; beyond it a guest is refused with reason "
        "invite:no-room.")] = CORE.guests_max
    introductions_max: Annotated[int, span(0, 100_000,
        "Apps kept here whose addresses the uplinks are told, so that they can be reached before they have written; 0: "
        "none.")] = CORE.introductions_max
    pulls_per_s: Annotated[float, span(0.1, 10**5,
        "PULLs answered in a second for one app of another node; more wait.")] = CORE.pulls.per_s
    pulls_routers_per_s: Annotated[float, span(0.1, 10**5,
        "PULLs answered in a second for one app of this node, one client or peer, or a router with which the group is "
        "agreed; more wait.",
        )] = CORE.pulls.routers_per_s
    pulls_bytes_per_s: Annotated[float, span(1024, 10**10,
        "Bytes of messages read in a second to answer PULLs of one app of another node. One message may exceed it; "
        "further ones wait until that is made up for.",
        )] = CORE.pulls.bytes_per_s
    pulls_routers_bytes_per_s: Annotated[float, span(1024, 10**10,
        "The same for one client or peer, or a router with which the group is agreed. Apps and services of this node "
        "have no such limit.",
        )] = CORE.pulls.routers_bytes_per_s
    pulls_unknown_bytes_per_s: Annotated[float, span(1024, 10**10,
        "The same for all routers together that the operator does not know, but with which groups are agreed.",
        )] = CORE.pulls.unknown_bytes_per_s
    pulls_asked_per_s: Annotated[float, span(0.1, 10**5,
        "PULLs that this router sends for one service or app of its own; a further one is not sent.",
        )] = CORE.pulls.asked_per_s
    link_items_per_s: Annotated[float, span(1, 100_000,
        "Pings, pongs and unreadable messages taken in a second from one neighbour; five times as many may come at "
        "once, more closes the link.")] = LINK.link_items_per_s
    messages_per_s_neighbour: Annotated[int, span(0, 10_000_000,
        "Messages taken in a second from one neighbour; more are refused with reason rate-limited. 0: no limit.",
        )] = CORE.admission.messages_per_s_neighbour
    messages_per_s_source: Annotated[int, span(0, 10_000_000,
        "Messages taken in a second from one source or group; more are refused with reason rate-limited. 0: no limit.",
        )] = CORE.acceptance.source_messages_per_s
    messages_per_s_stranger: Annotated[int, span(0, 10_000_000,
        "Messages read in a second from one stranger; more wait unread. 0: no limit.",
        )] = CORE.admission.messages_per_s_stranger
    messages_per_s_strangers: Annotated[int, span(0, 10_000_000,
        "Messages read in a second from all strangers together; more wait unread. 0: no limit.",
        )] = CORE.admission.messages_per_s_strangers
    bad_signatures_max: Annotated[int, span(0, 1_000_000,
        "The most false signatures in a minute on one link. One more closes it with reason bad-signature and shuts its "
        "key out.",
        )] = CORE.admission.bad_signatures_max
    strangers_bad_signatures_max: Annotated[int, span(0, 1_000_000,
        "The most false signatures in a minute on a stranger's link. One more closes it and shuts out all strangers of "
        "its address prefix, or of its user of this machine.",
        )] = CORE.admission.strangers_bad_signatures_max
    bad_signatures_barred_s: Annotated[float, span(0, DAY_S,
        "How long a key or prefix is shut out for false signatures.")] = CORE.admission.bad_signatures_barred_s
    strangers_connections_max: Annotated[int, span(0, 1_000_000,
        "The most connections of all strangers together; for a further one, the one that was silent longest is closed.",
        )] = CORE.admission.strangers_connections_max
    strangers_idle_s: Annotated[float, span(1, 7 * DAY_S,
        "How long a stranger's connection stays open without a message; pings do not count.",
        )] = CORE.admission.strangers_idle_s
    strangers_spared_s: Annotated[float, span(0, DAY_S,
        "A stranger that was silent for less time than this is not closed to make room; the further connection is "
        "closed instead.",
        )] = CORE.admission.strangers_spared_s
    strangers_hello_s: Annotated[float, span(0.1, 600,
        "How long after its handshake the hello of a key that this node does not know may take.")] = 3.0
    strangers_in_flight_percent: Annotated[int, span(1, 100,
        "Share of in_flight_bytes_max that all strangers together may use.")] = 25
    strangers_frame_bytes_max: Annotated[int, span(4 * KIB, 64 * MIB,
        "The largest frame of a stranger; never more than frame_bytes_max.")] = 64 * KIB
    strangers_bytes_per_s: Annotated[int, span(0, GIB,
        "Bytes read in a second from all strangers together; more wait unread. 0: no limit.")] = MIB
    strangers_window_messages: Annotated[int, span(1, 1_000_000,
        "The most messages that a stranger may have sent here and not yet seen settled.")] = 64
    strangers_window_bytes: Annotated[int, span(4 * KIB, GIB,
        "The most bytes of messages that a stranger may have sent here and not yet seen settled.")] = MIB
    clock_step_s_max: Annotated[int, span(60, 366 * DAY_S,
        "The longest jump ahead of this machine's clock that is believed. After a longer one nothing expires until a "
        "neighbour or the operator confirms the clock.",
        )] = HOUR_S
    clock_offset_s_max: Annotated[int, span(1, 366 * DAY_S,
        "The largest difference from the clocks of most neighbours that is believed. Beyond it nothing expires until "
        "this machine's clock is set or confirmed.",
        )] = 600
# fmt: on
