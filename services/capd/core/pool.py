"""A pool of CAPD messages, bounded in bytes: which messages it takes, which it loses for them, and which it holds.

A message counts for its data and 128 bytes, as in the reference. Which messages are lost, and which come in, follows
one of two profiles:

    strict   ranks by current priority; a newcomer must beat each message that it displaces; messages have a largest
             size; a message past its own expiration is neither served nor matched
    compat   the reference's rules, with their faults: fixed order, no size limit, expiration is ignored

In both, a message that has expired or was rescinded stays and counts until others displace it; otherwise short-lived
messages would flood a quiet network for little work. The pool holds no message: it hands out numbers, under which its
caller keeps the bytes, and describes messages by rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from router.core.wire.reasons import Reason
from services.capd import reasons

from .columns import NEVER_S, Columns, Row
from .limits import NONCE_BYTES_MAX, PoolLimits, Profile, Standing
from .lives import Disclose, Displace, Expire, Life, after
from .message import NO_HASH, CapdMessage, is_met
from .numbers_by import NumbersBy
from .pattern import Pattern
from .priority import LIFE_S, LOCAL_PRIORITY, RELAY_PRIORITY, aged, last_second
from .ranking import FixedRanking, Order, Ranked, Ranking

EVERYTHING = 1 << 62


class Lines(NamedTuple):
    """The lines of a pool: below `local` it takes nothing, below `relay` it passes nothing on."""

    relay: float
    local: float
    highest: float


class Rejected(Struct, frozen=True):
    """The verdict on a message that is not taken; `detail` holds the values that decided."""

    reason: Reason
    detail: str = ""

    @property
    def sentence(self) -> str:
        """Return the reason's sentence with the values."""
        return f"{self.reason.sentence.rstrip('.')} ({self.detail})." if self.detail else self.reason.sentence


class Lost(NamedTuple):
    """A message that was displaced; `reason`: None if its end, by expiration or by rescinding, was logged before."""

    row: Row
    reason: Reason | None


class Taken(NamedTuple):
    """The verdict on a message that was taken, with those that it displaced."""

    row: Row
    lost: list[Lost]


class Known(NamedTuple):
    """The verdict on a message that is in the pool already."""

    row: Row


