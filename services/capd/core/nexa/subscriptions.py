"""Standing queries of neighbours: each ends with its connection. Exact prefixes are looked up by their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from services.capd.core.pattern import KEY_BYTES, Pattern

from .commands import CONTENT_LENGTHS
from .limits import NexaLimits
from .neighbour import Neighbour


class Subscription(NamedTuple):
    """The form in which a neighbour gets the matches of a standing query: under which cookie, and as ids or as
    messages."""

    cookie: int
    ids: bool


class Subscriptions:
    """The standing queries of all neighbours, each of one content or pattern of one neighbour."""

    def __init__(self, limits: NexaLimits) -> None:
        self._limits = limits
        self._exact: dict[bytes, dict[Neighbour, Subscription]] = {}
        self._masked: dict[Neighbour, dict[Pattern, Subscription]] = {}
        self._contents: dict[Neighbour, set[bytes]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._contents.values())) + sum(map(len, self._masked.values()))

    def __repr__(self) -> str:
        return f"<Subscriptions: {len(self)}>"

    def refusal(self, neighbour: Neighbour, query: bytes | Pattern) -> str:
        """Return why a new standing query of a neighbour would be one too many, or ""."""
        if neighbour.subscriptions >= self._limits.subscriptions:
            return f"more than {self._limits.subscriptions} standing queries"
        if isinstance(query, Pattern) and len(self._masked.get(neighbour, ())) >= self._limits.masked:
            return f"more than {self._limits.masked} standing queries with a mask"
        return ""

    def put(self, neighbour: Neighbour, query: bytes | Pattern, subscription: Subscription) -> None:
        """Add a standing query; it replaces one for the same content."""
        neighbour.subscriptions += not self.has(neighbour, query)
        if isinstance(query, Pattern):
            self._masked.setdefault(neighbour, {})[query] = subscription
        else:
            self._contents.setdefault(neighbour, set()).add(query)
            self._exact.setdefault(query, {})[neighbour] = subscription

    def has(self, neighbour: Neighbour, query: bytes | Pattern) -> bool:
        """Whether the neighbour has a standing query for this."""
        if isinstance(query, Pattern):
            return query in self._masked.get(neighbour, ())
        return query in self._contents.get(neighbour, ())

    def remove(self, neighbour: Neighbour, cookie: int | None = None) -> int:
        """Remove the standing queries of a neighbour with this cookie, or all; return how many there were."""
        count = 0
        for content in list(self._contents.get(neighbour, ())):
            if cookie is None or self._exact[content][neighbour].cookie == cookie:
                self._contents[neighbour].discard(content)
                del self._exact[content][neighbour]
                if not self._exact[content]:
                    del self._exact[content]
                count += 1
        for pattern, one in list(self._masked.get(neighbour, {}).items()):
            if cookie is None or one.cookie == cookie:
                del self._masked[neighbour][pattern]
                count += 1
        for by_neighbour in (self._contents, self._masked):
            if not by_neighbour.get(neighbour, True):
                del by_neighbour[neighbour]
        neighbour.subscriptions -= count
        return count

    def matching(self, data: bytes) -> Iterator[tuple[Neighbour, Subscription]]:
        """Yield each neighbour with a standing query that matches the data, and the query's form, once for each
        cookie."""
        found: dict[tuple[Neighbour, int], Subscription] = {}
        for length in CONTENT_LENGTHS:
            if len(data) >= length:
                for neighbour, one in self._exact.get(data[:length], {}).items():
                    found[neighbour, one.cookie] = one
        for neighbour, patterns in self._masked.items():
            for pattern, one in patterns.items():
                if pattern.matches(data[:KEY_BYTES]):
                    found[neighbour, one.cookie] = one
        for (neighbour, _), one in found.items():
            yield neighbour, one
