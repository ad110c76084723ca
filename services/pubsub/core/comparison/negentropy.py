"""Comparing two sets of ids by ranges: protocol V1 of negentropy, whose first byte is 0x61 (R-C35).

The asker divides its ids, in the order of (expiry minute, id), into ranges and sends the fingerprint of each. The
answerer answers each range that differs by finer fingerprints, or by its ids where they are few; so does the asker in
turn, until it knows which ids only one side has. The answerer keeps nothing between two frames.

    frame = 0x61, range*
    range = upper bound, 0                     both sides have finished it
          | upper bound, 1, fingerprint(16)    of the sender's ids in it
          | upper bound, 2, count, id(32)*     all of the sender's ids in it
    bound = minute, length, beginning of an id(length)

A range reaches from the last bound up to its own, exclusive. Numbers are base 128, highest digit first, with 0x80 set
on all but the last digit. A minute is written as its distance from the last one, plus 1; 0 means: after everything.
Everything after the last range of a frame is finished.

Everything is bounded: a frame has at most `FRAME_BYTES_MAX` bytes, and reading it costs no more than a fixed amount per
range, because the sums of ids are kept (`id_set.py`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from .id_set import END, FINGERPRINT_BYTES, ID_BYTES, KEY_BYTES, MINUTE_BYTES, IdSet, fingerprint, minute_of

VERSION = b"\x61"
SKIP, FINGERPRINT, IDS = 0, 1, 2
PARTS = 16
"""Number of parts into which a range that differs is divided; it is listed if it holds fewer than two ids for each."""
LISTED_MAX = 2 * PARTS - 1
FRAME_BYTES_MAX = 60_000
CLOSING_BYTES = 200
"""Bytes left free at the end of a frame for ranges that close it."""
RANGES_MAX = 8_192
"""Most ranges of a frame: an honest one has no more, since a fingerprint or an id stands in most of them."""
RANGE_BYTES_MIN = 3
DIGITS_MAX = 9  # of a number: 63 bits


class BadFrame(ValueError):
    """A frame that the protocol does not allow; the text says why."""


class IdRange(Struct, frozen=True):
    """The ids of a set that expire in minute `lo` or later and before minute `hi`; positions are those of the set."""

    ids: IdSet
    lo: int = 0
    hi: int = 1 << 32

    def position(self, bound: bytes) -> int:
        """Return the position of the first key that is not before the bound, within the view."""
        low, high = self._edge(self.lo), self._edge(self.hi)
        return self.ids.position(min(max(bound, low), high))

    @property
    def span(self) -> tuple[int, int]:
        """Return the positions of the first key, and after the last one."""
        return self.position(b""), self.position(END)

    def minutes(self, lower: bytes, upper: bytes) -> tuple[int, int]:
        """Return the first and the last minute in which ids between two bounds can expire, within the view."""
        first, last = minute_of(lower.ljust(MINUTE_BYTES, b"\0")), minute_of(upper.ljust(MINUTE_BYTES, b"\0"))
        return max(first, self.lo), min(last, self.hi - 1)

    @staticmethod
    def _edge(minute: int) -> bytes:
        return minute.to_bytes(MINUTE_BYTES, "big") if minute < 1 << 32 else END


class Needed(NamedTuple):
    """An asker's knowledge of a message that it lacks: the first and the last minute in which it can expire, and its
    place in the order in which the other side took its messages (0 if unknown)."""

    first_min: int
    last_min: int
    rank: int = 0


class Differences(Struct):
    """The findings of an asker: ids that only the other side has, and keys that only this side has, both in order.

    `have` holds at most `have_max` keys; `is_cut`: there were more, and some ids in `need` may be on both sides.
    `watched`: keys in order, of which those that only this side has are in `lacked`, also beyond `have_max`."""

    have_max: int = 4096
    watched: Sequence[bytes] = ()
    lacked: set[bytes] = field(default_factory=set)
    need: dict[bytes, Needed] = field(default_factory=dict)
    have: list[bytes] = field(default_factory=list)
    is_cut: bool = False

    def compare(
        self, view: IdRange, lower: int, upper: int, theirs: dict[bytes, int], minutes: tuple[int, int]
    ) -> None:
        """Compare all ids of a range, which expire in those minutes, with those of the other side and their ranks."""
        if self.watched and lower < upper:
            first, last = view.ids.key_at(lower), view.ids.key_at(upper - 1)
            for key in self.watched[bisect_left(self.watched, first) : bisect_right(self.watched, last)]:
                if key[MINUTE_BYTES:] not in theirs and key in view.ids:
                    self.lacked.add(key)
        for key in view.ids.keys(lower, upper):
            identity = key[MINUTE_BYTES:]
            if identity in theirs:
                del theirs[identity]
            elif len(self.have) < self.have_max:
                self.have.append(key)
            else:
                self.is_cut = True
                break
        self.need |= {identity: Needed(*minutes, rank) for identity, rank in theirs.items()}


def ask(view: IdRange, frame_bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    """Return the asker's first frame."""
    frame = _Writer(frame_bytes_max)
    _divide(view, *view.span, END, frame)
    return frame.written


