"""From frames to rows: positions, ids, refusals, removal of VIA, and messages carried in a unicast to the router."""

from __future__ import annotations

import pytest
from samples.core import ALICE, BARE, BOB, MULTICASTS, UNICASTS

from router.core.link.session import MessageRun
from router.core.routing.intake import Arrived, ArrivedMessage, carried, read_messages
from router.core.wire.codec import Malformed, encode, frame, split_frames
from router.core.wire.control import Carried, encode_control
from router.core.wire.crypto import SigningKey, verify
from router.core.wire.message import (
    MULTICAST,
    UNICAST,
    message_id,
    open_message,
    seal_multicast,
    seal_unicast,
    with_via,
)
from router.core.wire.reasons import Reason

ROUTER = SigningKey(b"r" * 32)


def read(*wires: bytes, before: bytes = b"", first_k: int = 1) -> Arrived:
    data = before + b"".join(map(frame, wires))
    spans, rest = split_frames(data, at=len(before))
    assert rest == len(data)
    return read_messages(3, MessageRun(first_k, data, spans))


def check(arrived: Arrived, row: ArrivedMessage, wire: bytes) -> None:
    """Check that the row matches the message, and that its positions find message and key in the read."""
    message = open_message(wire)
    assert arrived.data[row.start : row.end] == wire
    assert arrived.data[row.frame_at : row.end] == frame(wire)
    head = row.head
    assert arrived.data[row.signer_at : row.signer_at + 32] == head.signer
    assert (row.id, head.ttl_s, head.expiry_min) == (message_id(wire), message.ttl_s, message.expiry_min)
    assert head.kind == (UNICAST if head.destination else MULTICAST)
    assert verify(head.signer, arrived.data[row.start + 1 : row.end - 66], arrived.data[row.end - 64 : row.end])


def test_every_message_becomes_a_row() -> None:
    arrived = read(*BARE, before=b"\x42..", first_k=7)
    assert (arrived.link, arrived.last_k, arrived.refusals) == (3, 6 + len(BARE), [])
    assert arrived.size == len(arrived.data) - 3
    assert [row.k for row in arrived.rows] == list(range(7, 7 + len(BARE)))
    for row, wire in zip(arrived.rows, BARE, strict=True):
        check(arrived, row, wire)
        assert row.head.via is None


def one_of_many(body: bytes, *, ttl_s: int = 600) -> bytes:
    return seal_multicast(ALICE, body, ttl_s=ttl_s, expiry_min=3_700_000)


def test_messages_that_begin_alike_share_their_head() -> None:
    wires = [
        *(one_of_many(bytes((number,)) * size) for number, size in enumerate((300, 300, 1000, 256, 65_535))),
        one_of_many(b"short"), one_of_many(bytes(300)), one_of_many(bytes(300), ttl_s=601),
    ]  # fmt: skip
    arrived = read(*wires)
    heads = [row.head for row in arrived.rows]
    for row, wire in zip(arrived.rows, wires, strict=True):
        check(arrived, row, wire)
    assert all(head is heads[0] for head in heads[:5])
    assert heads[7].ttl_s == 601 and all(head == heads[0] for head in heads[:7])


