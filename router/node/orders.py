"""What the operator orders a running node to do; heard by the message router like everything else."""

from __future__ import annotations

from dataclasses import dataclass

from router.core.routing.directory import Neighbour


@dataclass(frozen=True, slots=True)
class ClearQueue:
    """Drop a recipient's queue."""

    recipient: bytes


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """The configuration of neighbours was read again: all of them, as they are now."""

    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True, slots=True)
class ClockConfirmed:
    """This machine's clock is right."""
