"""Frames that a neighbour must not send, by name, each with the node's answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from raw_link import RawLink, multicast

from router.core.wire.codec import frame, head
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast
from router.core.wire.reasons import Reason

DAY_S = 86_400


@dataclass(frozen=True)
class BadMessage:
    """A bad message among good ones: it is refused with `[5 k reason]`."""

    name: str
    make: Callable[[RawLink, SigningKey], bytes]
    reason: Reason


@dataclass(frozen=True)
class BadBytes:
    """Bytes that end the connection, after `[8 reason]`."""

    name: str
    data: bytes
    reason: Reason


def _good(group: SigningKey) -> bytes:
    return multicast(group, b"bad input")


def _signed(group: SigningKey, header: bytes) -> bytes:
    """Return a multicast with that header, however it is written, and a valid signature."""
    signed = b"\x01" + header + frame(b"bad input")
    return b"\x84" + signed + b"\x58\x40" + group.sign(signed)


def _header(group: SigningKey, ttl: bytes, *, again: bool = False) -> bytes:
    fields = [b"\x62sn\x80", b"\x63exp" + head(expiry_min(time.time() + DAY_S), 0)]
    fields += [b"\x63grp\x58\x20" + group.public, b"\x63ttl" + ttl]
    fields += fields[-1:] if again else []
    return head(len(fields), 5) + b"".join(fields)


def _nested(depth: int) -> bytes:
    return b"\x81" * depth + b"\x00"


def forged(wire: bytes) -> bytes:
    """Return the message with another signature."""
    return wire[:-1] + bytes((wire[-1] ^ 1,))


def _of_age(group: SigningKey, seconds: float) -> bytes:
    return seal_multicast(group, b"bad input", ttl_s=60, expiry_min=expiry_min(time.time() + seconds))


BAD_MESSAGES = (
    BadMessage("truncated", lambda _, group: _good(group)[:-1], Reason.MALFORMED),
    BadMessage("cut in its header", lambda _, group: _good(group)[:20], Reason.MALFORMED),
    BadMessage("longer than it says", lambda _, group: _good(group) + b"\x00", Reason.MALFORMED),
    BadMessage("a number that is not in its shortest form",
               lambda _, group: _signed(group, _header(group, b"\x18\x05")), Reason.MALFORMED),
    BadMessage("a key of the header twice",
               lambda _, group: _signed(group, _header(group, b"\x18\x3c", again=True)), Reason.MALFORMED),
    BadMessage("a header of nested arrays", lambda _, group: _signed(group, _nested(500)), Reason.MALFORMED),
    BadMessage("a nested control message",
               lambda link, _: link.unicast(link.router, b"\x82\x01" + _nested(200), ttl_s=0), Reason.MALFORMED),
    BadMessage("a control message of an unknown type",
               lambda link, _: link.unicast(link.router, b"\x82\x18\x63\xa0", ttl_s=0), Reason.UNSUPPORTED),
    BadMessage("a body that answers what nobody asked",
               lambda link, _: link.unicast(link.router, b"\x82\x08\x99\xf0\x00" + b"\xa0" * 0xF000, ttl_s=0),
               Reason.NOT_AUTHORISED),
    BadMessage("a long control message",
               lambda link, _: link.unicast(link.router, b"\x82\x01\x98\xff" + b"\xa0" * 255, ttl_s=0),
               Reason.TOO_LARGE),
    BadMessage("wrongly signed", lambda _, group: forged(_good(group)), Reason.BAD_SIGNATURE),
    BadMessage("signed with another key",
               lambda link, group: _good(link.key).replace(link.key.public, group.public), Reason.BAD_SIGNATURE),
    BadMessage("expired", lambda _, group: _of_age(group, -120), Reason.EXPIRY_PASSED),
    BadMessage("valid for years", lambda _, group: _of_age(group, 400 * DAY_S), Reason.EXPIRY_TOO_FAR),
    BadMessage("to a group of nobody", lambda link, _: _good(link.key), Reason.NO_SUBSCRIBERS),
)  # fmt: skip


def bad_bytes(frame_bytes_max: int) -> Iterator[BadBytes]:
    yield BadBytes("an oversized frame, of which only the head comes", head(frame_bytes_max + 1), Reason.TOO_LARGE)
    yield BadBytes("a frame of 4 GiB", b"\x5a\xff\xff\xff\xff", Reason.TOO_LARGE)
    yield BadBytes("a frame's head that is not in its shortest form", b"\x58\x05hello", Reason.MALFORMED)
    yield BadBytes("a frame without a length", b"\x5f", Reason.MALFORMED)
    yield BadBytes("no frame at all", b"GET / HTTP/1.1\r\n\r\n", Reason.MALFORMED)
    yield BadBytes("an empty frame", b"\x40", Reason.MALFORMED)
    yield BadBytes("an item of an unknown type", frame(b"\x82\x0f\x00"), Reason.UNSUPPORTED)
    yield BadBytes(
        "a message of an unknown type", frame(b"\x84\x18\x2a\xa0\x40\x58\x40" + bytes(64)), Reason.UNSUPPORTED
    )
    yield BadBytes("an item with a key twice", frame(b"\x82\x02\xa2\x61a\x00\x61a\x00"), Reason.MALFORMED)
    yield BadBytes("a deeply nested item", frame(b"\x82\x05" + _nested(500)), Reason.MALFORMED)
    yield BadBytes("a wide outcome, to a router", frame(b"\x82\x09\x99\xf0\x00" + b"\xa0" * 0xF000), Reason.MALFORMED)
    yield BadBytes("a wide ping", frame(b"\x82\x06\x99\xf0\x00" + b"\xa0" * 0xF000), Reason.TOO_LARGE)
    yield BadBytes("a flood of settlings", 200 * frame(b"\x82\x04\x00"), Reason.RATE_LIMITED)
    yield BadBytes("a second hello", frame(b"\x82\x02\xa0"), Reason.MALFORMED)
    yield BadBytes("a settling of what was never sent", frame(b"\x82\x04\x19\xff\xff"), Reason.MALFORMED)
    yield BadBytes("a refusal of what was never sent", frame(b"\x83\x05\x19\xff\xff\x01"), Reason.MALFORMED)
    yield BadBytes("a flood of pings", 200 * frame(b"\x82\x06\x00"), Reason.RATE_LIMITED)
