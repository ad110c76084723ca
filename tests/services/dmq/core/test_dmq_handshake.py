"""The handshake: stored messages, its table, every answer of a node, and invalid messages."""

from __future__ import annotations

from typing import Any

import pytest
from rigs.tables import check_every_step, check_reachable, check_spec
from samples.dmq import VECTORS, raw

from router.core.wire.codec import Malformed, encode
from services.dmq.core.protocols import handshake
from services.dmq.core.protocols.handshake import (
    CLIENT_VERSION,
    MAGICS,
    TABLE,
    ClientData,
    HandshakeDecodeError,
    MsgAcceptVersion,
    MsgProposeVersions,
    MsgQueryReply,
    MsgRefuse,
    Refused,
    VersionMismatch,
    answer,
    check_accepted,
    decode_message,
    encode_message,
    propose,
    read_client_data,
)

MAINNET = MAGICS["mainnet"]
STORED = [one for one in VECTORS["protocol_messages"] if one["protocol"].startswith("handshake")]
SHARED = [one for one in VECTORS["shared_protocols"] if one["protocol"] == "handshake"]


@pytest.mark.parametrize("hex_text", [one["hex"] for one in (*STORED, *SHARED)])
def test_stored_messages_are_read_and_written_back(hex_text: str) -> None:
    """The stored messages include those between nodes, whose data is carried and not parsed."""
    assert encode_message(decode_message(raw(hex_text))).hex() == hex_text


@pytest.mark.parametrize("network", MAGICS)
def test_stored_handshakes_of_clients(network: str) -> None:
    stored = {one["name"]: one["hex"] for one in STORED if one["protocol"] == "handshake n2c"}
    offer = propose(MAGICS[network])
    assert encode_message(offer).hex() == stored[f"propose {network}"]
    accepted = answer(offer, MAGICS[network])
    assert encode_message(accepted).hex() == stored[f"accept {network}"]
    assert isinstance(accepted, MsgAcceptVersion) and check_accepted(accepted) == ClientData(MAGICS[network])


def test_the_meaning_of_stored_messages() -> None:
    meant = {one["meaning"]: decode_message(raw(one["hex"])) for one in SHARED}
    assert meant == {
        "MsgProposeVersions {7..10: [2,false]}": MsgProposeVersions(
            {number: encode([2, False]) for number in range(7, 11)}
        ),
        "MsgAcceptVersion 10 [2,false]": MsgAcceptVersion(10, encode([2, False])),
        "MsgRefuse VersionMismatch [7,8,9,10]": MsgRefuse(VersionMismatch((7, 8, 9, 10))),
        'MsgRefuse HandshakeDecodeError 1 "foo"': MsgRefuse(HandshakeDecodeError(1, "foo")),
        'MsgRefuse Refused 1 "foo"': MsgRefuse(Refused(1, "foo")),
    }


def test_the_table() -> None:
    check_spec(
        TABLE,
        """
        StPropose initiator 5760B MsgProposeVersions -> StConfirm
        StConfirm responder 5760B MsgAcceptVersion -> StDone MsgRefuse -> StDone MsgQueryReply -> StDone
        StDone nobody
        """,
    )
    check_every_step(TABLE)
    check_reachable(TABLE)


DATA = ClientData(MAINNET).encoded()


