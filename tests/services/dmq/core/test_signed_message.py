"""Messages of three encodings: stored ones, the places of their parts, their bytes, and invalid ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.dmq import BODY, EXPIRES_AT, POOLS, SIGNED, VECTORS, raw
from samples.dmq_messages import ENCODINGS, WIRES

from router.core.wire.codec import Malformed, encode
from services.dmq.core.cbor import array_of, indefinite
from services.dmq.core.messages.kes import verify_kes
from services.dmq.core.messages.signed_message import (
    OLDER,
    BodyBounds,
    Cip29ffe0e,
    Dmq04,
    Dmq05,
    Encoding,
    digest,
    usual_end,
)
from services.dmq.core.protocols.mux import Inbox

DMQ = Dmq05()
ANY_BODY = BodyBounds(0, 3000)


@pytest.mark.parametrize("vector", SIGNED["messages"], ids=lambda one: one["name"])
def test_stored_messages(vector: dict[str, str]) -> None:
    """The payload is cut out as it came, even if a number is longer than necessary; the id is its digest."""
    message = Dmq05(ANY_BODY).read(raw(vector["hex"]))
    assert message.wire.hex() == vector["hex"]
    assert message.signed.hex() == vector["payload"]
    assert message.id.hex() == vector["id"] == digest(message.signed).hex()
    assert message.expires_at == SIGNED["expires_at"] and message.ttl_s is None


@pytest.mark.parametrize(("name", "size"), (("body_89_bytes", 89), ("body_2001_bytes", 2001)))
def test_bodies_out_of_bounds_are_no_messages_where_the_topic_says_so(name: str, size: int) -> None:
    [vector] = [one for one in SIGNED["messages"] if one["name"] == name]
    with pytest.raises(Malformed, match=f"the body has {size:,} bytes instead of 90 to 2,000"):
        DMQ.read(raw(vector["hex"]))
    assert len(Dmq05(ANY_BODY).read(raw(vector["hex"])).body) == size, "as a node before 0.7"


@pytest.mark.parametrize("vector", VECTORS["message_ids"], ids=lambda one: one["name"])
def test_stored_ids(vector: dict[str, Any]) -> None:
    payload = encode([raw(vector["body"]), vector["kes_period"], vector["expires_at"]])
    assert payload.hex() == vector["payload"]
    assert digest(payload).hex() == vector["id"]


def test_the_id_of_0_4() -> None:
    stored = VECTORS["older_id"]
    draft = POOLS[0].draft(raw(stored["body"]), expires_at=stored["expires_at"])
    wire = Dmq04(OLDER).write(draft._replace(certificate=pool_that_starts_at(stored["kes_period"])))
    assert Dmq04(OLDER).read(wire).id.hex() == stored["id"]


def pool_that_starts_at(period: int) -> Any:
    return type(POOLS[0])(0, start_period=period).certificate


def test_a_stored_message_of_0_4() -> None:
    [vector] = SIGNED["legacy"]
    message = Dmq04().read(raw(vector["hex"]))
    assert len(message.id) == 64 and message.kes_period is not None
    evolution = message.kes_period - message.certificate.start_period
    assert verify_kes(message.certificate.kes_key, evolution, message.signed, message.kes_signature)
    with pytest.raises(Malformed, match="the message has 4 items instead of 5"):
        DMQ.read(raw(vector["hex"]))


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda one: one.name)
def test_what_is_written_is_read_and_verifies(encoding: Encoding) -> None:
    pool = POOLS[0]
    message = encoding.read(encoding.write(pool.draft(evolution=3)))
    assert (message.body, message.certificate) == (BODY, pool.certificate)
    assert verify_kes(pool.kes.public, 3, message.signed, message.kes_signature)
    assert encoding.right_id(message) in (None, message.id)
    assert (message.expires_at, message.ttl_s) in ((EXPIRES_AT, None), (None, 1800))
    notified = encoding.read_notified(encoding.notified(message))
    assert (notified.id, notified.body, notified.certificate) == (message.id, message.body, message.certificate)
    assert repr(message) == f"<SignedMessage {message.id.hex()[:12]}… of {pool.id!r}, {len(message.wire)} bytes>"


def test_a_ttl_is_cut_out_of_a_head_that_is_longer_than_necessary() -> None:
    cip = Cip29ffe0e()
    wire = WIRES["cip-29ffe0e"][0]
    longer = b"\x98\x06" + wire[1:]
    assert cip.notified(cip.read(longer)) == cip.notified(cip.read(wire))


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda one: one.name)
def test_relayed_is_the_message_with_the_rest_of_its_ttl(encoding: Encoding) -> None:
    message = encoding.read(WIRES[encoding.name][0])
    relayed = encoding.relayed(encoding.notified(message), 1234.9)
    assert relayed is not None
    again = encoding.read(relayed)
    assert (again.ttl_s, again.expires_at) == (None if message.ttl_s is None else 1233, message.expires_at)
    assert encoding.notified(again) == encoding.notified(message) and (message.ttl_s or relayed == message.wire)
    assert (encoding.relayed(encoding.notified(message), 1.9) is None) is (message.ttl_s is not None)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda one: one.name)
def test_cut_anywhere_it_is_no_message(encoding: Encoding) -> None:
    wire = WIRES[encoding.name][0]
    for end in range(0, len(wire), 3):
        with pytest.raises(Malformed, match="it ends before the item does"):
            encoding.read(wire[:end])
    with pytest.raises(Malformed, match="1 byte follows the message"):
        encoding.read(wire + b"\x00")


PAYLOAD = [BODY, 1430, EXPIRES_AT]
PARTS = [bytes(32), PAYLOAD, bytes(448), POOLS[0].certificate.inner, bytes(32)]


def with_part(at: int, part: Any) -> bytes:
    return encode([*PARTS[:at], part, *PARTS[at + 1 :]])


@pytest.mark.parametrize(
    ("wire", "cause"),
    (
        (with_part(0, bytes(31)), "the id has 31 bytes instead of 32"),
        (with_part(0, bytes(33)), "the id has 33 bytes instead of 32"),
        (with_part(1, [*PAYLOAD, 1]), "the payload has 4 items instead of 3"),
        (with_part(1, encode(PAYLOAD)), "the payload is not a list"),
        (with_part(1, [BODY, -1, 0]), "the KES period is not an unsigned number"),
        (with_part(1, [BODY, 0, 1 << 32]), "the expiry does not fit into 32 bits"),
        (with_part(2, bytes(447)), "the KES signature has 447 bytes instead of 448"),
        (with_part(2, bytes(449)), "the KES signature has 449 bytes instead of 448"),
        (with_part(3, encode(PARTS[3])), "the operational certificate is not a list"),
        (with_part(3, [*POOLS[0].certificate.inner, 1]), "the operational certificate has 5 items instead of 4"),
        (with_part(4, bytes(31)), "the cold key has 31 bytes instead of 32"),
        (encode(PARTS[:4]), "the message has 4 items instead of 5"),
        (b"\x9f" + b"".join(map(encode, PARTS)) + b"\xff", "the message is of indefinite length"),
        (b"\x5f" + with_part(0, b"")[1:], "the message is not a list"),
        (b"", "it ends before the item does"),
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_message(wire: bytes, cause: str) -> None:
    with pytest.raises(Malformed, match=cause):
        DMQ.read(wire)


def test_a_certificate_that_is_too_long_or_none() -> None:
    parts = [bytes(32), BODY, 0, 0, bytes(448)]
    for certificate, cause in (
        (bytes(305), "has 305 bytes instead of 1 to 304"),
        (b"\x80", "has 0 items instead of 2"),
    ):
        with pytest.raises(Malformed, match=cause):
            Cip29ffe0e().read(encode([*parts, certificate]))


def test_the_end_of_a_usual_message_is_known_only_when_all_of_it_is_there() -> None:
    wire = Dmq05().write(POOLS[0].draft(BODY))
    assert usual_end(b"\x9f" + wire + b"\xff", 1) == 1 + len(wire)
    assert {usual_end(wire[:cut], 0) for cut in range(len(wire))} == {-1}
    assert usual_end(Dmq04().write(POOLS[0].draft(BODY)), 0) == -1


@given(st.lists(st.sampled_from((Dmq05(), Dmq04())), min_size=1, max_size=3), st.integers(1, 3000))
def test_bodies_that_come_in_pieces_are_cut_as_when_each_head_is_read(encodings: list[Any], piece: int) -> None:
    wires = [one.write(POOLS[0].draft(BODY)) for one in encodings]
    data = array_of(encode(5), indefinite(*wires))
    for usual in (usual_end, None):
        inbox = Inbox(1 << 16, usual=usual)
        found = []
        for at in range(0, len(data), piece):
            inbox.add(data[at : at + piece])
            found.append(inbox.take(1 << 16))
        assert found[-1] == data and not any(found[:-1])
