"""Keep-alive and peer sharing between nodes: stored messages, their tables, addresses, and invalid messages."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.tables import check_every_step, check_reachable, check_spec
from samples.dmq import BETWEEN_NODES, VECTORS, raw

from router.core.wire.codec import Malformed, encode
from services.dmq.core.protocols import keep_alive as ka
from services.dmq.core.protocols import peer_sharing as ps
from services.dmq.core.protocols.peer_sharing import PeerAddress, decode_address, encode_address

MODULES: dict[str, Any] = {"keep-alive": ka, "peer-sharing": ps}
STORED = [
    (name, one["hex"]) for one in VECTORS["protocol_messages"] for name in MODULES if one["protocol"].startswith(name)
]
SHARED = [
    (one["protocol"], one["hex"])
    for one in VECTORS["shared_protocols"]
    if one["protocol"] in MODULES and "item only" not in one["meaning"]
]
GLOBAL = ipaddress.IPv6Network("2000::/3")
ADDRESSES = {one["hex"]: one for one in BETWEEN_NODES["addresses"] if "reads" not in one}


@pytest.mark.parametrize(("name", "hex_text"), STORED)
def test_stored_messages_are_read_and_written_back(name: str, hex_text: str) -> None:
    assert MODULES[name].encode_message(MODULES[name].decode_message(raw(hex_text))).hex() == hex_text


@pytest.mark.parametrize(("name", "hex_text"), SHARED)
def test_messages_of_other_implementations_are_read(name: str, hex_text: str) -> None:
    message = MODULES[name].decode_message(raw(hex_text))
    assert MODULES[name].decode_message(MODULES[name].encode_message(message)) == message


@pytest.mark.parametrize("hex_text", ADDRESSES, ids=lambda text: text[:20])
def test_a_stored_address_is_read(hex_text: str) -> None:
    found = decode_address(raw(hex_text))
    assert str(found) == ADDRESSES[hex_text]["address"]
    if "gouroboros" not in ADDRESSES[hex_text].get("note", ""):
        assert encode_address(found).hex() == hex_text


@pytest.mark.parametrize(
    "vector", [one for one in BETWEEN_NODES["addresses"] if one.get("reads") == "decoder failure"],
    ids=lambda one: one["address"],
)  # fmt: skip
def test_a_stored_address_that_is_none_is_malformed(vector: dict[str, str]) -> None:
    with pytest.raises(Malformed):
        decode_address(raw(vector["hex"]))


@given(st.ip_addresses(), st.integers(0, 65_535))
def test_addresses_round_trip(ip: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> None:
    expected = ip
    if isinstance(ip, ipaddress.IPv6Address) and ip not in GLOBAL and _swapped(ip) in GLOBAL:
        expected = _swapped(ip)  # an address outside 2000::/3 may be the other form of one inside
    assert decode_address(encode_address(PeerAddress(str(ip), port))) == PeerAddress(str(expected), port)


def _swapped(ip: ipaddress.IPv6Address) -> ipaddress.IPv6Address:
    return ipaddress.IPv6Address(b"".join(ip.packed[at : at + 4][::-1] for at in range(0, 16, 4)))


def test_the_tables() -> None:
    check_spec(
        ka.TABLE,
        """
        StClient initiator 97s 65535B MsgKeepAlive -> StServer MsgDone -> StDone
        StServer responder 60s 65535B MsgKeepAliveResponse -> StClient
        StDone nobody
        """,
    )
    check_spec(
        ps.TABLE,
        """
        StIdle initiator 5760B MsgShareRequest -> StBusy MsgDone -> StDone
        StBusy responder 60s 5760B MsgSharePeers -> StIdle
        StDone nobody
        """,
    )
    for table in (ka.TABLE, ps.TABLE):
        check_every_step(table)
        check_reachable(table)


@pytest.mark.parametrize(
    ("module", "wire", "cause"),
    (
        (ka, encode([3]), "message 3 of 1 items"),
        (ka, encode([0]), "message 0 of 1 items"),
        (ka, encode([1, 1 << 16]), "the cookie does not fit into 16 bits"),
        (ka, encode([2]) + b"\x00", "1 byte follows the message"),
        (ps, encode([0, 256]), "the amount does not fit into 8 bits"),
        (ps, encode([1, 7]), "the addresses is not a list"),
        (ps, encode([1, [[0, 1 << 32, 1]]]), "a word of the address does not fit into 32 bits"),
        (ps, encode([1, [[0, 1, 1]] * 256]), "holds more than 255 items"),
        (ps, encode([2, 0]), "message 2 of 2 items"),
    ),
)
def test_an_invalid_message_is_malformed(module: Any, wire: bytes, cause: str) -> None:
    with pytest.raises(Malformed, match=cause):
        module.decode_message(wire)
