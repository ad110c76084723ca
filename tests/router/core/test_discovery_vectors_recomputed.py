"""The frozen vectors of discovery, computed again by the papers and `cddl/`, with another CBOR and cryptography."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from rigs.plain_crypto import blake3, cbor, public_of, sign

FROZEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors" / "discovery.json").read_text())
SEEDS = {name: blake3(name.encode()) for name in ("alice", "bob", "group", "router", "discovery")}
PUBLIC = {name: public_of(seed) for name, seed in SEEDS.items()}
ROUTER, GROUP, BOB = PUBLIC["router"], PUBLIC["group"], PUBLIC["bob"]
CONTENT_KEY, SECRET = blake3(b"content key"), blake3(b"secret")[:16]
FIRST, SECOND = blake3(b"first nonce")[:16], blake3(b"second nonce")[:16]
REV, EXPIRY = 1_790_000_000_000, 3_100_000

FOUR = [1, ip_address("198.51.100.7").packed, 4101]
SIX = [1, ip_address("2001:db8::7").packed, 65_535]
NAMED = [3, "router.example.org", 443]
WEB = [4, "wss://example.org/router"]


def _signed_map(fields: dict[str, Any], label: bytes) -> dict[str, Any]:
    return fields | {"sig": sign(SEEDS["router"], label + cbor(fields))}


def _advertisement(**changed: Any) -> dict[str, Any]:
    fields = {"id": ROUTER, "addr": FOUR, "svcs": {}, "grps": [], "rev": REV, "ttl": 86_400, "exp": EXPIRY} | changed
    return _signed_map(fields, b"\x01")


PLAIN = _advertisement()
FULL = _advertisement(
    addr=[5, [FOUR, SIX, NAMED, WEB]], svcs={1: PUBLIC["discovery"], 2: BOB}, grps=[GROUP, BOB], rev=REV + 1, ttl=30
)


def _link(kind: int, fields: dict[str, Any]) -> str:
    return f"upsycle:{urlsafe_b64encode(cbor([kind, fields])).decode().rstrip('=')}"


def _invitation(**more: Any) -> str:
    fields = {"id": ROUTER, "inv": SECRET, "exp": EXPIRY} | more
    return _link(3, _signed_map(fields, b"upsycle invitation 1"))


def test_addresses() -> None:
    assert list(FROZEN["address"].values()) == [cbor(one).hex() for one in (FOUR, SIX, NAMED, WEB)]
    assert FROZEN["addresses"] == cbor([5, [FOUR, SIX, NAMED, WEB]]).hex()


def test_advertisements() -> None:
    farewell = _advertisement(addr=[1, bytes(4), 4101], rev=REV + 2, ttl=0)
    expected = {"plain": PLAIN, "full": FULL, "farewell": farewell}
    assert FROZEN["advertisement"] == {name: cbor([1, one]).hex() for name, one in expected.items()}


def test_links() -> None:
    sending = {"key": CONTENT_KEY, "name": "bread & roses", "seed": SEEDS["group"]}
    reading = {"key": CONTENT_KEY, "name": "bread & roses", "grp": GROUP}
    hints = [[ROUTER, FOUR], [BOB, [5, [SIX, NAMED]]]]
    assert FROZEN["link"] == {
        "node": _link(1, PLAIN),
        "group_with_hints": _link(2, {"grp": GROUP, "key": CONTENT_KEY, "at": hints}),
        "invitation_least": _invitation(at=FOUR, gr=8),
        "invitation_sending": _invitation(at=[5, [FOUR, SIX]], gr=7, name="bakery", grp=sending),
        "invitation_reading": _invitation(at=NAMED, gr=1, grp=reading),
    }
    assert FROZEN["invitation_id"] == blake3(SECRET).hex()


def test_hints() -> None:
    said = {"addr": GROUP, "at": [[ROUTER, FOUR], [BOB, [5, [SIX, NAMED]]]]}
    assert FROZEN["hint"] == {"to_router": cbor([11, said]).hex(), "to_service": cbor([14, said]).hex()}


def test_redemptions() -> None:
    expected: dict[str, list[Any]] = {
        "redeem": [9, {"inv": SECRET}],
        "redeem_named": [9, {"inv": SECRET, "name": "Bob"}],
        "redeemed": [10, {"inv": SECRET, "result": 0, "gr": 3, "exp": EXPIRY}],
        "redeemed_without_end": [10, {"inv": SECRET, "result": 0, "gr": 1, "exp": 0}],
        "redeemed_refused": [10, {"inv": SECRET, "result": 194, "gr": 0, "exp": 0}],
    }
    assert FROZEN["redemption"] == {name: cbor(value).hex() for name, value in expected.items()}


def test_tags_and_topics() -> None:
    bound = b"upsycle meet 1" + PUBLIC["alice"] + BOB + FIRST + SECOND
    tags = {blake3(bound + group)[:16] for group in (GROUP, BOB)}
    tags |= {blake3(b"filler %d" % n)[:16] for n in range(30)}
    met = {"n": FIRST, "to": SECOND, "tags": sorted(tags)}
    assert len(tags) == 32 and FROZEN["message"]["met"] == cbor([5, met]).hex()
    assert FROZEN["topic"] == blake3(b"upsycle topic 1" + FIRST + SECOND + GROUP)[:16].hex()


def test_messages() -> None:
    expected: dict[str, list[Any]] = {
        "sample": [2, {"view": [[0, PLAIN], [25, FULL]]}],
        "sampled_empty": [3, {"view": []}],
        "meet": [4, {"n": FIRST}],
        "dial_me": [6, {"n": FIRST, "port": 4101}],
        "dialled": [7, {"n": FIRST, "at": FOUR, "result": 0}],
        "dialled_in_vain": [7, {"n": FIRST, "at": SIX, "result": 22, "text": "connection refused"}],
    }
    frozen = {name: one for name, one in FROZEN["message"].items() if name != "met"}
    assert frozen == {name: cbor(value).hex() for name, value in expected.items()}
