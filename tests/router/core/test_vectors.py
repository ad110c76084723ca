"""Frozen vectors: bytes that every version and every other implementation must agree on.

`tests/vectors/messages.json` was written once from `make()`. If this test fails, the protocol has changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from router.core.wire import (
    application,
    control,
    grouplink,
    message,
    prekey,
    prekey_exchange,
    renewal,
    succession,
    unicast_seal,
)
from router.core.wire import link_items as link
from router.core.wire.codec import frame
from router.core.wire.crypto import MessageId, PublicKey, SigningKey, digest
from router.core.wire.reasons import Reason
from router.core.wire.text import key_text, parse_key

PATH = Path(__file__).parents[2] / "vectors" / "messages.json"
FROZEN: dict[str, Any] = json.loads(PATH.read_text())

ALICE, BOB, GROUP, ROUTER = (SigningKey(digest(name)) for name in (b"alice", b"bob", b"group", b"router"))
KEYS = {"alice": ALICE, "bob": BOB, "group": GROUP, "router": ROUTER}
CONTENT_KEY, NONCE, X25519_SEED, EPHEMERAL_SEED = (
    digest(b"content key"), digest(b"nonce")[:24], digest(b"x25519"), digest(b"ephemeral"),
)  # fmt: skip
IDS = tuple(MessageId(digest(b"message %d" % n)) for n in range(16))
UNTIL_MIN = 3_600_000
WIRE_BYTES_MAX = 1024  # longer ones are given by their digest


def make() -> dict[str, Any]:
    """Return the content of the file, from fixed seeds."""
    return {
        "about": "Bytes are hex. Bodies are an item repeated. wire_blake3 stands for a wire over 1 KiB.",
        "keys": {
            name: {"seed": key.seed.hex(), "public": key.public.hex(), "text": key_text("addr", key.public)}
            for name, key in KEYS.items()
        },
        "secrets": {
            "content_key": CONTENT_KEY.hex(), "nonce": NONCE.hex(), "x25519_seed": X25519_SEED.hex(),
            "ephemeral_seed": EPHEMERAL_SEED.hex(),
        },
        "unicast": [
            _unicast(b"", 1, 0, 0, None),
            _unicast(b"hello", 1, 60, 3_100_000, None),
            _unicast(b"hello", 1, 60, 3_100_000, ROUTER.public),
            _unicast(b"\x00", 23, 23, 24, None),
            _unicast(b"\x00", 24, 255, 256, None),
            _unicast(b"\x00", 255, 65_535, 65_536, None),
            _unicast(b"\x00", 256, (1 << 32) - 1, (1 << 32) - 1, None),
            _unicast(b"ab", 35_000, 86_400, 3_100_000, ROUTER.public),
        ],
        "multicast": [
            _multicast(b"", 1, 0, 0, 0, None),
            _multicast(b"hello", 1, 3600, 3_100_000, 1, None),
            _multicast(b"hello", 1, 3600, 3_100_000, 4, ROUTER.public),
            _multicast(b"hello", 1, 3600, 3_100_000, 16, None),
            _multicast(b"x", 1 << 20, 3600, 3_100_000, 16, ROUTER.public),
        ],
        "control": {name: control.encode_control(value).hex() for name, value in _controls().items()},
        "link": {name: link.encode_item(value).hex() for name, value in _items().items()},
        "proof": {
            side: link.proof_bytes(side, b"hello of the dialler", b"hello of the listener").hex()
            for side in link.SIDES
        },
        "application": _application(),
        "renewal": {
            "statement": renewal.encode_renewal(_renewal()).hex(),
            "notice": renewal.encode_renewal_notice(_renewal()).hex(),
        },
        "succession": succession.encode_succession(_succession()).hex(),
        "grouplink": {"may_send": _group_link().text(), "read_only": _group_link().read_only().text()},
        "text": {kind: key_text(kind, GROUP.public) for kind in ("addr", "group", "msg")},
    }  # fmt: skip


def _unicast(item: bytes, times: int, ttl_s: int, expiry_min: int, via: PublicKey | None) -> dict[str, Any]:
    wire = message.seal_unicast(ALICE, BOB.public, item * times, ttl_s=ttl_s, expiry_min=expiry_min)
    fields = {"src": "alice", "dst": "bob", "ttl": ttl_s, "exp": expiry_min}
    return fields | _message(wire, item, times, via)


def _multicast(
    item: bytes, times: int, ttl_s: int, expiry_min: int, seen: int, via: PublicKey | None
) -> dict[str, Any]:
    wire = message.seal_multicast(GROUP, item * times, ttl_s=ttl_s, expiry_min=expiry_min, seen=IDS[:seen])
    fields = {"grp": "group", "ttl": ttl_s, "exp": expiry_min, "sn": [one.hex() for one in IDS[:seen]]}
    return fields | _message(wire, item, times, via)


def _message(wire: bytes, item: bytes, times: int, via: PublicKey | None) -> dict[str, Any]:
    if via is not None:
        wire = message.with_via(wire, via)
    opened = message.open_message(wire)
    found: dict[str, Any] = {
        "body": {"item": item.hex(), "times": times}, "via": via.hex() if via else None,
        "signature": opened.signature.hex(), "id": message.message_id(wire).hex(),
        "frame_head": frame(wire)[:5].hex(),
    }  # fmt: skip
    if len(wire) <= WIRE_BYTES_MAX:
        return found | {"wire": wire.hex()}
    return found | {"wire_bytes": len(wire), "wire_blake3": digest(wire).hex()}


def _controls() -> dict[str, control.Control]:
    group = GROUP.public
    carried = message.seal_multicast(GROUP, b"hello", ttl_s=3600, expiry_min=3_100_000)
    return {
        "carried": control.Carried(carried),
        "join": control.Join(group, False),
        "join_local": control.Join(group, True),
        "join_ack_success": control.JoinAck(group, True),
        "join_ack_failure": control.JoinAck(group, False),
        "leave": control.Leave(group),
        "leave_ack_success": control.LeaveAck(group, True),
        "pull": control.Pull(group, IDS[0]),
        "report": control.Report(IDS[0], BOB.public, "expired", Reason.TTL_EXPIRED, 1_800_000_000),
    }


def _items() -> dict[str, link.Item]:
    bob = BOB.public
    return {
        "hello": link.Hello(
            (1,),
            "router",
            b"\x01" * 8,
            True,
            1_052_672,
            512,
            1 << 23,
            ("outcome",),
            b"\x02" * 16,
            bob,
            "bakery",
        ),
        "hello_least": link.Hello((1,), "app", b"\x01" * 8, False, 65_536, 1, 1, (), b"\x02" * 16),
        "proof": link.Proof(BOB.sign(b"proof")),
        "settled": link.Settled(500),
        "refused": link.Refused(7, Reason.BLOCKED, "no"),
        "ping": link.Ping(1),
        "pong": link.Pong(1, 2, 3),
        "pong_log_head": link.Pong(1, 2, 3, link.LogHead(4, IDS[0])),
        "goodbye": link.Goodbye(Reason.SHUTDOWN),
        "outcome": link.Outcome(
            IDS[0], (link.RecipientOutcome(bob, "refused", 10), link.RecipientOutcome(2, "delivered"))
        ),
        "missed": link.Missed(GROUP.public, 3, IDS[0], IDS[1], Reason.TTL_EXPIRED),
        "missed_unicasts": link.Missed(None, 1, IDS[0], IDS[0], Reason.TTL_EXPIRED),
        "redelivered": link.Redelivered(12),
    }


def _application() -> dict[str, Any]:
    group = GROUP.public
    bob = prekey.make_prekey(BOB, X25519_SEED)
    dated = prekey.make_prekey(BOB, X25519_SEED, UNTIL_MIN)
    alices = prekey.make_prekey(ALICE, CONTENT_KEY, UNTIL_MIN)
    plain = {
        "ack": (0, IDS[:1], application.ACK, b""),
        "unicast": (1, (), application.UNICAST, b"\xa0"),
        "multicast": (2, IDS[:2], application.MULTICAST, b"hello"),
        "member_add": (3, (), application.MEMBER_ADD, bytes.fromhex("a1636d656d815820") + BOB.public),
    }
    return {
        "plain": {name: application.encode_application(ALICE, group, *values).hex() for name, values in plain.items()},
        "content_key_id": application.content_key_id(CONTENT_KEY).hex(),
        "sealed": application.seal(ALICE, group, 2, IDS[:2], b"hello", content_key=CONTENT_KEY, nonce=NONCE).hex(),
        "prekey": prekey.encode_prekey(bob).hex(),
        "prekey_id": bob.id.hex(),
        "dated_prekey": prekey.encode_prekey(dated).hex(),
        "prekey_answer": prekey_exchange.encode_answer(dated).hex(),
        "sealed_bodies": [_sealed_body(dated, mine).hex() for mine in (None, alices)],
        "sealed_to_bob": application.seal_to(bob, ALICE, 0, (), b"psst", ephemeral_seed=EPHEMERAL_SEED).hex(),
    }


def _succession() -> succession.KeySuccession:
    return succession.make_succession(ALICE, BOB, 1_800_000_000, 1_802_592_000)


def _renewal() -> renewal.Renewal:
    return renewal.make_renewal(ALICE, BOB, 1_800_000_000, 1_800_604_800)


def _sealed_body(to: prekey.Prekey, mine: prekey.Prekey | None) -> bytes:
    key = unicast_seal.sealing_key(to, EPHEMERAL_SEED)
    return unicast_seal.seal_body(key, ALICE.public, to.owner, 9, b"psst", nonce=NONCE, prekey=mine)


def _group_link() -> grouplink.GroupLink:
    return grouplink.new_group(GROUP.seed, CONTENT_KEY, "bread & roses")


# -- the tests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", sorted(make()))
def test_reproduced(part: str) -> None:
    assert make()[part] == FROZEN[part]


def test_nothing_else_is_frozen() -> None:
    assert sorted(FROZEN) == sorted(make())


@pytest.mark.parametrize("vector", [*FROZEN["unicast"], *FROZEN["multicast"]], ids=lambda vector: vector["id"][:8])
def test_frozen_messages_open(vector: dict[str, Any]) -> None:
    """Decode from the file alone, as another implementation would."""
    if "wire" not in vector:
        assert vector["wire_bytes"] > WIRE_BYTES_MAX
        return
    wire = bytes.fromhex(vector["wire"])
    opened = message.open_message(wire)
    assert message.verify_message(wire)
    assert message.message_id(wire).hex() == vector["id"]
    assert opened.body == bytes.fromhex(vector["body"]["item"]) * vector["body"]["times"]
    assert (opened.ttl_s, opened.expiry_min) == (vector["ttl"], vector["exp"])
    assert (opened.via.hex() if opened.via else None) == vector["via"]
    if isinstance(opened, message.Unicast):
        ends = opened.source.hex(), opened.destination.hex()
        assert ends == (_public(vector["src"]), _public(vector["dst"]))
    else:
        assert opened.group.hex() == _public(vector["grp"])
        assert [one.hex() for one in opened.seen] == vector["sn"]


def _public(name: str) -> str:
    public = FROZEN["keys"][name]["public"]
    assert isinstance(public, str)
    return public


def test_frozen_controls_and_items_are_read_back() -> None:
    for name, control_value in _controls().items():
        assert control.decode_control(bytes.fromhex(FROZEN["control"][name])) == control_value
    for name, item in _items().items():
        assert link.decode_item(bytes.fromhex(FROZEN["link"][name])) == item


def test_frozen_bodies_are_opened() -> None:
    frozen = FROZEN["application"]
    keys = {bytes.fromhex(frozen["content_key_id"]): bytes.fromhex(FROZEN["secrets"]["content_key"])}
    assert application.unseal(bytes.fromhex(frozen["sealed"]), GROUP.public, keys).content == b"hello"
    seeds = {bytes.fromhex(frozen["prekey_id"]): bytes.fromhex(FROZEN["secrets"]["x25519_seed"])}
    to_bob = bytes.fromhex(frozen["sealed_to_bob"])
    assert application.unseal_unicast(to_bob, BOB.public, seeds).content == b"psst"
    assert prekey.decode_prekey(bytes.fromhex(frozen["prekey"])).verify()
    answered = prekey_exchange.decode_answer(bytes.fromhex(frozen["prekey_answer"]))
    assert answered is not None and answered.verify() and answered.until_min == UNTIL_MIN
    for body in map(bytes.fromhex, frozen["sealed_bodies"]):
        sealed = unicast_seal.read_body(body)
        secret = unicast_seal.opening_key(seeds[sealed.prekey_id], sealed.ephemeral)
        assert unicast_seal.open_body(sealed, secret, ALICE.public, BOB.public).content == b"psst"


def test_a_frozen_succession_is_read_back() -> None:
    assert succession.decode_succession(bytes.fromhex(FROZEN["succession"])) == _succession()


def test_frozen_renewals_are_read_back() -> None:
    frozen = FROZEN["renewal"]
    assert renewal.decode_renewal(bytes.fromhex(frozen["statement"])) == _renewal() and _renewal().verify()
    assert renewal.decode_renewal_notice(bytes.fromhex(frozen["notice"])) == _renewal()


def test_frozen_texts_are_read_back() -> None:
    assert grouplink.parse_link(FROZEN["grouplink"]["may_send"]) == _group_link()
    assert grouplink.parse_link(FROZEN["grouplink"]["read_only"]) == _group_link().read_only()
    for text in FROZEN["text"].values():
        assert parse_key(text) == GROUP.public
