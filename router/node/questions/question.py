"""The base of all questions, and the state of the message router from which they are answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from router.core.log.histogram import Histogram
from router.core.log.service_traffic import TrafficCounts
from router.core.router import Router
from router.core.wire.now import Now
from router.disk.store.terms import StoreSpace
from router.node.housekeeping import Housekeeping
from router.node.open_links import OpenLinks
from router.node.orders import ClearQueue, ClockConfirmed
from router.node.wall_clock import WallClock
from router.why.questions import MessageRecords


class AskedStore(Protocol):
    """The part of a store that is needed for answers (`router.disk.store.store.Store`)."""

    @property
    def next_seq(self) -> int: ...
    @property
    def records(self) -> MessageRecords: ...
    def oldest_s(self, recipient: bytes, wall_s: int) -> int: ...
    def space(self) -> StoreSpace: ...
    def log_values(self, after_seq: int, most: int, *, within: bool = False) -> list[tuple[int, bytes]]: ...


class CycleView(Protocol):
    """The part of the message router's cycle that is needed for answers."""

    router: Router

    @property
    def store(self) -> AskedStore: ...

    counts: TrafficCounts
    commits: int
    commit_times: Histogram
    lag: Histogram
    housekeeping: Housekeeping
    open_links: OpenLinks
    wall: WallClock

    def now(self) -> Now: ...
    def hear(self, heard: ClearQueue | ClockConfirmed) -> object: ...


Respond = Callable[[CycleView, str], Any]
"""Returns the answer to one word, as values for JSON, from the router's state and the argument after the word."""


class Questions(ABC):
    """The questions about one subject."""

    @abstractmethod
    def answers(self) -> Mapping[str, Respond]:
        """Return the method that answers each word. An answer `{"error": sentence}` says why there is no other."""
