"""The results of the deciding core: changes for its caller to commit first, then effects to carry out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from router.core.log import events
from router.core.log.life import Restored
from router.core.neighbours.directory import Neighbour
from router.core.wire import link_items
from router.core.wire.admin import Inquiry
from router.core.wire.link_items import Missed
from router.core.wire.reasons import Reason
from router.core.wire.renewal import Renewal

from .groups import Subscription
from .intake import Refusal
from .parcel import Parcel
from .routes import Route


class Finished(NamedTuple):
    """Messages start..stop-1 (`size` bytes) of the parcel at arrival `first` are no longer owed to `recipient`."""

    recipient: bytes
    first: int
    start: int
    stop: int
    size: int


@dataclass(slots=True)
class Changes:
    """One transaction: exactly the changes that the decisions of one batch made."""

    parcels: list[Parcel] = field(default_factory=list)
    moved: list[tuple[bytes, bytes]] = field(default_factory=list)  # (recipient, who is owed its queue from now on)
    finished: list[Finished] = field(default_factory=list)
    members: dict[tuple[bytes, bytes], Subscription | None] = field(default_factory=dict)  # (group, subscriber)
    routes: dict[bytes, Route | None] = field(default_factory=dict)  # by destination; None: forgotten
    locals: list[bytes] = field(default_factory=list)
    locals_gone: list[bytes] = field(default_factory=list)
    away: list[tuple[bytes, int]] = field(default_factory=list)  # (key, since Unix second; 0: back)
    purges: dict[tuple[bytes, bytes | None], int | None] = field(
        default_factory=dict
    )  # see core/routing/purges.py; None: done
    missed: dict[tuple[bytes, bytes | None, int], Missed | None] = field(
        default_factory=dict
    )  # see core/routing/outcomes.py
    book: dict[bytes, bytes | None] = field(default_factory=dict)  # see core/neighbours/book.py; None: gone
    defer: list[tuple[int, int]] = field(default_factory=list)  # (parcel's first, look again at second)
    events: list[events.Event] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


class Settle(NamedTuple):
    """Settle the neighbour's first `n` messages, some of them refused; `size` bytes are no longer in flight."""

    link: int
    n: int
    refusals: list[Refusal]
    size: int


class SendParcel(NamedTuple):
    """Write messages start..stop-1 of the parcel to the link; `local`: with VIA, the router they came through."""

    link: int
    parcel: Parcel
    start: int
    stop: int
    local: bool


class SendOwn(NamedTuple):
    """Write a message of our own to the link; it is numbered like any other, and never queued."""

    link: int
    wire: bytes


class SendItem(NamedTuple):
    """Write a link item."""

    link: int
    item: link_items.Item


class Fetch(NamedTuple):
    """Read messages owed to `recipient` from arrival `position` on, up to these limits, and pass them to `fetched`."""

    recipient: bytes
    position: int
    messages: int
    bytes: int


class LookAtQueue(NamedTuple):
    """Read which messages are owed to `recipient` that arrived from `position` on and before `before`, without their
    bytes, about so many, and pass them to `Stranded.look`."""

    recipient: bytes
    position: int
    before: int
    messages: int


class DialNeighbour(NamedTuple):
    """Connect to a key without an open link, for which messages wait."""

    key: bytes


class ListenFor(NamedTuple):
    """Listen at a URL for a service of this node, in place of the earlier one; "": nowhere."""

    service: bytes
    url: str


class Reconcile(NamedTuple):
    """Replace the neighbours to dial by these, each at its addresses."""

    neighbours: tuple[Neighbour, ...]


class ServiceAnswered(NamedTuple):
    """Pass on a service's answer to the question with this number, which was sent by `Router.tell_service`."""

    service: bytes
    number: int
    text: bytes


class LookUpPulled(NamedTuple):
    """Look up a message of a group that a neighbour asks for, and pass it, or None, to `Pulls.looked_up`."""

    link: int
    group: bytes
    message: bytes


