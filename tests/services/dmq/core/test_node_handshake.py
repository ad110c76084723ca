"""The handshake between nodes: stored proposals and their answers, the smaller mode, and both dialling at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.tables import check_every_step, check_reachable, check_spec
from samples.dmq import BETWEEN_NODES, raw

from router.core.link.machine import RemoteProtocolError
from router.core.wire.codec import Malformed, encode
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import node_handshake as nh
from services.dmq.core.protocols.node_handshake import TABLE, VERSIONS, Agreement, NodeData, read_node_data

MAGIC = h.MAGICS["mainnet"]
STORED = BETWEEN_NODES["handshake"]
DATA = st.builds(NodeData, st.just(MAGIC), st.booleans(), st.booleans())


def ours(vector: dict[str, Any]) -> NodeData:
    own = vector["ours"]
    return NodeData(own["magic"], own["initiator_only"], bool(own["peer_sharing"]))


def as_stored(agreed: Agreement) -> dict[str, Any]:
    return {"version": agreed.version, "duplex": agreed.is_duplex, "peer_sharing": int(agreed.shares_peers)}


@pytest.mark.parametrize("vector", [one for one in STORED if one.get("answer")], ids=lambda one: one["name"])
def test_a_stored_proposal_is_answered_as_stored(vector: dict[str, Any]) -> None:
    offer = h.decode_message(raw(vector["heard_hex"]))
    assert isinstance(offer, h.MsgProposeVersions)
    answer = nh.answer(offer, ours(vector))
    assert h.encode_message(answer).hex() == vector["answer"]
    if isinstance(answer, h.MsgAcceptVersion):
        assert as_stored(nh.agreement(answer, ours(vector))) == vector["agreed"]


@pytest.mark.parametrize("vector", [one for one in STORED if "refuses" in one], ids=lambda one: one["name"])
def test_a_stored_proposal_is_refused_as_stored(vector: dict[str, Any]) -> None:
    offer = h.decode_message(raw(vector["heard_hex"]))
    assert isinstance(offer, h.MsgProposeVersions)
    answer = nh.answer(offer, ours(vector))
    assert isinstance(answer, h.MsgRefuse)
    number, version, text = vector["refuses"]
    match answer.reason:
        case h.HandshakeDecodeError(refused):
            assert (number, version) == (1, refused)
        case h.Refused(refused, said):
            assert (number, version) == (2, refused) and said.startswith(text.removeprefix("text beginning with "))
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize("vector", [one for one in STORED if "closes" in one], ids=lambda one: one["name"])
def test_a_stored_proposal_that_no_node_reads_is_malformed(vector: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        h.decode_message(raw(vector["heard_hex"]))


def test_nodes_that_have_dialled_each_other_agree_as_stored() -> None:
    [vector] = [one for one in STORED if one["name"].startswith("simultaneous")]
    offer = h.decode_message(raw(vector["heard_hex"]))
    assert isinstance(offer, h.MsgProposeVersions)
    assert as_stored(nh.met(offer, ours(vector))) == vector["agreed"]
    with pytest.raises(RemoteProtocolError, match="both have dialled, and do not agree: of version 2 it says: version"):
        nh.met(nh.propose(NodeData(MAGIC ^ 1)), ours(vector))


@given(DATA, DATA, st.sets(st.sampled_from(VERSIONS), min_size=1), st.sets(st.sampled_from(VERSIONS), min_size=1))
def test_both_ends_find_the_same_agreement(a: NodeData, b: NodeData, va: set[int], vb: set[int]) -> None:
    answer = nh.answer(nh.propose(a, va), b, vb)
    if not va & vb:
        assert answer == h.MsgRefuse(h.VersionMismatch(tuple(sorted(vb))))
        return
    assert isinstance(answer, h.MsgAcceptVersion)
    agreed = nh.agreement(answer, a, va)
    assert agreed == nh.agreement(answer, b, vb) == nh.met(nh.propose(b, vb), a, va) == nh.met(nh.propose(a, va), b, vb)
    assert agreed.version == max(va & vb)
    assert agreed.is_duplex is not (a.initiator_only or b.initiator_only)
    assert agreed.shares_peers is (a.peer_sharing and b.peer_sharing and agreed.is_duplex)


def test_a_query_is_answered_with_the_versions() -> None:
    own = NodeData(MAGIC, peer_sharing=True)
    answer = nh.answer(nh.propose(NodeData(MAGIC, initiator_only=True, query=True)), own)
    assert answer == h.MsgQueryReply({1: own.encoded(), 2: own.encoded()})


@pytest.mark.parametrize(
    ("answer", "cause"),
    (
        (h.MsgAcceptVersion(3, NodeData(MAGIC).encoded()), "version 3 was accepted, and 1 and 2 proposed"),
        (h.MsgAcceptVersion(2, NodeData(7).encoded()), "the network magic 7 was accepted"),
        (h.MsgAcceptVersion(2, encode([MAGIC, False, 2, False])), "peer sharing is 2"),
        (h.MsgAcceptVersion(2, encode([MAGIC, False])), "the version data has 2 items"),
    ),
)
def test_an_answer_that_was_not_proposed_is_malformed(answer: h.MsgAcceptVersion, cause: str) -> None:
    with pytest.raises(Malformed, match=cause):
        nh.agreement(answer, NodeData(MAGIC))


@pytest.mark.parametrize("data", (NodeData(MAGIC), NodeData(0, True, True, True)), ids=repr)
def test_version_data_round_trip(data: NodeData) -> None:
    assert read_node_data(data.encoded()) == data


def test_the_table() -> None:
    check_spec(
        TABLE,
        """
        StPropose initiator 10s 5760B MsgProposeVersions -> StConfirm
        StConfirm responder 10s 5760B MsgAcceptVersion -> StDone MsgRefuse -> StDone MsgQueryReply -> StDone MsgProposeVersions -> StDone
        StDone nobody
        """,  # noqa: E501
    )
    check_every_step(TABLE)
    check_reachable(TABLE)
