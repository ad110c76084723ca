"""Verified reads that wait for a transaction, taken by turns of those who bring them.

Each link keeps its order. Whoever brings much waits for its own reads only; all strangers share one turn. Requests to
this router, such as to join a group, take far longer than messages, so a transaction takes few of them, and a turn
fewer; a read with more is cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from .job import Job
from .links import Link

REQUEST_BYTES_MAX = 16 << 10
"""Bytes of requests to this router after which a transaction takes no further ones: some 80 joins, or 250 groups in
which a service takes part. Either takes some 30 ms, as 2,000 messages do."""
REQUEST_BYTES_OF_TURN = 2 << 10
"""Most bytes of requests that one turn adds to a transaction, unless a single one has more."""


class ReadQueue:
    """The verified reads of all links. A transaction takes reads until it has more than `messages_max` messages or
    `bytes_max` bytes."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._reads: dict[Link, deque[Job]] = {}
        self._turns: dict[bytes, None] = {}  # who brought the reads that wait; who had a turn last stands last

    def __repr__(self) -> str:
        return f"<{sum(map(len, self._reads.values()))} reads of {len(self._reads)} links>"

    def __bool__(self) -> bool:
        return bool(self._reads)

    def __iter__(self) -> Iterator[Job]:
        """Yield the reads that wait, those of one link in their order."""
        for reads in self._reads.values():
            yield from reads

    def add(self, jobs: Iterable[Job]) -> None:
        """Append reads, in the order of their arrival."""
        for job in jobs:
            self._reads.setdefault(job.link, deque()).append(job)
            self._turns.setdefault(job.link.charged)

    def take(self) -> list[Job]:
        """Return the reads of the next transaction, one of each bringer after the other as long as there is room; if
        requests have none, those of other links go on."""
        bringers: dict[bytes, deque[Link]] = {}
        for link in self._reads:
            bringers.setdefault(link.charged, deque()).append(link)
        self._turns = dict.fromkeys(one for one in (*self._turns, *bringers) if one in bringers)
        turns = deque(self._turns)
        taken: list[Job] = []
        messages = size = requests = 0
        while turns and messages <= self._messages_max and size <= self._bytes_max:
            links = bringers[turns[0]]
            link = links.popleft()
            if requests < REQUEST_BYTES_MAX or not self._reads[link][0].requests:
                taken.append(job := self._take_from(link))
                messages += len(job.fresh) + len(job.vouched)
                size += job.arrived.size
                requests += job.request_bytes
                links += [link] if link in self._reads else []
                self._end_turn(turns, has_more=bool(links))
            elif not links:
                turns.popleft()
        return taken

    def _take_from(self, link: Link) -> Job:
        """Remove and return the first read of a link; of one with many requests only the beginning."""
        reads = self._reads[link]
        first, size = reads[0], 0
        for at, row in enumerate(first.requests):
            size += row.end - row.start
            if at and size > REQUEST_BYTES_OF_TURN:
                reads[0] = first.cut(row.k)
                return first
        reads.popleft()
        if not reads:
            del self._reads[link]
        return first

    def _end_turn(self, turns: deque[bytes], *, has_more: bool) -> None:
        """Move who had its turn behind the others, or forget it if it has no reads left."""
        bringer = turns.popleft()
        del self._turns[bringer]
        if has_more:
            self._turns[bringer] = None
            turns.append(bringer)