class Answer(NamedTuple):
    """The answerer's frame, and the ranks of the ids that it lists, in the order of the list."""

    frame: bytes
    ranks: list[int]


def count_ranges(frame: bytes) -> int:
    """Return how many ranges a frame has, and so what it costs to answer it; of one that cannot be read, how many it
    may have."""
    try:
        return sum(1 for _ in _ranges(frame)) if frame[:1] == VERSION else 0
    except BadFrame:
        return len(frame) // RANGE_BYTES_MIN


def judge(frame: bytes) -> None:
    """Raise `BadFrame` if the frame cannot be answered, whatever is held here."""
    answer(IdRange(IdSet()), frame)


def answer(view: IdRange, received: bytes, frame_bytes_max: int = FRAME_BYTES_MAX) -> Answer:
    """Return the answer to a frame; one with nothing but our version to a frame of another version.

    Raises `BadFrame`."""
    if received[:1] != VERSION:
        if received and 0x60 <= received[0] <= 0x6F:
            return Answer(VERSION, [])
        raise BadFrame("no frame of negentropy")
    frame = _compare(view, received, None, frame_bytes_max)
    return Answer(frame.written, frame.ranks)


def go_on(
    view: IdRange,
    received: bytes,
    found: Differences,
    frame_bytes_max: int = FRAME_BYTES_MAX,
    ranks: Sequence[int] = (),
) -> bytes:
    """Handle an answer and add to `found`; return the asker's next frame, b"" if all differences are found.

    `ranks`: the ranks of all ids in the answer, or none. Raises `BadFrame`."""
    if received[:1] != VERSION:
        raise BadFrame(f"version {received[:1].hex() or 'missing'} of negentropy; this is {VERSION.hex()}")
    frame = _compare(view, received, found, frame_bytes_max, ranks).written
    return frame if len(frame) > len(VERSION) else b""


