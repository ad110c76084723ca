"""The reasons for which discovery refuses input: numbers of its range, besides those that the router gives too."""

from __future__ import annotations

from router.core.wire.reasons import ADVERT_ADDRESS, ADVERT_STALE, DIAL_BUDGET, Reason

__all__ = ["ADVERT_ADDRESS", "ADVERT_STALE", "DIAL_BUDGET", "LAN_FLOOD", "LAN_FULL", "LAN_OFF_LINK"]

LAN_OFF_LINK = Reason.declare(202, "lan:off-link", "The datagram came from beyond the network that it arrived by.")
LAN_FLOOD = Reason.declare(203, "lan:flood", "Too many datagrams in too short a time.", later=True)
LAN_FULL = Reason.declare(
    205, "lan:full", "All places for routers nearby are taken, and this one has never connected.", later=True
)
