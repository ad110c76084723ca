"""The section [limits] of `router.toml`: what connections, senders, strangers and tables may take."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from router.settings.config_units import DAY_S, GIB, HOUR_S, KIB, MIB, span


# fmt: off
class Limits(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What connections, senders and tables may take. Beyond it the newcomer is refused."""

    frame_bytes_max: Annotated[int, span(4 * KIB, 64 * MIB,
        "Largest frame; a longer one is refused at its first bytes, too-large.")] = MIB + 4 * KIB
    hello_s: Annotated[float, span(0.1, 600, "Handshake and hello must be done by then, or we close.")] = 10.0
    frame_s: Annotated[float, span(1, HOUR_S,
        "The rest of a frame that has begun is waited for so long, then we close.")] = 300.0
    window_messages: Annotated[int, span(1, 1_000_000,
        "Messages a neighbour may have unsettled with us; more closes the link, window-exceeded.")] = 4096
    window_bytes: Annotated[int, span(4 * KIB, GIB,
        "The same in bytes; one message of any allowed size always fits.")] = 8 * MIB
    in_flight_bytes_max: Annotated[int, span(MIB, 64 * GIB,
        "Bytes received and not yet settled, on all links; reading pauses while it is taken.")] = 64 * MIB
    connections_max: Annotated[int, span(1, 1_000_000,
        "Open connections; a further one is closed. Half of them are for keys that this node knows.")] = 10_000
    handshakes_max_per_prefix: Annotated[int, span(1, 100_000,
        "Handshakes under way from one address prefix; a further one waits, or is closed.")] = 64
    handshakes_per_s_per_prefix: Annotated[float, span(0, 100_000,
        "Handshakes a second from one address prefix, after as many as may be under way; the next waits for its turn; "
        "0: no limit.")] = 20.0
    handshakes_per_s: Annotated[float, span(0, 100_000,
        "Handshakes a second in all, after those of two seconds; the next waits for its turn; 0: no limit.")] = 100.0
    handshake_spared_s: Annotated[float, span(0.1, 600,
        "A handshake for which another one waits is cut after this long.")] = 2.0
    groups_per_client_max: Annotated[int, span(1, 1_000_000,
        "Groups one subscriber may join; a further JOIN fails.")] = 1000
    groups_max: Annotated[int, span(1, 10_000_000,
        "Groups with subscribers on this node; a JOIN of a further one fails.")] = 100_000
    local_services_max: Annotated[int, span(1, 1_000_000,
        "Local keys recorded from the owner's socket; a further kept key is refused, not-authorised.")] = 1000
    lifetime_s_max: Annotated[int, span(60, 366 * DAY_S,
        "A message whose expiry lies further ahead is refused, expiry-too-far.")] = 7 * DAY_S
    ttl_s_max: Annotated[int, span(0, 366 * DAY_S, "A longer ttl counts as this.")] = 7 * DAY_S
    strangers_lifetime_s_max: Annotated[int, span(60, 366 * DAY_S,
        "The same for what strangers bring.")] = 2 * DAY_S
    seen_index_max: Annotated[int, span(1000, 10**10,
        "Ids known on disk, kept past their expiry. From half of its share on, a bringer gets shorter lifetimes, and a "
        "longer one is refused index-full.")] = 10_000_000
    strangers_index_percent: Annotated[int, span(0, 40,
        "Share of these ids that all strangers together may fill.")] = 5
    apps_index_percent: Annotated[int, span(1, 50,
        "Share of these ids that no client or peer may fill: it is kept for apps of this node.")] = 20
    neighbour_index_percent: Annotated[int, span(1, 100,
        "Share of the rest that one client or peer may fill; of several, each as much of what is still free.")] = 50
    seen_recent_max: Annotated[int, span(0, 10**9,
        "Of these the newest are in memory too; beyond it the disk is asked.")] = 200_000
    route_hold_s: Annotated[int, span(0, DAY_S,
        "A learned route yields to another once its neighbour has been down so long.")] = 60
    routes_max: Annotated[int, span(1, 10**8,
        "Learned routes; a further one is not learned, but for a client's a peer's is forgotten.")] = 100_000
    routes_per_neighbour_max: Annotated[int, span(1, 10**8, "The same through one neighbour.")] = 10_000
    routes_neighbour_percent: Annotated[int, span(1, 100,
        "Share of all routes that may lead through one neighbour; of several, each as much as is still free.")] = 50
    pulls_per_s: Annotated[float, span(0.1, 10**5, "PULLs answered for one neighbour, no more.")] = 10.0
    link_items_per_s: Annotated[float, span(1, 100_000,
        "Pings, pongs and unreadable messages taken from a neighbour, five times as many at once; more closes the "
        "link.")] = 10.0
    messages_per_s_neighbour: Annotated[int, span(0, 10_000_000,
        "Messages taken from one neighbour, then rate-limited; 0: no limit.")] = 0
    messages_per_s_source: Annotated[int, span(0, 10_000_000,
        "Messages taken from one source or group, then rate-limited; 0: no limit.")] = 0
    messages_per_s_stranger: Annotated[int, span(0, 10_000_000,
        "Messages read from one stranger; what is faster waits unread; 0: no limit.")] = 50
    messages_per_s_strangers: Annotated[int, span(0, 10_000_000,
        "Messages read from all strangers together; what is faster waits unread; 0: no limit.")] = 250
    bad_signatures_max: Annotated[int, span(0, 1_000_000,
        "False signatures taken in a minute on one link; more closes it, bad-signature, and shuts its key out.",
        )] = 64
    strangers_bad_signatures_max: Annotated[int, span(0, 1_000_000,
        "False signatures for a stranger; all strangers of its address prefix are shut out with it.")] = 8
    bad_signatures_barred_s: Annotated[float, span(0, DAY_S,
        "How long a key or prefix is shut out for false signatures.")] = 60.0
    strangers_connections_max: Annotated[int, span(0, 1_000_000,
        "Connections of all strangers together; for a further one the longest silent is closed.")] = 64
    strangers_idle_s: Annotated[float, span(1, 7 * DAY_S,
        "A stranger without messages for so long is closed; pings do not count.")] = 60.0
    strangers_spared_s: Annotated[float, span(0, DAY_S,
        "One that was silent for less gives way to no other; the further one is closed.")] = 10.0
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