class LookUpPulls(NamedTuple):
    """Look up in the duplicate index what `Pulls.look_up` names, and pass the ids found to `Pulls.asked`.

    `asker`: the link of the service or app, and `number` that of its request; `messages`: the minutes in which each may
    expire (from 0 on: not named) and ids."""

    asker: int
    router: bytes
    group: bytes
    messages: tuple[tuple[range, bytes], ...]
    number: int | None = None


class AnswerInquiry(NamedTuple):
    """Work out the answer to an inquiry and pass it to `Router.answer`.

    It is from an operator's command, a neighbour's router (`neighbour`), or a local service that is not on the owner's
    socket (`service`)."""

    link: int
    inquiry: Inquiry
    neighbour: bytes | None = None
    service: bytes | None = None


class NeighbourAnswered(NamedTuple):
    """Pass on a neighbour's answer to an inquiry that was sent by `Router.ask`."""

    neighbour: bytes
    text: bytes


class InvitationAnswered(NamedTuple):
    """Keep the answer to an invitation that this node was given: the number of the reason for a refusal, or None and
    the rights until minute `expiry_min` (0: without end). `had`: this node had them before, and no use was counted."""

    id: bytes
    reason: int | None
    rights: tuple[str, ...]
    expiry_min: int
    had: bool = False


class TermsHeard(NamedTuple):
    """Keep an inviter's statement of this node's rights there: rights until minute `expiry_min` (0: without end), or
    the number of the reason why there are none, and since when (0: not known)."""

    inviter: bytes
    reason: int | None
    rights: tuple[str, ...]
    expiry_min: int


class KeyRenewed(NamedTuple):
    """Let the new key take the place of the old one in the files of the home."""

    renewal: Renewal


class LookAtFile(NamedTuple):
    """Read the configuration file, and pass its digest or fault to `Guests.looked`."""


class BeginAnew(NamedTuple):
    """Drain, and start the node again on its home: in another life if `restored` is not None, which is written
    first; by another key if `rotates_s` is not 0, which has the old one's place from that Unix second on."""

    restored: Restored | None = None
    rotates_s: int = 0


class GrantToWrite(NamedTuple):
    """A grant for the configuration file: the key's rights, its wished name, and its end (Unix seconds; 0: none)."""

    key: bytes
    name: str
    rights: frozenset[str]
    until_s: int


class WriteGuests(NamedTuple):
    """Write these grants into the configuration file if it has this digest, and pass the outcome to
    `Guests.file_written`."""

    file: bytes
    grants: tuple[GrantToWrite, ...]


class Close(NamedTuple):
    """Send a goodbye and close the link."""

    link: int
    reason: Reason
    text: str


Outside = (
    DialNeighbour
    | ListenFor
    | Reconcile
    | InvitationAnswered
    | TermsHeard
    | KeyRenewed
    | LookAtFile
    | WriteGuests
    | BeginAnew
)
"""The effects that the caller of a cycle carries out outside of it, because they may take time."""
Asking = Fetch | LookAtQueue | LookUpPulled | LookUpPulls | AnswerInquiry | NeighbourAnswered | ServiceAnswered
"""The effects whose answer the router gets at once, and decides upon in the same cycle."""
Effect = Settle | SendParcel | SendOwn | SendItem | Close | Asking | Outside


@dataclass(slots=True)
class Decision:
    """The decisions of one cycle: commit `changes`, then carry out `effects` in order."""

    changes: Changes = field(default_factory=Changes)
    effects: list[Effect] = field(default_factory=list)


class Pending:
    """Collects the changes and effects of the deciding parts until `take` hands them over."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.effects: list[Effect] = []

    def __bool__(self) -> bool:
        return bool(self.effects) or bool(self.changes)

    def take_effects(self) -> list[Effect]:
        """Return and clear the effects alone, if their changes are already committed."""
        effects, self.effects = self.effects, []
        return effects

    def take(self) -> Decision:
        decision = Decision(self.changes, self.effects)
        self.changes, self.effects = Changes(), []
        return decision
