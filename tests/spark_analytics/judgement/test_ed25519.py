"""Plain Python accepts and refuses exactly the signatures that the router does."""

from hashlib import sha512

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.wire.crypto import SigningKey
from router.core.wire.crypto import verify as native
from spark_analytics.judgement.ed25519 import ORDER, D, P, verify

KEY = SigningKey(b"r" * 32)
MESSAGE = b"upsycle event log seal 1"
GOOD = KEY.sign(MESSAGE)
SEEDS = st.binary(min_size=32, max_size=32)


def both(key: bytes, message: bytes, signature: bytes) -> bool:
    found = verify(key, message, signature)
    assert found == native(key, message, signature), (key.hex(), message.hex(), signature.hex())
    return found


@pytest.mark.parametrize(
    ("seed", "public", "message", "signature"),
    [  # RFC 8032 §7.1, tests 1 and 3
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
            "d25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
            "4a7c15e9716ed28dc027beceea1ec40a",
        ),
    ],
)
def test_the_standards_vectors(seed: str, public: str, message: str, signature: str) -> None:
    assert SigningKey(bytes.fromhex(seed)).public.hex() == public
    assert both(bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature))


@given(SEEDS, st.binary(max_size=300))
def test_what_a_key_signed_is_good(seed: bytes, message: bytes) -> None:
    key = SigningKey(seed)
    assert both(key.public, message, key.sign(message))


@given(st.integers(0, 8 * (32 + 64 + len(MESSAGE)) - 1))
def test_one_bit_changed_is_refused(bit: int) -> None:
    whole = bytearray(KEY.public + GOOD + MESSAGE)
    whole[bit // 8] ^= 1 << bit % 8
    assert not both(bytes(whole[:32]), bytes(whole[96:]), bytes(whole[32:96]))


@given(st.binary(max_size=40), st.binary(max_size=70))
def test_any_bytes_are_refused_alike(key: bytes, signature: bytes) -> None:
    assert not both(key, MESSAGE, signature)
    assert not both(KEY.public, MESSAGE, signature)


@pytest.mark.parametrize("times", range(1, 16))
def test_a_signature_has_one_spelling(times: int) -> None:
    scalar = int.from_bytes(GOOD[32:], "little") + times * ORDER
    if scalar < 1 << 256:
        assert not both(KEY.public, MESSAGE, GOOD[:32] + scalar.to_bytes(32, "little"))


# -- points of small order, and points that have a part of small order ------------------------------------

Affine = tuple[int, int]


def add(one: Affine, two: Affine) -> Affine:
    product = D * one[0] * two[0] * one[1] * two[1] % P
    x = (one[0] * two[1] + two[0] * one[1]) * pow(1 + product, -1, P)
    return x % P, (one[1] * two[1] + one[0] * two[0]) * pow(1 - product, -1, P) % P


def times(number: int, point: Affine) -> Affine:
    found = (0, 1)
    while number:
        if number & 1:
            found = add(found, point)
        point, number = add(point, point), number >> 1
    return found


def spelt(point: Affine) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def point_of(y: int) -> Affine | None:
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    for root in (pow(square, (P + 3) // 8, P) * pow(2, power * (P - 1) // 4, P) % P for power in (0, 1)):
        if (root * root - square) % P == 0:
            return root, y
    return None


BASE_Y = 4 * pow(5, -1, P) % P
BASE = next(point for point in [point_of(BASE_Y)] if point)
BASE = BASE if BASE[0] % 2 == 0 else (P - BASE[0], BASE_Y)
SMALL = next(small for y in range(2, 99) if (point := point_of(y)) and times(4, small := times(ORDER, point)) != (0, 1))
SMALL_KEYS = [spelt(times(number, SMALL)) for number in range(8)]


def test_the_samples_are_what_they_are_called() -> None:
    assert times(8, SMALL) == (0, 1) and len(set(SMALL_KEYS)) == 8


def forged(secret: Affine, key: bytes, nonce: Affine, message: bytes, scalar: int, blind: int) -> bytes:
    """Return a signature by an attacker who knows the large part of a key, with any small part in the nonce."""
    hashed = int.from_bytes(sha512(spelt(nonce) + key + message).digest(), "little")
    return spelt(nonce) + ((blind + hashed * scalar) % ORDER).to_bytes(32, "little")


@pytest.mark.parametrize("of_key", range(8))
def test_parts_of_small_order_are_judged_alike(of_key: int) -> None:
    """Whether these verify depends on the hash modulo 8: some do, most do not."""
    key = spelt(add(times(77, BASE), times(of_key, SMALL)))
    nonces = [add(times(99, BASE), times(of_nonce, SMALL)) for of_nonce in range(8)]
    found = [both(key, MESSAGE, forged(BASE, key, nonce, MESSAGE, 77, 99)) for nonce in nonces]
    assert not all(found) and (of_key > 0 or found == [True] + [False] * 7)


def hashed_to(point: bytes, key: bytes, rest: int) -> tuple[bytes, int]:
    """Return a message and its hash in a signature with this point; the hash is `rest` modulo 8 and below the
    order's."""
    for number in range(1000):
        message = number.to_bytes(2, "big")
        hashed = int.from_bytes(sha512(point + key + message).digest(), "little") % ORDER
        if hashed % 8 == rest:
            return message, hashed
    raise AssertionError("one in eight hashes fits")


@pytest.mark.parametrize(
    "key", [*SMALL_KEYS, *(y.to_bytes(32, "little") for y in (P, P + 1)), b"\1" + bytes(30) + b"\x80"]
)
def test_a_key_of_small_order_signs_nothing(key: bytes) -> None:
    """The equation holds, because the message's hash makes the key neutral, whatever its order."""
    point = spelt(times(8, BASE))
    message, _ = hashed_to(point, key, 0)
    assert not both(key, message, point + (8).to_bytes(32, "little"))


@pytest.mark.parametrize("number", range(8))
def test_a_nonce_of_small_order_is_refused(number: int) -> None:
    """The equation holds, because S cancels the large part of the key, and the nonce the rest."""
    key = spelt(add(times(77, BASE), SMALL))
    point = SMALL_KEYS[-number % 8]
    message, hashed = hashed_to(point, key, number)
    assert not both(key, message, point + (77 * hashed % ORDER).to_bytes(32, "little"))


@pytest.mark.parametrize("y", range(P, 1 << 255))
def test_keys_that_are_not_spelt_canonically_are_refused(y: int) -> None:
    assert not both(y.to_bytes(32, "little"), MESSAGE, GOOD)
    assert not both(KEY.public, MESSAGE, y.to_bytes(32, "little") + GOOD[32:])
