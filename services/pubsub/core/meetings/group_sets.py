"""Finding the groups that two services both want by ranges, however many each wants (R-D20; after negentropy, R-C35).

Each side draws from every group, with the nonces of one meeting, a place, a secret, and a tag for each of the two
routers. A range holds the groups whose places begin alike. Both sides exchange fingerprints of ranges: equal ones prove
that both want the same groups there, others are divided into 16, or listed by the tags of one side, of which the other
returns those that it shares. Both sides know the groups in common at the end, and have proved them to each other:
fingerprint and tag differ by sender, so what a router said cannot be said back to it, and both need the group's key.

    frame = more(1), item*             more: 1 if the sender has more to say than fits into this frame
    item  = depth(1), beginning((depth + 1) / 2), kind(1), content
            0, fingerprint(16)         of the sender's groups in the range: the first word, or: yours are the same
            1, fingerprint(16) * 16    the sender's differ, in each sixteenth of the range
            2, count(2), tag(16)*      all of the sender's in the range
            3, count(2), tag(16)*      the sender's among those that were listed

The side that began the meeting says the first word, the range of depth 0. Frames alternate. Every item but that one
answers what the other side said about its range, once: so the bytes, the rounds and the work that a hostile side can
cause are bounded by the number of groups wanted here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

from blake3 import blake3

from router.core.wire.crypto import digest
from router.core.wire.meeting import TAG_BYTES, Meeting

PARTS = 16
LISTED_MAX = 2 * PARTS - 1
"""A range with at most so many groups of this side is listed and not divided."""
DEPTH_MAX = 15
"""The depth at which a range is listed in any case; places of honest keys differ long before."""
FRAME_BYTES_MAX = 60_000
FINGERPRINT_BYTES = 16
PLACE_BYTES = 8
SECRET_BYTES = 32
DRAWN_BYTES = PLACE_BYTES + SECRET_BYTES + 2 * TAG_BYTES
NUMBER_BYTES = 2

_DRAW_LABEL = b"upsycle agree 1"
_FINGERPRINT_LABEL = b"upsycle agree range 1"
_BITS = 8 * PLACE_BYTES
_SECRET_MASK = (1 << 8 * SECRET_BYTES) - 1


class BrokenAgreement(ValueError):
    """A frame that the protocol does not allow; the text says why."""


class ItemKind(Enum):
    """The kinds of items, by their number in a frame."""

    SAME, DIVIDED, LISTED, SHARED = range(4)


class Range(NamedTuple):
    """The places whose first `depth` digits of four bits are `beginning`."""

    depth: int = 0
    beginning: int = 0

    @property
    def bounds(self) -> tuple[int, int]:
        """Return the first place within, and the first one after it."""
        bits = _BITS - 4 * self.depth
        return self.beginning << bits, (self.beginning + 1) << bits

    def parts(self) -> list[Range]:
        return [Range(self.depth + 1, self.beginning * PARTS + part) for part in range(PARTS)]

    @property
    def written(self) -> bytes:
        return bytes((self.depth,)) + self.beginning.to_bytes((self.depth + 1) // 2, "big")


class GroupSet:
    """The groups wanted here as one meeting shows them, in the order of their places. It does not change."""

    __slots__ = ("_before", "_groups", "_places", "_senders", "mine", "theirs")

    def __init__(self, meeting: Meeting, groups: Iterable[bytes]) -> None:
        self._senders = (meeting.own, meeting.other)
        low, high = sorted(self._senders)
        start = blake3(_DRAW_LABEL + low + high + meeting.first + meeting.second)
        rows = sorted([(_draw(start, group), group) for group in groups])
        self._groups = [group for _, group in rows]
        self._places = [int.from_bytes(drawn[:PLACE_BYTES], "big") for drawn, _ in rows]
        secrets = (int.from_bytes(drawn[PLACE_BYTES : PLACE_BYTES + SECRET_BYTES], "big") for drawn, _ in rows)
        self._before = list(accumulate(secrets, initial=0))
        first = [drawn[-2 * TAG_BYTES : -TAG_BYTES] for drawn, _ in rows]
        second = [drawn[-TAG_BYTES:] for drawn, _ in rows]
        self.mine, self.theirs = (first, second) if meeting.own == low else (second, first)

    def __repr__(self) -> str:
        return f"<{len(self._groups)} groups in a meeting>"

    def __len__(self) -> int:
        return len(self._groups)

    def run(self, of: Range) -> range:
        """Return the positions of the groups in a range."""
        low, high = of.bounds
        start = bisect_left(self._places, low)
        return range(start, bisect_left(self._places, high, start))

    def groups(self, positions: Iterable[int]) -> list[bytes]:
        return [self._groups[at] for at in positions]

    def fingerprint(self, of: Range, *, mine: bool) -> bytes:
        """Return this side's fingerprint of a range, or the one of a partner that wants the same groups there."""
        run = self.run(of)
        total = (self._before[run.stop] - self._before[run.start]) & _SECRET_MASK
        sender = self._senders[0 if mine else 1]
        text = sender + of.written + len(run).to_bytes(4, "big") + total.to_bytes(SECRET_BYTES, "big")
        return digest(_FINGERPRINT_LABEL + text)[:FINGERPRINT_BYTES]


