"""The operator's orders to a running node, which the message router takes in like other events."""

from __future__ import annotations

from dataclasses import dataclass

from router.core.routing.directory import Neighbour


@dataclass(frozen=True, slots=True)
class ClearQueue:
    """Drop a recipient's queue."""

    recipient: bytes


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """Replace the neighbours by those of the configuration, which was read again."""

    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True, slots=True)
class ClockConfirmed:
    """Believe this machine's clock, which the operator says is right."""
