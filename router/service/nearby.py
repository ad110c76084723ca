"""What rules hear and decide about the networks that this machine is in, and about being reached and reaching there.

A door `multicast://239.0.0.1,[ff12::1]:4100` is at no interface until the rules choose some. Each is a place of its
own, by index, so that one that fails or goes disturbs no other. See `router.service.contract`.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface

from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason

EVERYBODY = "*"
"""The host of the peer that stands for all who listen at a multicast door, as in `*%3`."""


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface of this machine: its index and name, flags such as `up` and `multicast`, and its addresses.

    `gateway_place`: where the default gateway is that is reached by it, "" if there is none; `gateway`: its link-layer
    address, empty as long as the system does not know it."""

    index: int
    name: str
    flags: frozenset[str] = frozenset()
    addresses: tuple[IPv4Interface | IPv6Interface, ...] = ()
    gateway: bytes = b""
    gateway_place: str = ""


# -- heard ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Interfaces:
    """All interfaces as they are now; said when a multicast door opens, and whenever one comes, goes or changes."""

    door: str
    interfaces: tuple[Interface, ...]


@dataclass(frozen=True, slots=True)
class Listening:
    """The answer to `Listen`: where the router listens now, "" if nowhere; `problem` says why not."""

    url: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Unreached:
    """A neighbour that a service made known could not be connected to; `let_in`: it was not its own refusal."""

    key: PublicKey
    text: str
    let_in: bool = True


@dataclass(frozen=True, slots=True)
class Linked:
    """A router is connected whose pub/sub service is public, or (`service` is None) is not any more.

    The service called `pubsub` hears it of each such router when it starts and whenever that changes; also when the
    connection to its own router is lost."""

    router: PublicKey
    service: PublicKey | None = None


@dataclass(frozen=True, slots=True)
class DialledBack:
    """The result of `DialBack` with this tag: the IP address that was dialled ("": there is none), and why the router
    did not answer there, if it did not."""

    tag: str
    ip: str = ""
    reason: Reason | None = None
    text: str = ""


# -- deeds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attend:
    """Join a door's multicast group at exactly these interfaces, by index. Where that fails, it is tried again."""

    door: str
    interfaces: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WriteAtEnd:
    """Write this to a peer of a multicast door when the service ends in good order; a later one takes its place."""

    door: str
    peer: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Listen:
    """Let the router listen at this URL besides those of its configuration; "" ends that."""

    url: str


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect to a neighbour now, unless it is connected."""

    key: PublicKey


@dataclass(frozen=True, slots=True)
class DialBack:
    """Dial a connected router at the address that its link comes from and this port, expect its key, and hang up."""

    router: PublicKey
    port: int
    tag: str
