"""Events and deeds about the networks that this machine is in, and about reaching others and being reached there.

A door `multicast://239.0.0.1,[ff12::1]:4100` is at no interface until the rules choose some. Each is a separate place,
by index, so that one that fails or goes disturbs no other. See `router.service.contract`.
"""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv6Interface

from msgspec import Struct

from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason

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


# -- heard ----------------------------------------------------------------------------------------------------------


class Interfaces(Struct, frozen=True):
    """All present interfaces; this comes when a multicast door opens, and whenever an interface comes, goes or
    changes."""

    door: str
    interfaces: tuple[Interface, ...]


class Listening(Struct, frozen=True):
    """The answer to `Listen`: where the router listens now, "" if nowhere; `problem` says why not."""

    url: str
    problem: str = ""


class Unreached(Struct, frozen=True):
    """Connecting to a neighbour that a service made known has failed. `let_in`: the cause was not its refusal."""

    key: PublicKey
    text: str
    let_in: bool = True


class Linked(Struct, frozen=True):
    """A router whose pub/sub service is public is connected, or (`service` is None) is not any more.

    The service called `pubsub` gets this for each such router at its start and whenever that changes; also when the
    connection to its own router is lost."""

    router: PublicKey
    service: PublicKey | None = None


class DialledBack(Struct, frozen=True):
    """The result of `DialBack` with this tag: the IP address that was dialled ("": there is none), and why the router
    did not answer there, if it did not."""

    tag: str
    ip: str = ""
    reason: Reason | None = None
    text: str = ""


# -- deeds ----------------------------------------------------------------------------------------------------------


class Attend(Struct, frozen=True):
    """Join a door's multicast group at exactly these interfaces, by index. Failures are tried again."""

    door: str
    interfaces: tuple[int, ...]


class WriteAtEnd(Struct, frozen=True):
    """Write this to a peer of a multicast door when the service ends in good order; a later one replaces it."""

    door: str
    peer: str
    data: bytes


class Listen(Struct, frozen=True):
    """Have the router listen at this URL besides those of its configuration; "" ends that."""

    url: str


class Dial(Struct, frozen=True):
    """Connect to a neighbour now, unless it is connected."""

    key: PublicKey


class DialBack(Struct, frozen=True):
    """Dial a connected router at the address that its link comes from and this port, expect its key, and hang up."""

    router: PublicKey
    port: int
    tag: str