def _draw(start: blake3, group: bytes) -> bytes:
    one = start.copy()
    one.update(group)
    return one.digest(DRAWN_BYTES)


class Agreement:
    """One side of an agreement. `common`: the groups that the other side has proved to want, so far.

    Its caller hands over one frame after the other, and sends what `next_frame` returns until `is_done`."""

    __slots__ = ("_open", "_said", "_set", "_to_say", "common", "others_more")

    def __init__(self, groups: GroupSet, *, asks: bool) -> None:
        self._set = groups
        self.common: set[bytes] = set()
        self.others_more = False
        self._said = False
        self._open: dict[Range, ItemKind] = {}  # what this side said of each range about which the other owes a word
        self._to_say: deque[tuple[Range, ItemKind, Collection[int]]] = deque()  # answers, with the positions they list
        if asks:
            self._to_say.append((Range(), ItemKind.SAME, ()))
            self._open[Range()] = ItemKind.SAME
        else:
            self._open[Range()] = ItemKind.DIVIDED  # the first word is awaited

    def __repr__(self) -> str:
        return f"<agreement on {len(self.common)} of {self._set!r}; {len(self._open)} ranges are open>"

    @property
    def is_done(self) -> bool:
        """Whether both sides have said all, as far as this one knows."""
        return not (self._open or self._to_say or self.others_more)

    @property
    def owes_frame(self) -> bool:
        """Whether the other side waits for a frame: with answers, or to go on itself."""
        return bool(self._to_say) or self.others_more

    def next_frame(self, bytes_max: int = FRAME_BYTES_MAX) -> bytes:
        """Return the next frame: as many answers as fit, at least one if there is one."""
        parts, size = list[bytes](), 1
        while self._to_say:
            part = self._item(*self._to_say[0])
            size += len(part)
            if parts and size > bytes_max:
                break
            parts.append(part)
            self._to_say.popleft()
        return bytes((bool(self._to_say),)) + b"".join(parts)

    def hear(self, frame: bytes) -> None:
        """Handle a frame of the other side; raise `BrokenAgreement` if it is not allowed. What is proved stays so."""
        more, items = read_frame(frame)
        for of, kind, content in items:
            self._hear(of, kind, content)
        self.others_more = more

    # -- what the other side says --------------------------------------------------------------------------------------

    def _hear(self, of: Range, kind: ItemKind, content: list[bytes]) -> None:
        said = self._open.pop(of, None)
        if said is None:
            raise BrokenAgreement("a word about a range for which none is awaited")
        if (kind is ItemKind.SHARED) is not (said is ItemKind.LISTED):
            raise BrokenAgreement("a list is answered by what is shared of it, and nothing else is")
        match kind:
            case ItemKind.SAME if said is ItemKind.DIVIDED:  # the first word
                self._judge(of, content[0])
            case ItemKind.SAME:
                if content[0] != self._set.fingerprint(of, mine=False):
                    raise BrokenAgreement("a range that is said to be the same is another one")
                self.common.update(self._set.groups(self._set.run(of)))
            case ItemKind.DIVIDED:
                if of.depth >= DEPTH_MAX:
                    raise BrokenAgreement("a range is divided too often")
                for part, theirs in zip(of.parts(), content, strict=True):
                    self._judge(part, theirs)
            case ItemKind.LISTED:
                told = frozenset(content)
                shared = [at for at in self._set.run(of) if self._set.theirs[at] in told]
                self.common.update(self._set.groups(shared))
                self._to_say.append((of, ItemKind.SHARED, shared))
            case ItemKind.SHARED:
                by_tag = {self._set.theirs[at]: at for at in self._listed(of)}
                if not by_tag.keys() >= set(content):
                    raise BrokenAgreement("a tag stands for none of the groups that were listed")
                self.common.update(self._set.groups([by_tag[tag] for tag in content]))

    def _judge(self, of: Range, theirs: bytes) -> None:
        """Answer a fingerprint of the other side."""
        run = self._set.run(of)
        if theirs == self._set.fingerprint(of, mine=False):
            self.common.update(self._set.groups(run))
            self._to_say.append((of, ItemKind.SAME, ()))
        elif len(run) <= LISTED_MAX or of.depth >= DEPTH_MAX:
            self._open[of] = ItemKind.LISTED
            self._to_say.append((of, ItemKind.LISTED, self._listed(of)))
        else:
            self._open.update(dict.fromkeys(of.parts(), ItemKind.SAME))
            self._to_say.append((of, ItemKind.DIVIDED, ()))

    def _listed(self, of: Range) -> range:
        return self._set.run(of)[:LISTED_MAX]

    def _item(self, of: Range, kind: ItemKind, positions: Collection[int]) -> bytes:
        match kind:
            case ItemKind.SAME:
                content = self._set.fingerprint(of, mine=True)
            case ItemKind.DIVIDED:
                content = b"".join([self._set.fingerprint(part, mine=True) for part in of.parts()])
            case _:
                content = len(positions).to_bytes(NUMBER_BYTES, "big")
                content += b"".join(sorted([self._set.mine[at] for at in positions]))
        return of.written + bytes((kind.value,)) + content


