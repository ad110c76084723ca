"""The open links for deciding: each neighbour's standing and limits, and the messages in flight to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from router.core.link.allowance import Allowance
from router.core.link.custody import Outgoing
from router.core.neighbours.directory import STRANGERS, UNKNOWN, Directory, Standing
from router.core.wire.codec import FRAME_BYTES_MAX
from router.core.wire.link_items import Run
from router.core.wire.reasons import Reason
from router.core.wire.redemption import Terms
from router.core.wire.run_claim import RunClaim

from .duplicate_index import APPS, HOLDER_BYTES
from .parcel import Parcel


class Flight(Struct):
    """Messages start..stop-1 of a parcel in flight on a link, the last with number `n`; parcel None: one of our own."""

    n: int
    parcel: Parcel | None
    start: int
    stop: int
    at_ns: int = 0


class Meter(Protocol):
    """A rate limit: `take` counts `count` more at `now` (monotonic seconds) and returns True, or False if too many."""

    def take(self, count: int, now: float) -> bool: ...


@dataclass(slots=True, eq=False)
class Link:
    """One open link.

    `durable`: the peer keeps its key and wants its queue while away. `owner`: it uses the owner-only socket. `app` and
    `asks_outcomes` are the peer's own claims, and give it no right; `takes_outcome_runs`: it understands an outcome of
    several messages; `hears_known`: a router that wants to hear which of its multicasts were known here. `ip`: its
    address, `place`: the prefix of that, on loopback with the user of this machine; empty if it has none. `active_s`:
    when a message was last accepted from it or settled by it. `frame_bytes_max`: the longest frame it accepts.
    `pubsub` and `discovery`: the public services of
    that router with these roles, as it says. `allowance` meters its messages, `forgeries` those with a false signature.
    `lane`: the lane in which its messages wait for verification; it changes with `charged` only when none of them
    waits, to keep their order. `charged`: the neighbour whose share of queues its messages use, a common one for all
    unknown keys without agreements; `holder`: the holder of its messages' ids in the duplicate index. `shut`: it has
    not answered our invitation yet, and until it does only this router's own messages go there.
    """

    id: int
    key: bytes
    standing: Standing
    outgoing: Outgoing
    owner: bool = False
    app: bool = False
    durable: bool = False
    asks_outcomes: bool = False
    takes_outcome_runs: bool = False
    hears_known: bool = False
    outcomes: bool = False
    uplink: bool = False
    dialled: bool = False
    lane: bytes = field(init=False)
    charged: bytes = field(init=False)
    holder: bytes = field(init=False)
    place: str = ""
    ip: str = ""
    since_s: float = 0.0
    active_s: float = 0.0
    offset_ns: int | None = None  # the other end's clock minus what ours shows; None: not compared
    up: bool = True
    shut: bool = False
    unknown_secrets: int = 0  # of invitations that this router has not made
    terms: Terms | None = None  # what it was told that it may do here; None: it has not asked
    terms_asked: bool = False  # by this router, as its guest
    is_named: bool = False  # in the log: see core/routing/rejection_log.py
    flights: deque[Flight] | tuple[()] = ()  # an empty deque takes 600 bytes
    unsaid: deque[bytes] | tuple[()] = ()  # this router's answers that wait for room
    refused: dict[int, tuple[Reason, str]] = field(default_factory=dict)
    allowance: Meter = field(default_factory=lambda: Allowance(0, 0))
    forgeries: Meter = field(default_factory=lambda: Allowance(0, 0))
    frame_bytes_max: int = FRAME_BYTES_MAX
    pubsub: bytes | None = None
    discovery: bytes | None = None
    run: Run | None = None  # of the router at the other end, as it says
    claim: RunClaim | None = None  # the same, signed; not verified yet

    def __post_init__(self) -> None:
        self._charge(self.standing not in UNKNOWN)
        self.lane = self.charged

    def _charge(self, to_itself: bool) -> None:
        self.charged = self.key if to_itself else STRANGERS
        self.holder = APPS if self.standing is Standing.LOCAL else self.charged[:HOLDER_BYTES]

    def fly(self, flight: Flight) -> None:
        """Note messages that were sent, in their order."""
        if not self.flights:
            self.flights = deque()
        self.flights.append(flight)

    def is_own(self, n: int) -> bool:
        """Whether message number `n` of those in flight is one of this router's own."""
        return any(one.parcel is None for one in self.flights if one.n == n)

    def flying(self) -> dict[int, set[int]]:
        """Return the indexes of messages in flight, by the first arrival of their parcel."""
        found: dict[int, set[int]] = {}
        for one in self.flights:
            if one.parcel is not None:
                found.setdefault(one.parcel.first, set()).update(range(one.start, one.stop))
        return found

    def takes(self, parcel: Parcel) -> bool:
        """Whether no message of the parcel is too long for the peer."""
        return len(parcel.blob) <= self.frame_bytes_max or parcel.longest() <= self.frame_bytes_max

    def admit(self, standing: Standing, directory: Directory) -> None:
        """Set everything that the configuration decides about the link, when it comes up and when the neighbours
        change."""
        self.standing = standing
        self._charge(standing not in UNKNOWN or (standing is Standing.MET and directory.agreements.is_met(self.key)))
        self.uplink = self.key in directory.uplinks
        self.outcomes = self.asks_outcomes and directory.hears_outcomes(self.key, standing)

    def __repr__(self) -> str:
        state = "up" if self.up else "down"
        whom = f"{self.standing.value} {self.key.hex()[:8]}"
        return f"<link {self.id} to {whom}, {state}, {self.outgoing.in_flight} in flight>"


class Links:
    """The open links by number and by key: one link per key."""

    def __init__(self) -> None:
        self._by_id: dict[int, Link] = {}
        self._by_key: dict[bytes, Link] = {}
        self.revision = 0

    def __iter__(self) -> Iterator[Link]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, number: int) -> Link | None:
        return self._by_id.get(number)

    def to(self, key: bytes) -> Link | None:
        return self._by_key.get(key)

    def is_stranger(self, number: int) -> bool:
        """Whether the link of this number is charged to strangers, or is not known yet."""
        found = self._by_id.get(number)
        return found is None or found.charged == STRANGERS

    def standing_of(self, key: bytes) -> Standing | None:
        found = self._by_key.get(key)
        return found.standing if found is not None else None

    def is_app(self, key: bytes) -> bool:
        """Whether the key's open link is that of an app, on this node or elsewhere, and not of a router."""
        found = self._by_key.get(key)
        return found is not None and found.app

    def add(self, link: Link) -> None:
        self._by_id[link.id] = link
        self._by_key[link.key] = link
        self.revision += 1

    def remove(self, link: Link) -> None:
        link.up = False
        del self._by_id[link.id]
        if self._by_key.get(link.key) is link:
            del self._by_key[link.key]
        self.revision += 1
