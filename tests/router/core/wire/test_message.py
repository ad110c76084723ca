"""Routed messages: the fast reader against a slow and simple one, seals, ids, VIA."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.core import ALICE, BARE, BOB, EXPIRY_MIN, GROUP, IDS, MULTICASTS, UNICASTS, WIRES, value_of

from router.core.wire.codec import Malformed, encode, frame, head
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.message import (
    MULTICAST,
    SEEN_MAX,
    UNICAST,
    Header,
    Multicast,
    Unicast,
    message_id,
    open_message,
    read_header,
    seal_multicast,
    seal_unicast,
    verify_message,
    with_via,
    without_via,
)

WORD32_MAX = (1 << 32) - 1


# -- what the fast reader must agree with ----------------------------------------------------------


def slow_header(wire: bytes) -> Header | None:
    """Return the header by decoding everything; None if the bytes are no message."""
    try:
        value = value_of(wire)
    except Malformed:
        return None
    if type(value) is not list or len(value) not in (4, 5) or type(value[0]) is not int:
        return None
    kind, header, body, signature = value[:4]
    via = value[4] if len(value) == 5 else None
    fine = type(body) is bytes and _is_octets(signature, 64) and (len(value) == 4 or _is_octets(via, 32))
    if not fine or type(header) is not dict or len(header) != 4:
        return None
    numbers = (header.get("ttl"), header.get("exp"))
    if not all(type(one) is int and 0 <= one <= WORD32_MAX for one in numbers):
        return None
    if kind == UNICAST:
        signer, destination = header.get("src"), header.get("dst")
        fine = _is_octets(destination, 32)
    elif kind == MULTICAST:
        signer, destination = header.get("grp"), None
        fine = _is_seen(header.get("sn"))
    else:
        return None
    if not fine or not _is_octets(signer, 32):
        return None
    end = len(wire) - (34 if len(value) == 5 else 0)
    return Header(kind, signer, destination, *numbers, _signer_at(wire, kind), end, via)  # type: ignore[arg-type]


def _is_octets(value: Any, size: int) -> bool:
    return type(value) is bytes and len(value) == size


def _is_seen(value: Any) -> bool:
    if type(value) is not list or len(value) > SEEN_MAX:
        return False
    return all(_is_octets(one, 32) for one in value) and len(set(value)) == len(value)


def _signer_at(wire: bytes, kind: int) -> int:
    """Return where the signer's key lies, by encoding again what is before it."""
    value = value_of(wire)
    header = value[1]
    if kind == UNICAST:
        before = encode({"dst": header["dst"], "exp": header["exp"]})
    else:
        before = encode({"sn": header["sn"], "exp": header["exp"]})
    return 2 + len(before) + 4 + 2


def fast_header(wire: bytes) -> Header | None:
    try:
        return read_header(wire, 0, len(wire))
    except Malformed:
        return None


@pytest.mark.parametrize("wire", WIRES)
def test_both_readers_agree_on_samples(wire: bytes) -> None:
    header = slow_header(wire)
    assert header is not None
    assert fast_header(wire) == header
    assert wire[header.signer_at : header.signer_at + 32] == header.signer


def loose_head(major: int, value: int, width: int) -> bytes:
    """Return a CBOR head of at least `width` bytes, not necessarily the shortest."""
    for size, info in ((0, value), (1, 24), (2, 25), (4, 26), (8, 27)):
        if size >= width and (value < 24 if size == 0 else value < 1 << 8 * size):
            return bytes((major << 5 | info,)) + (value.to_bytes(size, "big") if size else b"")
    raise AssertionError("no head that wide")


# Each place is wrong so rarely that about half of the messages are right.
WIDTH = st.sampled_from((0,) * 80 + (1, 2, 4, 8))
SIZE_32 = st.sampled_from((32,) * 60 + (31, 33, 0))
NUMBERS = (0, 1, 23, 24, 255, 256, 65_535, 65_536, WORD32_MAX)
NUMBER = st.sampled_from(NUMBERS * 6 + (WORD32_MAX + 1, (1 << 64) - 1))


@st.composite
def loose_octets(draw: st.DrawFn, size: int) -> bytes:
    return loose_head(2, size, draw(WIDTH)) + bytes((draw(st.integers(0, 3)),)) * size


@st.composite
def loose_numbers(draw: st.DrawFn) -> bytes:
    odd = (b"\xf4", b"\xf5", b"\xf6", b"\x20", b"\xfa\x00\x00\x00\x00", b"\x40", b"\xc2\x41\x01")
    if draw(st.integers(0, 40)) == 40:
        return draw(st.sampled_from(odd))
    return loose_head(0, draw(NUMBER), draw(WIDTH))


@st.composite
def loose_seen(draw: st.DrawFn) -> bytes:
    ids = [b"\x58\x20" + bytes((n,)) * 32 for n in range(draw(st.sampled_from((0, 1, 2, 4, 15, 16, 16, 17))))]
    if draw(st.integers(0, 20)) == 20:
        ids += [draw(loose_octets(draw(SIZE_32))) for _ in range(draw(st.integers(1, 2)))]
    count = len(ids) + draw(st.sampled_from((0,) * 40 + (1,)))
    return loose_head(4, count, draw(WIDTH)) + b"".join(ids)


