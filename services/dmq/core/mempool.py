"""The live messages, in the order in which they were taken, within limits (CIP-137, "Message invalidation").

No message itself is here: its bytes and its row are on disk under its number. The rows to be written are returned as
`Row`s; after a restart they are loaded again. A row costs some 160 bytes of memory.

Pace: other nodes refuse a pool's second message within a minute, and signers never repeat one. So a local message that
comes early is taken, given to consumers at once, and offered to peers only when they would take it.

Ids do not name the pool: a pool that signs another's payload gets its id. So a message counts as known only if its own
pool has it under that id, and peers get the latest local one under an id.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from math import ceil
from typing import Any

from msgspec import Struct, field

from router.core.wire.text import counted

from .id_index import IdIndex
from .messages.authentication import Moment
from .messages.certificate import POOL_ID_BYTES, PoolId
from .messages.fault import Fault, Rejected
from .messages.signed_message import ID_BYTES, SignedMessage

PAGES_MAX = 64
"""Most pages that are remembered until the next change."""
DEAD_MAX = 1024
"""Most rows of dead messages that are kept in addition to as many as are live."""
RECENT_MAX = 1024
"""Number of the latest rows that are kept as they are given out, since nearly all that is asked for is among them."""


class MempoolLimits(Struct, frozen=True):
    """Most live messages and their bytes; `paced_max`: most messages of a pool that wait for peers.

    `pause_s`: seconds between two messages of one pool to peers; 0: none. `pool_relayed_max`: most live messages of a
    pool when a peer brings one."""

    messages_max: int = 100_000
    bytes_max: int = 256 << 20
    pool_messages_max: int = 100
    pool_bytes_max: int = 400_000
    paced_max: int = 8
    pause_s: float = 60.0
    pool_relayed_max: int = 38


class Row(Struct, frozen=True, gc=False):
    """A live message. Times are Unix seconds; from `peers_at` on it is offered to peers."""

    number: int
    id: bytes
    pool: PoolId
    size: int
    expires_at: float
    peers_at: float


class _Share(Struct):
    """The numbers of one pool's live messages, in order; the times from which the last ones are offered to peers."""

    pool: PoolId
    numbers: array[int] = field(default_factory=lambda: array("Q"))
    bytes: int = 0
    peers_at: tuple[float, ...] = ()

    @property
    def messages(self) -> int:
        return len(self.numbers)

    def waiting(self, wall_s: float) -> int:
        return len(self.peers_at) - bisect_right(self.peers_at, wall_s)


_NOTHING = _Share(PoolId(bytes(POOL_ID_BYTES)))
"""The share of a pool without messages; it never changes."""


