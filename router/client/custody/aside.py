"""Messages that are for the client itself and for no loop: requests for prekeys, answers to them, and news of renewals
(pure)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import NamedTuple

from router.client.custody.arrivals import Read
from router.core.wire.codec import Malformed
from router.core.wire.message import UNICAST, body_at, read_header
from router.core.wire.prekey_exchange import ANSWER_BYTES_MAX, is_exchange
from router.core.wire.reasons import Reason
from router.core.wire.renewal import NOTICE_BYTES_MAX, is_renewal_notice

WIRE_BYTES_MAX = max(ANSWER_BYTES_MAX, NOTICE_BYTES_MAX) + 256
"""A unicast with the longest of these bodies is no longer: two keys, two numbers, a signature, VIA."""

_TAIL_BYTES = 66  # a signature with its head

End = Callable[[tuple[Reason, str] | None], None]
"""Settles a message that was set aside, or refuses it, once."""


def is_for_client(body: bytes) -> bool:
    """Whether the body of a unicast is for a client that seals."""
    return is_exchange(body) or is_renewal_notice(body)


class Aside(NamedTuple):
    """`takes`: whether a unicast with this body is set aside; `hear` then gets its bytes, and what ends it."""

    takes: Callable[[bytes], bool]
    hear: Callable[[bytes, End], None]


def set_aside(read: Read, aside: Aside, end: Callable[[int, int, tuple[Reason, str] | None], None]) -> Read:
    """Hand over what is for no loop; return the rest of a read. `end` ends a number of a connection."""
    rest, taken = without_aside(read, aside.takes)
    for k, wire in taken:
        aside.hear(wire, partial(end, read.link, k))
    return rest


def without_aside(read: Read, takes: Callable[[bytes], bool]) -> tuple[Read, list[tuple[int, bytes]]]:
    """Return the rest of a read, and the messages that are set aside, each with its number."""
    data, spans = read.data, read.spans
    short = [at for at, (_, start, end) in enumerate(spans) if end - start <= WIRE_BYTES_MAX]
    taken = [at for at in short if data[spans[at][1] + 1] == UNICAST and takes(_body(data, *spans[at][1:]))]
    if not taken:
        return read, []
    numbers = [*chain.from_iterable(range(first, last + 1) for first, last in read.runs)]
    gone = frozenset(taken)
    kept = [at for at in range(len(spans)) if at not in gone]
    again = read.redelivered - sum(at < read.redelivered for at in taken)
    runs = [(numbers[at], numbers[at]) for at in kept]
    rest = read._replace(spans=[spans[at] for at in kept], runs=runs, redelivered=again)
    return rest, [(numbers[at], data[spans[at][1] : spans[at][2]]) for at in taken]


def _body(data: bytes, start: int, end: int) -> bytes:
    """Return the body of a unicast; nothing if it is malformed, which the loops are told."""
    try:
        header = read_header(data, start, end)
    except Malformed:
        return b""
    return data[body_at(data, start, end) : header.end - _TAIL_BYTES]
