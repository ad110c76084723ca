"""Routed messages: seal, open, verify, id and VIA (specification, "Unicast & multicast messages").

A message is deterministic CBOR of a closed shape, so everything before the body is a regular language: one pattern per
kind finds every field of a received message in place, and bytes that do not match it are malformed. The received bytes
themselves are verified, hashed, stored and forwarded; nothing is ever encoded again (R-A6):

    84 TYPE HEADER BODY 5840 SIG              the wire form      signed: wire[1:-66]   hashed: wire[1:]
    85 TYPE HEADER BODY 5840 SIG 5820 VIA     the same with VIA  signed: wire[1:-100]  hashed: wire[1:-34]
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from .codec import Malformed, head
from .crypto import MessageId, PublicKey, Signature, SigningKey, digest, verify

UNICAST = 0
MULTICAST = 1
SEEN_MAX = 16

_UINT = rb"([\x00-\x17]|\x18[\x18-\xff]|\x19(?!\x00)..|\x1a(?!\x00\x00)....)"
_BODY_HEAD = rb"([\x40-\x57]|\x58[\x18-\xff]|\x59(?!\x00)..|\x5a(?!\x00\x00)....)"
_KEY = rb"\x58\x20(.{32})"
_UNICAST = re.compile(
    rb"([\x84\x85])\x00\xa4\x63dst"
    + _KEY
    + rb"\x63exp"
    + _UINT
    + rb"\x63src"
    + _KEY
    + rb"\x63ttl"
    + _UINT
    + _BODY_HEAD,
    re.DOTALL,
)
_MULTICAST = re.compile(
    rb"([\x84\x85])\x01\xa4\x62sn([\x80-\x90])((?:\x58\x20.{32}){0,16})\x63exp"
    + _UINT
    + rb"\x63grp"
    + _KEY
    + rb"\x63ttl"
    + _UINT
    + _BODY_HEAD,
    re.DOTALL,
)
_LONG_BODY = struct.Struct(">BH").pack  # the head of a body of 256 bytes or more
_SIGNATURE_HEAD = b"\x58\x40"
_VIA_HEAD = b"\x58\x20"
_SIGNATURE_BYTES = 66
_VIA_BYTES = 34


class Unicast(Struct, frozen=True):
    """A message from one key to another, signed by the source."""

    source: PublicKey
    destination: PublicKey
    ttl_s: int
    expiry_min: int
    body: bytes
    signature: Signature
    via: PublicKey | None = None


class Multicast(Struct, frozen=True):
    """A message to all subscribers of a group, signed with the group's key, which its senders share (R-B8)."""

    group: PublicKey
    ttl_s: int
    expiry_min: int
    seen: tuple[MessageId, ...]
    body: bytes
    signature: Signature
    via: PublicKey | None = None


Message = Unicast | Multicast


class Header(NamedTuple):
    """The fields of a message that routing needs, read in place: no body is touched, only keys are copied.

    `signer` is the source of a unicast or the group of a multicast, `signer_at` where its 32 bytes lie in the
    buffer; `end` is where the message ends without its VIA.
    """

    kind: int
    signer: bytes
    destination: bytes | None
    ttl_s: int
    expiry_min: int
    signer_at: int
    end: int
    via: bytes | None


@lru_cache(maxsize=512)  # lifetimes, most of which are those of this minute's other messages
def _uint(raw: bytes) -> int:
    return raw[0] & 31 if len(raw) == 1 else int.from_bytes(raw[1:], "big")


def _split_ids(ids: bytes) -> list[bytes]:
    """Return the ids of `sn`, each with its CBOR head."""
    return [ids[at : at + _VIA_BYTES] for at in range(0, len(ids), _VIA_BYTES)]


def read_header(data: bytes, start: int, end: int) -> Header:
    """Return the header of the message at `data[start:end]`, strictly checked (R-A4, R-A5); else raise `Malformed`."""
    return read_beginning(data, start, end)[0]


def read_beginning(data: bytes, start: int, end: int) -> tuple[Header, bytes]:
    """Return the header like `read_header`, and for `goes_on` the bytes before the body and its head."""
    if end - start < 2:
        raise Malformed("shorter than any message")
    kind = data[start + 1]
    if kind == MULTICAST:
        found = _MULTICAST.match(data, start, end)
        if found is None:
            raise Malformed("not a multicast message in deterministic CBOR")
        arity, count, ids, expiry, signer, ttl, body_head = found.groups()
        if (count[0] & 31) * _VIA_BYTES != len(ids):
            raise Malformed("the list of seen ids does not have the length it announces")
        if len(ids) > _VIA_BYTES and len(set(_split_ids(ids))) * _VIA_BYTES != len(ids):
            raise Malformed("an id stands twice in the list of seen ids (R-A9)")
        destination, signer_at = None, found.start(5)
    elif kind == UNICAST:
        found = _UNICAST.match(data, start, end)
        if found is None:
            raise Malformed("not a unicast message in deterministic CBOR")
        arity, destination, expiry, signer, ttl, body_head = found.groups()
        signer_at = found.start(4)
    else:
        raise Malformed(f"message type {kind} is unknown")
    signature_at = found.end() + _uint(body_head)
    stop = signature_at + _SIGNATURE_BYTES
    via = None
    if arity == b"\x85":
        via = data[stop + 2 : stop + _VIA_BYTES]
        if data[stop : stop + 2] != _VIA_HEAD or stop + _VIA_BYTES != end:
            raise Malformed("the message does not end with a VIA key")
    elif stop != end:
        raise Malformed("the body's length does not fit the message")
    if data[signature_at : signature_at + 2] != _SIGNATURE_HEAD or stop > end:
        raise Malformed("no signature of 64 bytes after the body")
    header = Header._make((kind, signer, destination, _uint(ttl), _uint(expiry), signer_at, stop, via))
    return header, data[start : found.start(found.re.groups)]


