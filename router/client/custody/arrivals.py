"""Messages that the node handed over: whole reads, single messages, and those waiting for a loop (pure).

A read is not parsed before a loop asks for a single message of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec import Struct

from router.core.wire.codec import Malformed
from router.core.wire.crypto import MessageId, digest
from router.core.wire.message import UNICAST, Header, read_header
from router.core.wire.reasons import Reason

Span = tuple[int, int, int]
UNICASTS = b""
"""The address under which unicasts wait; multicasts wait under their group's key."""


class Read(NamedTuple):
    """The bytes of one read, untouched; for each span (frame start, start, end), `data[start:end]` is a message.

    `runs`: the numbers of the messages on the connection. `redelivered`: how many of the first messages may have been
    handed over before.
    """

    data: bytes
    spans: Sequence[Span]
    runs: Sequence[tuple[int, int]]
    at_s: float
    redelivered: int
    link: int


class Arrival(Struct, eq=False):
    """One message that a loop may ask for; the `k`-th of connection number `link`."""

    link: int
    k: int
    data: bytes
    start: int
    end: int
    header: Header
    id: MessageId
    at_s: float
    redelivered: bool
    done: bool = False
    refused: tuple[Reason, str] | None = None
    said: MessageId | None = None
    """The id of the member's signed words, known once the message has been opened."""

    @property
    def address(self) -> bytes:
        return UNICASTS if self.header.kind == UNICAST else self.header.signer

    @property
    def wire(self) -> bytes:
        return self.data[self.start : self.end]


class Waiting:
    """Arrivals in order, by address and in all."""

    def __init__(self) -> None:
        self._all: OrderedDict[MessageId, Arrival] = OrderedDict()
        self._by: dict[bytes, OrderedDict[MessageId, Arrival]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Arrival]:
        return iter(self._all.values())

    def addresses(self) -> dict[bytes, int]:
        """Return the number of waiting messages for each address."""
        return {address: len(queue) for address, queue in self._by.items()}

    def get(self, id: MessageId) -> Arrival | None:
        return self._all.get(id)

    def add(self, one: Arrival) -> None:
        self._all[one.id] = one
        self._by.setdefault(one.address, OrderedDict())[one.id] = one

    def all_of(self, address: bytes) -> list[Arrival]:
        return list(self._by.get(address, {}).values())

    def first(self, address: bytes | None) -> Arrival | None:
        queue = self._all if address is None else self._by.get(address)
        return next(iter(queue.values())) if queue else None

    def remove(self, one: Arrival) -> None:
        del self._all[one.id]
        queue = self._by[one.address]
        del queue[one.id]
        if not queue:
            del self._by[one.address]


def arrivals_of(read: Read) -> tuple[list[Arrival], list[tuple[int, Malformed]]]:
    """Parse a read: return its messages, and the numbers and errors of those that are malformed."""
    data, view, again = read.data, memoryview(read.data), read.redelivered
    found, nonsense = [], []
    ks = chain.from_iterable(range(first, last + 1) for first, last in read.runs)
    for at, (k, (_, start, end)) in enumerate(zip(ks, read.spans, strict=True)):
        try:
            header = read_header(data, start, end)
        except Malformed as error:
            nonsense.append((k, error))
        else:
            id = MessageId(digest(view[start + 1 : header.end]))
            found.append(Arrival(read.link, k, data, start, end, header, id, read.at_s, at < again))
    return found, nonsense
