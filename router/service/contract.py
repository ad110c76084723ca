"""The service contract: the events that a service's rules get, and the deeds that they return.

A service is a folder. Its upper half, `rules.py`, holds one class that decides and does nothing itself:

    class Rules:
        def __init__(self, setup: Setup) -> None: ...
        def hear(self, heard: Heard, now: Now) -> list[Deed]: ...

The host calls `hear` for one thing after the other. It commits what the deeds keep and log in one transaction,
together with the messages they send, and only then carries them out; `settled` collects (see `BatchRules`). Time,
settings and kept values come as arguments, so the same class runs in the node, in a process of its own and in a world.

This is what every service may. What a service hears and does besides by its role stands in `router/service/roles/`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from router.core.wire.crypto import MessageId as MessageId
from router.core.wire.crypto import PublicKey as PublicKey
from router.core.wire.errors import RouterError
from router.core.wire.heard import Heard as Heard
from router.core.wire.reasons import Reason as Reason
from router.service.verbs.add_neighbour import AddNeighbour as AddNeighbour
from router.service.verbs.answer import Answer as Answer
from router.service.verbs.answer import Asked as Asked
from router.service.verbs.grant import Grant as Grant
from router.service.verbs.inquire import Inquire as Inquire
from router.service.verbs.inquire import Told as Told
from router.service.verbs.log_event import LogEvent as LogEvent
from router.service.verbs.verb import Deed as Deed

TTL_S = 86_400

T = TypeVar("T")


class CannotServe(RouterError):
    """Raise this, or a class of it, if the service cannot do its work at all, whatever it has just heard: it is started
    again, with growing pauses, and the text is said as the cause. Any other exception concerns what was heard alone."""


class Now(NamedTuple):
    """Unix seconds, and seconds of a clock that never steps and runs on while the machine sleeps. `slept_s`: seconds
    that the machine has slept since it was switched on."""

    wall_s: float
    mono_s: float
    slept_s: float = 0.0


class Chance(Protocol):
    """Randomness, passed to rules as time is: the system's in a node, a seeded `random.Random` elsewhere."""

    def random(self) -> float:
        """Return a number from 0 up to 1."""

    def randrange(self, stop: int, /) -> int:
        """Return a whole number from 0 up to `stop`."""

    def randbytes(self, n: int) -> bytes:
        """Return `n` bytes."""

    def sample(self, population: Sequence[T], k: int) -> list[T]:
        """Return `k` different members in random order."""


class Scratch(Protocol):
    """Blocks outside of memory that a service may write and read again in the same life; the next one finds none."""

    def write(self, at: int, block: bytes) -> bool:
        """Write a block at a byte, from 0 on; return whether it was written. False: there is no room for it, and what
        was there is lost."""

    def read(self, at: int, size: int) -> bytes:
        """Return bytes that were written. Raise OSError."""


class Setup(Struct, frozen=True):
    """The arguments of a service's rules: its name here, its address, its settings, and the values it has kept, as of
    the last commit; `chance` is the randomness that rules may use. `find_over_http` returns the other services of this
    node that answer over HTTP (`router/service/http.py`), for the one that has doors for it. `scratch`: for what
    takes much memory; None: there is none. `node_name`: what the node calls itself; "": it has no name."""

    name: str
    key: PublicKey
    settings: Any
    kept: Mapping[bytes, bytes]
    chance: Chance
    find_over_http: Callable[[], Sequence[Any]] = tuple
    scratch: Scratch | None = None
    node_name: str = ""


# -- what rules hear ------------------------------------------------------------------------------------------------


class Started(Heard, frozen=True):
    """The service is connected to its router, whose key this is: once in each life, before any other event."""

    router: PublicKey


class Message(Heard, frozen=True):
    """A unicast to this service (`source`), or a message of a group that it has joined (`group`); once it is handled it
    does not come again, even after a crash.

    `wire`: the bytes as received, without VIA; `via`: the router next to ours that brought it, None if it was published
    on this node; `seen`: the ids that a multicast names; `redelivered`: an earlier life of the service may have been
    given it. `sender`, `seq`, `deps`: of a sealed message, the member's signed words: who says it, which of theirs it
    is, and the messages that it answers; a unicast's `sender` is its source.
    """

    id: MessageId
    body: bytes
    source: PublicKey | None = None
    group: PublicKey | None = None
    via: PublicKey | None = None
    seen: tuple[MessageId, ...] = ()
    wire: bytes = b""
    redelivered: bool = False
    sender: PublicKey | None = None
    seq: int | None = None
    deps: tuple[MessageId, ...] = ()

    def __repr__(self) -> str:
        return f"<Message {self.id!r} of {self.group or self.source!r}: {self.body!r}>"


class Opened(Heard, frozen=True):
    """A stream was opened at a door; this comes before its first bytes. `address`: HOST:PORT of its other end, `""` at
    a Unix socket; `tag`: that of the `Connect` that opened it; `user`: the number of the user at the other end of a
    Unix socket, as the kernel says."""

    door: str
    peer: str
    address: str = ""
    tag: str = ""
    user: int | None = None


