"""What a service with the role `discovery` hears and does: it finds other routers, also on a LAN (R-C26, R-D8).

A door `multicast://239.0.0.1,[ff12::1]:4100` is at no interface until the rules choose some. Each is a separate place,
by index, so that one that fails or goes disturbs no other. Its verbs are files of `router/service/verbs/`.
"""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv6Interface
from typing import Annotated

from msgspec import Meta, Struct

from router.core.wire.crypto import PublicKey
from router.core.wire.heard import Heard
from router.core.wire.pubsub import Wanted as Wanted
from router.core.wire.reasons import Reason
from router.service.verbs.add_neighbour import NeighbourAdded as NeighbourAdded
from router.service.verbs.add_neighbour import NeighbourLinked as NeighbourLinked
from router.service.verbs.add_neighbour import NeighbourUnreachable as NeighbourUnreachable
from router.service.verbs.advertise import Advertise as Advertise
from router.service.verbs.advertise import Signed as Signed
from router.service.verbs.dial import Dial as Dial
from router.service.verbs.linked import Linked as Linked
from router.service.verbs.listen import Listen as Listen
from router.service.verbs.listen import Listening as Listening
from router.service.verbs.share_groups import ShareGroups as ShareGroups
from router.service.verbs.take_part import AckWanted as AckWanted
from router.service.verbs.verb import Deed

EVERYBODY = "*"
"""The host of the peer that stands for all who listen at a multicast door, as in `*%3`."""


class Interface(Struct, frozen=True):
    """An interface of this machine: its index and name, flags such as `up` and `multicast`, and its addresses.

    `gateway_place`: the place of the default gateway reached by it, "" if there is none; `gateway`: that gateway's
    link-layer address, empty while the system does not know it."""

    index: int
    name: str
    flags: frozenset[str] = frozenset()
    addresses: tuple[IPv4Interface | IPv6Interface, ...] = ()
    gateway: bytes = b""
    gateway_place: str = ""


class Interfaces(Heard, frozen=True):
    """All interfaces of this machine; this comes when a multicast door opens, and whenever an interface comes, goes or
    changes."""

    door: str
    interfaces: tuple[Interface, ...]


class DialledBack(Heard, frozen=True):
    """The answer to the `DialBack` with this tag: the IP address that was dialled (`""`: there is none), and why the
    router was not found there, if it was not."""

    tag: str
    ip: str = ""
    reason: Reason | None = None
    text: str = ""


class UseInterfaces(Deed, frozen=True):
    """Join a multicast door's group at these interfaces, by index, and at no others. One that fails is tried again."""

    door: str
    interfaces: tuple[int, ...]


class WriteOnClose(Deed, frozen=True):
    """Write this to a peer of a multicast door when the service ends, unless it is killed; a later one replaces it."""

    door: str
    peer: str
    data: bytes


class DialBack(Deed, frozen=True):
    """Dial a connected router at the address that its link comes from and this port, expect its key, and hang up;
    `DialledBack` with the same tag answers."""

    router: PublicKey
    port: Annotated[int, Meta(ge=1, le=65_535)]
    tag: str
