"""The shape of the fleet: its nodes, their roles, and the links between them, by name."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

NODES_MIN, NODES_MAX = 2, 9
_EDGES = "abcdefgh"


class FleetLink(NamedTuple):
    """A link that `dialler` opens to the core `core`."""

    dialler: str
    core: str

    def __str__(self) -> str:
        return f"{self.dialler}>{self.core}"


class FleetShape(NamedTuple):
    """Cores, edges, and the core of each edge. An app runs at each node, and all apps talk in one group."""

    cores: tuple[str, ...]
    core_of: dict[str, str]

    @property
    def nodes(self) -> tuple[str, ...]:
        return *self.cores, *self.core_of

    @property
    def apart(self) -> str:
        """Return the core whose pub/sub service runs in a process of its own, which can be killed alone."""
        return self.cores[-1]

    @property
    def links(self) -> tuple[FleetLink, ...]:
        """Return the links that can be cut: one for each edge, and one for each pair of cores, which the later core
        dials."""
        between = [FleetLink(later, earlier) for earlier, later in combinations(self.cores, 2)]
        return *between, *(FleetLink(edge, core) for edge, core in self.core_of.items())

    def path(self, one: str, other: str) -> frozenset[str]:
        """Return the nodes that a message passes from one node to another, both included."""
        return frozenset((one, other, self.core_of.get(one, one), self.core_of.get(other, other)))


def fleet_shape(nodes: int) -> FleetShape:
    """Return the shape of a fleet of `nodes` nodes (`NODES_MIN` to `NODES_MAX`): two cores from four nodes on, else
    one; the edges belong to them by turns."""
    cores = ("core-1", "core-2") if nodes >= 4 else ("core-1",)
    edges = [f"edge-{letter}" for letter in _EDGES[: nodes - len(cores)]]
    return FleetShape(cores, {edge: cores[at % len(cores)] for at, edge in enumerate(edges)})
