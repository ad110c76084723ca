"""Parcels: consecutive messages that share their fate. The unit of storing, queueing and handing over.

Messages that came over one link, name the same signer and destination, and are owed to the same recipients form one
parcel when they are accepted. Its bytes are the received frames, unchanged; arrival numbers inside are contiguous.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from router.core.wire.codec import head
from router.core.wire.crypto import ID_BYTES, digest
from router.core.wire.lifetime import expiry_s
from router.core.wire.reasons import Reason

from .duplicate_index import APPS, HOLDER_BYTES

U32 = "I"
_IS_LITTLE_ENDIAN = array(U32, (1,)).tobytes()[0] == 1
_BARE = b"\x84"
_HEADS = (24, 1), (257, 2), (65_538, 3), (1 << 32, 5)  # frames up to so many bytes have so long a head
_SIGNED_TAIL = b"\x58\x20"


@dataclass(slots=True)
class Parcel:
    """`count` messages from arrival number `first` on.

    `blob` holds their frames without VIA, message i ending at byte `ends[i]`; `ids` is count * 32 bytes; `deadlines`
    are Unix seconds. `via` is the neighbour to name to local services, None for what a local service sent. Not
    `stored`: nothing but the ids is kept (ttl 0); not `indexed`: not even they.
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
    _local: tuple[bytes, array[int]] | None = field(default=None, repr=False, compare=False)

    @property
    def count(self) -> int:
        return len(self.ends)

    @property
    def stream(self) -> tuple[bytes, bytes | None]:
        """Within which order matters: the signer, and of unicasts the destination."""
        return self.signer, self.destination

    @property
    def holder(self) -> bytes:
        """For whom its ids count in the duplicate index."""
        return APPS if self.via is None else self.neighbour[:HOLDER_BYTES]

    def id(self, index: int) -> bytes:
        return self.ids[index * ID_BYTES : (index + 1) * ID_BYTES]

    def size(self, start: int, stop: int) -> int:
        """Bytes of the frames of messages start..stop-1."""
        return self.ends[stop - 1] - (self.ends[start - 1] if start else 0)

    def item_size(self, index: int) -> int:
        """Bytes of message `index` as the item of its frame, without the frame's head."""
        size = self.size(index, index + 1)
        return size - next(head_size for most, head_size in _HEADS if size <= most)

    def longest(self) -> int:
        """The bytes of the longest item."""
        return max(map(self.item_size, range(self.count)))

    def why_expired(self, index: int) -> Reason:
        """Whether the ttl or the expiry ends message `index` first."""
        return Reason.EXPIRY_PASSED if self.deadlines[index] >= expiry_s(self.expiries[index]) else Reason.TTL_EXPIRED

    def frames(self, start: int, stop: int, *, local: bool = False) -> memoryview:
        """The frames of messages start..stop-1, to be written as they are; with VIA for local services."""
        blob, ends = (self.blob, self.ends) if not local or self.via is None else self._with_via(self.via)
        return memoryview(blob)[ends[start - 1] if start else 0 : ends[stop - 1]]

    def wire(self, index: int) -> bytes:
        """One message, without its frame's head and without VIA."""
        raw = bytes(self.frames(index, index + 1))
        return raw[head_bytes(raw) :]

    def damaged(self) -> list[tuple[int, int]]:
        """The runs (start, stop) of messages whose frames are not those that were received.

        An id is the digest of all of its message (R-A6), so it vouches for the bytes as well.
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
    """Ascending indexes as the runs (start, stop) that they make."""
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index:
            runs[-1] = runs[-1][0], index + 1
        else:
            runs.append((index, index + 1))
    return runs


def words(column: array[int], *, native: bool = _IS_LITTLE_ENDIAN) -> bytes:
    """A column as it is written: little-endian, whatever the machine. `native`: the machine's own order is that."""
    if not native:
        column = array(U32, column)
        column.byteswap()
    return column.tobytes()


def column_of(raw: bytes, *, native: bool = _IS_LITTLE_ENDIAN) -> array[int]:
    """The column that was written as `words`."""
    column = array(U32, raw)
    if not native:
        column.byteswap()
    return column


def _lead(size: int) -> bytes:
    """How a frame of that many bytes begins, up to what its id is the digest of."""
    lead = next(lead for most, lead in _HEADS if size <= most)
    return head(size - lead) + _BARE


def head_bytes(raw: bytes) -> int:
    """The length of the byte string head that `raw` begins with."""
    return {0x58: 2, 0x59: 3, 0x5A: 5}.get(raw[0], 1)