@st.composite
def loose_messages(draw: st.DrawFn) -> bytes:
    """Generate messages that are often valid, and often wrong in a single place."""
    kind = draw(st.sampled_from((0, 1) * 20 + (2,)))
    members = {"exp": draw(loose_numbers()), "ttl": draw(loose_numbers())}
    if kind == MULTICAST:
        members |= {"sn": draw(loose_seen()), "grp": draw(loose_octets(draw(SIZE_32)))}
    else:
        members |= {"src": draw(loose_octets(draw(SIZE_32))), "dst": draw(loose_octets(draw(SIZE_32)))}
    names = sorted(members, key=lambda name: (len(name), name))
    match draw(st.integers(0, 40)):
        case 0:
            names = draw(st.permutations(names))
        case 1:
            names.remove(draw(st.sampled_from(names)))
        case 2:
            names.append(draw(st.sampled_from(names)))
        case 3:
            names.append("zz")
            members["zz"] = b"\x00"
    pairs = b"".join(loose_head(3, len(one), draw(WIDTH)) + one.encode() + members[one] for one in names)
    body_size = draw(st.sampled_from((0, 1, 23, 24, 255, 256)))
    parts = [
        loose_head(0, kind, draw(WIDTH)),
        loose_head(5, len(names), draw(WIDTH)) + pairs,
        draw(loose_octets(body_size)),
        draw(loose_octets(draw(st.sampled_from((64,) * 40 + (63, 65))))),
    ]
    if draw(st.booleans()):
        parts.append(draw(loose_octets(draw(SIZE_32))))
    count = len(parts) + draw(st.sampled_from((0,) * 40 + (1, -1)))
    wire: bytes = loose_head(4, count, draw(WIDTH)) + b"".join(parts)
    tail: bytes = draw(st.sampled_from((b"",) * 40 + (b"\x00",)))
    return wire + tail


