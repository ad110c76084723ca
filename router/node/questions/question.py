"""The base of all questions, and the state of the message router from which they are answered."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from router.core.log.events import EventCounts
from router.core.log.histogram import Histogram
from router.core.router import Router
from router.core.wire.admin import LEFT_OUT, NEXT, PAGE
from router.core.wire.now import Now
from router.disk.store.terms import StoreSpace
from router.node.housekeeping import Housekeeping
from router.node.open_links import OpenLinks
from router.node.orders import ClearQueue, ClockConfirmed
from router.node.wall_clock import WallClock
from router.why.questions import MessageRecords

ROWS_MAX = 4_000
"""Rows of one page of a list: the router makes them between two batches of messages."""
AROUND_BYTES = 100
"""Room for what stands around the rows of a page."""
Row = TypeVar("Row")


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

    counts: EventCounts
    commits: int
    commit_times: Histogram
    lag: Histogram
    housekeeping: Housekeeping
    open_links: OpenLinks
    wall: WallClock

    def now(self) -> Now: ...
    def hear(self, heard: ClearQueue | ClockConfirmed) -> object: ...


class ListPage(NamedTuple):
    """Rows of a list as values for JSON, `first` of which come before them, of `total` in all."""

    rows: Sequence[Any]
    first: int
    total: int

    def encoded(self, bytes_max: int) -> bytes:
        """Return the rows as JSON if they are the whole list and fit; else a page with as many as fit, at least one,
        and which comes next (`router.core.wire.admin.rows_in`)."""
        texts, size = list[str](), AROUND_BYTES
        for row in self.rows:
            text = json.dumps(row)
            size += len(text) + 2
            if texts and size > bytes_max:
                break
            texts.append(text)
        rows, after = f"[{', '.join(texts)}]", self.first + len(texts)
        if len(texts) == self.total:
            return rows.encode()
        more = f', "{NEXT}": {after}' if after < self.total else ""
        return f'{{"{PAGE}": {rows}, "{LEFT_OUT}": {self.total - after}{more}}}'.encode()


def page_of(found: Sequence[Row], argument: str, row: Callable[[Row], Any]) -> ListPage | dict[str, str]:
    """Return a page of a list, made by `row`: from the row whose number is the argument on, the first page without one.

    Who asks for one page after the other while the list changes may miss a row or get one twice."""
    if not ((argument.isascii() and argument.isdecimal() and len(argument) <= 18) or not argument):
        return {"error": f"a list is asked for from a row on, by its number, not {argument[:40]!r}"}
    first = min(int(argument or 0), len(found))
    return ListPage([row(one) for one in found[first : first + ROWS_MAX]], first, len(found))


Respond = Callable[[CycleView, str], Any]
"""Returns the answer to one word, as values for JSON, from the router's state and the argument after the word."""


class Questions(ABC):
    """The questions about one subject."""

    @abstractmethod
    def answers(self) -> Mapping[str, Respond]:
        """Return the method that answers each word. An answer `{"error": sentence}` says why there is no other."""
