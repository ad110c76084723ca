"""The CDDL of the CAPD pool as an oracle: encoders write what it allows, and decoders accept nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from rigs.corruption import corrupted
from samples.capd import posted
from samples.core import value_of

from router.core.wire.codec import Malformed, encode
from services.capd.core import messages as m
from services.capd.core import rows
from services.capd.core.limits import Standing
from services.capd.core.lives import Life
from services.capd.core.pattern import Pattern

CDDL = Path(__file__).parents[4] / "cddl"
OFFER = posted(b"TKD\x0coffer")
ID, PATTERN = OFFER.own_id(), Pattern.prefix(b"TKD")
MESSAGES: tuple[m.Message, ...] = (
    m.Post(1, OFFER.encoded()),
    m.PostAnswer(1, 0, ID),
    m.PostAnswer(1, 132, b"", "no message"),
    m.PostAnswer(1, 0, ID, held=Standing.RESCINDED),
    m.PostMany(1, (OFFER.encoded(), b"")),
    m.PostManyAnswer(
        1, (m.PostOutcome(0, ID), m.PostOutcome(132, b"", "no message"), m.PostOutcome(0, ID, held=Standing.EXPIRED))
    ),
    m.Get(2, ID),
    m.Query(3, PATTERN, True, 0, 10),
    m.Found(3, 2, ((Standing.LOCAL, OFFER.encoded()), (Standing.RESCINDED, b""))),
    m.FoundIds(3, 1, (ID,)),
    m.Watch(4, PATTERN, 600),
    m.Unwatch(5, PATTERN),
    m.Done(5, 137, "too many"),
    m.Rescind(6, b"secret"),
    m.Rescinded(6, (ID,)),
    m.Info((1 << 32) - 1),
    m.PoolInfo(7, 1 << 33, 12, 2.0, 1.0, float("inf")),
    m.Match(Standing.RELAYED, OFFER.encoded()),
)
CORRUPTED = (m.Query, m.FoundIds, m.PostManyAnswer)  # the others have the same parts
KEPT = rows.encode_kept(rows.Kept(ID, Life.RESCINDED, OFFER))
NOUNS: tuple[tuple[str, str, Callable[[bytes], object], tuple[bytes, ...]], ...] = (
    ("capd", "message", m.decode_message, tuple(m.encode_message(one) for one in MESSAGES if type(one) in CORRUPTED)),
    ("capd-store", "state", rows.read_state, (rows.encode_state(9),)),
    ("capd-store", "until", rows.read_until, (rows.encode_until(1_700_000_000),)),
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep the validator from logging faults at length."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@cache
def validator(stem: str) -> Validator:
    return Validator(CDDL / f"{stem}.cddl")


@pytest.mark.parametrize(("stem", "rule", "read", "wires"), NOUNS, ids=lambda one: one if isinstance(one, str) else "")
def test_codecs_write_what_the_cddl_allows_and_accept_nothing_else(
    stem: str, rule: str, read: Callable[[bytes], object], wires: tuple[bytes, ...]
) -> None:
    for wire in wires:
        assert validator(stem).validate(wire, rule).valid, wire.hex()
        read(wire)
        for changed in map(encode, corrupted(value_of(wire))):
            is_valid = bool(validator(stem).validate(changed, rule).valid)
            try:
                read(changed)
            except (Malformed, rows.BadRow) as error:
                assert not is_valid or "outside its mask" in str(error), (changed.hex(), str(error))
            else:
                assert is_valid, changed.hex()


def test_kept_message_follows_the_cddl_and_must_be_canonical() -> None:
    assert validator("capd-store").validate(KEPT, "kept").valid
    assert rows.read_kept(KEPT) == rows.Kept(ID, Life.RESCINDED, OFFER)
    for wire, said in ((OFFER.encoded() + b"?", "canonical"), (b"", "the data ends")):
        with pytest.raises(rows.BadRow, match=said):
            rows.read_kept(encode([ID, 0, wire]))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_messages_survive_encoding_and_decoding(message: m.Message) -> None:
    body = m.encode_message(message)
    assert m.decode_message(body) == message and validator("capd").validate(body, "message").valid


@settings(max_examples=settings().max_examples)
@given(st.integers(0, 22), st.binary(max_size=60))
def test_decode_message_reads_any_bytes_or_raises_malformed(kind: int, rest: bytes) -> None:
    try:
        m.decode_message(bytes((0x82, kind)) + rest)
    except Malformed as error:
        assert str(error)