class Came(Heard, frozen=True):
    """A datagram, or bytes of a stream, came in at a door; `peer` names the datagram's sender or the stream.

    A stream comes in pieces of at most 64 KiB, cut anywhere, and `b""` is its end (see `KeepOpen`). More of that peer
    comes when what follows from this is carried out. `to_group`: a datagram at a multicast door was sent to everybody
    there."""

    door: str
    peer: str
    data: bytes
    to_group: bool = False


class ConnectionFailed(Heard, frozen=True):
    """The `Connect` with this tag has failed; `text` says why."""

    door: str
    tag: str
    text: str


class Joined(Heard, frozen=True):
    """What became of the `Join` with this tag: the service is in the group of this key, or `error` says why not.

    `may_publish`: whether its link in the home may send. This comes again whenever it changes: when the link of a group
    that was given by its name is added to the home, replaced, or removed, whereupon the group is left."""

    tag: str
    group: PublicKey | None = None
    may_publish: bool = False
    error: str = ""


class Sent(Heard, frozen=True):
    """The message with this tag is in the router's custody, or was refused; for a `Forward` only a refusal is
    reported. `id` is of zeros if it could not be made at all, as for a group that is not known."""

    tag: str
    id: MessageId
    refused: Reason | None = None
    text: str = ""


class HopOutcome(Heard, frozen=True):
    """The fate of the `Send` or `Forward` with this tag at the next hop. `to`: that router, or a local recipient.

    `reason` is None if it has taken custody (`acked`, `delivered` to an app of this node, or `unconfirmed` with ttl 0);
    else the copy has ended for that reason. `was_known`: that router had the message already, and says so. No
    `HopOutcome` follows if the connection to the own router is lost meanwhile.
    """

    tag: str
    id: MessageId
    to: PublicKey
    state: str
    reason: Reason | None = None
    was_known: bool = False


class Pulled(Heard, frozen=True):
    """The answer to `Pull`; `wire` is None if the router does not have the message."""

    group: PublicKey
    id: MessageId
    wire: bytes | None


class Computed(Heard, frozen=True):
    """The `Compute` with this tag is done: the bytes that its function returned, or why it failed (`error`)."""

    tag: str
    result: bytes = b""
    error: str = ""


class Tick(Heard, frozen=True):
    """The time of the last `Wake` has come."""


# -- deeds ----------------------------------------------------------------------------------------------------------


class Put(Deed, frozen=True):
    """Keep a value under a key of this service's state, of 1 to 511 bytes; None removes it. `setup.kept` reads the
    state, with what was just decided. A `secret` value is sealed on the disk, so that `Forget` can make it unreadable
    once it is removed or replaced; its key is not sealed."""

    key: bytes
    value: bytes | None
    secret: bool = False


class Forget(Deed, frozen=True):
    """Make all secret values unreadable that are removed or replaced, here or earlier, also for whoever copies the
    state from now on: those that stay are sealed under a new key, in the same transaction, and the old key is
    overwritten."""


class Send(Deed, frozen=True):
    """Send to one address. `via` names the next router. With a tag, `Sent` reports it, and then `HopOutcome`.

    One that is not `kept` needs no room in the state and no transaction, as an answer on a full disk, and is lost if
    the service ends before its router has it. A message from which only such follow may be heard again after a
    crash."""

    to: PublicKey
    body: bytes
    ttl_s: int = TTL_S
    via: PublicKey | None = None
    tag: str = ""
    kept: bool = True


class Publish(Deed, frozen=True):
    """Publish to a group, given by its name in the home or its key in hexadecimal digits; `""`: the group of this
    service's own key. With a tag, `Sent` reports it.

    `until_s`: the Unix second until which it is valid, to the whole minute above; None: for a day. `once`: the body
    goes unsealed, in a message that depends on nothing but this deed, so that several who publish the same are heard
    once; it needs `until_s`."""

    body: bytes
    group: str = ""
    ttl_s: int = TTL_S
    tag: str = ""
    until_s: int | None = None
    once: bool = False


class Forward(Deed, frozen=True):
    """Send a multicast on as it was received, to the next router `via`. With a tag, `HopOutcome` reports its fate
    there, or `Sent` that the own router refused it.

    If the message is known here, its signature is not checked again. A copy for a *met* router that is away waits for a
    minute at most, and ends with `next-away`. A message from which only copies follow needs no transaction: it is
    settled when the own router has all of them, and is heard again after a crash before that."""

    wire: bytes
    via: PublicKey
    tag: str = ""


class Join(Deed, frozen=True):
    """Join a group, given by its name in the home or its key in hexadecimal digits; `""`: the group of this service's
    own key. `local`: only messages published on this node; `raw`: bodies come as they were published, also if the group
    has a key that seals them. With a tag, `Joined` reports what becomes of it. One that fails is tried again until the
    group is left: at once when a command has changed the home's groups, else after pauses that grow from 5 s to 60 s. A
    group that was joined by a name is left once the home holds no link, or another one, by that name, also if that
    changed while the node was stopped; one that was joined by its key stays."""

    group: str = ""
    local: bool = False
    raw: bool = False
    tag: str = ""


