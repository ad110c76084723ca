"""The roles of services for their router: a folder declares its own as `ROLE`, and one service at most has each."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What the router expects of a service and tells it, whatever its name is."""

    OVERLAY = "overlay"
    """It carries the messages of groups from node to node (R-C27)."""
    FINDER = "discovery"
    """It finds other routers, and announces their advertisements in the group of its own key (R-C26)."""

    @property
    def advertised_as(self) -> str:
        """Return the name of a service with this role in the advertisement of its router."""
        return "pubsub" if self is Role.OVERLAY else "discovery"