def body_at(data: bytes, start: int, end: int) -> int:
    """Return where the body of the well-formed message at `data[start:end]` begins."""
    found = (_MULTICAST if data[start + 1] == MULTICAST else _UNICAST).match(data, start, end)
    assert found is not None
    return found.end()


def goes_on(data: bytes, start: int, end: int, beginning: bytes) -> bool:
    """Whether `data[start:end]` is a message that begins like another, which had no VIA: they have the same header.

    False as well for a body of less than 256 bytes or more than 65,535. The messages of one publisher mostly differ in
    body and signature alone, and this takes a fifth of the time of `read_header`."""
    at = start + len(beginning)
    length = end - at - 3 - _SIGNATURE_BYTES
    return (
        256 <= length < 1 << 16
        and data[start : at + 3] == beginning + _LONG_BODY(0x59, length)
        and data[end - _SIGNATURE_BYTES : end - 64] == _SIGNATURE_HEAD
    )


def open_message(wire: bytes) -> Message:
    """Return the message in `wire` as a value; raise `Malformed` if it is none. The signature is *not* checked."""
    header = read_header(wire, 0, len(wire))
    pattern = _MULTICAST if header.kind == MULTICAST else _UNICAST
    found = pattern.match(wire)
    assert found is not None
    body = wire[found.end() : header.end - _SIGNATURE_BYTES]
    signature = Signature(wire[header.end - 64 : header.end])
    via = None if header.via is None else PublicKey(header.via)
    if header.destination is None:
        seen = tuple(MessageId(one[2:]) for one in _split_ids(found.group(3)))
        group = PublicKey(header.signer)
        return Multicast(group, header.ttl_s, header.expiry_min, seen, body, signature, via)
    source, destination = PublicKey(header.signer), PublicKey(header.destination)
    return Unicast(source, destination, header.ttl_s, header.expiry_min, body, signature, via)


def _text(name: str) -> bytes:
    return head(len(name), 3) + name.encode()


def _signed(kind: int, header: bytes, body: bytes, key: SigningKey) -> bytes:
    signed = bytes((kind,)) + header + head(len(body)) + body
    return b"\x84" + signed + _SIGNATURE_HEAD + key.sign(signed)


def _check_uint32(**values: int) -> None:
    for name, value in values.items():
        if not 0 <= value < 1 << 32:
            raise ValueError(f"{name} {value} does not fit 32 bits (R-A1)")


def seal_unicast(source: SigningKey, destination: PublicKey, body: bytes, *, ttl_s: int, expiry_min: int) -> bytes:
    """Return the wire form of a unicast signed by its source."""
    _check_uint32(ttl_s=ttl_s, expiry_min=expiry_min)
    header = (
        b"\xa4"
        + _text("dst")
        + _VIA_HEAD
        + destination
        + _text("exp")
        + head(expiry_min, 0)
        + _text("src")
        + _VIA_HEAD
        + source.public
        + _text("ttl")
        + head(ttl_s, 0)
    )
    return _signed(UNICAST, header, body, source)


def seal_multicast(
    group: SigningKey, body: bytes, *, ttl_s: int, expiry_min: int, seen: tuple[MessageId, ...] = ()
) -> bytes:
    """Return the wire form of a multicast signed with the group's key.

    `seen` is newest first, distinct, at most 16 (R-A9).
    """
    _check_uint32(ttl_s=ttl_s, expiry_min=expiry_min)
    if len(seen) > SEEN_MAX or len(set(seen)) != len(seen):
        raise ValueError(f"seen takes at most {SEEN_MAX} distinct ids")
    ids = b"".join(_VIA_HEAD + one for one in seen)
    header = (
        b"\xa4"
        + _text("sn")
        + head(len(seen), 4)
        + ids
        + _text("exp")
        + head(expiry_min, 0)
        + _text("grp")
        + _VIA_HEAD
        + group.public
        + _text("ttl")
        + head(ttl_s, 0)
    )
    return _signed(MULTICAST, header, body, group)


def verify_message(wire: bytes) -> bool:
    """Whether the signature is the source's (unicast) or the group's (multicast)."""
    header = read_header(wire, 0, len(wire))
    stop = header.end
    return verify(header.signer, wire[1 : stop - _SIGNATURE_BYTES], wire[stop - 64 : stop])


def message_id(wire: bytes) -> MessageId:
    """Return the BLAKE3 of type, header, body and signature as received; VIA is left out."""
    end = len(wire) - (_VIA_BYTES if wire[:1] == b"\x85" else 0)
    return MessageId(digest(memoryview(wire)[1:end]))


def with_via(wire: bytes, via: PublicKey) -> bytes:
    """Return the message with `via` (the router it came through or should go through) spliced in, without encoding it
    again."""
    return b"".join((b"\x85", without_via(wire)[1:], _VIA_HEAD, via))


def via_of(wire: bytes) -> PublicKey | None:
    """Return the router that a message names as VIA, or None."""
    return PublicKey(wire[2 - _VIA_BYTES :]) if wire[:1] == b"\x85" else None


def without_via(wire: bytes) -> bytes:
    return b"\x84" + wire[1:-_VIA_BYTES] if wire[:1] == b"\x85" else wire