class Leave(Deed, frozen=True):
    """Leave a group, given as in `Join`."""

    group: str = ""


class Pull(Deed, frozen=True):
    """Ask the own router for a message of a group by its id; `Pulled` answers."""

    group: PublicKey
    id: MessageId


class Refuse(Deed, frozen=True):
    """Refuse the message of the present event, for a reason or the word of one. With a *later* reason it comes again
    after a while. `text`, of at most 200 bytes, is shown on this node alone, by `router why` and `router status`."""

    reason: Reason | str
    text: str = ""


class Write(Deed, frozen=True):
    """Write to the peer of a door; `b""` closes a stream."""

    door: str
    peer: str
    data: bytes


class MarkKnown(Deed, frozen=True):
    """Say that the other end of a stream is known: it is not closed when its door is full and another stream comes."""

    door: str
    peer: str


class KeepOpen(Deed, frozen=True):
    """Keep a stream open whose other end says no more, which `Came` with `b""` has just told, since something is still
    to be written to it; `Write` of `b""` closes it. Without this it closes when earlier writes are sent."""

    door: str
    peer: str


class HandOver(Deed, frozen=True):
    """Hand a stream of a door over to the router, as a link of somebody who is not the owner, with the address that it
    comes from. `first`: the bytes of it that have come already. `through`: what carries the link inside the stream:
    nothing, or the binary messages of a WebSocket, which the rules have agreed to. `ip`: where it comes from, if a
    proxy at the other end of the stream has said so."""

    door: str
    peer: str
    first: bytes = b""
    through: Literal["", "websocket"] = ""
    ip: str = ""


class Connect(Deed, frozen=True):
    """Open a stream to `tcp://HOST:PORT`, which from then on is one of this door; the door itself need not be open, but
    a service names 1,000 others at most. `source`: HOST:PORT of our own end, that of a door that shares its port
    (`?shared=yes`), so that others know us by one address.

    `Opened` with this tag follows, or `ConnectionFailed`."""

    door: str
    url: str
    tag: str
    source: str = ""


class Compute(Deed, frozen=True):
    """Call `module:function` with these bytes in another process, which gives way to the router; `Computed` with the
    same tag brings the bytes it returns."""

    function: str
    argument: bytes = b""
    tag: str = ""


class Wake(Deed, frozen=True):
    """Ask for a `Tick` at that Unix second; a later `Wake` replaces an earlier one."""

    at_s: float


class Warn(Deed, frozen=True):
    """Tell the operator what is wrong and what to do, on the process's standard error and in `router status`: one line
    of at most 2,000 characters."""

    text: str


class Inform(Deed, frozen=True):
    """Tell the operator what is in order, on the process's standard error alone. `mends`: the text of a `Warn` that
    holds no more; `router status` then shows it no longer."""

    text: str
    mends: str = ""


# -- rules ----------------------------------------------------------------------------------------------------------


class Rules(Protocol):
    """A service's upper half: its decisions."""

    def __init__(self, setup: Setup) -> None: ...

    def hear(self, heard: Heard, now: Now) -> list[Deed]:
        """Decide what follows from one thing that was heard."""


class BatchRules(Rules, Protocol):
    """Rules that deal with much at once: all that came while the last transaction was written is heard, then this."""

    def settled(self, now: Now) -> list[Deed]:
        """Decide what follows from all that was heard since the last time; commits in the same transaction."""


class PacedRules(Rules, Protocol):
    """Rules that at times would rather decide seldom and about much."""

    def batch_delay_s(self, now: Now) -> float:
        """Return for how long after a cycle the next one waits for more; 0: no longer than usual."""

    def is_urgent(self, heard: Heard, now: Now) -> bool:
        """Whether the next cycle does not wait for `batch_delay_s` because of what has just come; without this method
        all waits for it."""

    def patient_doors(self) -> Collection[str]:
        """Return the doors at which nothing is urgent, by their names: their streams, also those that are opened by
        `Connect`, are read when `batch_delay_s` after a cycle is over, all at once; without this method none are. Asked
        once, before the doors are opened."""


# -- what is kept ---------------------------------------------------------------------------------------------------


def kept_under(kept: Mapping[bytes, bytes], prefix: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys of a service's state that begin so, without the prefix, each with its value, in order."""
    under = getattr(kept, "under", None)
    if under is None:
        return sorted((key[len(prefix) :], value) for key, value in kept.items() if key.startswith(prefix))
    found: list[tuple[bytes, bytes]] = under(prefix)
    return found


def kept_values(kept: Mapping[bytes, bytes], keys: Sequence[bytes]) -> list[bytes]:
    """Return the values of these keys of a service's state, in one reading of its disk."""
    several = getattr(kept, "several", None)
    if several is None:
        return [kept[key] for key in keys]
    found: list[bytes] = several(keys)
    return found


def has_room(kept: Mapping[bytes, bytes]) -> bool:
    """Whether the disk of a service's state has room for more. Without, rules should refuse what they would have to
    keep; when it is fuller still nothing can be kept, and the service stops."""
    return bool(getattr(kept, "has_room", True))
