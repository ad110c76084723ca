"""Standing and rights of each key at this node (link layer, "Who may do what"; R-B4, R-C10, R-C11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from router.core.service.roles import Role
from router.core.wire.address import Reach, TransportAddress, reach_of

from .agreements import Agreements
from .successors import Successor, Successors

JOIN, STORE, RELAY, WHY = "join", "store", "relay", "why"
OF_CLIENTS = frozenset((JOIN, STORE, RELAY))
"""The rights that make a neighbour a client; `why` alone does not."""
CONFIG: Literal["config"] = "config"
INVITED: Literal["invited"] = "invited"
HINT = "hint"
LAN = "lan"
TAG_BYTES = 8  # of a key, where queues and the duplicate index count by it
STRANGERS = bytes(32)  # no real key: messages of strangers are charged to all of them together


class Standing(Enum):
    """The relation of a neighbour to this node, set when its link comes up and when its configuration changes."""

    LOCAL = "local"  # a service or app of this node
    CLIENT = "client"  # an edge node we serve, with rights granted to it
    PEER = "peer"  # another router, configured or invited
    MET = "met"  # a router that only a service of this node knows, or has agreed on groups with (R-C24)
    STRANGER = "stranger"


UNKNOWN = frozenset((Standing.MET, Standing.STRANGER))
"""The standings of keys that reach public services only, may ask nothing, and are charged to the share of strangers."""
THROWAWAY = b""
"""Stands for all throwaway keys of apps: an app that makes a new key each time gets no new share by it."""


class Neighbour(Struct, frozen=True):
    """The entry of one key, by the configuration or by services of this node."""

    key: bytes
    name: str = ""
    """In quotes if it is the neighbour's word for itself alone: no name of the configuration has any."""
    grants: frozenset[str] = frozenset()
    uplink: bool = False
    blocked: bool = False
    urls: tuple[str, ...] = ()
    learned: str = CONFIG
    """The source of the entry: the configuration, an invitation, or the name of a service."""
    until_s: int = 0
    """The Unix second at which the entry ends; 0: it has no end."""
    doubted: bool = False
    """Whether only an advertisement, a hint or a datagram on the LAN names its addresses, which may be a victim's:
    dialling has a budget (R-D22)."""
    by: bytes = b""
    """The key of the service that made it a neighbour, which is told if connecting fails; empty: none did."""
    said_urls: tuple[str, ...] = ()
    """Where it is by its own signed word, beside `urls` of the configuration: dialled after these, and doubted."""


class ServiceFacts(Struct, frozen=True):
    """A service that the configuration names, the events it may write to the log, and its role; None if it has
    none."""

    name: str
    events: frozenset[str] = frozenset()
    role: Role | None = None