class Mempool:
    """The live messages of one topic."""

    def __init__(self, limits: MempoolLimits) -> None:
        self._limits = limits
        self._shares: dict[PoolId, _Share] = {}
        self._rows = _Rows()
        self._by_id = IdIndex(self._rows.id_of)
        self._by_second: defaultdict[int, array[int]] = defaultdict(lambda: array("Q"))
        self._pages: dict[tuple[int, int], tuple[Row, ...]] = {}
        self.bytes = 0
        self.last = 0
        """The number of the message that was taken last."""

    def __repr__(self) -> str:
        return f"<Mempool of {len(self)} messages, {self.bytes} bytes, {len(self._shares)} pools>"

    def __len__(self) -> int:
        return len(self._rows)

    def knows(self, message: SignedMessage) -> bool:
        """Whether the message's pool has a live message under its id."""
        if not (numbers := self._by_id.numbers(message.id)):
            return False
        pool, rows = message.certificate.pool, [self._rows.get(number) for number in numbers]
        return any(row is not None and row.pool == pool for row in rows)

    def judge(self, message: SignedMessage, moment: Moment, *, is_relayed: bool = False) -> Rejected | None:
        """Return why there is no room for the message, first by the pool's own limits; None if there is. `is_relayed`:
        a peer has brought it."""
        limits, size = self._limits, len(message.wire)
        share = self._shares.get(message.certificate.pool, _NOTHING)
        count = share.messages
        if is_relayed:
            if count >= limits.pool_relayed_max:
                said = f"{counted(count, 'message')} of the pool, {limits.pool_relayed_max} at most"
                return Rejected(Fault.TOO_FREQUENT, said)
        elif (waiting := share.waiting(moment.wall_s)) >= limits.paced_max:
            return Rejected(Fault.PACE_FULL, counted(waiting, "waits", "wait"))
        if count >= limits.pool_messages_max or share.bytes + size > limits.pool_bytes_max:
            return Rejected(Fault.POOL_FULL, f"{counted(count, 'message')}, {share.bytes} bytes")
        if len(self) >= limits.messages_max or self.bytes + size > limits.bytes_max:
            return Rejected(Fault.MEMPOOL_FULL, f"{len(self)} messages, {self.bytes} bytes")
        return None

    def take(self, message: SignedMessage, expires_at: float, moment: Moment, *, is_relayed: bool = False) -> Row:
        """Take a message that has passed all checks, and return its row; one that a peer has brought is offered to
        others at once (see `provider.Spacing`)."""
        pool = message.certificate.pool
        share = self._shares.get(pool)
        former = share.peers_at if share is not None and not is_relayed else ()
        peers_at = max(moment.wall_s, former[-1] + self._limits.pause_s) if former else moment.wall_s
        row = Row(self.last + 1, message.id, pool, len(message.wire), expires_at, peers_at)
        self._add(row)
        if peers_at == moment.wall_s and len(self._shares[pool].numbers) == 1:
            self._rows.lone.add(row.number)
        return row

    def restore(self, rows: Iterable[Row], last: int) -> None:
        """Load rows that were written before, in the order of their numbers, into an empty mempool.

        `last`: the last number that was used; none is used twice, since consumers' cursors depend on them.
        """
        assert not self.last, "a mempool is restored before anything is taken"
        for row in rows:
            self._add(row)
        self.last = max(self.last, last)

    def expire(self, wall_s: float) -> list[Row]:
        """Forget the messages whose expiry has come, to the second, and return their rows."""
        due = sorted(second for second in self._by_second if second <= wall_s)
        rows = [self._rows.get(number) for second in due for number in self._by_second.pop(second)]
        found = [row for row in rows if row is not None]
        for row in found:
            self._remove(row, wall_s)
        return found

    def expires_next(self) -> int | None:
        """Return the second at which `expire` has something to do again."""
        return min(self._by_second, default=None)

    def get(self, number: int) -> Row | None:
        """Return the live message of this number."""
        return self._rows.get(number)

    def after(self, number: int) -> Iterator[Row]:
        """Yield the live messages with numbers above this one, in order."""
        return self._rows.after(number)

    def page(self, number: int, most: int, bytes_max: int) -> tuple[Row, ...]:
        """Return the first live messages behind this number, at most `most` of at most `bytes_max` bytes, but at least
        one; found once for all consumers that stand there, as long as nothing changes."""
        found = self._pages.get((number, most))
        if found is None:
            if len(self._pages) == PAGES_MAX:
                self._pages.clear()
            found = self._pages[number, most] = tuple(_fitting(self.after(number), most, bytes_max))
        return found

    def live_by_pool(self) -> list[tuple[PoolId, int]]:
        """Return how many messages of each pool are live."""
        return [(pool, share.messages) for pool, share in self._shares.items() if share.messages]

    @property
    def oldest(self) -> int:
        """Return a number below which no message is live."""
        return self._rows.first or self.last + 1

    @property
    def pools_count(self) -> int:
        """Return how many pools there are, with those whose pause is not over."""
        return len(self._shares)

    @property
    def pools(self) -> list[PoolId]:
        """Return the pools that have live messages."""
        return [pool for pool, share in self._shares.items() if share.numbers]

    def of_pool(self, pool: PoolId) -> Sequence[int]:
        """Return the numbers of a pool's live messages, in order."""
        share = self._shares.get(pool)
        return share.numbers if share is not None else ()

    def under(self, own_id: bytes) -> list[Row]:
        """Return the live messages under this id, in order: one of each pool at most."""
        return [row for row in map(self.get, sorted(self._by_id.numbers(own_id))) if row is not None]

    def served(self, own_id: bytes) -> int | None:
        """Return the number of the message that peers get under this id: the latest."""
        number = self._rows.recent_ids.get(own_id)
        return self._by_id.latest(own_id) if number is None else number

    @property
    def lone(self) -> Set[int]:
        """Return the numbers of messages, among the latest, that each are all that peers get of their pool, and that
        were offered to them when they were taken."""
        return self._rows.lone

    def _add(self, row: Row) -> None:
        share = self._shares.get(row.pool)
        if share is None:
            share = self._shares[row.pool] = _Share(row.pool)
        if share.messages == 1:
            self._rows.lone.discard(share.numbers[0])
        share.numbers.append(row.number)
        share.bytes += row.size
        if not share.peers_at or row.peers_at >= share.peers_at[-1]:
            share.peers_at = (*share.peers_at, row.peers_at)[-self._limits.paced_max :]
        self.bytes += row.size
        self.last = row.number
        self._pages.clear()
        self._rows.add(row, share.pool)
        self._by_id.add(row.id, row.number)
        self._by_second[ceil(row.expires_at)].append(row.number)

    def _remove(self, row: Row, wall_s: float) -> None:
        self._by_id.remove(row.id, row.number)
        self._rows.remove(row.number)
        self._pages.clear()
        self.bytes -= row.size
        share = self._shares[row.pool]
        share.numbers.remove(row.number)
        share.bytes -= row.size
        if not share.messages and share.peers_at[-1] + self._limits.pause_s <= wall_s:
            del self._shares[row.pool]