def test_what_follows_a_message_is_judged_as_if_it_stood_alone() -> None:
    """The bytes that a message shares with the one before it are not parsed again, but each is compared."""
    before, wire = one_of_many(bytes(300)), one_of_many(bytes(299) + b"!")
    kept = range(wire.index(bytes(100)), len(wire) - 66), range(len(wire) - 64, len(wire))  # body, signature
    cuts = [wire[:-1], wire + b"\0", wire[: len(before) // 2], with_via(wire, BOB.public)]
    changed = [
        wire[:at] + bytes((wire[at] ^ bit,)) + wire[at + 1 :]
        for at in range(len(wire)) if not any(at in one for one in kept) for bit in (1, 4, 128)
    ]  # fmt: skip
    for other in (*cuts, *changed):
        alone, [_, *after] = read(other), read(before, other).rows
        assert [(row.id, row.head) for row in after] == [(row.id, row.head) for row in alone.rows]


@pytest.mark.parametrize("which", [[0], [1], [2], [0, 2], [0, 1, 2]])
def test_via_is_noted_and_cut_out(which: list[int]) -> None:
    bare = [UNICASTS[4], MULTICASTS[1], UNICASTS[3]]
    wires = [with_via(wire, BOB.public) if at in which else wire for at, wire in enumerate(bare)]
    arrived = read(*wires)
    assert [row.head.via for row in arrived.rows] == [BOB.public if at in which else None for at in range(3)]
    for row, wire in zip(arrived.rows, bare, strict=True):
        check(arrived, row, wire)
    assert arrived.data == b"".join(map(frame, bare)), "what follows is contiguous again"
    assert arrived.size == len(b"".join(map(frame, wires))), "what the link carried"


def test_what_is_malformed_is_refused_by_its_number() -> None:
    arrived = read(
        UNICASTS[0], UNICASTS[1][:-1], b"\x84\x01", with_via(UNICASTS[2], BOB.public), b"\x84\x00" + bytes(200)
    )
    assert [row.k for row in arrived.rows] == [1, 4] and arrived.last_k == 5
    assert [(k, reason) for k, reason, _ in arrived.refusals] == [(k, Reason.MALFORMED) for k in (2, 3, 5)]
    assert all(text for *_, text in arrived.refusals)
    for row, wire in zip(arrived.rows, (UNICASTS[0], UNICASTS[2]), strict=True):
        check(arrived, row, wire)


def to_router(body: bytes) -> bytes:
    return seal_unicast(ALICE, ROUTER.public, body, ttl_s=0, expiry_min=3_700_000)


@pytest.mark.parametrize("inner", MULTICASTS)
def test_a_carried_multicast_is_a_row_of_its_own(inner: bytes) -> None:
    arrived = read(UNICASTS[0], to_router(encode_control(Carried(inner))), UNICASTS[1], first_k=5)
    row = carried(arrived, arrived.rows[1])
    assert row is not None and row.k == 6
    check(arrived, row, inner)


def test_a_via_that_is_carried_is_cut_out() -> None:
    """The VIA of a carried message is removed as from any other message from outside (R-C6); the rest of the read stays
    in place."""
    inner = [with_via(one, BOB.public) for one in MULTICASTS[:2]]
    arrived = read(*(to_router(encode_control(Carried(one))) for one in inner), UNICASTS[1])
    before = arrived.data
    rows = [carried(arrived, row) for row in arrived.rows[:2]]
    arrived.join()
    assert arrived.data[: len(before)] == before
    for row, bare in zip(rows, MULTICASTS[:2], strict=True):
        assert row is not None and row.head.via is None
        check(arrived, row, bare)


def test_most_unicasts_carry_nothing() -> None:
    for body in (b"", b"x", b"\x82\x01", encode([3, {"addr": bytes(32)}])):
        arrived = read(to_router(body))
        assert carried(arrived, arrived.rows[0]) is None


@pytest.mark.parametrize(
    "body",
    [
        b"\x82\x00", b"\x82\x00" + frame(UNICASTS[0]), b"\x82\x00" + frame(MULTICASTS[0])[:-1],
        b"\x82\x00" + frame(MULTICASTS[0]) + b"\0", b"\x82\x00" + frame(MULTICASTS[0]) * 2,
        b"\x82\x00" + frame(with_via(UNICASTS[0], BOB.public)), b"\x82\x00" + frame(MULTICASTS[0][:-1]),
        b"\x82\x00\x5a\x00\x00\x00\x05hello",
    ],
)  # fmt: skip
def test_what_should_carry_and_does_not_is_malformed(body: bytes) -> None:
    arrived = read(to_router(body), UNICASTS[0])
    with pytest.raises(Malformed):
        carried(arrived, arrived.rows[0])
