"""Two codecs of the same reference that share nothing: both accept the same bytes, and read the same from them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.wire.codec import Malformed
from services.capd.bench import plain_codec
from services.capd.core.message import CapdMessage, is_met, read_message, read_with_id

VECTORS = Path(__file__).parents[3] / "vectors" / "capd"
EDGES = [bytes.fromhex(one["wire"]) for one in json.loads((VECTORS / "encoding_edge.json").read_text())["cases"]]


def messages(chance: Random) -> CapdMessage:
    """Return a message like those that are sent, or one with values that are not."""
    return CapdMessage(
        chance.randbytes(chance.choice((0, 1, 16, 99, 100, 101, 252, 253, 254, 300, 70_000))),
        chance.choice((0, 1_700_000_000, (1 << 64) - 1)),
        chance.choice((0x1F7FFFFF, 0x1F00FFFF, 0x207FFFFF, 0, 0x04923456, 0xFFFFFFFF)),
        chance.randbytes(chance.choice((0, 1, 2, 8, 9, 252, 253))),
        chance.choice((0xFFFF, 0, 1, 600)),
        chance.choice((bytes(20), chance.randbytes(20))),
    )


def agree(wire: bytes) -> bool:
    """Whether both codecs accept the bytes; check that they read the same values from them."""
    try:
        plain = plain_codec.read(wire)
    except plain_codec.PlainError:
        with pytest.raises(Malformed):
            read_message(wire)
        return False
    ours, own_id = read_with_id(wire)
    fields = plain.data, plain.create_time, plain.difficulty_bits, plain.nonce, plain.expiration, plain.rescind_hash
    assert CapdMessage(*fields) == ours and plain.id() == own_id == ours.own_id()
    assert plain.serialize() == ours.encoded() and plain.is_solved() is is_met(own_id, ours.difficulty_bits)
    for now_s in (1_700_000_000, 1_700_000_300, 5):
        assert repr(plain.priority(now_s)) == repr(ours.priority(now_s)), "to the last bit, and not a number alike"
    return True


def test_codecs_agree_on_whole_messages() -> None:
    chance = Random(1)
    for _ in range(400):
        assert agree(messages(chance).encoded())


def test_codecs_agree_on_the_edges_of_the_encoding() -> None:
    assert {agree(wire) for wire in EDGES} == {True, False}


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(st.integers(0, 1 << 32), st.data())
def test_codecs_agree_on_changed_messages(seed: int, data: st.DataObject) -> None:
    chance = Random(seed)
    message = messages(chance)
    wire = bytearray(CapdMessage(message.data[:300], *tuple_of(message)).encoded())
    for _ in range(data.draw(st.integers(1, 3))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    agree(bytes(wire))
    agree(bytes(wire[: data.draw(st.integers(0, len(wire)))]))
    agree(bytes(wire) + b"more")


def tuple_of(message: CapdMessage) -> tuple[int, int, bytes, int, bytes]:
    return message.create_time, message.difficulty_bits, message.nonce, message.expiration, message.rescind_hash


@given(st.binary(max_size=40))
def test_codecs_agree_on_any_bytes(wire: bytes) -> None:
    agree(wire)
