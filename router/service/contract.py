"""The service contract: the events that a service's rules get, and the deeds that they return.

A service is a folder. Its upper half, `rules.py`, holds one class that decides and does nothing itself:

    class Rules:
        def __init__(self, setup: Setup) -> None: ...
        def hear(self, heard: Heard, now: Now) -> list[Deed]: ...

The host calls `hear` for one thing after the other. It commits what the deeds keep and note in one transaction,
together with the messages they send, and only then carries them out; `settled` collects (see `Settles`). Time,
settings and kept values come as arguments, so the same class runs in the node, in a process of its own and in a world.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from router.core.wire.advert import EXPIRY_S
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.hint import Hinted
from router.core.wire.pubsub import Wanted
from router.core.wire.reasons import Reason
from router.service.at_doors import Came, Connect, Hand, Opened, Unconnected, Write
from router.service.between_nodes import Confirm, Forward, IdsOnly, Passed, Published, PulledFrom, PullFrom
from router.service.catching_up import CaughtUp, Dropped, HeldIds, ListHeld, SaidCaughtUp
from router.service.kept_reading import has_room, kept_under, kept_values
from router.service.nearby import (
    Attend,
    Dial,
    DialBack,
    DialledBack,
    Interfaces,
    Linked,
    Listen,
    Listening,
    Unreached,
    WriteAtEnd,
)
from router.service.own_key import Attest, Attested
from router.service.warning import Inform, Warn

__all__ = [
    "Advertise", "Agree", "Answer", "Asked", "Attend", "Attest", "Attested", "Came", "CaughtUp", "Chance", "Compute",
    "Computed", "Confirm", "Connect", "Deed", "Dial", "DialBack", "DialledBack", "Dropped", "Forward", "Grant",
    "Hand", "Heard", "HeldIds", "Hinted", "IdsOnly", "Inform", "Interfaces", "Join", "Keep", "Learn", "Leave", "Linked",
    "ListHeld", "Listen", "Listening", "Message", "MessageId", "Note", "Now", "Opened", "Passed", "Publish",
    "Published", "Pull", "PullFrom", "Pulled", "PulledFrom", "Refuse", "Rules", "SaidCaughtUp", "Send", "Sent",
    "Settles", "Setup", "Signed", "Started", "Tick", "Unconnected", "Unreached", "Wake", "Wanted", "Warn", "Write",
    "WriteAtEnd", "has_room", "kept_under", "kept_values",
]  # fmt: skip

TTL_S = 86_400

T = TypeVar("T")


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


class Setup(Struct, frozen=True):
    """The arguments of a service's rules: its name here, its address, its settings, and the values it has kept, as of
    the last commit; `chance` is the randomness that rules may use."""

    name: str
    key: PublicKey
    settings: Any
    kept: Mapping[bytes, bytes]
    chance: Chance


# -- what rules hear ------------------------------------------------------------------------------------------------


class Started(Struct, frozen=True):
    """The service is connected to its router: the first event of each life."""

    router: PublicKey


@dataclass(frozen=True, slots=True)
class Message:
    """A unicast to this service (`source`) or a message of a group (`group`); it comes once, even across crashes.

    `wire`: the bytes as received, without VIA; `via`: the router next to ours that brought it, None if it was published
    on this node; `seen`: the ids that a multicast names.
    """

    id: MessageId
    body: bytes
    source: PublicKey | None = None
    group: PublicKey | None = None
    via: PublicKey | None = None
    seen: tuple[MessageId, ...] = ()
    wire: bytes = field(default=b"", repr=False)
    redelivered: bool = False


class Asked(Struct, frozen=True):
    """An operator's question; `Answer` with the same number answers it, at once or later."""

    number: int
    word: str
    argument: str = ""


class Sent(Struct, frozen=True):
    """The message with this tag is in the router's custody, or was refused; for a `Forward` only a refusal is
    reported."""

    tag: str
    id: MessageId
    refused: Reason | None = None
    text: str = ""


class Pulled(Struct, frozen=True):
    """The answer to `Pull`; `wire` is None if the router does not have the message."""

    group: PublicKey
    id: MessageId
    wire: bytes | None


class Computed(Struct, frozen=True):
    """The job with this tag is done, or failed with `error`."""

    tag: str
    result: bytes = b""
    error: str = ""


class Signed(Struct, frozen=True):
    """The answer to the `Advertise` with this tag: the signed message `[1, PEER_ADVERTISEMENT]`, or why there is
    none."""

    tag: str
    message: bytes = b""
    error: str = ""


class Tick(Struct, frozen=True):
    """The time of the last `Wake` has come."""


Heard = (
    Started | Message | Asked | Opened | Came | Sent | Passed | Pulled | PulledFrom | Computed | Wanted | Hinted
    | Signed | Tick | Interfaces | Listening | DialledBack | Unreached | HeldIds | Linked | Dropped | SaidCaughtUp
    | Attested | Unconnected | Published
)  # fmt: skip


# -- deeds ----------------------------------------------------------------------------------------------------------


class Keep(Struct, frozen=True):
    """Keep a value under a key of this service's state; None removes it."""

    key: bytes
    value: bytes | None


