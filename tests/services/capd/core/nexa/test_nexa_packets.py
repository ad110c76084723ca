"""The messages of Nexa nodes against the vectors of the deployed node; and any bytes, whole or one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.wire.codec import Malformed
from services.capd.core.nexa import commands as n
from services.capd.core.nexa import greeting as g
from services.capd.core.nexa.envelope import MAGICS, Packet, Unpacker, WrongMagic, last_of

VECTORS = Path(__file__).parents[4] / "vectors" / "capd"
PACKETS = json.loads((VECTORS / "p2p.json").read_text())["packets"]
HANDSHAKE = json.loads((VECTORS / "handshake.json").read_text())
REGTEST = MAGICS["regtest"]


@pytest.mark.parametrize("one", PACKETS, ids=lambda one: one["command"])
def test_packet_equals_that_of_the_deployed_node(one: dict[str, Any]) -> None:
    payload, cookie = bytes.fromhex(one["payload"]), int(one["header_cookie"], 16)
    for network in ("regtest", "nexa"):
        wire = bytes.fromhex(one[f"packet_{network}"])
        [packet] = Unpacker(MAGICS[network]).feed(wire)
        assert packet == Packet(one["command"], payload, cookie)
        assert packet.encoded(MAGICS[network]) == wire
    found = n.decode_command(one["command"], payload)
    assert found is not None and n.encode_command(found) == (one["command"], payload)
    assert n.decode_command(one["command"], payload + b"?") == found
    for end in range(len(payload)):
        with pytest.raises(Malformed):
            n.decode_command(one["command"], payload[:end])
    fields = one["fields"]
    if isinstance(found, n.PrefixQuery):
        assert (found.cookie, found.type, found.start) == (fields["cookie"], fields["type"], fields["start"])
        assert (found.quantity, found.content.hex()) == (fields["quantity"], fields["content"])
    if isinstance(found, n.Inv | n.GetMsg | n.IdsReply):
        assert [one.hex() for one in found.ids] == fields["ids_raw"]


def test_greeting_equals_that_of_the_deployed_node() -> None:
    assert {name: magic.hex() for name, magic in MAGICS.items()} == HANDSHAKE["magic"]
    steps = [step for step in HANDSHAKE["steps"] if "payload" in step]
    payloads = {step["command"]: bytes.fromhex(step["payload"]) for step in steps}
    version, fields = g.read_version(payloads["version"]), HANDSHAKE["fields_version"]
    assert version.encoded() == payloads["version"]
    assert (version.protocol, version.services, version.time_s) == (
        fields["protocol"], int(fields["services"], 16), fields["time"],
    )  # fmt: skip
    assert (f"{version.nonce:016x}", version.agent.decode()) == (fields["nonce"], fields["agent"])
    assert version.knows_extversion and not version.relay
    assert g.read_version(payloads["version"][:-1]) == version, "the relay byte may be absent"
    values = g.read_extversion(payloads["extversion"])
    assert g.encode_extversion(values) == payloads["extversion"] and values == g.EXTVERSION and g.has_pool(values)


def test_extversion_takes_the_later_of_two_values_and_omits_other_than_numbers() -> None:
    wide = {1: 0xFC, 2: 0xFD, 3: 1 << 16, 4: 1 << 32, (1 << 64) - 1: (1 << 64) - 1}
    assert g.read_extversion(g.encode_extversion(wide)) == wide
    assert g.read_extversion(b"\x02\x07\x01\x01\x07\x01\x02") == {7: 2}
    assert g.read_extversion(b"\x02\x07\x01\x01\x07\x00") == {}
    assert not g.has_pool({g.CAPD_KEY: 0}) and g.has_pool({g.CAPD_KEY: 7})
    for payload in (b"\xfd\x01\x00", b"\x01\x07\x05", bytes(g.EXTVERSION_BYTES_MAX + 1)):
        with pytest.raises(Malformed):
            g.read_extversion(payload)
    with pytest.raises(Malformed, match="80002 is too old"):
        g.read_version(g.Version(0, 0, b"", protocol=80_002).encoded())


@pytest.mark.parametrize(
    ("wire", "said"),
    (
        (MAGICS["nexa"], "72271221 instead of eae5efea"),
        (b"G", "47 instead of eae5efea"),
        (REGTEST + b"\n" * 20, "a packet without a command has a payload of 168430090 bytes"),
        (Packet("capdmsg").encoded(REGTEST)[:16] + b"\xff" * 8, "a payload of 4294967295 bytes"),
    ),
)
def test_unpacker_rejects_bytes_that_are_no_packet(wire: bytes, said: str) -> None:
    unpacker = Unpacker(REGTEST)
    for data in (wire, b""):
        with pytest.raises(Malformed, match=said):
            list(unpacker.feed(data))


def test_unpacker_skips_a_packet_whose_command_is_not_printable_or_not_padded_with_zeros() -> None:
    for name in (bytes(12), b"ping\0pong\0\0\0", b"\n" * 12):
        wrong = REGTEST + name + (5).to_bytes(4, "little") + bytes(4) + b"12345"
        unpacker = Unpacker(REGTEST)
        found = [
            one for part in (wrong[:30], wrong[30:] + Packet("pong").encoded(REGTEST)) for one in unpacker.feed(part)
        ]
        assert found == [Packet(""), Packet("pong")] and unpacker.skipped == 5


def test_last_of_repeats_the_cookie() -> None:
    assert last_of(0x0005_0000) == 0x0005_FFFF and last_of(0) == 0xFFFF


def test_decode_command_refuses_counts_that_nothing_can_hold() -> None:
    bomb = b"\xfe\xff\xff\xff\x0f"
    for name, payload in (("capdmsg", bomb), ("capdinv", b"\x48" + bomb), ("capdgetmsg", bytes(8) + bomb)):
        with pytest.raises(Malformed, match="counts 268435455, more than 0 bytes can hold"):
            n.decode_command(name, payload)
    with pytest.raises(Malformed, match="a reply of type 9"):
        n.decode_command("capdqreply", bytes(4) + b"\x09" + bytes(4))
    assert n.decode_command("sendheaders", b"") is None


@settings(max_examples=settings().max_examples)
@given(st.sampled_from([one["command"] for one in PACKETS]), st.binary(max_size=80), st.booleans())
def test_unpacker_yields_the_same_packets_from_whole_and_single_bytes(
    command: str, payload: bytes, is_packet: bool
) -> None:
    data = Packet(command, payload, 7).encoded(REGTEST) if is_packet else REGTEST + payload
    found: list[list[Packet]] = []
    for parts in ([data], [data[at : at + 1] for at in range(len(data))]):
        unpacker, packets = Unpacker(REGTEST), list[Packet]()
        try:
            for part in parts:
                packets += unpacker.feed(part)
        except WrongMagic:
            raise
        except Malformed:
            packets.append(Packet("malformed"))
        found.append(packets)
    assert found[0] == found[1]
    for read in (lambda: n.decode_command(command, payload), lambda: g.read_version(payload)):
        try:
            read()
        except Malformed as error:
            assert str(error)
