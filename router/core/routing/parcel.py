"""Parcels: consecutive messages that share their fate, the unit of storing, queueing and handing over.

Messages from one link with the same signer and destination that are owed to the same recipients form one parcel when
they are accepted. Its bytes are the received frames, unchanged; its arrival numbers are contiguous.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from router.core.wire.codec import head
from router.core.wire.crypto import ID_BYTES, digest
from router.core.wire.lifetime import expiry_s
from router.core.wire.now import Now
from router.core.wire.reasons import Reason

from .duplicate_index import APPS, HOLDER_BYTES

U32 = "I"
_IS_LITTLE_ENDIAN = array(U32, (1,)).tobytes()[0] == 1
_BARE = b"\x84"
_HEADS = (24, 1), (257, 2), (65_538, 3), (1 << 32, 5)  # (bytes of a frame at most, bytes of its head)
_SIGNED_TAIL = b"\x58\x20"


@dataclass(slots=True)
class Parcel:
    """`count` messages from arrival number `first` on.

    `blob` holds their frames without VIA, message i ending at byte `ends[i]`; `ids` is count * 32 bytes; `deadlines`
    are Unix seconds. `via` is the neighbour to name to local services, None if a local service sent the messages.
    Unless `stored`, only the ids are kept (ttl 0); unless `indexed`, not even the ids. `recorded`: it is kept as
    history, though the pub/sub service is no recipient. `at_ns`: when it was accepted, by the steady clock; 0 for one
    that was read from disk.
    """

    first: int
    kind: int
    signer: bytes
    destination: bytes | None
    neighbour: bytes
    via: bytes | None
    recipients: tuple[bytes, ...]
    at_s: int
    blob: bytes
    ends: array[int]
    ids: bytes
    ttls: array[int]
    expiries: array[int]
    deadlines: array[int]
    stored: bool = True
    indexed: bool = True
    recorded: bool = field(default=False, compare=False)
    at_ns: int = field(default=0, compare=False)
    _local: tuple[bytes, array[int]] | None = field(default=None, repr=False, compare=False)

    @property
    def count(self) -> int:
        return len(self.ends)

    @property
    def is_copy(self) -> bool:
        """Whether this is a copy for one router that a local service names (R-C29); the message itself is in another
        parcel."""
        return not self.indexed

    @property
    def stream(self) -> tuple[bytes, bytes | None]:
        """Return the stream, within which order matters: the signer, and for unicasts the destination."""
        return self.signer, self.destination

    @property
    def holder(self) -> bytes:
        """Return the holder for which the parcel's ids count in the duplicate index."""
        return APPS if self.via is None else self.neighbour[:HOLDER_BYTES]

    def waited_s(self, now: Now) -> float:
        """Return the seconds since it was accepted; of one that was read from disk, whole seconds of the wall clock."""
        return (now.mono_ns - self.at_ns) / 1e9 if self.at_ns else max(0.0, now.wall_s - self.at_s)

    def id(self, index: int) -> bytes:
        return self.ids[index * ID_BYTES : (index + 1) * ID_BYTES]

    def size(self, start: int, stop: int) -> int:
        """Return the bytes of the frames of messages start..stop-1."""
        return self.ends[stop - 1] - (self.ends[start - 1] if start else 0)

    def item_size(self, index: int) -> int:
        """Return the bytes of message `index` without its frame's head."""
        size = self.size(index, index + 1)
        return size - next(head_size for most, head_size in _HEADS if size <= most)

    def longest(self) -> int:
        """Return the bytes of the longest message, without its frame's head."""
        return max(map(self.item_size, range(self.count)))

    def why_expired(self, index: int) -> Reason:
        """Return what ends message `index` first: its ttl, its expiry, or the longest time that a copy waits."""
        if self.deadlines[index] >= expiry_s(self.expiries[index]):
            return Reason.EXPIRY_PASSED
        cut = self.is_copy and self.deadlines[index] < self.at_s + self.ttls[index]
        return Reason.NEXT_AWAY if cut else Reason.TTL_EXPIRED

    def expired_runs(self, indexes: Sequence[int]) -> Iterator[tuple[int, int, Reason]]:
        """Yield ascending indexes as (start, stop, reason) of unbroken runs that expire for the same reason."""
        for reason in (Reason.TTL_EXPIRED, Reason.EXPIRY_PASSED, Reason.NEXT_AWAY):
            for start, stop in unbroken(index for index in indexes if self.why_expired(index) is reason):
                yield start, stop, reason

    def frames(self, start: int, stop: int, *, local: bool = False) -> memoryview:
        """Return the frames of messages start..stop-1, ready to be written; with VIA if `local`."""
        blob, ends = (self.blob, self.ends) if not local or self.via is None else self._with_via(self.via)
        return memoryview(blob)[ends[start - 1] if start else 0 : ends[stop - 1]]

    def wire(self, index: int) -> bytes:
        """Return one message without its frame's head and without VIA."""
        raw = bytes(self.frames(index, index + 1))
        return raw[head_bytes(raw) :]

    def is_damaged(self, index: int) -> bool:
        """Whether the frame of message `index` is not the one that was received; see `damaged`."""
        start, end = self.ends[index - 1] if index else 0, self.ends[index]
        at = start + len(lead := _lead(end - start))
        return self.blob[start:at] != lead or digest(self.blob[at:end]) != self.id(index)

    def damaged(self) -> list[tuple[int, int]]:
        """Return the runs (start, stop) of messages whose frames are not those that were received.

        An id is the digest of its whole message (R-A6), so it serves as a checksum of the bytes.
        """
        blob, ids, start = self.blob, self.ids, 0
        wrong, size, lead = [], 0, b""
        for index, end in enumerate(self.ends):
            if end - start != size:
                size = end - start
                lead = _lead(size)
            at = start + len(lead)
            if blob[start:at] != lead or digest(blob[at:end]) != ids[index * ID_BYTES : (index + 1) * ID_BYTES]:
                wrong.append(index)
            start = end
        return unbroken(wrong)

    def _with_via(self, via: bytes) -> tuple[bytes, array[int]]:
        if self._local is None:
            parts: list[bytes] = []
            sizes = []
            for index in range(self.count):
                wire = self.wire(index)
                lead = head(len(wire) + 34)
                parts += (lead, b"\x85", wire[1:], _SIGNED_TAIL, via)
                sizes.append(len(lead) + len(wire) + 34)
            self._local = b"".join(parts), array(U32, accumulate(sizes))
        return self._local


def unbroken(indexes: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending indexes as unbroken runs (start, stop)."""
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index:
            runs[-1] = runs[-1][0], index + 1
        else:
            runs.append((index, index + 1))
    return runs


def words(column: array[int], *, native: bool = _IS_LITTLE_ENDIAN) -> bytes:
    """Return a column as written to disk, little-endian. `native`: the machine's own byte order is the same."""
    if not native:
        column = array(U32, column)
        column.byteswap()
    return column.tobytes()


def column_of(raw: bytes, *, native: bool = _IS_LITTLE_ENDIAN) -> array[int]:
    """Return the column that `words` wrote."""
    column = array(U32, raw)
    if not native:
        column.byteswap()
    return column


def _lead(size: int) -> bytes:
    """Return the beginning of a frame of `size` bytes, up to the first byte that its id covers."""
    lead = next(lead for most, lead in _HEADS if size <= most)
    return head(size - lead) + _BARE


def head_bytes(raw: bytes) -> int:
    """Return the length of the byte string head at the beginning of `raw`."""
    return {0x58: 2, 0x59: 3, 0x5A: 5}.get(raw[0], 1)
