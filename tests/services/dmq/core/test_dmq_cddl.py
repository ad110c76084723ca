"""The CDDL of the DMQ node as an oracle: everything we write or accept is valid by it, also with one thing wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]
from rigs.corruption import corrupted
from samples.core import value_of
from samples.dmq import NOW, POOLS, SIGNED, raw
from samples.dmq_messages import NOTIFICATION, SUBMISSION

from router.core.wire.codec import Malformed, encode
from services.dmq.core import rows
from services.dmq.core.clients.cursor import Cursor
from services.dmq.core.mempool import Row
from services.dmq.core.messages.authentication import PoolRecord
from services.dmq.core.messages.signed_message import SEEDS, Cip29ffe0e, Dmq04, Dmq05
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import keep_alive as ka
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols import node_handshake as nh
from services.dmq.core.protocols import peer_sharing as ps
from services.dmq.core.protocols import submission as s
from services.dmq.core.protocols.notification import REVISIONS

CDDL = Path(__file__).parents[4] / "cddl"
MAGIC = h.MAGICS["preview"]
OFFER = h.propose(MAGIC)
HANDSHAKE: tuple[h.Message, ...] = (
    OFFER,
    h.answer(OFFER, MAGIC),
    h.MsgRefuse(h.Refused(4097, "no")),
    h.answer(h.propose(MAGIC, query=True), MAGIC),
    h.MsgRefuse(h.VersionMismatch((4097,))),
    h.MsgRefuse(h.HandshakeDecodeError(4097, "why")),
)
STATES = tuple(rows.encode_state(rows.State(name, MAGIC, 9)) for name in rows.ENCODINGS)
CURSOR = Cursor(12, (), 50, 2, set_aside=[3, 4], again=[7, 1 << 63])
CIP = Cip29ffe0e()
CIP_WIRE = CIP.write(POOLS[0].draft(bytes(SEEDS.least)))
NOUNS: tuple[tuple[str, str, Callable[[bytes], object], tuple[bytes, ...]], ...] = (
    ("message", "message-0-5", Dmq05().read, (Dmq05().write(POOLS[0].draft(bytes(90))),)),
    ("message", "message-0-4", Dmq04().read, (Dmq04().write(POOLS[0].draft()),)),
    ("message", "message-cip", CIP.read, (CIP_WIRE,)),
    ("message", "notified-cip", CIP.read_notified, (CIP.notified(CIP.read(CIP_WIRE)),)),
    ("handshake", "message", h.decode_message, tuple(map(h.encode_message, HANDSHAKE))),
    ("handshake", "client-data", h.read_client_data, (h.ClientData(MAGIC).encoded(),)),
    ("submission", "message", s.decode_message, tuple(map(s.encode_message, SUBMISSION[1:]))),
    ("store", "state", rows.read_state, STATES),
    (
        "store", "row", lambda row: rows.read_row(7, row),
        (rows.encode_row(Row(7, bytes(32), POOLS[0].id, 1088, NOW.wall_s + 900.5, NOW.wall_s)),),
    ),
    (
        "store", "record", lambda row: rows.read_record(row, NOW),
        (rows.encode_record(PoolRecord(5, NOW.mono_s), NOW),),
    ),
    ("store", "cursor", lambda row: rows.read_cursor(row, None), (rows.encode_cursor(CURSOR),)),
    (
        "store", "aside", lambda row: rows.read_cursor(rows.encode_cursor(CURSOR), row),
        (rows.encode_aside(CURSOR),),
    ),
    *(
        ("notification", rule, REVISIONS[name].decode, tuple(map(REVISIONS[name].encode, NOTIFICATION[name])))
        for rule, name in (("cip", "cip-29ffe0e"), ("overview", "overview-2025-04"), ("dmq", "dmq"))
    ),
)  # fmt: skip
ID = b"i" * 32
BETWEEN: tuple[ms.Message, ...] = (
    ms.MsgRequestSigIdsBlocking(0, 33),
    ms.MsgRequestSigIdsNonBlocking(65_535, 1),
    ms.MsgReplySigIds(((ID, 1088),)),
    ms.MsgRequestSigs((ID,)),
    ms.MsgReplySigs((b"\x80",)),
    ms.MsgDone(),
)
ADDRESSES = (ps.PeerAddress("1.2.3.4", 3141), ps.PeerAddress("2001:db8::1", 1))
NOUNS += (
    ("nodes", "node-data", nh.read_node_data, (nh.NodeData(MAGIC, peer_sharing=True).encoded(),)),
    (
        "nodes",
        "keep-alive",
        ka.decode_message,
        (ka.encode_message(ka.MsgKeepAlive(7)), ka.encode_message(ka.MsgDone())),
    ),
    ("nodes", "peer-sharing", ps.decode_message, (ps.encode_message(ps.MsgShareRequest(10)),)),
    ("nodes", "address", ps.decode_address, tuple(map(ps.encode_address, ADDRESSES))),
    *(
        ("nodes", f"message-{version}", one.decode, tuple(map(one._replace(is_indefinite=False).encode, BETWEEN)))
        for version, one in ms.VERSIONS.items()
    ),
)
CASES = [pytest.param(*noun, id=f"{noun[0]}-{noun[1]}") for noun in NOUNS]


@cache
def validator(stem: str) -> Validator:
    return Validator(CDDL / f"dmq-{stem}.cddl")


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(("stem", "rule", "read", "wires"), CASES)
def test_we_write_what_is_valid_and_take_nothing_else(
    stem: str, rule: str, read: Callable[[bytes], object], wires: tuple[bytes, ...], step: int
) -> None:
    """Quickly: each fifth of the corrupted values, so each place with other faults than the one before it."""
    for wire in wires:
        assert validator(stem).validate(wire, rule).valid, wire.hex()
        read(wire)
        for changed in map(encode, islice(corrupted(value_of_any(wire)), 0, None, step)):
            is_valid = bool(validator(stem).validate(changed, rule).valid)
            try:
                read(changed)
            except (Malformed, rows.BadRow) as error:
                assert not is_valid, (changed.hex(), str(error))
            else:
                assert is_valid, changed.hex()


def value_of_any(wire: bytes) -> object:
    """Return the value, also for lists of indefinite length."""
    return value_of(wire.replace(b"\x9f\xff", b"\x80")) if b"\x9f\xff" in wire else value_of(definite(wire))


def definite(wire: bytes) -> bytes:
    """Return the replies of `NOTIFICATION` with lists of definite length: they hold one or two short messages."""
    head, opened, rest = wire.partition(b"\x9f")
    if not opened or len(head) > 2:
        return wire
    content, _, behind = rest.partition(b"\xff")
    return head + (b"\x82" if len(content) > 1 else b"\x81") + content + behind


@pytest.mark.parametrize("vector", SIGNED["messages"], ids=lambda one: one["name"])
def test_stored_messages_are_valid(vector: dict[str, str]) -> None:
    is_in_bounds = vector["name"] not in ("body_89_bytes", "body_2001_bytes")
    assert bool(validator("message").validate(raw(vector["hex"]), "message-0-5").valid) is is_in_bounds