class Pool:
    """The messages of one node."""

    def __init__(self, limits: PoolLimits, profile: Profile = Profile.STRICT) -> None:
        self._limits = limits
        self._columns = Columns()
        self._is_strict = profile is Profile.STRICT
        self._order: Order = Ranking(self._columns) if self._is_strict else FixedRanking()
        self._numbers: dict[int, int | tuple[int, ...]] = {}  # by a part of the id's hash, which takes less memory
        self._rescindable: NumbersBy[bytes] = NumbersBy()
        self._past_rescinding: NumbersBy[bytes] = NumbersBy()
        self._expiring: NumbersBy[int] = NumbersBy()
        self.bytes = 0
        self.last = 0
        """The last number given; none is given twice."""

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<Pool of {len(self)} messages, {self.bytes} bytes of {self._limits.bytes_max}>"

    # -- admission -----------------------------------------------------------------------------------------

    def add(self, message: CapdMessage, own_id: bytes, now_s: int) -> Taken | Known | Rejected:
        """Judge a message that comes at a Unix second, and take it unless it is rejected."""
        if (known := self.get(own_id)) is not None:
            return Known(known)
        own = Row.of(self.last + 1, own_id, message)
        if (rejected := self._judged(message, own, now_s)) is not None:
            return rejected
        lost = self._make_room(own, now_s)
        if isinstance(lost, Rejected):
            return lost
        self._take(own, message, now_s)
        return Taken(own, lost)

    def _judged(self, message: CapdMessage, own: Row, now_s: int) -> Rejected | None:
        if self._is_strict and len(message.nonce) > NONCE_BYTES_MAX:
            return Rejected(reasons.MALFORMED, f"a nonce of {len(message.nonce)} bytes; at most {NONCE_BYTES_MAX}")
        if self._is_strict and len(message.data) > self._limits.of_one:
            return Rejected(reasons.TOO_LARGE, f"{len(message.data)} bytes; at most {self._limits.of_one}")
        if not is_met(own.id, message.difficulty_bits):
            return Rejected(reasons.BAD_WORK)
        if message.create_time > now_s:
            return Rejected(reasons.FUTURE, f"by {message.create_time - now_s} s")
        priority, line = aged(own.initial, own.create_time, now_s), self.local_line(now_s)
        if not priority >= line:
            return Rejected(reasons.BELOW_LINE, f"{priority:.4g}; it takes {line:.4g}")
        return None

    def _make_room(self, own: Row, now_s: int) -> list[Lost] | Rejected:
        """Remove the messages that the newcomer displaces; reject it, and remove none, if it does not beat each of
        them."""
        out: list[tuple[Ranked, Row]] = []
        freed, priority = 0, aged(own.initial, own.create_time, now_s)
        while self.bytes - freed + own.counted_bytes > self._limits.bytes_max:
            weakest = self._order.weakest(len(out), now_s)
            if weakest is None:
                break
            if self._is_strict and not weakest.has_faded(now_s) and weakest.priority(now_s) >= priority:
                said = f"{priority:.4g}; it would displace one of {weakest.priority(now_s):.4g}"
                return Rejected(reasons.BELOW_LINE, said)
            row = self._row(weakest.number)
            assert row is not None, "an order holds what the pool does"
            out.append((weakest, row))
            freed += row.counted_bytes
        self._order.drop(len(out))
        return [self._lose(*one, now_s) for one in out]

    def _take(self, own: Row, message: CapdMessage, now_s: int) -> None:
        self._columns.add(own, message.data)
        self._put_number(own.id, (*self._numbers_of(own.id), own.number))
        self._order.put(own, now_s)
        self.bytes += own.counted_bytes
        self.last = max(self.last, own.number)
        if message.rescind_hash != NO_HASH:
            by_hash = self._rescindable if own.life is Life.HELD else self._past_rescinding
            by_hash.add(message.rescind_hash, own.number)
        if self._is_strict and own.expires_at != NEVER_S and own.life is Life.HELD:
            self._expiring.add(own.expires_at, own.number)

    def _lose(self, own: Ranked, row: Row, now_s: int) -> Lost:
        assert after(row.life, Displace) is Life.GONE
        place = self._columns.place(row.number)
        assert place is not None
        self._columns.remove(place)
        self._put_number(row.id, tuple(one for one in self._numbers_of(row.id) if one != row.number))
        self.bytes -= row.counted_bytes
        self._expiring.discard(row.number)
        self._rescindable.discard(row.number)
        self._past_rescinding.discard(row.number)
        if row.life is not Life.HELD:
            return Lost(row, None)
        faded = reasons.FADED if own.has_faded(now_s) else reasons.DISPLACED
        return Lost(row, reasons.EXPIRED if self._has_expired(row, now_s) else faded)

    def _numbers_of(self, own_id: bytes) -> tuple[int, ...]:
        """Return the numbers of messages whose ids have the short hash of this one: hardly ever more than one."""
        found = self._numbers.get(_short(own_id), ())
        return found if isinstance(found, tuple) else (found,)

    def _put_number(self, own_id: bytes, numbers: tuple[int, ...]) -> None:
        if numbers:
            self._numbers[_short(own_id)] = numbers if len(numbers) > 1 else numbers[0]
        else:
            del self._numbers[_short(own_id)]

    def _row(self, number: int) -> Row | None:
        place = self._columns.place(number)
        return None if place is None else self._columns.row(place)

    # -- after a restart -----------------------------------------------------------------------------------

    def restore(self, row: Row, message: CapdMessage, now_s: int) -> None:
        """Load a message that was taken before a restart, in ascending order of the numbers."""
        self._take(row, message, now_s)

    # -- the ends of messages ------------------------------------------------------------------------------

    def rescind(self, rescind_hash: bytes) -> list[Row]:
        """End all messages that this hash rescinds, and return their rows."""
        numbers = self._rescindable.pop(rescind_hash)
        for number in numbers:
            self._past_rescinding.add(rescind_hash, number)
        return self._ended(numbers, Disclose)

    def holds_rescindable(self, rescind_hash: bytes) -> bool:
        """Whether the pool holds a message with this hash, which may have ended before."""
        return rescind_hash in self._rescindable or rescind_hash in self._past_rescinding

    def expire(self, now_s: int) -> list[Row]:
        """End the messages whose own expiration has come, and return their rows."""
        due = [second for second in self._expiring if second <= now_s]
        return self._ended((number for second in due for number in self._expiring.pop(second)), Expire)

    def _ended(self, numbers: Iterable[int], event: type) -> list[Row]:
        """End the messages with these numbers that have not ended before, and return their rows."""
        found: list[Row] = []
        for number in sorted(numbers):
            place = self._columns.place(number)
            if place is not None and (row := self._columns.row(place)).life is Life.HELD:
                self._columns.lives[place] = after(row.life, event)
                found.append(self._columns.row(place))
        return found

    # -- lookups -------------------------------------------------------------------------------------------

    def get(self, own_id: bytes) -> Row | None:
        """Return the row of a message in whatever state; None if it is not in the pool."""
        for number in self._numbers_of(own_id):
            place = self._columns.place(number)
            if place is not None and self._columns.id(place) == own_id:
                return self._columns.row(place)
        return None

    def rows(self) -> list[Row]:
        """Return all rows, in the order in which the messages were taken."""
        return [self._columns.row(int(place)) for place in self._columns.live()]

    def after(self, number: int, most: int) -> list[Row]:
        """Return the rows with numbers above this one, in ascending order, at most `most`."""
        return self._columns.rows(self._columns.after(number, most))

    def between(self, number: int, least: float, below: float, most: int, now_s: int) -> list[Row]:
        """Return the rows of held messages with numbers above this one whose priority is at least `least` and less than
        `below`, in ascending order of their numbers, at most `most`."""
        return self._columns.rows(self._columns.between(number, least, below, most, now_s))

    def find(self, pattern: Pattern, now_s: int, start: int = 0, most: int = EVERYTHING) -> tuple[int, list[Row]]:
        """Return the number of served messages that match, and the rows of those after the first `start`, at most
        `most`; those that were taken last come first."""
        places = self._columns.find(pattern, now_s if self._is_strict else None)[::-1]
        return len(places), self._columns.rows(places[start : start + most])

    def standing(self, row: Row, now_s: int) -> Standing:
        """Return the state of a message at a Unix second."""
        if row.life is Life.RESCINDED:
            return Standing.RESCINDED
        if row.life is Life.EXPIRED or self._has_expired(row, now_s):
            return Standing.EXPIRED
        if now_s - row.create_time >= LIFE_S:
            return Standing.FADED
        priority = aged(row.initial, row.create_time, now_s)
        return Standing.RELAYED if priority >= self.relay_line(now_s) else Standing.LOCAL

    def _has_expired(self, row: Row, now_s: int) -> bool:
        return self._is_strict and row.expires_at <= now_s

    # -- for the bench -------------------------------------------------------------------------------------

    @property
    def columns(self) -> Columns:
        """Return the columns, which the caller may read but not change."""
        return self._columns

    # -- the lines -----------------------------------------------------------------------------------------

    @property
    def _is_tight(self) -> bool:
        return self.bytes >= self._limits.bytes_max * 8 // 10 and len(self) > 0

    def local_line(self, now_s: int) -> float:
        """Return the priority below which nothing is taken: 1, or once four fifths are full that of the weakest
        message, if higher."""
        weakest = self._order.weakest(0, now_s) if self._is_tight else None
        return LOCAL_PRIORITY if weakest is None else max(LOCAL_PRIORITY, weakest.priority(now_s))

    def relay_until(self, row: Row, now_s: int) -> int:
        """Return the last Unix second at which a message may be sent to neighbours; if there is none, one before its
        creation."""
        until_s = last_second(row.initial, row.create_time, self.relay_line(now_s))
        if self._is_strict and row.expires_at != NEVER_S:
            until_s = min(until_s, row.expires_at - 1)
        return until_s

    def relay_line(self, now_s: int) -> float:
        """Return the priority below which nothing is passed on: 2, or once four fifths are full the median, if
        higher."""
        return max(RELAY_PRIORITY, self._order.middle(now_s)) if self._is_tight else RELAY_PRIORITY

    def lines(self, now_s: int) -> Lines:
        """Return all lines at a Unix second."""
        highest = max(RELAY_PRIORITY, self._order.highest(now_s)) if len(self) else RELAY_PRIORITY
        return Lines(self.relay_line(now_s), self.local_line(now_s), highest)


def _short(own_id: bytes) -> int:
    """Return 60 bits of a hash that nobody outside can predict: as a number, half the size of an id."""
    return hash(own_id) >> 4