@pytest.mark.parametrize(
    ("versions", "expected"),
    (
        ({CLIENT_VERSION: DATA, 1: b"\x00"}, MsgAcceptVersion(CLIENT_VERSION, DATA)),
        ({CLIENT_VERSION: DATA, 99_999: b"\xf6"}, MsgAcceptVersion(CLIENT_VERSION, DATA)),
        ({}, MsgRefuse(VersionMismatch((CLIENT_VERSION,)))),
        ({4096: DATA}, MsgRefuse(VersionMismatch((CLIENT_VERSION,)))),
        ({1: DATA, 32_784: DATA}, MsgRefuse(VersionMismatch((CLIENT_VERSION,)))),
        (
            {CLIENT_VERSION: encode(MAINNET)},
            MsgRefuse(HandshakeDecodeError(CLIENT_VERSION, "the version data is not a list")),
        ),
        (
            {CLIENT_VERSION: encode([MAINNET])},
            MsgRefuse(HandshakeDecodeError(CLIENT_VERSION, "the version data has 1 item instead of 2")),
        ),
        (
            {CLIENT_VERSION: encode([1 << 32, False])},
            MsgRefuse(HandshakeDecodeError(CLIENT_VERSION, "the network magic does not fit into 32 bits")),
        ),
        (
            {CLIENT_VERSION: encode([MAINNET, 0])},
            MsgRefuse(HandshakeDecodeError(CLIENT_VERSION, "query is neither true nor false")),
        ),
        (
            {CLIENT_VERSION: encode([764_824_073, False])},
            MsgRefuse(
                Refused(
                    CLIENT_VERSION,
                    "version data mismatch: the network magic is 764824073, and 2912307721 on this node",
                )
            ),
        ),
        ({CLIENT_VERSION: encode([MAINNET, True])}, MsgQueryReply({CLIENT_VERSION: DATA})),
    ),
)
def test_every_answer(versions: dict[int, bytes], expected: handshake.Answer) -> None:
    """An offer is answered alike whether it comes as a value or as bytes."""
    offer = MsgProposeVersions(versions)
    assert answer(offer, MAINNET) == expected
    assert answer_to(encode_message(offer)) == expected
    assert decode_message(encode_message(expected)) == expected


def answer_to(wire: bytes) -> handshake.Answer:
    offer = decode_message(wire)
    assert isinstance(offer, MsgProposeVersions)
    return answer(offer, MAINNET)


def test_a_query_on_another_network_is_refused() -> None:
    assert isinstance(answer(propose(1, query=True), MAINNET), MsgRefuse)


@pytest.mark.parametrize(
    ("wire", "cause"),
    (
        ("8200a2191001821aad964a09f401821aad964a09f4", "version 1 stands out of order"),
        ("8200a219100100191001f4", "version 4097 stands out of order"),
        ("8200bf191001821aad964a09f4ff", "the map of versions is of indefinite length"),
        ("9f00a0ff", "a message of the handshake is of indefinite length"),
        ("8200b841", "the map of versions holds more than 64 entries"),
        ("8200a1191001", "it ends before the item does"),
        ("8200a000", "1 byte follows the message"),
        ("8200a12000", "a version is not an unsigned number"),
        ("8101", "a message of the handshake has 1 item"),
        ("820100", "message 1 of 2 items"),
        ("8300a000", "message 0 of 3 items"),
        ("8204a0", "message 4 of 2 items"),
        ("8202820300", "reason 3 of 2 items"),
        ("8202830000f4", "reason 0 of 3 items"),
        ("820283010141ff", "the text is not a text"),
        ("", "it ends before the item does"),
    ),
)
def test_what_is_no_message(wire: str, cause: str) -> None:
    with pytest.raises(Malformed, match=cause):
        decode_message(raw(wire))


@pytest.mark.parametrize("data", (encode([MAINNET, False]) + b"\0", encode([MAINNET, False])[:-1], b"\x9f01f4ff"))
def test_what_is_no_data_of_a_client(data: bytes) -> None:
    with pytest.raises(Malformed):
        read_client_data(data)


def test_a_client_takes_no_version_that_it_did_not_propose() -> None:
    with pytest.raises(Malformed, match="version 1 was accepted, and 4097 proposed"):
        check_accepted(MsgAcceptVersion(1, DATA))


def test_texts_are_cut_to_what_can_be_read_back() -> None:
    message = MsgRefuse(Refused(CLIENT_VERSION, "x\x1b" * 2000))
    found: Any = decode_message(encode_message(message))
    assert found.reason.text == "x" * 1024
