"""Message submission between nodes: stored messages, the tables of three revisions, and invalid messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.tables import check_every_step, check_reachable, check_spec
from samples.dmq import BETWEEN_NODES, VECTORS, raw

from router.core.link.machine import Agency
from router.core.wire.codec import Malformed, TooLarge, encode
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols.message_submission import CONSUMER_BEGINS, PROVIDER_BEGINS, SEED, VERSIONS

STORED = [one for one in VECTORS["protocol_messages"] if one["protocol"].startswith("sig-submission")]
WRITTEN = [(int(one["protocol"][16]), one["hex"]) for one in STORED if "NOT deployed" not in one["protocol"]]
FOREIGN = {one["name"]: one["hex"] for one in STORED if "NOT deployed" in one["protocol"]}
COUNTS = st.integers(0, (1 << ms.COUNT_BITS) - 1)
IDS = st.lists(st.binary(max_size=64), max_size=5).map(tuple)
ANNOUNCED = st.lists(st.tuples(st.binary(max_size=64), st.integers(0, (1 << 32) - 1)), max_size=5).map(tuple)
MESSAGES = st.one_of(
    st.builds(ms.MsgRequestSigIdsBlocking, COUNTS, COUNTS),
    st.builds(ms.MsgRequestSigIdsNonBlocking, COUNTS, COUNTS),
    st.builds(ms.MsgReplySigIds, ANNOUNCED),
    st.builds(ms.MsgRequestSigs, IDS),
    st.builds(ms.MsgReplySigs, st.lists(st.binary(max_size=9).map(encode), max_size=3).map(tuple)),
    st.just(ms.MsgDone()),
)
SEED_STEPS = {
    ("StInit", "MsgInit", "StIdle"),
    ("StIdle", "MsgRequestMessageIdsBlocking", "StMessageIdsBlocking"),
    ("StMessageIdsBlocking", "MsgReplyMessageIds", "StIdle"),
    ("StIdle", "MsgRequestMessageIdsNonBlocking", "StMessageIdsNonBlocking"),
    ("StMessageIdsNonBlocking", "MsgReplyMessageIds", "StIdle"),
    ("StIdle", "MsgRequestMessages", "StMessages"),
    ("StMessages", "MsgReplyMessages", "StIdle"),
    ("StMessageIdsBlocking", "MsgDone", "StDone"),
}
"""The transition table of seed 000."""


@pytest.mark.parametrize(("version", "hex_text"), WRITTEN)
def test_stored_messages_are_read_and_written_back(version: int, hex_text: str) -> None:
    assert VERSIONS[version].encode(VERSIONS[version].decode(raw(hex_text))).hex() == hex_text


@pytest.mark.parametrize("count", (1, 2, ms.ITEMS_MAX, ms.ITEMS_MAX + 1))
def test_lists_of_digests_are_read_as_item_by_item_and_within_the_same_bound(count: int) -> None:
    ids = tuple(number.to_bytes(32, "big") for number in range(count))
    for message in (ms.MsgRequestSigs(ids), ms.MsgReplySigIds(tuple((one, 1150) for one in ids))):
        usual = VERSIONS[2].encode(message)
        otherwise = usual.replace(b"\x58\x20" + ids[-1], b"\x59\x00\x20" + ids[-1])
        assert otherwise != usual
        for wire in (usual, otherwise):
            if count > ms.ITEMS_MAX:
                with pytest.raises(TooLarge):
                    VERSIONS[2].decode(wire)
            else:
                assert VERSIONS[2].decode(wire) == message


def test_the_table_of_version_1_is_that_of_the_seed() -> None:
    named = {
        (state.value, kind.__name__, to.value) for state, row in PROVIDER_BEGINS.items() for kind, to in row.on.items()
    }
    assert {tuple(word.replace("Sig", "Message") for word in step) for step in named} == SEED_STEPS
    outbound = {state.value for state, row in PROVIDER_BEGINS.items() if row.agency is Agency.INITIATOR}
    assert outbound == {"StInit", "StSigIdsNonBlocking", "StSigIdsBlocking", "StSigs"}


@pytest.mark.parametrize("table", (PROVIDER_BEGINS, CONSUMER_BEGINS), ids=("provider", "consumer"))
def test_each_step_of_a_table_is_judged(table: Any) -> None:
    check_every_step(table)
    check_reachable(table)


def test_the_limits_of_the_tables() -> None:
    check_spec(
        PROVIDER_BEGINS,
        """
        StInit initiator 65535B MsgInit -> StIdle
        StIdle responder 65535B MsgRequestSigIdsBlocking -> StSigIdsBlocking MsgRequestSigIdsNonBlocking -> StSigIdsNonBlocking MsgRequestSigs -> StSigs
        StSigIdsBlocking initiator 65535B MsgReplySigIds -> StIdle MsgDone -> StDone
        StSigIdsNonBlocking initiator 10s 65535B MsgReplySigIds -> StIdle
        StSigs initiator 10s 98000B MsgReplySigs -> StIdle
        StDone nobody
        """,  # noqa: E501
    )
    check_spec(
        CONSUMER_BEGINS,
        """
        StIdle initiator 65535B MsgRequestSigIdsBlocking -> StSigIdsBlocking MsgRequestSigIdsNonBlocking -> StSigIdsNonBlocking MsgRequestSigs -> StSigs MsgDone -> StDone
        StSigIdsBlocking responder 20s 65535B MsgReplySigIds -> StIdle MsgReplyNoSigIds -> StIdle
        StSigIdsNonBlocking responder 10s 65535B MsgReplySigIds -> StIdle
        StSigs responder 10s 98000B MsgReplySigs -> StIdle
        StDone nobody
        """,  # noqa: E501
    )


@given(MESSAGES, st.sampled_from((SEED, *VERSIONS.values())))
def test_round_trip(message: ms.Message, revision: ms.MessageSubmission) -> None:
    assert revision.decode(revision.encode(message)) == message


def test_what_only_some_revisions_have() -> None:
    for revision in (SEED, VERSIONS[1]):
        assert revision.decode(revision.encode(ms.MsgInit())) == ms.MsgInit()
    assert VERSIONS[2].decode(b"\x81\x03") == ms.MsgReplyNoSigIds()
    assert SEED.encode(ms.MsgRequestSigs((b"i",))) == b"\x82\x03\x81\x41i", "the seed's lists are definite"


def test_a_definite_list_is_read_where_a_dmq_node_writes_none() -> None:
    [vector] = [one for one in BETWEEN_NODES["consumer_version_2"] if "definite" in one["name"]]
    assert isinstance(VERSIONS[2].decode(raw(vector["heard_hex"])), ms.MsgReplySigIds)
    assert isinstance(VERSIONS[2].decode(raw(FOREIGN["reply ids definite"])), ms.MsgReplySigIds)


def test_the_numbers_of_the_cips_text_are_not_those_of_version_2() -> None:
    """There 3 asks for bodies and 5 ends the protocol, so a node that follows it cannot talk to the deployed ones."""
    for name, cause in (("request messages", "message 3 of 2 items"), ("done", "message 5 of 1 items")):
        with pytest.raises(Malformed, match=cause):
            VERSIONS[2].decode(raw(FOREIGN[name]))


@pytest.mark.parametrize(
    ("wire", "cause"),
    (
        (encode([7]), "message 7 of 1 items"),
        (encode([0, True, 0, 1]), "message 0 of 4 items"),
        (encode([1, 0, 0, 1]), "blocking is neither true nor false"),
        (encode([1, True, 1 << 16, 1]), "the acknowledged does not fit into 16 bits"),
        (encode([1, True, 0, 1 << 16]), "the requested does not fit into 16 bits"),
        (encode([2, [[b"i", 1 << 32]]]), "the size does not fit into 32 bits"),
        (encode([2, [[b"i"]]]), "an id and its size has 1 item"),
        (encode([2, [[bytes(65), 1]]]), "an id has 65 bytes"),
        (encode([4, b"i"]), "the ids is not a list"),
        (encode([3]) + b"\x00", "1 byte follows the message"),
        (b"\x82\x05\x9f\x80", "it ends before the item does"),
        (encode([4, [b""] * 1_001]), "the ids holds more than 1000 items"),
        (encode([2, [[b"", 1]] * 1_001]), "the ids holds more than 1000 items"),
        (encode([5, [0] * 1_001]), "the messages holds more than 1000 items"),
    ),
)
def test_an_invalid_message_is_malformed(wire: bytes, cause: str) -> None:
    with pytest.raises(Malformed, match=cause):
        VERSIONS[2].decode(wire)


def test_an_answer_to_a_request_that_blocks_is_not_empty() -> None:
    ms.check_in(ms.St.SIG_IDS_NON_BLOCKING, ms.MsgReplySigIds(()))
    with pytest.raises(Malformed, match="announces nothing"):
        ms.check_in(ms.St.SIG_IDS_BLOCKING, ms.MsgReplySigIds(()))
