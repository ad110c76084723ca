"""What the log says is still open: the units without an end, which the node compares with its store.

A unit is one message that is owed to one recipient (docs/audit.md). Every transaction logs the units that it accepts
and ends, and writes the rows of the queues, so both must agree after each one. They are compared by identity, not by
count: a lost unit and a doubled one must not cancel out. Of each recipient there is one number, the `measure` of the
arrival numbers that are open: how many, their sum, and the sum of their squares.

The store is read a few rows at a time while transactions go on. Rows that were read already are kept up to date by the
events of later transactions, so the sum of all that was read is that of one moment, when the last row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isqrt
from typing import NamedTuple

from router.core.log.alarms import ALARM, REPEATED, UNACCOUNTED, NodeAlarm, StandingAlarms
from router.core.log.events import ID_BYTES, RENEWAL, Accepted, Logged, Noted, Outward, RouterChange, span

ENDS = frozenset(("delivered", "acked", "unconfirmed", "refused", "expired", "dropped", "evicted"))
"""The outward events that end a unit at this router."""
_SUM, _SQUARES = 64, 192
"""The bits of a measure from which the sum and the sum of squares begin; the count is below."""
_POSITION = 8

Runs = Iterable[tuple[int, int]]
"""Ranges of arrival numbers: the first, and how many."""


def measure(runs: Runs) -> int:
    """Return how many arrival numbers these ranges have, their sum, and the sum of their squares, in one number.
    Measures of disjoint ranges are added."""
    found = 0
    for first, count in runs:
        if count == 1:
            found += 1 + (first + (first * first << _SQUARES - _SUM) << _SUM)
            continue
        steps = count * (count - 1) // 2
        squares = first * (count * first + 2 * steps) + steps * (2 * count - 1) // 3
        found += count + (count * first + steps << _SUM) + (squares << _SQUARES)
    return found


class Difference(NamedTuple):
    """What the log has open beyond the store: how many units (negative: fewer), and their arrival numbers if these
    follow from the measure. `messages` is 0 if as many others are in the store instead."""

    messages: int
    arrivals: tuple[int, ...] = ()


def difference(measured: int) -> Difference:
    """Return the meaning of the difference of two measures, which is not 0."""
    count = _signed(measured, _SUM)
    rest = measured - count >> _SUM
    total = _signed(rest, _SQUARES - _SUM)
    squares = rest - total >> _SQUARES - _SUM
    if count < 0:
        return Difference(count, difference(-measured).arrivals)
    if count == 1 and squares == total * total:
        return Difference(1, (total,))
    if count == 2 and (root := isqrt(max(0, 2 * squares - total * total))) ** 2 == 2 * squares - total * total:
        return Difference(2, ((total - root) // 2, (total + root) // 2))
    return Difference(count)


def supposed(alarm: NodeAlarm) -> int:
    """Return a measure that differs from 0 as the one for which the alarm was raised: the same for one message whose
    number it names; otherwise of as many without numbers, with a sum of squares that no numbers have."""
    is_named = alarm.number == 1 and alarm.arrival >= 0
    return measure(((alarm.arrival, 1),)) if is_named else alarm.number - (1 << _SQUARES)


def _signed(number: int, bits: int) -> int:
    """Return the lowest bits of a number as a signed one."""
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


class QueuedRow(NamedTuple):
    """A row of the store: what a recipient is still owed of the parcel that begins with the arrival number `first`."""

    recipient: bytes
    first: int
    runs: tuple[tuple[int, int], ...]


class AccountCopy(NamedTuple):
    """The account at one moment, for the disk. `units`: None if they are not known."""

    next_seq: int
    units: dict[bytes, int] | None
    alarms: tuple[tuple[object, ...], ...]


class Account:
    """The open units by recipient, as the events up to `next_seq` tell them, and the alarms that stand.

    `units` is None as long as nobody knows what was open before: then the next comparison takes the store's word, but
    for what an alarm that stands says: a store that lost more, or was put back, does not tell that it is over.
    """

    def __init__(self, next_seq: int = 1, units: dict[bytes, int] | None = None) -> None:
        """Begin with the account of all events before `next_seq`; by default with a log that begins."""
        self.next_seq = next_seq
        self.units = {} if units is None and next_seq == 1 else units
        self.alarms = StandingAlarms()
        self._read: dict[bytes, int] | None = None
        self._rest: dict[bytes, int] = {}
        self._position = b""
        self._newest: Callable[[bytes], bytes] = bytes

    def __repr__(self) -> str:
        known = "nothing known" if self.units is None else f"{len(self.units)} recipients with open units"
        return f"<account up to event {self.next_seq - 1}: {known}>"

    def forget(self) -> None:
        """Let the next comparison take the store's word, because events are missing."""
        self.units = self._read = None

    def note(self, logged: Logged) -> bool:
        """Add the events of a transaction; one that was added before changes nothing. Return whether an alarm is among
        them."""
        if logged.first_seq < self.next_seq:
            return False
        if logged.first_seq != self.next_seq:
            self.forget()
        self.next_seq = logged.first_seq + sum(map(span, logged.events))
        has_alarm = False
        for event in logged.events:
            if isinstance(event, Outward):
                if event.event in ENDS:
                    self._add(event.recipient, event.parcel, -measure(event.ranges))
            elif isinstance(event, Accepted):
                opened = measure(((event.first, len(event.ids) // ID_BYTES),))
                for recipient in event.recipients:
                    self._add(recipient, event.first, opened)
            elif isinstance(event, RouterChange) and event.event == ALARM:
                self.alarms.note(event.fields)
                has_alarm = True
            elif isinstance(event, Noted) and event.event == RENEWAL:
                self._read = None  # rows have moved to another key
        return has_alarm

    def _add(self, recipient: bytes, parcel: int, measured: int) -> None:
        if self.units is not None:
            _add_to(self.units, recipient, measured)
        if self._read is not None:
            holder = self._newest(recipient)
            if holder + parcel.to_bytes(_POSITION, "big") <= self._position:
                _add_to(self._read, holder, measured)

    # -- comparing ---------------------------------------------------------------------------------------------------

    @property
    def is_comparing(self) -> bool:
        """Whether a comparison has begun and its last row has not been read."""
        return self._read is not None

    @property
    def position(self) -> bytes:
        """Return the key of the row that was read last: recipient and first arrival number; empty before the first."""
        return self._position

    def begin(self, newest: Callable[[bytes], bytes]) -> None:
        """Begin to compare. `newest` returns the key whose queue holds now what was owed to a key."""
        self._read, self._position, self._newest = {}, b"", newest

    def read(self, rows: Sequence[QueuedRow]) -> None:
        """Add the next rows of the store, in the order of their keys; no transaction may be between their reading and
        this call."""
        assert self._read is not None
        for recipient, first, runs in rows:
            _add_to(self._read, recipient, measure((first + start, stop - start) for start, stop in runs))
        if rows:
            self._position = rows[-1].recipient + rows[-1].first.to_bytes(_POSITION, "big")

    def compared(self) -> dict[bytes, Difference]:
        """End the comparison, after all rows; return the recipients of which log and store have other units open. If
        what was open before was not known, it is taken from the store now, and the differences of the alarms that stand
        are kept."""
        read, self._read = self._read, None
        assert read is not None
        if self.units is None:
            self.units = dict(read)
            for recipient, measured in self._still_different(read).items():
                _add_to(self.units, recipient, measured)
        self._rest = {recipient: -measured for recipient, measured in read.items()}
        for recipient, measured in self.units.items():
            _add_to(self._rest, self._newest(recipient), measured)
        return {recipient: difference(measured) for recipient, measured in self._rest.items()}

    def _still_different(self, read: dict[bytes, int]) -> dict[bytes, int]:
        """Return by recipient what the alarms that stand say of it: what the log had open beyond the store that was
        `read`. What was there twice is over as far as the store has nothing more; if both are said, the loss counts."""
        counts = {recipient: _signed(measured, _SUM) for recipient, measured in read.items()}
        counts[b""] = sum(counts.values())
        found: dict[bytes, int] = {}
        for alarm in self.alarms:
            if alarm.kind == UNACCOUNTED:
                found[alarm.recipient] = supposed(alarm)
            elif alarm.kind == REPEATED and (most := min(alarm.number, counts.get(alarm.recipient, 0))):
                found.setdefault(alarm.recipient, -supposed(alarm._replace(number=most)))
        return found

    def adopt(self, recipient: bytes) -> None:
        """Take the store's word, as it was just compared, for what is open for this recipient."""
        if self.units is not None:
            _add_to(self.units, recipient, -self._rest.pop(recipient, 0))

    # -- keeping -----------------------------------------------------------------------------------------------------

    def copy(self, recipients_max: int) -> AccountCopy:
        """Return the account as it stands; without its units if they are of more than `recipients_max` recipients."""
        units = self.units
        kept = dict(units) if units is not None and len(units) <= recipients_max else None
        return AccountCopy(self.next_seq, kept, self.alarms.rows())


def _add_to(measures: dict[bytes, int], recipient: bytes, measured: int) -> None:
    total = measures.get(recipient, 0) + measured
    if total:
        measures[recipient] = total
    else:
        measures.pop(recipient, None)
