"""Who a neighbour is to this node and what it may do (link layer, "Who may do what"; R-B4, R-C10, R-C11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

JOIN, STORE, RELAY, WHY = "join", "store", "relay", "why"
OF_CLIENTS = frozenset((JOIN, STORE, RELAY))
"""Who has one of these is a client; to ask `why` makes nobody one."""
STRANGERS = bytes(32)  # no key: what strangers bring is charged to all of them together


class Standing(Enum):
    """Fixed when the link comes up."""

    LOCAL = "local"  # a service or app of this node
    CLIENT = "client"  # an edge node we serve, with rights of its own
    PEER = "peer"  # another router, configured or invited
    STRANGER = "stranger"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What the configuration says of a key."""

    key: bytes
    name: str = ""
    grants: frozenset[str] = frozenset()
    uplink: bool = False
    blocked: bool = False
    urls: tuple[str, ...] = ()


@dataclass(slots=True)
class Directory:
    """All keys this node knows by configuration, and the local ones it has recorded."""

    me: bytes
    accept_strangers: bool = False
    join_open: bool = False
    neighbours: dict[bytes, Neighbour] = field(default_factory=dict)
    locals: set[bytes] = field(default_factory=set)
    configured_locals: frozenset[bytes] = frozenset()
    public: frozenset[bytes] = frozenset()
    revision: int = 0

    def replace_neighbours(self, neighbours: Iterable[Neighbour]) -> None:
        self.neighbours = {one.key: one for one in neighbours}
        self.revision += 1

    def record_local(self, key: bytes) -> bool:
        """A key proven on the owner-only socket that asked to be kept. Whether it is new."""
        if key in self.locals:
            return False
        self.locals.add(key)
        self.revision += 1
        return True

    def forget_local(self, key: bytes) -> bool:
        """A recorded key lapses; one that the configuration names stays. Whether it went."""
        if key not in self.locals or key in self.configured_locals:
            return False
        self.locals.discard(key)
        self.revision += 1
        return True

    def standing(self, key: bytes, owner: bool) -> Standing | None:
        """The standing of a key that has been proven; `owner`: on the owner-only socket. None: not let in."""
        known = self.neighbours.get(key)
        if self.is_blocked(key):
            return None
        if key in self.locals or owner:
            return Standing.LOCAL
        if known is not None:
            return Standing.CLIENT if known.grants & OF_CLIENTS else Standing.PEER
        return Standing.STRANGER if self.accept_strangers else None

    def is_blocked(self, key: bytes) -> bool:
        known = self.neighbours.get(key)
        return known is not None and known.blocked

    def grants(self, key: bytes) -> frozenset[str]:
        """The rights of a client; of one that is blocked, none."""
        known = self.neighbours.get(key)
        return known.grants if known is not None and not known.blocked else frozenset()

    def hears_outcomes(self, key: bytes, standing: Standing) -> bool:
        """Whether it is told what becomes of what it publishes: local apps are, others with the right to ask why."""
        return standing is Standing.LOCAL or WHY in self.grants(key)

    @property
    def uplinks(self) -> tuple[bytes, ...]:
        return tuple(key for key, one in self.neighbours.items() if one.uplink and not one.blocked)

    def name_of(self, key: bytes) -> str:
        known = self.neighbours.get(key)
        return known.name if known is not None else ""
