"""The open links as deciding sees them: who is there, what is in flight to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from router.core.link.custody import Outgoing
from router.core.link.session import Allowance
from router.core.wire.codec import FRAME_BYTES_MAX
from router.core.wire.reasons import Reason

from .directory import STRANGERS, Directory, Standing
from .duplicate_index import APPS, HOLDER_BYTES
from .parcel import Parcel


@dataclass(slots=True)
class Flight:
    """Messages start..stop-1 of a parcel, handed to the link, the last as its n-th. No parcel: a message of our own."""

    n: int
    parcel: Parcel | None
    start: int
    stop: int
    at_ns: int = 0


class Meter(Protocol):
    """Whether `count` more are allowed at `now` (monotonic seconds); if so, they are taken."""

    def take(self, count: int, now: float) -> bool: ...


@dataclass(slots=True, eq=False)
class Link:
    """One open link. `durable`: the peer keeps its key and wants its queue while away. `owner`: it came by the
    owner-only socket. `app` and `asks_outcomes` are what the peer says of itself, and give it no right.

    `place`: the prefix of its address, if it has one. `active_s`: when a message of it was last accepted, or one was
    taken by it. `frame_bytes_max`: it takes no longer frames. `allowance` meters its messages, `forgeries` those with a
    false signature. `lane`: among whose messages its own wait for verification; it stays, whatever the standing
    becomes, for their order must.
    """

    id: int
    key: bytes
    standing: Standing
    outgoing: Outgoing
    owner: bool = False
    app: bool = False
    durable: bool = False
    asks_outcomes: bool = False
    outcomes: bool = False
    uplink: bool = False
    dialled: bool = False
    lane: bytes = field(init=False)
    place: str = ""
    since_s: float = 0.0
    active_s: float = 0.0
    offset_ns: int | None = None  # the clock at the other end minus what ours shows; None: not compared
    up: bool = True
    is_named: bool = False  # in the log: see core/routing/door_log.py
    flights: deque[Flight] = field(default_factory=deque)
    refused: dict[int, tuple[Reason, str]] = field(default_factory=dict)
    allowance: Meter = field(default_factory=lambda: Allowance(0, 0))
    forgeries: Meter = field(default_factory=lambda: Allowance(0, 0))
    frame_bytes_max: int = FRAME_BYTES_MAX
    pulls: Allowance = field(default_factory=lambda: Allowance(0, 0))

    def __post_init__(self) -> None:
        self.lane = self.charged

    def takes(self, parcel: Parcel) -> bool:
        """Whether no message of the parcel is too long for the peer."""
        return len(parcel.blob) <= self.frame_bytes_max or parcel.longest() <= self.frame_bytes_max

    @property
    def charged(self) -> bytes:
        """The neighbour whose share of queues its messages take: strangers have one for all of them."""
        return STRANGERS if self.standing is Standing.STRANGER else self.key

    @property
    def holder(self) -> bytes:
        """For whom the ids of its messages count in the duplicate index."""
        return APPS if self.standing is Standing.LOCAL else self.charged[:HOLDER_BYTES]

    def admit(self, standing: Standing, directory: Directory) -> None:
        """What the configuration makes of the link: when it comes up, and again when the neighbours are new."""
        self.standing = standing
        self.uplink = self.key in directory.uplinks
        self.outcomes = self.asks_outcomes and directory.hears_outcomes(self.key, standing)

    def __repr__(self) -> str:
        state = "up" if self.up else "down"
        whom = f"{self.standing.value} {self.key.hex()[:8]}"
        return f"<link {self.id} to {whom}, {state}, {self.outgoing.in_flight} in flight>"


class Links:
    """By number and by key: one link per key."""

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

    def standing_of(self, key: bytes) -> Standing | None:
        found = self._by_key.get(key)
        return found.standing if found is not None else None

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
