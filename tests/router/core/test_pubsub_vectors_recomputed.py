"""The frozen vectors of pub/sub, computed again by the papers and `cddl/`, with another CBOR and cryptography."""

from __future__ import annotations

import json
from ipaddress import ip_address
from math import exp
from pathlib import Path
from typing import Any

import blake3 as blake
from rigs.plain_crypto import blake3, cbor, public_of, sign

FROZEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors" / "pubsub.json").read_text())
SEEDS = {name: blake3(name.encode()) for name in ("alice", "bob", "group", "router", "pubsub")}
PUBLIC = {name: public_of(seed) for name, seed in SEEDS.items()}
FIRST, SECOND = blake3(b"first nonce")[:16], blake3(b"second nonce")[:16]
T = blake3(b"upsycle topic 1" + FIRST + SECOND + PUBLIC["group"])[:16]
SECRET = blake3(b"filter secret")
REV, EXPIRY = 1_790_000_000_000, 3_100_000
BELOW = round((1 << 32) / (1 + exp(3 / 4)))


def _bits(group: bytes) -> list[int]:
    found = blake3(b"upsycle interest 1" + group)
    return [(found[2 * j] * 256 + found[2 * j + 1]) % 1024 for j in range(4)]


def _filter(*groups: bytes) -> bytes:
    true = {bit for group in groups for bit in _bits(group)}
    told = bytearray(128)
    for bit in range(1024):
        draws = blake.blake3(bytes([bit in true]), key=SECRET).digest(length=4096)
        is_flipped = int.from_bytes(draws[4 * bit : 4 * bit + 4], "big") < BELOW
        told[bit // 8] |= (1 << bit % 8) * ((bit in true) is not is_flipped)
    return bytes(told)


def _advertisement(number: int) -> dict[str, Any]:
    address = [1, ip_address("198.51.100.7").packed, 4101]
    fields = {
        "id": PUBLIC["router"], "addr": address, "svcs": {2: PUBLIC["pubsub"]}, "grps": [], "rev": REV + number,
        "ttl": 86_400, "exp": EXPIRY,
    }  # fmt: skip
    return fields | {"sig": sign(SEEDS["router"], b"\x01" + cbor(fields))}


def _first_word(*groups: bytes) -> bytes:
    """Return the frame with the fingerprint of all groups, which begins an agreement of Alice with Bob."""
    ends = b"".join(sorted((PUBLIC["alice"], PUBLIC["bob"])))
    drawn = (blake.blake3(b"upsycle agree 1" + ends + FIRST + SECOND + one).digest(length=72) for one in groups)
    total = sum(int.from_bytes(one[8:40], "big") for one in drawn) % (1 << 256)
    counted = PUBLIC["alice"] + b"\0" + len(groups).to_bytes(4, "big") + total.to_bytes(32, "big")
    return bytes(3) + blake3(b"upsycle agree range 1" + counted)[:16]


def test_topic_place_and_filter() -> None:
    assert FROZEN["topic"] == T.hex()
    assert FROZEN["place"] == (PUBLIC["pubsub"] + PUBLIC["router"]).hex()
    assert FROZEN["bits_of_group"] == _bits(PUBLIC["group"])
    assert FROZEN["filter"] == _filter(PUBLIC["group"], PUBLIC["bob"]).hex()


def test_messages() -> None:
    bits = _filter(PUBLIC["group"], PUBLIC["bob"])
    mine = [REV, bits, sign(SEEDS["pubsub"], b"upsycle interests 1" + cbor([REV, bits]))]
    one, two = _advertisement(0), _advertisement(1)
    compare = {"t": T, "lo": EXPIRY, "hi": EXPIRY + 60}
    expected: dict[str, list[Any]] = {
        "meet": [5, {"n": FIRST}],
        "met": [6, {"n": FIRST, "to": SECOND, "tags": [T]}],
        "ask_interests": [7, {"mine": mine, "view": [[0, one, mine]]}],
        "tell_interests": [8, {"mine": mine, "view": []}],
        "ask_rings": [9, {"advs": [one, two], "rings": [[T, [[0, 1], [1, 25]]], [FIRST, []]]}],
        "tell_rings": [10, {"advs": [], "rings": [[T, []]]}],
        "compare": [11, compare | {"m": b"\x61\x00\x00\x02\x00", "age": 3600}],
        "compared": [12, compare | {"m": b"\x61", "order": bytes.fromhex("010000000700"), "old": 7}],
        "have": [13, {"t": T, "ids": [blake3(b"first"), blake3(b"second")]}],
        "ask_groups": [15, {"a": T, "i": 0, "m": _first_word(PUBLIC["group"], PUBLIC["bob"])}],
        "tell_groups": [16, {"a": T, "i": 0, "m": bytes(1)}],
    }
    assert FROZEN["message"] == {name: cbor(value).hex() for name, value in expected.items()}
