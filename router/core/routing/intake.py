"""Read received frames into rows: header, id and shape of each message, before any rule of this node applies."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, repeat
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct, field

from router.core.link.session import MessageRun
from router.core.wire.codec import Malformed, content_at, frame
from router.core.wire.control import CARRIED
from router.core.wire.crypto import digest, hasher
from router.core.wire.message import MULTICAST, Header, body_at, goes_on, read_beginning, read_header
from router.core.wire.reasons import Reason

SIGNATURE_BYTES = 66  # with its CBOR head
_new: Callable[[type[ArrivedMessage], Iterable[Any]], ArrivedMessage] = tuple.__new__
NO_BEGINNING = b"\0"
"""No message begins so."""


class Head(NamedTuple):
    """What routing needs of a message's header. Consecutive messages of a read that begin alike share one object."""

    kind: int
    signer: bytes
    destination: bytes | None
    ttl_s: int
    expiry_min: int
    via: bytes | None


class ArrivedMessage(NamedTuple):
    """One message of a read. `frame_at`, `start`, `end` and `signer_at` are positions in the read's data."""

    k: int
    id: bytes
    head: Head
    frame_at: int
    start: int
    end: int
    signer_at: int


Refusal = tuple[int, Reason, str]


class Arrived(Struct):
    """The messages of one read of one link: `last_k` is the number of the last, `size` the bytes of all.

    `stripped`: new frames for carried messages whose VIA was removed; `join` appends them to the data.
    """

    link: int
    last_k: int
    size: int
    data: bytes
    rows: list[ArrivedMessage]
    refusals: list[Refusal]
    stripped: bytearray = field(default_factory=bytearray)

    def join(self) -> None:
        if self.stripped:
            self.data += self.stripped
            self.stripped = bytearray()

    def cut(self, k: int) -> Arrived:
        """Keep the messages before number `k` and their bytes, and return the others, with the bytes of those that were
        malformed."""
        at = bisect_left(self.rows, k, key=attrgetter("k"))
        later = [one for one in self.refusals if one[0] >= k]
        rest = Arrived(self.link, self.last_k, self.size, self.data, self.rows[at:], later)
        self.refusals = [one for one in self.refusals if one[0] < k]
        self.rows = self.rows[:at]
        self.last_k, self.size = k - 1, sum([row.end - row.frame_at for row in self.rows])
        rest.size -= self.size
        return rest


def read_messages(link: int, messages: MessageRun) -> Arrived:
    """Return rows for all well-formed messages and refusals for the others; VIA is removed from the data (R-C6)."""
    first_k, data, spans = messages
    found: list[tuple[Any, ...]] = []
    refusals: list[Refusal] = []
    view, state = memoryview(data), hasher()
    reset, update, identity = state.reset, state.update, state.digest
    has_via = False
    beginning = NO_BEGINNING
    k = first_k - 1
    for frame_at, start, end in spans:
        k += 1
        if goes_on(data, start, end, beginning):  # nearly always: it has the header of the message before it
            stop = end
        else:
            try:
                header, beginning = read_beginning(data, start, end)
            except Malformed as error:
                refusals.append((k, Reason.MALFORMED, str(error)))
                continue
            head, stop = _head(header), header.end
            signer_after = header.signer_at - start
            if header.via is not None:
                has_via, beginning = True, NO_BEGINNING
        reset()
        update(view[start + 1 : stop])
        found.append((k, identity(), head, frame_at, start, stop, start + signer_after))
    rows = list(map(_new, repeat(ArrivedMessage), found))  # `ArrivedMessage(...)` takes twice as long
    size = spans[-1][2] - spans[0][0]
    if has_via:
        data, rows = _without_via(data, rows)
    return Arrived(link, k, size, data, rows, refusals)


def carried(arrived: Arrived, row: ArrivedMessage) -> ArrivedMessage | None:
    """Return the multicast inside a unicast to this router as another row of the same data (R-A11, R-C7), or None.

    The body `[0, bstr .cbor message]` holds the message as a frame, so nothing is copied, unless it names a VIA: that
    is removed (R-C6), for the carrier counts as the neighbour that brought it. Raises `Malformed` if the body begins
    so but holds no multicast.
    """
    data = arrived.data
    at = body_at(data, row.start, row.end)
    if data[at : at + 2] != CARRIED:
        return None
    frame_at, end = at + 2, row.end - SIGNATURE_BYTES
    start = content_at(data, frame_at, end)
    header = read_header(data, start, end)
    if header.kind != MULTICAST:
        raise Malformed("only a multicast message is carried")
    identity = digest(memoryview(data)[start + 1 : header.end])
    head = _head(header)._replace(via=None)
    found = ArrivedMessage(row.k, identity, head, frame_at, start, header.end, header.signer_at)
    if header.via is not None:
        one, [found] = _without_via(data, [found], len(data) + len(arrived.stripped))
        arrived.stripped += one
    return found


def _head(header: Header) -> Head:
    return Head(header.kind, header.signer, header.destination, header.ttl_s, header.expiry_min, header.via)


def _without_via(data: bytes, rows: Sequence[ArrivedMessage], at: int = 0) -> tuple[bytes, list[ArrivedMessage]]:
    """Return new frames of these messages without VIA, and their rows for frames placed from position `at` on."""
    frames = [frame(b"\x84" + data[row.start + 1 : row.end]) for row in rows]
    bare = []
    for row, one, stop in zip(rows, frames, accumulate(map(len, frames)), strict=True):
        stop += at
        shift = stop - row.end
        bare.append(
            row._replace(frame_at=stop - len(one), start=row.start + shift, end=stop, signer_at=row.signer_at + shift)
        )
    return b"".join(frames), bare