class Note(Struct, frozen=True):
    """Write an event of `events.py` to the node's log; `message` is the id it is about, by which `why` finds it.

    One about several, at most 64, names their ids in `messages`, and what differs between them in `each`: by name the
    value for each message, without commas. `why` shows of it what concerns the one message."""

    event: str
    message: MessageId | None = None
    reason: Reason | None = None
    fields: Mapping[str, str | int | bool] = {}
    messages: Sequence[MessageId] = ()
    each: Mapping[str, Sequence[str | int]] = {}


class Send(Struct, frozen=True):
    """Send to one address. `via` names the next router. With a tag, `Sent` reports it, and then `Passed`.

    One that is not `kept` needs no room in the state, and is lost if the service ends before its router has it."""

    to: PublicKey
    body: bytes
    ttl_s: int = TTL_S
    via: PublicKey | None = None
    tag: str = ""
    kept: bool = True


class Publish(Struct, frozen=True):
    """Publish to a group, given by its name in the home or its key; "": the group of this service's own key."""

    body: bytes
    group: str = ""
    ttl_s: int = TTL_S
    tag: str = ""


class Join(Struct, frozen=True):
    """Join a group, given by name or key; "": the group of this service's own key. `local`: only messages published on
    this node."""

    group: str = ""
    local: bool = False


class Leave(Struct, frozen=True):
    """Leave a group."""

    group: str = ""


class Pull(Struct, frozen=True):
    """Ask the own router for a message of a group by its id; `Pulled` answers."""

    group: PublicKey
    id: MessageId


class Answer(Struct, frozen=True):
    """Answer an operator's question with a JSON value of at most 64,512 bytes; beyond that the answer is an error."""

    number: int
    value: Any


class Refuse(Struct, frozen=True):
    """Refuse the message of the present event. With a *later* reason it comes again after a while."""

    reason: Reason
    text: str = ""


class Learn(Struct, frozen=True):
    """Make a neighbour known to the router until that Unix second; a time that has passed ends this.

    `how`: "lan" if it was met there; "hint" if only a hint names its addresses, which may be a victim's and are dialled
    within a budget; otherwise lists of neighbours show this service's name."""

    key: PublicKey
    urls: tuple[str, ...] = ()
    until_s: int = 0
    name: str = ""
    how: str = ""


class Grant(Struct, frozen=True):
    """Give a key rights (join, store, relay, why) until that Unix second; no rights take them back.

    `uses`: how often the key may sign on with them; 0: without a limit.
    """

    key: PublicKey
    rights: tuple[str, ...] = ()
    until_s: int = 0
    uses: int = 0


class Agree(Struct, frozen=True):
    """Let a router bring messages of these groups and ask for them, until that Unix second or for two hours.

    This replaces what the service agreed on with that router before; no groups end it. It is forgotten when the node
    starts again. `lan`: the router is a neighbour on a LAN: both join the groups at each other, and the agreement also
    holds while it is away (`queues.lan_keep_s`) and after a restart."""

    key: PublicKey
    groups: tuple[PublicKey, ...] = ()
    until_s: int = 0
    lan: bool = False


class Advertise(Struct, frozen=True):
    """Have the router sign an advertisement of itself, which `Signed` with the same tag brings.

    Only the service called `discovery` may. The advertisement names the public services of this node and these groups,
    by name or key, and without addresses those at which others reach the node; it expires in `life_s`. The later of two
    has the greater `rev`."""

    addresses: tuple[str, ...] = ()
    groups: tuple[PublicKey | str, ...] = ()
    ttl_s: int = TTL_S
    life_s: int = EXPIRY_S
    tag: str = ""


class Compute(Struct, frozen=True):
    """Call `module:function` with these bytes in another process; `Computed` brings the bytes it returns."""

    function: str
    argument: bytes = b""
    tag: str = ""


class Wake(Struct, frozen=True):
    """Ask for a `Tick` at that Unix second; a later `Wake` replaces an earlier one."""

    at_s: float


Deed = (
    Keep | Note | Send | Publish | Forward | Join | Leave | Pull | PullFrom | Confirm | Answer | Refuse | Learn | Grant
    | Agree | Advertise | DialBack | Write | WriteAtEnd | Hand | Compute | Wake | Attend | Listen | Dial | ListHeld
    | Attest | CaughtUp | Connect | Warn | Inform | IdsOnly
)  # fmt: skip


class Rules(Protocol):
    """A service's upper half: its decisions."""

    def __init__(self, setup: Setup) -> None: ...

    def hear(self, heard: Heard, now: Now) -> list[Deed]:
        """Decide what follows from one thing that was heard."""


class Settles(Rules, Protocol):
    """Rules that deal with much at once: all that came while the last transaction was written is heard, then this."""

    def settled(self, now: Now) -> list[Deed]:
        """Decide what follows from all that was heard since the last time; commits in the same transaction."""


class Gathers(Settles, Protocol):
    """Rules that at times would rather decide seldom and about much."""

    def gather_s(self, now: Now) -> float:
        """Return for how long after a cycle the next one waits for more; 0: no longer than usual."""