# -- frames ------------------------------------------------------------------------------------------------------------


def read_frame(frame: bytes) -> tuple[bool, list[tuple[Range, ItemKind, list[bytes]]]]:
    """Return whether the sender has more to say, and the items of a frame; raise `BrokenAgreement`."""
    if not frame or frame[0] > 1 or len(frame) > FRAME_BYTES_MAX:
        raise BrokenAgreement("no frame of an agreement")
    return bool(frame[0]), list(_items(frame))


def _items(frame: bytes) -> Iterator[tuple[Range, ItemKind, list[bytes]]]:
    at = 1
    while at < len(frame):
        depth = frame[at]
        beginning, at = _taken(frame, at + 1, (depth + 1) // 2)
        of = Range(depth, int.from_bytes(beginning, "big"))
        if depth > DEPTH_MAX or of.beginning >= 1 << 4 * depth:
            raise BrokenAgreement("a range that does not exist")
        number, at = _taken(frame, at, 1)
        if number[0] >= len(ItemKind):
            raise BrokenAgreement(f"an item of kind {number[0]}")
        kind = ItemKind(number[0])
        count = {ItemKind.SAME: 1, ItemKind.DIVIDED: PARTS}.get(kind, 0)
        if not count:
            listed, at = _taken(frame, at, NUMBER_BYTES)
            count = int.from_bytes(listed, "big")
        content, at = _taken(frame, at, count * TAG_BYTES)
        yield of, kind, [content[one : one + TAG_BYTES] for one in range(0, len(content), TAG_BYTES)]


def _taken(frame: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size > len(frame) - at:
        raise BrokenAgreement(f"{size} bytes are announced, {max(0, len(frame) - at)} follow")
    return frame[at : at + size], at + size