def _compare(
    view: IdRange, received: bytes, found: Differences | None, frame_bytes_max: int, ranks: Sequence[int] = ()
) -> _Writer:
    """Go through the ranges of a frame. `found`: the asker's findings, None at the answerer."""
    frame, listed_before = _Writer(frame_bytes_max), 0
    (lower, end), bound, is_done = view.span, b"", False
    reached, last_bound = b"", b""
    for upper_bound, mode, given in _ranges(received):
        reached, last_bound = last_bound, upper_bound
        upper = max(lower, view.position(upper_bound))
        if mode == SKIP or (mode == FINGERPRINT and given == _fingerprint(view, lower, upper)):
            is_done, lower, bound = True, upper, upper_bound
            continue
        if mode == IDS and found is not None:
            theirs = _ids(given, ranks[listed_before : (listed_before := listed_before + len(given) // ID_BYTES)])
            found.compare(view, lower, upper, theirs, view.minutes(reached, upper_bound))
            is_done, lower, bound = True, upper, upper_bound
            continue
        mark, room = frame.mark, frame.room
        if is_done:
            frame.put(bound, SKIP)
        if mode == IDS:
            listed = _list(view, lower, upper, upper_bound, frame, room)
            if listed < upper or (frame.is_full and upper_bound != END):
                return _close(view, listed, end, frame)
        else:
            _divide(view, lower, upper, upper_bound, frame)
            if frame.is_full:
                frame.cut(mark)
                if is_done:
                    frame.put(bound, SKIP)
                return _close(view, lower, end, frame)
        is_done, lower, bound = False, upper, upper_bound
    return frame


def _divide(view: IdRange, lower: int, upper: int, upper_bound: bytes, frame: _Writer) -> None:
    """Answer a range by the fingerprints of its parts, or by its ids if they are few."""
    count, ids = upper - lower, view.ids
    if count <= LISTED_MAX:
        listed = b"".join(key[MINUTE_BYTES:] for key in ids.keys(lower, upper))
        frame.put(upper_bound, IDS, _digits(count) + listed, ids.ranks(lower, upper))
        return
    before = ids.sum_before(lower)
    for part in range(PARTS):
        size = count // PARTS + (part < count % PARTS)
        lower += size
        after = ids.sum_before(lower)
        bound = upper_bound if lower == upper else _between(*ids.keys(lower - 1, lower + 1))
        frame.put(bound, FINGERPRINT, fingerprint(after - before, _digits(size)))
        before = after


def _list(view: IdRange, lower: int, upper: int, upper_bound: bytes, frame: _Writer, room: int) -> int:
    """Answer a range by as many of its ids as there is room for; return the position after the last of them."""
    stop = min(upper, lower + room // ID_BYTES + 1)
    listed = b"".join(key[MINUTE_BYTES:] for key in view.ids.keys(lower, stop))
    bound = upper_bound if stop == upper else view.ids.key_at(stop)
    frame.put(bound, IDS, _digits(stop - lower) + listed, view.ids.ranks(lower, stop))
    return stop


def _close(view: IdRange, lower: int, end: int, frame: _Writer) -> _Writer:
    """Close a full frame by one fingerprint of everything after it."""
    frame.put(END, FINGERPRINT, _fingerprint(view, lower, end))
    return frame


def fingerprint_of(view: IdRange) -> bytes:
    """Return the fingerprint of all ids of a view."""
    return _fingerprint(view, *view.span)


def _fingerprint(view: IdRange, lower: int, upper: int) -> bytes:
    return fingerprint(view.ids.sum_before(upper) - view.ids.sum_before(lower), _digits(upper - lower))


def _between(last: bytes, first: bytes) -> bytes:
    """Return the shortest bound that separates two successive keys."""
    if last[:MINUTE_BYTES] != first[:MINUTE_BYTES]:
        return first[:MINUTE_BYTES]
    alike = next(at for at in range(MINUTE_BYTES, KEY_BYTES) if last[at] != first[at])
    return first[: alike + 1]


def _ids(listed: bytes, ranks: Sequence[int]) -> dict[bytes, int]:
    """Return the ids of a range with their ranks; all are 0 if the other side gives none."""
    ids = [listed[at : at + ID_BYTES] for at in range(0, len(listed), ID_BYTES)]
    return dict(zip(ids, ranks, strict=True)) if len(ranks) == len(ids) else dict.fromkeys(ids, 0)


# -- frames ----------------------------------------------------------------------------------------------------


class _Writer:
    """Writes the ranges of a frame."""

    def __init__(self, bytes_max: int) -> None:
        self._parts = [VERSION]
        self._size = len(VERSION)
        self._last = 0  # the minute of the last bound
        self.ranks: list[int] = []  # of the ids that are listed
        self._most = bytes_max - CLOSING_BYTES

    @property
    def written(self) -> bytes:
        return b"".join(self._parts)

    @property
    def room(self) -> int:
        """Return the bytes that may be added before the frame is full."""
        return self._most - self._size

    @property
    def is_full(self) -> bool:
        return self._size > self._most

    @property
    def mark(self) -> tuple[int, int, int, int]:
        """Return the place to which `cut` shortens the frame."""
        return len(self._parts), self._size, self._last, len(self.ranks)

    def cut(self, mark: tuple[int, int, int, int]) -> None:
        parts, self._size, self._last, listed = mark
        del self._parts[parts:], self.ranks[listed:]

    def put(self, bound: bytes, mode: int, given: bytes = b"", ranks: Sequence[int] = ()) -> None:
        if bound == END:
            distance = b"\x00\x00"
        else:
            minute, beginning = minute_of(bound), bound[MINUTE_BYTES:]
            distance = _digits(minute - self._last + 1) + _digits(len(beginning)) + beginning
            self._last = minute
        part = distance + _digits(mode) + given
        self._parts.append(part)
        self._size += len(part)
        self.ranks += ranks


def _ranges(frame: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield upper bound, mode, and the fingerprint or all ids of each range of a frame, while reading it."""
    at, minute, bound, count = len(VERSION), 0, b"", 0
    while at < len(frame):
        if (count := count + 1) > RANGES_MAX:
            raise BadFrame(f"more than {RANGES_MAX} ranges")
        distance, at = _number(frame, at)
        length, at = _number(frame, at)
        if length > ID_BYTES or (length and not distance):
            raise BadFrame(f"a bound of {length} bytes")
        minute += distance - 1 if distance else 0
        beginning, at = _taken(frame, at, length)
        last, bound = bound, END
        if last == END:
            raise BadFrame("a range behind the end")
        if distance and minute < 1 << 8 * MINUTE_BYTES:
            bound = minute.to_bytes(MINUTE_BYTES, "big") + beginning
        if bound < last:
            raise BadFrame("ranges overlap or run backwards")
        mode, at = _number(frame, at)
        if mode > IDS:
            raise BadFrame(f"mode {mode} of a range")
        size = FINGERPRINT_BYTES if mode == FINGERPRINT else 0
        if mode == IDS:
            size, at = _number(frame, at)
            size *= ID_BYTES
        given, at = _taken(frame, at, size)
        yield bound, mode, given


def _taken(frame: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size > len(frame) - at:
        raise BadFrame(f"{size} bytes are announced, {len(frame) - at} follow")
    return frame[at : at + size], at + size


def _number(frame: bytes, at: int) -> tuple[int, int]:
    number = 0
    for digit in frame[at : at + DIGITS_MAX]:
        at += 1
        number = number << 7 | digit & 0x7F
        if digit < 0x80:
            return number, at
    raise BadFrame("a number without end")


def _digits(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))