class Directory(Struct):
    """All keys that this node knows by configuration or through its services, and the local ones it has recorded.

    `configured` are the neighbours of the configuration alone, `neighbours` all of them; `addresses`: where others
    reach this node. `is_inviting`: strangers are let in to redeem an invitation, if for nothing else.
    """

    me: bytes
    accept_strangers: bool = False
    join_open: bool = False
    is_inviting: bool = False
    neighbours: dict[bytes, Neighbour] = field(default_factory=dict)
    uplinks: tuple[bytes, ...] = ()
    configured: dict[bytes, Neighbour] = field(default_factory=dict)
    services: dict[bytes, ServiceFacts] = field(default_factory=dict)
    locals: set[bytes] = field(default_factory=set)
    configured_locals: frozenset[bytes] = frozenset()
    public: frozenset[bytes] = frozenset()
    agreements: Agreements = field(default_factory=Agreements)
    successors: Successors = field(default_factory=Successors)
    rotated: Mapping[bytes, bytes] = field(default_factory=dict)
    """The keys that services have been given since the last run, by their former ones, whose place they are to take."""
    addresses: tuple[TransportAddress, ...] = ()
    met: set[bytes] = field(default_factory=set)
    """The first bytes of the keys of routers known by meetings, with which groups are agreed."""
    revision: int = 0

    def replace_neighbours(self, neighbours: Iterable[Neighbour]) -> None:
        self.configured = self._in_place({one.key: one for one in neighbours})
        self.merge(dict(self.configured))

    def merge(self, neighbours: dict[bytes, Neighbour]) -> None:
        """Replace all neighbours, those of the configuration and those of services; a renewed key's entry is its
        successor's."""
        self.neighbours = neighbours = self._in_place(neighbours)
        self.uplinks = tuple(key for key, one in neighbours.items() if one.uplink and not one.blocked)
        self.count_met()
        self.revision += 1

    def _in_place(self, neighbours: dict[bytes, Neighbour]) -> dict[bytes, Neighbour]:
        """Return the neighbours with each renewed key's entry at the key that has its place. A blocked one stays as
        well, and so does an entry that the new key has itself. This router's own former keys are no neighbours."""
        renewed = [key for key in neighbours if key in self.successors] if self.successors else ()
        found = {key: one for key, one in neighbours.items() if key not in renewed or one.blocked}
        for key in renewed:
            if (new := self.successors.newest(key)) != self.me:
                found.setdefault(new, replace(neighbours[key], key=new))
        return found if renewed else neighbours

    def count_met(self) -> None:
        """Determine again which keys get the share of a router known by meetings: those with no other standing."""
        keys = self.agreements.routers
        self.met.clear()
        self.met.update(key[:TAG_BYTES] for key in keys if self.standing(key, owner=False) is Standing.MET)

    def set_inviting(self, is_inviting: bool) -> bool:
        """Let strangers in to redeem an invitation, or no longer; return whether that is a change."""
        if is_inviting == self.is_inviting:
            return False
        self.is_inviting = is_inviting
        self.revision += 1
        return True

    def record_local(self, key: bytes) -> bool:
        """Record a key, proven on the owner-only socket, that asked to be kept; return whether it is new."""
        if key in self.locals:
            return False
        self.locals.add(key)
        self.revision += 1
        return True

    def admit_services(
        self, services: dict[bytes, ServiceFacts], public: Iterable[bytes], rotated: Mapping[bytes, bytes]
    ) -> None:
        """Enter the services of this node: their keys are local, also those in whose place others have come, and
        strangers may send to the `public` ones."""
        self.services, self.rotated = services, rotated
        self.configured_locals |= services.keys()
        self.locals |= services.keys() | rotated.keys()
        self.public |= frozenset(public)

    def succeed(self, one: Successor) -> None:
        """Give a key the place of a renewed one among the local keys and in the configuration; `merge` gives it its
        rights."""
        self.successors.add(one)
        self.configured = self._in_place(self.configured)
        if one.old in self.locals:
            self.locals.discard(one.old)
            self.locals.add(self.successors.newest(one.new))
        self.configured_locals = frozenset(map(self.successors.newest, self.configured_locals))
        self.public = frozenset(map(self.successors.newest, self.public))
        self.revision += 1

    def has_role(self, key: bytes, role: Role) -> bool:
        """Whether a key is that of the service of this node with this role."""
        service = self.services.get(key)
        return service is not None and service.role is role

    def speaks_to_routers(self, key: bytes) -> bool:
        """Whether a key is that of a service of this node with a role: it speaks to those of other routers, no user
        does."""
        service = self.services.get(key)
        return service is not None and service.role is not None

    def is_between_services(self, signer: bytes, destination: bytes | None) -> bool:
        """Whether a message is a word between services of routers, signed by one of this node or meant for one."""
        return self.speaks_to_routers(signer) or (destination is not None and self.speaks_to_routers(destination))

    def with_role(self, role: Role) -> bytes | None:
        """Return the key of the service of this node with this role."""
        return next((key for key, one in self.services.items() if one.role is role), None)

    def is_node_local(self, group: bytes) -> bool:
        """Whether a group never leaves this node, whoever joins it: the discovery service's own group (R-C26, R-D8)."""
        return self.has_role(group, Role.FINDER)

    def forget_local(self, key: bytes) -> bool:
        """Forget a recorded key unless the configuration names it; return whether it was forgotten."""
        if key not in self.locals or key in self.configured_locals:
            return False
        self.locals.discard(key)
        self.revision += 1
        return True

    def counted_as(self, key: bytes, standing: Standing) -> bytes:
        """Return the key by which a neighbour's use of a bound is counted: one for all apps with throwaway keys."""
        return THROWAWAY if standing is Standing.LOCAL and key not in self.locals else key

    def standing(self, key: bytes, owner: bool) -> Standing | None:
        """Return the standing of a proven key, None if it is rejected. `owner`: it came by the owner-only socket."""
        known = self.neighbours.get(key)
        if self.is_blocked(key):
            return None
        if key in self.locals or owner:
            return Standing.LOCAL
        if known is not None and (known.grants & OF_CLIENTS or known.learned in (CONFIG, INVITED)):
            return Standing.CLIENT if known.grants & OF_CLIENTS else Standing.PEER
        if known is not None or self.agreements.is_met(key):
            return Standing.MET
        return Standing.STRANGER if self.accept_strangers or self.is_inviting else None

    def is_met(self, key: bytes) -> bool:
        """Whether a router is known by meetings alone: nothing that its operator or ours configured makes it more
        (R-C24)."""
        return self.standing(key, owner=False) is Standing.MET

    def rank(self, key: bytes) -> int:
        """Return the rank of routes learned from a neighbour: 2 for a client, 1 for a peer, 0 for any other."""
        standing = self.standing(key, owner=False)
        return 2 if standing is Standing.CLIENT else 1 if standing is Standing.PEER else 0

    def is_blocked(self, key: bytes) -> bool:
        known = self.neighbours.get(key)
        return known is not None and known.blocked

    def ended_s(self, key: bytes) -> int:
        """Return the Unix second at which a key's time in the configuration ended; 0: it has not ended, or the key is
        blocked."""
        known = self.configured.get(key)
        is_over = known is not None and key not in self.neighbours and not known.blocked
        return known.until_s if is_over and known is not None else 0

    def grants(self, key: bytes) -> frozenset[str]:
        """Return the rights of a key; none if it is unknown or blocked."""
        known = self.neighbours.get(key)
        return known.grants if known is not None and not known.blocked else frozenset()

    # -- what a right permits: decided here and nowhere else -------------------------------------------------

    def is_known(self, key: bytes) -> bool:
        """Whether this node keeps anything for a key beyond its link: it is configured or recorded, and not blocked."""
        known = key in self.locals or key in self.neighbours or key in self.agreements.lan
        return known and not self.is_blocked(key)

    def is_shut_out(self, key: bytes, standing: Standing) -> bool:
        """Whether a key's messages are refused, because it was blocked or removed after its link got this
        `standing`."""
        was_known = standing is Standing.CLIENT or standing is Standing.PEER
        return self.is_blocked(key) or (was_known and not self.is_known(key))

    def may_join(self, key: bytes, standing: Standing | None) -> bool:
        """Whether a key may join groups here. `standing`: that of its open link, None while it is away."""
        if standing is Standing.LOCAL or key in self.locals or JOIN in self.grants(key):
            return not self.is_blocked(key)
        if standing is Standing.STRANGER and not self.accept_strangers:
            return False
        return self.join_open and (standing is not None or self.is_known(key)) and not self.is_blocked(key)

    def may_reach(self, key: bytes, standing: Standing) -> bool:
        """Whether a neighbour may send to this local key."""
        is_open = standing is Standing.MET or self.accept_strangers
        return standing not in UNKNOWN or (is_open and key in self.public)

    def is_lan(self, key: bytes, group: bytes) -> bool:
        """Whether a group is shared with a router as a LAN neighbour, by agreement (R-C25)."""
        return group in self.agreements.lan.get(key, ()) and not self._has_more(key)

    def lan_groups(self, key: bytes) -> frozenset[bytes]:
        """Return the groups shared with a router as a LAN neighbour."""
        return frozenset() if self._has_more(key) else self.agreements.lan.get(key, frozenset())

    def lan_sharing(self, group: bytes) -> list[bytes]:
        """Return the LAN neighbours with which a group is shared."""
        return [key for key in self.agreements.lan if self.is_lan(key, group)]

    def _has_more(self, key: bytes) -> bool:
        """Whether the configuration or a grant gives a key a standing above an agreement: uplink, client, or
        blocked."""
        known = self.neighbours.get(key)
        return known is not None and (known.blocked or known.uplink or JOIN in known.grants)

    def may_subscribe(self, key: bytes, standing: Standing | None, group: bytes) -> bool:
        """Whether a key may join a group here: any group, or as a LAN neighbour one that was agreed on."""
        return self.may_join(key, standing) or self.is_lan(key, group)

    def may_bring(self, key: bytes, standing: Standing, group: bytes) -> bool:
        """Whether a key may bring multicasts of a group; a router known by meetings may only for agreed groups."""
        return standing not in UNKNOWN or (standing is Standing.MET and self.agreements.has(key, group))

    def may_publish(self, key: bytes, standing: Standing) -> bool:
        """Whether a key's multicasts are passed on to our uplinks."""
        return standing is Standing.LOCAL or JOIN in self.grants(key)

    def may_relay(self, key: bytes) -> bool:
        """Whether a key, and the keys behind it, may send to third parties through us and be reached by them."""
        return RELAY in self.grants(key)

    def may_store(self, key: bytes) -> bool:
        """Whether anyone's messages are kept for a key while it is away."""
        return (key in self.locals and not self.is_blocked(key)) or STORE in self.grants(key)

    def keeps_queue(self, key: bytes) -> bool:
        """Whether a key has a queue while it is away.

        It has one by the right `store`, or as a router that we send to: an uplink, a LAN neighbour, or a neighbour
        without a client's rights."""
        known = self.neighbours.get(key)
        if key in self.agreements.lan and not self.is_blocked(key):
            return True
        if self.may_store(key) or known is None or known.blocked:
            return self.may_store(key)
        return known.uplink or not known.grants & OF_CLIENTS

    def may_be_next(self, key: bytes, standing: Standing | None) -> bool:
        """Whether a key may be the next hop: connected, or a neighbour that has a queue; and not blocked."""
        waits = key in self.neighbours and self.keeps_queue(key)
        return (standing is not None or waits) and not self.is_blocked(key)

    def hears_outcomes(self, key: bytes, standing: Standing) -> bool:
        """Whether a key is sent outcomes of its messages: local apps are, others only with the right `why`."""
        return standing is Standing.LOCAL or WHY in self.grants(key)

    @property
    def is_on_loopback(self) -> bool:
        """Whether this node is reached on its own machine only, so that loopback addresses of others count (R-D12)."""
        return any(reach_of(one.host) is Reach.LOOPBACK for one in self.addresses)

    def name_of(self, key: bytes) -> str:
        known = self.neighbours.get(key)
        return known.name if known is not None else ""
