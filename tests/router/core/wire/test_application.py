"""Application messages: sealing, opening, and each way in which a sealed body may be false."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl import bindings
from samples.core import (
    ALICE,
    APPLICATIONS,
    BOB,
    CONTENT_KEY,
    CONTENT_KEYS,
    EPHEMERAL,
    GROUP,
    IDS,
    NONCE,
    PREKEY,
    PREKEY_SEEDS,
    SEALED,
    SEALED_TO_BOB,
    value_of,
)

from router.core.wire.application import (
    ACK,
    DEPS_MAX,
    MEMBER_ADD,
    MULTICAST,
    OPAQUE_CODES,
    UNICAST,
    ApplicationMessage,
    BadMemberSignature,
    BadPrekey,
    BadSeal,
    SealError,
    UnknownContentKey,
    content_key_id,
    decode_application,
    encode_application,
    seal,
    seal_to,
    unseal,
    unseal_unicast,
)
from router.core.wire.codec import Malformed, encode
from router.core.wire.crypto import MessageId, PublicKey, SigningKey
from router.core.wire.prekey import Prekey

GROUP_KEY = GROUP.public


def sealed_plain(plain: bytes, *, bound_to: PublicKey = GROUP_KEY, key: bytes = CONTENT_KEY) -> bytes:
    """Return a body around any plaintext, as a member could make it who breaks the rules."""
    encrypt = bindings.crypto_aead_xchacha20poly1305_ietf_encrypt
    ciphertext = encrypt(plain, b"upsycle group body 1" + bound_to, NONCE, key)
    return encode([1, content_key_id(key), NONCE, ciphertext])


def signed(header: dict[str, Any], body: Any, member: SigningKey = ALICE) -> bytes:
    return encode([header | {"sig": member.sign(encode([header, body]))}, body])


HEADER = {"to": bytes(GROUP_KEY), "from": bytes(ALICE.public), "seq": 0, "deps": []}


# -- groups ----------------------------------------------------------------------------------------


@given(st.integers(0, (1 << 64) - 1), st.integers(0, 16), st.binary(max_size=600))
def test_round_trip(seq: int, deps: int, content: bytes) -> None:
    body = seal(ALICE, GROUP_KEY, seq, IDS[:deps], content, content_key=CONTENT_KEY, nonce=NONCE)
    signature = ALICE.sign(encode([HEADER | {"seq": seq, "deps": list(IDS[:deps])}, [MULTICAST, content]]))
    expected = ApplicationMessage(ALICE.public, GROUP_KEY, seq, IDS[:deps], MULTICAST, content, signature)
    assert unseal(body, GROUP_KEY, CONTENT_KEYS) == expected


def test_the_same_words_have_one_name_however_often_they_are_sealed() -> None:
    def said(seq: int, content: bytes, nonce: bytes, member: SigningKey = ALICE) -> MessageId:
        body = seal(member, GROUP_KEY, seq, (), content, content_key=CONTENT_KEY, nonce=nonce)
        return unseal(body, GROUP_KEY, CONTENT_KEYS).said

    once = said(0, b"pay 10", NONCE)
    assert once == said(0, b"pay 10", b"o" * 24)
    others = {said(1, b"pay 10", NONCE), said(0, b"pay 11", NONCE), said(0, b"pay 10", NONCE, BOB)}
    assert len(others) == 3 and once not in others


def test_nothing_readable_is_left_in_the_body() -> None:
    body = seal(ALICE, GROUP_KEY, 0, IDS[:1], b"hello" * 9, content_key=CONTENT_KEY, nonce=NONCE)
    for secret in (b"hello", ALICE.public, GROUP_KEY, IDS[0], CONTENT_KEY):
        assert secret not in body


def test_header_keys_come_in_the_order_of_the_specification() -> None:
    header, _ = value_of(encode_application(ALICE, GROUP_KEY, 0, (), MULTICAST, b""))
    assert list(header) == ["to", "seq", "sig", "deps", "from"]


def test_body_sealed_for_another_group() -> None:
    with pytest.raises(BadSeal, match="changed, or sealed for somebody else"):
        unseal(SEALED, BOB.public, CONTENT_KEYS)


def test_body_under_an_unknown_key() -> None:
    other = {content_key_id(b"o" * 32): b"o" * 32}
    with pytest.raises(UnknownContentKey, match=f"{content_key_id(CONTENT_KEY).hex()}.*none of the 1 known"):
        unseal(SEALED, GROUP_KEY, other)
    with pytest.raises(BadSeal):
        unseal(SEALED, GROUP_KEY, {content_key_id(CONTENT_KEY): b"o" * 32})


def test_every_changed_byte_is_noticed() -> None:
    for at in range(len(SEALED)):
        changed = SEALED[:at] + bytes((SEALED[at] ^ 1,)) + SEALED[at + 1 :]
        with pytest.raises((Malformed, SealError)):
            unseal(changed, GROUP_KEY, CONTENT_KEYS)
        with pytest.raises(Malformed):
            unseal(SEALED[:at], GROUP_KEY, CONTENT_KEYS)


def test_a_member_cannot_speak_for_another() -> None:
    forged = signed(HEADER, [2, b"I, Alice, owe Bob 5"], BOB)
    with pytest.raises(BadMemberSignature, match=f"not by the member it names, {ALICE.public.hex()}"):
        unseal(sealed_plain(forged), GROUP_KEY, CONTENT_KEYS)


def test_a_member_cannot_move_what_another_said_to_this_group() -> None:
    said_elsewhere = encode_application(ALICE, BOB.public, 0, (), MULTICAST, b"yes")
    with pytest.raises(BadMemberSignature, match=f"for {BOB.public.hex()}, not for {GROUP_KEY.hex()}"):
        unseal(sealed_plain(said_elsewhere), GROUP_KEY, CONTENT_KEYS)


@pytest.mark.parametrize("value", ([2, b"no"], [1, b"yes"], [0, {}], [13, b"yes"]))
def test_the_signature_covers_the_body(value: list[Any]) -> None:
    header, _ = value_of(signed(HEADER | {"deps": [bytes(IDS[0])]}, [2, b"yes"]))
    with pytest.raises(BadMemberSignature):
        decode_application(encode([header, value]), GROUP_KEY)


@pytest.mark.parametrize("changed", ({"seq": 1}, {"deps": [bytes(IDS[0])]}, {"from": bytes(BOB.public)}))
def test_the_signature_covers_the_header(changed: dict[str, Any]) -> None:
    header, body = value_of(signed(HEADER, [2, b"yes"]))
    with pytest.raises(BadMemberSignature):
        decode_application(encode([header | changed, body]), GROUP_KEY)


@pytest.mark.parametrize(
    ("header", "body"),
    (
        (HEADER | {"seq": -1}, [2, b""]),
        (HEADER | {"seq": True}, [2, b""]),
        (HEADER | {"seq": 1 << 63 << 1}, [2, b""]),
        (HEADER | {"deps": None}, [2, b""]),
        (HEADER | {"deps": [b"short"]}, [2, b""]),
        (HEADER | {"deps": [bytes(32)] * (DEPS_MAX + 1)}, [2, b""]),
        (HEADER | {"to": b"short"}, [2, b""]),
        (HEADER | {"from": bytes(32)}, [2, b""]),
        (HEADER | {"from": None}, [2, b""]),
        (HEADER | {"via": 1}, [2, b""]),
        (HEADER, [2, "text"]),
        (HEADER, [2, b"", 1]),
        (HEADER, [2]),
        (HEADER, {}),
        (HEADER, [3, b""]),
        (HEADER, [16, b""]),
        (HEADER, [False, {}]),
        (HEADER, [0, {}]),
        (HEADER | {"deps": [bytes(32)] * 2}, [0, {}]),
        (HEADER | {"deps": [bytes(32)]}, [0, {"x": 1}]),
        (HEADER | {"deps": [bytes(32)]}, [0, []]),
    ),
    ids=repr,
)
def test_malformed_plaintexts(header: dict[str, Any], body: Any) -> None:
    with pytest.raises(Malformed):
        unseal(sealed_plain(signed(header, body)), GROUP_KEY, CONTENT_KEYS)


@pytest.mark.parametrize("plain", (b"", b"\x00", b"\x82\xa0\x80", b"\x80", encode([HEADER, [2, b""]])))
def test_plaintexts_that_are_no_message(plain: bytes) -> None:
    with pytest.raises(Malformed):
        unseal(sealed_plain(plain), GROUP_KEY, CONTENT_KEYS)


@pytest.mark.parametrize(
    "body",
    (
        [1, bytes(8), NONCE],
        [1, bytes(7), NONCE, bytes(16)],
        [1, bytes(8), bytes(23), bytes(16)],
        [1, bytes(8), NONCE, bytes(15)],
        [1, bytes(8), NONCE, bytes(16), 0],
        [True, bytes(8), NONCE, bytes(16)],
        [2, bytes(8), bytes(32), bytes(16)],
        [3, bytes(8), NONCE, bytes(16)],
        {},
        b"hello",
    ),
    ids=repr,
)
def test_malformed_bodies(body: Any) -> None:
    with pytest.raises(Malformed):
        unseal(encode(body), GROUP_KEY, CONTENT_KEYS)
    if not (isinstance(body, list) and body[0] == 2):
        with pytest.raises(Malformed):
            unseal_unicast(encode(body), BOB.public, PREKEY_SEEDS)


def test_samples_of_every_kind_of_body() -> None:
    found = [decode_application(plain, GROUP_KEY) for plain in APPLICATIONS]
    assert [one.code for one in found] == [ACK, UNICAST, MULTICAST, MEMBER_ADD, 15]
    assert [one.content for one in found] == [b"", b"u", b"m" * 300, b"\xa1\x63mem\x80", b"\xf6"]
    for plain, one in zip(APPLICATIONS, found, strict=True):
        assert encode_application(ALICE, one.group, one.seq, one.deps, one.code, one.content) == plain


def test_what_no_member_may_say() -> None:
    for deps, code, content, cause in (
        (IDS[:2], ACK, b"", "one dependency, not 2"),
        ((), ACK, b"", "one dependency, not 0"),
        (IDS[:1], ACK, b"thanks", "no content"),
        (IDS[:1] * (DEPS_MAX + 1), MULTICAST, b"", "257 dependencies; at most 256"),
        ((), 3, b"", "no code 3"),
        ((), OPAQUE_CODES[0], b"\xff", "not CBOR"),
    ):
        with pytest.raises(ValueError, match=cause):
            encode_application(ALICE, GROUP_KEY, 0, deps, code, content)
    with pytest.raises(ValueError, match="seq is not an unsigned number"):
        encode_application(ALICE, GROUP_KEY, -1, (), MULTICAST, b"")
    with pytest.raises(ValueError, match="a nonce has 24 bytes, not 12"):
        seal(ALICE, GROUP_KEY, 0, (), b"", content_key=CONTENT_KEY, nonce=bytes(12))
    with pytest.raises(ValueError, match="a content key has 32 bytes, not 16"):
        seal(ALICE, GROUP_KEY, 0, (), b"", content_key=bytes(16), nonce=NONCE)


def test_content_key_ids_tell_keys_apart_and_nothing_else() -> None:
    assert len(content_key_id(CONTENT_KEY)) == 8
    assert content_key_id(CONTENT_KEY) != content_key_id(b"o" * 32)
    assert content_key_id(CONTENT_KEY) not in CONTENT_KEY


# -- unicasts --------------------------------------------------------------------------------------


@given(st.binary(max_size=600), st.binary(min_size=32, max_size=32))
def test_unicast_round_trip(content: bytes, ephemeral: bytes) -> None:
    body = seal_to(PREKEY, ALICE, 7, IDS[:1], content, ephemeral_seed=ephemeral)
    header = HEADER | {"to": bytes(BOB.public), "seq": 7, "deps": list(IDS[:1])}
    signature = ALICE.sign(encode([header, [UNICAST, content]]))
    expected = ApplicationMessage(ALICE.public, BOB.public, 7, IDS[:1], UNICAST, content, signature)
    assert unseal_unicast(body, BOB.public, PREKEY_SEEDS) == expected


def test_unicast_every_changed_byte_is_noticed() -> None:
    for at in range(len(SEALED_TO_BOB)):
        changed = SEALED_TO_BOB[:at] + bytes((SEALED_TO_BOB[at] ^ 1,)) + SEALED_TO_BOB[at + 1 :]
        with pytest.raises((Malformed, SealError)):
            unseal_unicast(changed, BOB.public, PREKEY_SEEDS)


def test_unicast_for_somebody_else() -> None:
    with pytest.raises(UnknownContentKey, match=f"prekey {PREKEY.id.hex()}, which is not ours"):
        unseal_unicast(SEALED_TO_BOB, ALICE.public, {})
    with pytest.raises(BadSeal):
        unseal_unicast(SEALED_TO_BOB, ALICE.public, PREKEY_SEEDS)
    with pytest.raises(BadSeal):
        unseal_unicast(SEALED_TO_BOB, BOB.public, {PREKEY.id: b"z" * 32})


def test_unicast_with_an_ephemeral_key_of_small_order() -> None:
    value = value_of(SEALED_TO_BOB)
    for point in (bytes(32), b"\x01" + bytes(31)):
        with pytest.raises(BadSeal, match="small order"):
            unseal_unicast(encode([2, value[1], point, value[3]]), BOB.public, PREKEY_SEEDS)


def test_nothing_is_sealed_to_a_false_prekey() -> None:
    of_another_key = Prekey(ALICE.public, PREKEY.x25519, PREKEY.signature)
    with pytest.raises(BadPrekey, match=f"not signed by {ALICE.public.hex()}"):
        seal_to(of_another_key, ALICE, 0, (), b"", ephemeral_seed=EPHEMERAL)
    signature = BOB.sign(b"upsycle prekey 1" + bytes(32))
    with pytest.raises(BadPrekey, match="small order"):
        seal_to(Prekey(BOB.public, bytes(32), signature), ALICE, 0, (), b"", ephemeral_seed=EPHEMERAL)
    with pytest.raises(ValueError, match="an ephemeral seed has 32 bytes, not 31"):
        seal_to(PREKEY, ALICE, 0, (), b"", ephemeral_seed=bytes(31))


def test_large_contents() -> None:
    content = bytes(1 << 20)
    body = seal(ALICE, GROUP_KEY, 0, (), content, content_key=CONTENT_KEY, nonce=NONCE)
    assert unseal(body, GROUP_KEY, CONTENT_KEYS).content == content
    assert len(body) - len(content) < 400


def test_deps_are_message_ids() -> None:
    assert all(type(one) is MessageId for one in unseal(SEALED, GROUP_KEY, CONTENT_KEYS).deps)