@settings(max_examples=4 * settings().max_examples)
@given(loose_messages())
def test_both_readers_agree_on_near_misses(wire: bytes) -> None:
    assert fast_header(wire) == slow_header(wire)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    wire = bytearray(draw(st.sampled_from(WIRES)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, min(len(wire) - 1, 200)) | st.integers(0, len(wire) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                wire[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                wire[at] = draw(st.integers(0, 255))
            case 2:
                del wire[at : at + draw(st.integers(1, 40))]
            case 3:
                wire[at:at] = draw(st.binary(min_size=1, max_size=40))
        if not wire:
            break
    return bytes(wire)


@settings(max_examples=4 * settings().max_examples)
@given(damaged())
def test_both_readers_agree_on_damage(wire: bytes) -> None:
    assert fast_header(wire) == slow_header(wire)


@given(st.binary(max_size=300))
def test_both_readers_agree_on_anything(wire: bytes) -> None:
    assert fast_header(wire) == slow_header(wire)


@pytest.mark.parametrize("wire", WIRES)
def test_every_byte_changed_or_cut(wire: bytes) -> None:
    for at in range(min(len(wire), 260)):
        for bit in (1, 0x20, 0x80):
            changed = wire[:at] + bytes((wire[at] ^ bit,)) + wire[at + 1 :]
            assert fast_header(changed) == slow_header(changed)
    for end in range(min(len(wire), 260)):
        assert fast_header(wire[:end]) is None
        assert fast_header(wire + wire[:end]) is None or end == 0


def test_reading_in_place() -> None:
    stream = b"".join(map(frame, WIRES))
    at = 0
    for wire in WIRES:
        start = at + len(head(len(wire)))
        end = start + len(wire)
        alone, inside = read_header(wire, 0, len(wire)), read_header(stream, start, end)
        assert inside == alone._replace(signer_at=alone.signer_at + start, end=alone.end + start)
        for wrong in (end - 1, end + 1):
            with pytest.raises(Malformed):
                read_header(stream, start, wrong)
        at = end


# -- specific refusals -----------------------------------------------------------------------------


def _multicast(ids: list[bytes], **changed: Any) -> bytes:
    header = {"grp": bytes(GROUP.public), "ttl": 1, "exp": 1, "sn": ids} | changed
    return encode([1, header, b"", bytes(64)])


def test_seen_ids_are_distinct_and_at_most_sixteen() -> None:
    several = [bytes((n,)) * 32 for n in range(17)]
    assert read_header(_multicast(several[:16]), 0, len(_multicast(several[:16])))
    for ids in (several, [several[0]] * 2, [several[0], several[1], several[0]]):
        wire = _multicast(ids)
        with pytest.raises(Malformed):
            read_header(wire, 0, len(wire))
        with pytest.raises(Malformed):
            open_message(wire)


@pytest.mark.parametrize("changed", ({"ttl": 1 << 32}, {"exp": 1 << 32}, {"ttl": True}, {"exp": -1}, {"zz": 1}))
def test_header_fields_out_of_range(changed: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="not a multicast message"):
        open_message(_multicast([], **changed))


def test_unknown_type_is_named() -> None:
    with pytest.raises(Malformed, match="message type 7 is unknown"):
        open_message(b"\x84\x07" + UNICASTS[0][2:])


def test_seals_refuse_what_nobody_could_read() -> None:
    with pytest.raises(ValueError, match="ttl_s 4294967296 does not fit 32 bits"):
        seal_unicast(ALICE, BOB.public, b"", ttl_s=1 << 32, expiry_min=0)
    with pytest.raises(ValueError, match="expiry_min -1"):
        seal_multicast(GROUP, b"", ttl_s=0, expiry_min=-1)
    with pytest.raises(ValueError, match="at most 16 distinct ids"):
        seal_multicast(GROUP, b"", ttl_s=0, expiry_min=0, seen=(IDS[0], IDS[0]))
    with pytest.raises(ValueError, match="at most 16 distinct ids"):
        seal_multicast(GROUP, b"", ttl_s=0, expiry_min=0, seen=(*IDS, MessageId(bytes(32))))


# -- seal, open, verify ----------------------------------------------------------------------------

WORDS = st.sampled_from((0, 23, 24, 255, 256, 65_535, 65_536, WORD32_MAX)) | st.integers(0, WORD32_MAX)
BODIES = st.binary(max_size=300) | st.sampled_from((65_535, 65_536, 70_000)).map(bytes)


@given(BODIES, WORDS, WORDS)
def test_unicast_round_trip(body: bytes, ttl_s: int, expiry_min: int) -> None:
    wire = seal_unicast(ALICE, BOB.public, body, ttl_s=ttl_s, expiry_min=expiry_min)
    opened = open_message(wire)
    assert isinstance(opened, Unicast)
    assert opened == Unicast(ALICE.public, BOB.public, ttl_s, expiry_min, body, opened.signature)
    assert verify_message(wire)
    header = {"src": bytes(ALICE.public), "dst": bytes(BOB.public), "ttl": ttl_s, "exp": expiry_min}
    assert wire == by_another_hand(0, header, body, ALICE.seed)


@given(BODIES, WORDS, WORDS, st.integers(0, SEEN_MAX))
def test_multicast_round_trip(body: bytes, ttl_s: int, expiry_min: int, seen: int) -> None:
    wire = seal_multicast(GROUP, body, ttl_s=ttl_s, expiry_min=expiry_min, seen=IDS[:seen])
    opened = open_message(wire)
    assert isinstance(opened, Multicast)
    assert opened == Multicast(GROUP.public, ttl_s, expiry_min, IDS[:seen], body, opened.signature)
    assert verify_message(wire)
    ids = [bytes(one) for one in IDS[:seen]]
    header = {"grp": bytes(GROUP.public), "ttl": ttl_s, "exp": expiry_min, "sn": ids}
    assert wire == by_another_hand(1, header, body, GROUP.seed)


def by_another_hand(kind: int, header: dict[str, Any], body: bytes, seed: bytes) -> bytes:
    """Return the same message made by other libraries, field by field as the specification says."""
    fields = [cbor2.dumps(one, canonical=True) for one in (kind, header, body)]
    signature = Ed25519PrivateKey.from_private_bytes(seed).sign(b"".join(fields))
    return b"\x84" + b"".join(fields) + cbor2.dumps(signature)


@pytest.mark.parametrize("wire", BARE)
def test_id_and_signature_cover_what_the_specification_says(wire: bytes) -> None:
    kind, header, body, signature = value_of(wire)
    hashed = b"".join(map(encode, (kind, header, body, signature)))
    assert message_id(wire) == blake3(hashed).digest()
    for at in (1, 20, len(wire) - 66, len(wire) - 1):
        changed = wire[:at] + bytes((wire[at] ^ 1,)) + wire[at + 1 :]
        assert message_id(changed) != message_id(wire)
        assert fast_header(changed) is None or not verify_message(changed)


@pytest.mark.parametrize("wire", BARE)
def test_via_is_outside_of_signature_and_id(wire: bytes) -> None:
    through = with_via(wire, BOB.public)
    assert through == encode([*value_of(wire), bytes(BOB.public)])
    assert open_message(through).via == BOB.public
    assert verify_message(through)
    assert message_id(through) == message_id(wire)
    assert without_via(through) == wire
    assert without_via(wire) == wire
    other = with_via(through, ALICE.public)
    assert open_message(other).via == ALICE.public and without_via(other) == wire


def test_a_signature_of_somebody_else_is_noticed() -> None:
    forged = seal_unicast(BOB, BOB.public, b"", ttl_s=0, expiry_min=EXPIRY_MIN)
    forged = forged.replace(BOB.public, ALICE.public)
    assert isinstance(open_message(forged), Unicast)
    assert not verify_message(forged)


def test_kinds_of_opened_values() -> None:
    opened = open_message(MULTICASTS[2])
    assert isinstance(opened, Multicast)
    assert type(opened.group) is PublicKey and all(type(one) is MessageId for one in opened.seen)
