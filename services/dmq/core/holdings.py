"""The data that a DMQ node holds and keeps: its mempool, its records of pools and consumers, and its counts.

Changes are kept by deeds, which are committed together with the answers that report them. The messages themselves stay
on disk, and are read from there for each reply. The rows are those of rows.py, under these keys (cddl/dmq-store.cddl):

    state   m NUMBER   r NUMBER   p POOL   c NAME   a NAME   stake   counts
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from router.core.wire.errors import RouterError
from router.service import contract as c

from . import notes, rows
from .clients.cursor import Cursor
from .clients.gone import Gone, gone, warning
from .mempool import Mempool, MempoolLimits, Row
from .messages.authentication import Authentication, Moment, Topic
from .messages.certificate import PoolId
from .messages.signed_message import Encoding, SignedMessage
from .networks import name_of
from .stake.distribution import StakeSet

STATE, STAKE, COUNTS = b"state", b"stake", b"counts"
MESSAGE, ROW, RECORD, CURSOR, ASIDE = b"m ", b"r ", b"p ", b"c ", b"a "
ACCEPTED = "accepted"
_STAKE = msgspec.msgpack.Decoder(tuple[float, dict[bytes, int]])
_COUNTS = msgspec.msgpack.Decoder(dict[str, int])


class OtherNode(RouterError):
    """A directory is of another network or encoding; the text says what to do."""


class Holdings:
    """The state of one node. `kept` shows the rows on disk; a method that changes something yields the deeds for it."""

    def __init__(
        self, kept: Mapping[bytes, bytes], encoding: Encoding, magic: int, topic: Topic, limits: MempoolLimits
    ) -> None:
        self._kept = kept
        self._encoding = encoding
        self.magic = magic
        self.mempool = Mempool(limits)
        self.authentication = Authentication(topic, encoding)
        self.cursors: dict[str, Cursor] = {}
        self.gone: dict[str, Gone] = {}
        """The consumers that are named no more, until they are forgotten."""
        self.counts: defaultdict[str, int] = defaultdict(int)
        self._kept_counts: dict[str, int] = {}
        self._kept_last = 0
        self._just_taken: dict[int, bytes] = {}
        self._has_room: bool | None = None

    def __repr__(self) -> str:
        return f"<Holdings: {self.mempool!r}, {len(self.cursors)} consumers>"

    @property
    def has_room(self) -> bool:
        """Whether the disk has room for more messages; asked once a cycle."""
        if self._has_room is None:
            self._has_room = c.has_room(self._kept)
        return self._has_room

    @property
    def can_take(self) -> bool:
        """Whether a message can be taken at all: without stake each one of a peer would be refused, and lost."""
        return self.authentication.stake is not None and self.has_room

    def settled(self) -> Iterator[c.Deed]:
        """Yield what keeps the last number and the counts, if something was taken; from now on `kept` shows what was
        taken until now."""
        self._just_taken.clear()
        self._has_room = None
        if self.mempool.last != self._kept_last:
            self._kept_last = self.mempool.last
            yield self._state()
            yield from self.counted()

    # -- the start -----------------------------------------------------------------------------------------

    def restore(self, consumers: Iterable[str], now: Moment) -> Iterator[c.Deed]:
        """Load the kept rows, and yield the deeds for consumers that are new, or are not named any more.

        Raises `BadRow`, or `OtherNode`.
        """
        state = self._kept.get(STATE)
        if state is None:
            yield self._state()
        else:
            self._take_state(rows.read_state(state))
        if STAKE in self._kept:
            at_s, pools = rows.kept_value(_STAKE, self._kept[STAKE], "the stake")
            self.authentication.stake = StakeSet({PoolId(pool): stake for pool, stake in pools.items()}, at_s)
        if COUNTS in self._kept:
            self._kept_counts = rows.kept_value(_COUNTS, self._kept[COUNTS], "the counts")
            self.counts.update(self._kept_counts)
        named = frozenset(consumers)
        found = (rows.read_row(rows.number_of(key), row) for key, row in c.kept_under(self._kept, ROW))
        self.mempool.restore(found, rows.read_state(state).last if state else 0)
        self._kept_last = self.mempool.last
        for pool, record in c.kept_under(self._kept, RECORD):
            self.authentication.records[PoolId(pool)] = rows.read_record(record, now)
        yield from self._restore_cursors(named, now.wall_s)

    def _restore_cursors(self, named: frozenset[str], wall_s: float) -> Iterator[c.Deed]:
        aside = dict(c.kept_under(self._kept, ASIDE))
        for key, kept in c.kept_under(self._kept, CURSOR):
            name, cursor = key.decode(), rows.read_cursor(kept, aside.get(key))
            cursor.forget([one for one in (*cursor.set_aside, *cursor.again) if self.mempool.get(one) is None])
            if name in named:
                self.cursors[name] = cursor
                continue
            found = self.gone[name] = gone(cursor, self.mempool, wall_s)
            yield c.Warn(warning(name, found, self.mempool, wall_s))
        yield from self.forget(wall_s)
        for name in sorted(named - self.cursors.keys()):
            self.cursors[name] = Cursor()
            yield from self.cursor(name)

    def _take_state(self, state: rows.State) -> None:
        if (state.encoding, state.magic) != (self._encoding.name, self.magic):
            theirs = f"{name_of(state.magic)} in {state.encoding}"
            said = f"it was made for the network {theirs}, and is to serve {name_of(self.magic)} in "
            said += f"{self._encoding.name}; name that network again, or give this one a home of "
            raise OtherNode(f"{said}its own, or in this home a service of another name")

    def _state(self) -> c.Put:
        return c.Put(STATE, rows.encode_state(rows.State(self._encoding.name, self.magic, self.mempool.last)))

    # -- messages ------------------------------------------------------------------------------------------

    def take(
        self, message: SignedMessage, expires_at: float, now: Moment, *, is_relayed: bool = False
    ) -> tuple[Row, list[c.Deed]]:
        """Take a message that has passed all checks; return its row, and the deeds that keep it. `is_relayed`: a peer
        has brought it."""
        has_new_record = self.authentication.take(message, now)
        row = self.mempool.take(message, expires_at, now, is_relayed=is_relayed)
        self.counts[ACCEPTED] += 1
        number = rows.key_of(row.number)
        wire = self._just_taken[row.number] = self._encoding.notified(message)
        deeds: list[c.Deed] = [c.Put(MESSAGE + number, wire), c.Put(ROW + number, rows.encode_row(row))]
        if has_new_record:
            record = self.authentication.records[row.pool]
            deeds.append(c.Put(RECORD + row.pool, rows.encode_record(record, now)))
        return row, deeds

    def wires(self, found: Sequence[Row]) -> tuple[bytes, ...]:
        """Return these messages as consumers get them."""
        just = self._just_taken
        keys = [MESSAGE + rows.key_of(row.number) for row in found if row.number not in just]
        kept = iter(c.kept_values(self._kept, keys) if keys else ())
        return tuple([just[row.number] if row.number in just else next(kept) for row in found])

    def relayed(self, found: Sequence[Row], wall_s: float) -> list[tuple[Row, bytes]]:
        """Return these messages, each as other nodes get it, without those that live too short to be given."""
        relayed, wires = self._encoding.relayed, zip(found, self.wires(found), strict=True)
        given = [(row, relayed(wire, row.expires_at - wall_s)) for row, wire in wires]
        return [(row, wire) for row, wire in given if wire is not None]

    def expire(self, wall_s: float) -> Iterator[tuple[Row, list[c.Deed]]]:
        """Forget the messages whose expiry has come; yield each with the deeds that remove it."""
        gone = self.mempool.expire(wall_s)
        for row in gone:
            number = rows.key_of(row.number)
            yield row, [c.Put(MESSAGE + number, None), c.Put(ROW + number, None)]
        numbers = [row.number for row in gone]
        for cursor in (*self.cursors.values(), *[one.cursor for one in self.gone.values()]):
            cursor.forget(numbers)

    # -- pools, consumers, counts ----------------------------------------------------------------------------

    def learn(self, stake: StakeSet) -> Iterator[c.Deed]:
        """Take a new stake distribution; yield the deeds that keep it, and that forget pools missing in it."""
        before = self.authentication.records.keys()
        self.authentication.learn(stake)
        for pool in before - self.authentication.records.keys():
            yield c.Put(RECORD + pool, None)
        pools = {bytes(pool): lovelace for pool, lovelace in stake.pools.items()}
        yield c.Put(STAKE, msgspec.msgpack.encode((stake.at_s, pools)))

    def cursor(self, name: str, *, with_aside: bool = False) -> Iterator[c.Deed]:
        """Yield the deeds that keep a consumer's cursor. `with_aside`: the messages set aside for it have changed,
        too."""
        cursor = self.cursors[name]
        yield c.Put(CURSOR + name.encode(), rows.encode_cursor(cursor))
        if with_aside:
            yield c.Put(ASIDE + name.encode(), rows.encode_aside(cursor))

    def forget(self, wall_s: float) -> Iterator[c.Deed]:
        """Forget the consumers that are named no more and have read nothing that is live."""
        for name in [name for name, one in self.gone.items() if one.until_s <= wall_s]:
            del self.gone[name]
            yield c.Put(CURSOR + name.encode(), None)
            yield c.Put(ASIDE + name.encode(), None)
            yield notes.gone(name)

    def counted(self) -> Iterator[c.Deed]:
        """Yield the deeds that keep the counts, if these have changed since they were kept."""
        counts = dict(self.counts)
        if counts != self._kept_counts:
            self._kept_counts = counts
            yield c.Put(COUNTS, msgspec.msgpack.encode(counts))