class _Rows:
    """Rows by number, in columns: numbers grow, and dead rows are removed when they are the majority."""

    def __init__(self) -> None:
        self._numbers = array("Q")
        self._sizes = array("I")
        self._expiries = array("d")
        self._peers_at = array("d")
        self._ids = bytearray()
        self._other_ids: dict[int, bytes] = {}  # those of another length than a digest's, by number
        self._pools: list[PoolId | None] = []
        self._dead = 0
        self._recent = OrderedDict[int, Row]()  # in the order in which they were taken
        self.recent_ids: dict[bytes, int] = {}  # the latest numbers of their ids
        self.lone: set[int] = set()  # see `Mempool.lone`

    def __len__(self) -> int:
        return len(self._numbers) - self._dead

    @property
    def first(self) -> int:
        """Return the smallest number that is known; 0 if there is none."""
        return self._numbers[0] if self._numbers else 0

    def add(self, row: Row, pool: PoolId) -> None:
        """Add a row; `pool`: the one object for all of its pool."""
        self._recent[row.number] = row
        self.lone.discard(self.recent_ids.get(row.id, 0))
        self.recent_ids[row.id] = row.number
        if len(self._recent) > RECENT_MAX:
            self._forget_recent(next(iter(self._recent)))
        self._numbers.append(row.number)
        self._sizes.append(row.size)
        self._expiries.append(row.expires_at)
        self._peers_at.append(row.peers_at)
        if len(row.id) == ID_BYTES:
            self._ids += row.id
        else:
            self._ids += bytes(ID_BYTES)
            self._other_ids[row.number] = row.id
        self._pools.append(pool)

    def get(self, number: int) -> Row | None:
        if (row := self._recent.get(number)) is not None:
            return row
        place = bisect_left(self._numbers, number)
        return self._at(place) if place < len(self._numbers) and self._numbers[place] == number else None

    def id_of(self, number: int) -> bytes:
        """Return the id of a live message."""
        if (row := self._recent.get(number)) is not None:
            return row.id
        return self._id_at(bisect_left(self._numbers, number))

    def _id_at(self, place: int) -> bytes:
        if self._other_ids and (other := self._other_ids.get(self._numbers[place])) is not None:
            return other
        return bytes(self._ids[ID_BYTES * place : ID_BYTES * (place + 1)])

    def after(self, number: int) -> Iterator[Row]:
        recent = self._recent
        for place in range(bisect_right(self._numbers, number), len(self._numbers)):
            if (row := recent.get(self._numbers[place]) or self._at(place)) is not None:
                yield row

    def remove(self, number: int) -> None:
        self._forget_recent(number)
        place = bisect_left(self._numbers, number)
        self._pools[place] = None
        self._other_ids.pop(number, None)
        self._dead += 1
        if self._dead > len(self) + DEAD_MAX:
            self._pack()

    def _forget_recent(self, number: int) -> None:
        self.lone.discard(number)
        row = self._recent.pop(number, None)
        if row is not None and self.recent_ids.get(row.id) == number:
            del self.recent_ids[row.id]

    def _at(self, place: int) -> Row | None:
        pool = self._pools[place]
        if pool is None:
            return None
        times = self._expiries[place], self._peers_at[place]
        return Row(self._numbers[place], self._id_at(place), pool, self._sizes[place], *times)

    def _pack(self) -> None:
        live = [place for place, pool in enumerate(self._pools) if pool is not None]
        self._ids = bytearray().join([self._ids[ID_BYTES * place : ID_BYTES * (place + 1)] for place in live])
        for column in (self._numbers, self._sizes, self._expiries, self._peers_at, self._pools):
            column[:] = _picked(column, live)
        self._dead = 0


def _fitting(rows: Iterator[Row], most: int, bytes_max: int) -> Iterator[Row]:
    """Yield as many rows as fit one reply, at least one."""
    size = 0
    for count, row in enumerate(rows):
        size += row.size
        if count and (count == most or size > bytes_max):
            return
        yield row


def _picked(column: Any, places: list[int]) -> Any:
    found = [column[place] for place in places]
    return array(column.typecode, found) if isinstance(column, array) else found
