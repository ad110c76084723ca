"""The section [limits] of `router.toml`: bounds for connections, senders, strangers and tables."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from router.core.link.table import LinkLimits
from router.core.routing.limits import Limits as CoreLimits
from router.core.wire.codec import FRAME_BYTES_MAX
from router.settings.config_units import DAY_S, GIB, HOUR_S, KIB, MIB, span
from router.transport.limits import CONNECTIONS_MAX, HandshakeLimits

CORE, LINK, HANDSHAKES = CoreLimits(), LinkLimits(), HandshakeLimits()


# fmt: off
class Limits(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds for connections, senders and tables; beyond them the newcomer is refused."""

    frame_bytes_max: Annotated[int, span(4 * KIB, 64 * MIB,
        "Largest frame; a longer one is refused at its first bytes, too-large.")] = FRAME_BYTES_MAX
    hello_s: Annotated[float, span(0.1, 600,
        "Handshake, hello and proof may each take so long, or we close.")] = LINK.hello_s
    frame_s: Annotated[float, span(1, HOUR_S,
        "The rest of a frame that has begun is waited for so long, then we close.")] = LINK.frame_s
    window_messages: Annotated[int, span(1, 1_000_000,
        "Messages a neighbour may have unsettled with us; more closes the link, window-exceeded.")] = 4096
    window_bytes: Annotated[int, span(4 * KIB, GIB,
        "The same in bytes; one message of any allowed size always fits.")] = 8 * MIB
    in_flight_bytes_max: Annotated[int, span(MIB, 64 * GIB,
        "Bytes received and not yet settled, on all links; reading pauses while it is taken.")] = 64 * MIB
    connections_max: Annotated[int, span(1, 1_000_000,
        "Open connections; a further one is closed. Half of them are for keys that this node knows.")] = CONNECTIONS_MAX
    handshakes_max_per_prefix: Annotated[int, span(1, 100_000,
        "Handshakes under way from one address prefix; a further one waits, or is closed.")] = HANDSHAKES.max_per_prefix
    handshakes_per_s_per_prefix: Annotated[float, span(0, 100_000,
        "Handshakes a second from one address prefix, after as many as may be under way; the next waits for its turn; "
        "0: no limit.")] = HANDSHAKES.per_s_per_prefix
    handshakes_per_s: Annotated[float, span(0, 100_000,
        "Handshakes a second in all, after those of two seconds; the next waits for its turn; 0: no limit.",
        )] = HANDSHAKES.per_s
    handshake_spared_s: Annotated[float, span(0.1, 600,
        "A handshake for which another one waits is cut after this long.")] = HANDSHAKES.spared_s
    groups_per_client_max: Annotated[int, span(1, 1_000_000,
        "Groups one subscriber may join; a further JOIN fails.")] = CORE.membership.groups_per_client_max
    groups_max: Annotated[int, span(1, 10_000_000,
        "Groups with subscribers on this node; a JOIN of a further one fails.")] = CORE.membership.groups_max
    local_services_max: Annotated[int, span(1, 1_000_000,
        "Local keys recorded from the owner's socket; a further kept key is refused, not-authorised.",
        )] = CORE.admission.locals_max
    lifetime_s_max: Annotated[int, span(60, 366 * DAY_S,
        "A message whose expiry lies further ahead is refused, expiry-too-far.")] = CORE.index.lifetime_s_max
    ttl_s_max: Annotated[int, span(0, 366 * DAY_S, "A longer ttl counts as this.")] = CORE.acceptance.ttl_s_max
    strangers_lifetime_s_max: Annotated[int, span(60, 366 * DAY_S,
        "The same for what strangers bring.")] = CORE.index.strangers_lifetime_s_max
    seen_index_max: Annotated[int, span(1000, 10**10,
        "Ids known on disk, kept past their expiry. From half of its share on, a bringer gets shorter lifetimes, and a "
        "longer one is refused index-full.")] = CORE.index.entries_max
    strangers_index_percent: Annotated[int, span(0, 40,
        "Share of these ids that all strangers together may fill.")] = CORE.index.strangers_percent
    apps_index_percent: Annotated[int, span(1, 50,
        "Share of these ids that no client or peer may fill: it is kept for apps of this node.",
        )] = CORE.index.apps_percent
    neighbour_index_percent: Annotated[int, span(1, 100,
        "Share of the rest that one client or peer may fill; of several, each as much of what is still free.",
        )] = CORE.index.neighbour_percent
    seen_recent_max: Annotated[int, span(0, 10**9,
        "Of these the newest are in memory too; beyond it the disk is asked.")] = CORE.seen_recent_max
    route_hold_s: Annotated[int, span(0, DAY_S,
        "A learned route yields to another once its neighbour has been down so long.")] = CORE.routes.hold_s
    routes_max: Annotated[int, span(1, 10**8,
        "Learned routes; a further one is not learned, but for a client's a peer's is forgotten.",
        )] = CORE.routes.routes_max
    routes_per_neighbour_max: Annotated[int, span(1, 10**8,
        "The same through one neighbour.")] = CORE.routes.per_neighbour_max
    routes_neighbour_percent: Annotated[int, span(1, 100,
        "Share of all routes that may lead through one neighbour; of several, each as much as is still free.",
        )] = CORE.routes.neighbour_percent
    pulls_per_s: Annotated[float, span(0.1, 10**5,
        "PULLs answered for one neighbour, no more.")] = CORE.admission.pulls_per_s
    link_items_per_s: Annotated[float, span(1, 100_000,
        "Pings, pongs and unreadable messages taken from a neighbour, five times as many at once; more closes the "
        "link.")] = LINK.link_items_per_s
    messages_per_s_neighbour: Annotated[int, span(0, 10_000_000,
        "Messages taken from one neighbour, then rate-limited; 0: no limit.")] = CORE.admission.messages_per_s_neighbour
    messages_per_s_source: Annotated[int, span(0, 10_000_000,
        "Messages taken from one source or group, then rate-limited; 0: no limit.",
        )] = CORE.acceptance.source_messages_per_s
    messages_per_s_stranger: Annotated[int, span(0, 10_000_000,
        "Messages read from one stranger; what is faster waits unread; 0: no limit.",
        )] = CORE.admission.messages_per_s_stranger
    messages_per_s_strangers: Annotated[int, span(0, 10_000_000,
        "Messages read from all strangers together; what is faster waits unread; 0: no limit.",
        )] = CORE.admission.messages_per_s_strangers
    bad_signatures_max: Annotated[int, span(0, 1_000_000,
        "False signatures taken in a minute on one link; more closes it, bad-signature, and shuts its key out.",
        )] = CORE.admission.bad_signatures_max
    strangers_bad_signatures_max: Annotated[int, span(0, 1_000_000,
        "False signatures for a stranger; all strangers of its address prefix are shut out with it.",
        )] = CORE.admission.strangers_bad_signatures_max
    bad_signatures_barred_s: Annotated[float, span(0, DAY_S,
        "How long a key or prefix is shut out for false signatures.")] = CORE.admission.bad_signatures_barred_s
    strangers_connections_max: Annotated[int, span(0, 1_000_000,
        "Connections of all strangers together; for a further one the longest silent is closed.",
        )] = CORE.admission.strangers_connections_max
    strangers_idle_s: Annotated[float, span(1, 7 * DAY_S,
        "A stranger without messages for so long is closed; pings do not count.")] = CORE.admission.strangers_idle_s
    strangers_spared_s: Annotated[float, span(0, DAY_S,
        "One that was silent for less gives way to no other; the further one is closed.",
        )] = CORE.admission.strangers_spared_s
    strangers_hello_s: Annotated[float, span(0.1, 600,
        "The hello of a key that this node does not know must come so soon after its handshake.")] = 3.0
    strangers_in_flight_percent: Annotated[int, span(1, 100,
        "Share of in_flight_bytes_max that all strangers together may take.")] = 25
    strangers_frame_bytes_max: Annotated[int, span(4 * KIB, 64 * MIB,
        "A stranger's largest frame; never more than frame_bytes_max.")] = 64 * KIB
    strangers_bytes_per_s: Annotated[int, span(0, GIB,
        "Bytes read from all strangers together; what is faster waits unread; 0: no limit.")] = MIB
    strangers_window_messages: Annotated[int, span(1, 1_000_000, "A stranger's window, in messages.")] = 64
    strangers_window_bytes: Annotated[int, span(4 * KIB, GIB, "A stranger's window, in bytes.")] = MIB
    clock_step_s_max: Annotated[int, span(60, 366 * DAY_S,
        "A clock that jumps further ahead expires nothing until a neighbour or the operator confirms it.",
        )] = HOUR_S
    clock_offset_s_max: Annotated[int, span(1, 366 * DAY_S,
        "A clock that is further from those of most neighbours expires nothing, until it is set or confirmed.",
        )] = 600
# fmt: on
