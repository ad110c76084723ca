"""What the deciding core asks its caller to do: changes to commit first, then effects to carry out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from router.core.log import events
from router.core.wire import link_items
from router.core.wire.admin import Inquiry
from router.core.wire.link_items import Missed
from router.core.wire.reasons import Reason

from .directory import Neighbour
from .groups import Subscription
from .intake import Refusal
from .parcel import Parcel
from .routes import Route


class Now(NamedTuple):
    """One reading of both clocks, in nanoseconds.

    While the wall clock is not believed there are two times: what it shows, and what verdicts go by. `ahead_ns` is by
    how much the first is ahead of the second, and `wall_ns` the later of both: nothing accepted ends the sooner for it.
    """

    wall_ns: int
    mono_ns: int
    ahead_ns: int = 0

    @property
    def wall_s(self) -> int:
        return self.wall_ns // 1_000_000_000

    @property
    def judged_s(self) -> int:
        """The Unix second that verdicts go by."""
        return (self.wall_ns - max(0, self.ahead_ns)) // 1_000_000_000

    @property
    def shown_ns(self) -> int:
        """What the wall clock shows."""
        return self.wall_ns + min(0, self.ahead_ns)

    @property
    def earliest_ns(self) -> int:
        """The earlier of both times: what has had its time by this one, has had it by either."""
        return self.wall_ns - abs(self.ahead_ns)

    @property
    def mono_s(self) -> float:
        return self.mono_ns / 1e9


class Finished(NamedTuple):
    """Messages start..stop-1, of so many bytes, of the parcel at arrival `first` are no longer owed to `recipient`."""

    recipient: bytes
    first: int
    start: int
    stop: int
    size: int


@dataclass(slots=True)
class Changes:
    """One transaction. What the store commits is exactly what the decisions of one batch changed."""

    parcels: list[Parcel] = field(default_factory=list)
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
    book: dict[bytes, bytes | None] = field(default_factory=dict)  # see core/routing/book.py; None: gone
    defer: list[tuple[int, int]] = field(default_factory=list)  # (parcel's first, look again at second)
    events: list[events.Event] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)


class Settle(NamedTuple):
    """Tell the neighbour that its first `n` are settled, some of them refused; `size` bytes are no longer in flight."""

    link: int
    n: int
    refusals: list[Refusal]
    size: int


class SendParcel(NamedTuple):
    """Write messages start..stop-1 of the parcel to the link; `local`: naming the router they came through."""

    link: int
    parcel: Parcel
    start: int
    stop: int
    local: bool


class SendOwn(NamedTuple):
    """Write this message of our own to the link. It is counted like any other, and never queued."""

    link: int
    wire: bytes


class SendItem(NamedTuple):
    """Write a link item."""

    link: int
    item: link_items.Item


class Fetch(NamedTuple):
    """Read what is owed to `recipient` from arrival `position` on, at most so much, and hand it to `fetched`."""

    recipient: bytes
    position: int
    messages: int
    bytes: int


class Dial(NamedTuple):
    """Something waits for this key and no link is open."""

    key: bytes


class Reconcile(NamedTuple):
    """The neighbours are these now: dial them where they say, and no others."""

    neighbours: tuple[Neighbour, ...]


class ServiceAnswered(NamedTuple):
    """A service answers the question of that number, which `Router.tell_service` gave it."""

    service: bytes
    number: int
    text: bytes


class Pulled(NamedTuple):
    """A neighbour asks for a message of a group by its id; if it is still here, give it to `Router.pulled`."""

    link: int
    group: bytes
    message: bytes


class Inquire(NamedTuple):
    """An operator's command asks, or the router that is a `neighbour`, or a local `service` that did not come by the
    owner's socket; the answer goes back through `Router.answer`."""

    link: int
    inquiry: Inquiry
    neighbour: bytes | None = None
    service: bytes | None = None


class NeighbourAnswered(NamedTuple):
    """A neighbour's router answers what it was asked through `Router.ask`."""

    neighbour: bytes
    text: bytes


class Close(NamedTuple):
    """Say goodbye and close."""

    link: int
    reason: Reason
    text: str


Effect = (
    Settle | SendParcel | SendOwn | SendItem | Fetch | Dial | Reconcile | Pulled | Inquire | NeighbourAnswered
    | ServiceAnswered | Close
)  # fmt: skip


@dataclass(slots=True)
class Decision:
    """What one cycle decided: commit `changes`, then carry out `effects` in their order."""

    changes: Changes = field(default_factory=Changes)
    effects: list[Effect] = field(default_factory=list)


class Pending:
    """Where the deciding parts lay down what is to be done. `take` hands it over and starts afresh."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.effects: list[Effect] = []

    def __bool__(self) -> bool:
        return bool(self.effects) or bool(self.changes)

    def take_effects(self) -> list[Effect]:
        """Only what is to be carried out: for effects of what has been committed before."""
        effects, self.effects = self.effects, []
        return effects

    def take(self) -> Decision:
        decision = Decision(self.changes, self.effects)
        self.changes, self.effects = Changes(), []
        return decision
