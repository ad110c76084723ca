"""The frozen vectors, computed again by the specification and `cddl/`, with another CBOR, Ed25519 and BLAKE3."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from rigs.plain_crypto import bech32m, blake3, cbor, public_of, sign, x25519, x25519_public_of, xchacha20_poly1305

FROZEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors" / "messages.json").read_text())
SEEDS = {name: bytes.fromhex(one["seed"]) for name, one in FROZEN["keys"].items()}
PUBLIC = {name: public_of(seed) for name, seed in SEEDS.items()}
SECRETS = {name: bytes.fromhex(one) for name, one in FROZEN["secrets"].items()}
IDS = [blake3(b"message %d" % n) for n in range(16)]
GROUP, BOB = PUBLIC["group"], PUBLIC["bob"]


def _wire(kind: int, header: dict[str, Any], body: bytes, signer: str) -> bytes:
    signed = cbor(kind) + cbor(header) + cbor(body)
    return b"\x84" + signed + cbor(sign(SEEDS[signer], signed))


def _header(vector: dict[str, Any]) -> dict[str, Any]:
    times = {"ttl": vector["ttl"], "exp": vector["exp"]}
    if "src" in vector:
        return {"src": PUBLIC[vector["src"]], "dst": PUBLIC[vector["dst"]], **times}
    return {"grp": PUBLIC[vector["grp"]], "sn": [bytes.fromhex(one) for one in vector["sn"]], **times}


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_seeds_keys_and_their_texts(name: str) -> None:
    assert SEEDS[name] == blake3(name.encode())
    assert FROZEN["keys"][name]["public"] == PUBLIC[name].hex()
    assert FROZEN["keys"][name]["text"] == bech32m("addr", PUBLIC[name])


def test_texts_of_every_kind() -> None:
    assert FROZEN["text"] == {kind: bech32m(kind, GROUP) for kind in ("addr", "group", "msg")}


@pytest.mark.parametrize("vector", [*FROZEN["unicast"], *FROZEN["multicast"]], ids=lambda vector: vector["id"][:8])
def test_messages(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["body"]["item"]) * vector["body"]["times"]
    kind, signer = (0, vector["src"]) if "src" in vector else (1, vector["grp"])
    wire = _wire(kind, _header(vector), body, signer)
    assert wire[-64:].hex() == vector["signature"]
    if len(wire) < 100_000:  # A plain BLAKE3 takes seconds for more.
        assert blake3(wire[1:]).hex() == vector["id"]
    if vector["via"]:
        wire = b"\x85" + wire[1:] + cbor(bytes.fromhex(vector["via"]))
    assert cbor(wire)[:5].hex() == vector["frame_head"]
    if "wire" in vector:
        assert wire.hex() == vector["wire"]
    else:
        assert len(wire) == vector["wire_bytes"]
        assert len(wire) >= 100_000 or blake3(wire).hex() == vector["wire_blake3"]


def test_controls() -> None:
    carried = _wire(1, {"grp": GROUP, "sn": [], "ttl": 3600, "exp": 3_100_000}, b"hello", "group")
    report = {"id": IDS[0], "dst": BOB, "state": "expired", "reason": 13, "at": 1_800_000_000}
    expected = {
        "carried": [0, carried],
        "join": [1, {"addr": GROUP, "local": False}],
        "join_local": [1, {"addr": GROUP, "local": True}],
        "join_ack_success": [2, {"addr": GROUP, "result": 0}],
        "join_ack_failure": [2, {"addr": GROUP, "result": 1}],
        "leave": [3, {"addr": GROUP}],
        "leave_ack_success": [4, {"addr": GROUP, "result": 0}],
        "pull": [5, {"addr": GROUP, "id": IDS[0]}],
        "report": [6, report],
    }
    assert FROZEN["control"] == {name: cbor(value).hex() for name, value in expected.items()}


def test_link_items() -> None:
    hello = {
        "v": [1], "role": "router", "epoch": b"\x01" * 8, "dur": True, "frame": 1_052_672, "msgs": 512,
        "bytes": 1 << 23, "feat": ["outcome"], "nonce": b"\x02" * 16, "key": BOB, "name": "bakery",
    }  # fmt: skip
    least = hello | {"role": "app", "dur": False, "frame": 65_536, "msgs": 1, "bytes": 1, "feat": []}
    del least["key"], least["name"]
    expected: dict[str, list[Any]] = {
        "hello": [2, hello],
        "hello_least": [2, least],
        "proof": [3, sign(SEEDS["bob"], b"proof")],
        "settled": [4, 500],
        "refused": [5, 7, 10, "no"],
        "ping": [6, 1],
        "pong": [7, 1, 2, 3],
        "pong_log_head": [7, 1, 2, 3, [4, IDS[0]]],
        "goodbye": [8, 27],
        "outcome": [9, IDS[0], [[BOB, "refused", 10], [2, "delivered"]]],
        "missed": [10, GROUP, 3, IDS[0], IDS[1], 13],
        "missed_unicasts": [10, None, 1, IDS[0], IDS[0], 13],
        "redelivered": [11, 12],
    }
    assert FROZEN["link"] == {name: cbor(value).hex() for name, value in expected.items()}


@pytest.mark.parametrize("side", ["dialler", "listener"])
def test_proofs(side: str) -> None:
    hellos = blake3(b"hello of the dialler") + blake3(b"hello of the listener")
    assert FROZEN["proof"][side] == (b"upsycle link proof 1" + side.encode() + hellos).hex()


def _application(to: bytes, seq: int, deps: list[bytes], code: int, body: Any) -> bytes:
    header = {"to": to, "seq": seq, "deps": deps, "from": PUBLIC["alice"]}
    signature = sign(SEEDS["alice"], cbor([header, [code, body]]))
    return cbor([header | {"sig": signature}, [code, body]])


def test_application_messages() -> None:
    expected = {
        "ack": _application(GROUP, 0, IDS[:1], 0, {}),
        "unicast": _application(GROUP, 1, [], 1, b"\xa0"),
        "multicast": _application(GROUP, 2, IDS[:2], 2, b"hello"),
        "member_add": _application(GROUP, 3, [], 11, {"mem": [BOB]}),
    }
    assert FROZEN["application"]["plain"] == {name: wire.hex() for name, wire in expected.items()}


def test_sealed_bodies() -> None:
    content_key, nonce = SECRETS["content_key"], SECRETS["nonce"]
    key_id = blake3(b"upsycle content key id 1" + content_key)[:8]
    plain = _application(GROUP, 2, IDS[:2], 2, b"hello")
    sealed = xchacha20_poly1305(content_key, nonce, plain, b"upsycle group body 1" + GROUP)
    assert FROZEN["application"]["content_key_id"] == key_id.hex()
    assert FROZEN["application"]["sealed"] == cbor([1, key_id, nonce, sealed]).hex()


def test_prekeys_and_what_is_sealed_to_them() -> None:
    prekey = x25519_public_of(SECRETS["x25519_seed"])
    prekey_id = blake3(b"upsycle prekey 1" + prekey)[:8]
    ephemeral = x25519_public_of(SECRETS["ephemeral_seed"])
    shared = x25519(SECRETS["ephemeral_seed"], prekey)
    key = blake3(b"upsycle unicast key 1" + shared + ephemeral + prekey)
    plain = _application(BOB, 0, [], 1, b"psst")
    sealed = xchacha20_poly1305(key, bytes(24), plain, b"upsycle unicast body 1" + BOB)
    frozen = FROZEN["application"]
    signed = {"id": BOB, "pre": prekey, "sig": sign(SEEDS["bob"], b"upsycle prekey 1" + prekey)}
    assert (frozen["prekey_id"], frozen["prekey"]) == (prekey_id.hex(), cbor(signed).hex())
    assert frozen["sealed_to_bob"] == cbor([2, prekey_id, ephemeral, sealed]).hex()


def test_successions() -> None:
    said = [PUBLIC["alice"], BOB, 1_800_000_000, 1_802_592_000]
    signed = b"upsycle succession 1" + cbor(said)
    items = [*said, sign(SEEDS["alice"], signed), sign(SEEDS["bob"], signed)]
    assert FROZEN["succession"] == cbor(items).hex()


def test_renewals() -> None:
    said = [PUBLIC["alice"], BOB, 1_800_000_000, 1_800_604_800]
    signed = b"upsycle renewal 1" + cbor(said)
    items = [*said, sign(SEEDS["alice"], signed), sign(SEEDS["bob"], signed)]
    assert FROZEN["renewal"] == {"statement": cbor(items).hex(), "notice": cbor([22, items]).hex()}


def _prekey(owner: str, x25519_public: bytes, until: int) -> dict[str, Any]:
    signed = b"upsycle prekey 2" + x25519_public + until.to_bytes(4, "big")
    return {"id": PUBLIC[owner], "pre": x25519_public, "sig": sign(SEEDS[owner], signed), "until": until}


def test_prekeys_with_an_end_and_what_is_sealed_to_an_address() -> None:
    frozen, until = FROZEN["application"], 3_600_000
    pre, mine = x25519_public_of(SECRETS["x25519_seed"]), x25519_public_of(SECRETS["content_key"])
    bobs, alices = _prekey("bob", pre, until), _prekey("alice", mine, until)
    assert frozen["dated_prekey"] == cbor(bobs).hex()
    assert frozen["prekey_answer"] == cbor([21, bobs]).hex()
    ephemeral = x25519_public_of(SECRETS["ephemeral_seed"])
    key = blake3(b"upsycle unicast key 2" + x25519(SECRETS["ephemeral_seed"], pre) + ephemeral + pre)
    bound_to = b"upsycle unicast body 2" + PUBLIC["alice"] + BOB
    for body, (code, value) in zip(frozen["sealed_bodies"], ((1, b"psst"), (17, [b"psst", alices])), strict=True):
        sealed = xchacha20_poly1305(key, SECRETS["nonce"], cbor([9, [code, value]]), bound_to)
        prekey_id = blake3(b"upsycle prekey 1" + pre)[:8]
        assert body == cbor([3, prekey_id, ephemeral, SECRETS["nonce"], sealed]).hex()


def test_group_links() -> None:
    fields = {"grp": GROUP, "key": SECRETS["content_key"], "name": "bread & roses"}
    links = {"may_send": fields | {"seed": SEEDS["group"]}, "read_only": fields}
    for name, one in links.items():
        assert FROZEN["grouplink"][name] == f"upsycle:{urlsafe_b64encode(cbor([2, one])).decode().rstrip('=')}"
