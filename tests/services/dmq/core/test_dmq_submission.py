"""Local message submission: stored messages, its table, the encoding of verdicts, and invalid messages."""

from __future__ import annotations

import pytest
from rigs.tables import check_every_step, check_reachable, check_spec
from samples.dmq import VECTORS, raw
from samples.dmq_messages import SUBMISSION

from router.core.wire.codec import Malformed, encode
from services.dmq.core.messages.fault import Fault, Rejected
from services.dmq.core.protocols.submission import (
    ITEM_BYTES_MAX,
    TABLE,
    TEXT_BYTES_MAX,
    Message,
    MsgRejectMessage,
    RejectKind,
    decode_message,
    encode_message,
    rejection,
)

STORED = [one for one in VECTORS["protocol_messages"] if one["protocol"].startswith("local-msg-submission")]
WRITTEN = [one for one in STORED if "gouroboros" not in one["name"]]


@pytest.mark.parametrize("vector", WRITTEN, ids=lambda one: one["name"])
def test_stored_messages_are_read_and_written_back(vector: dict[str, str]) -> None:
    assert encode_message(decode_message(raw(vector["hex"]))).hex() == vector["hex"]


@pytest.mark.parametrize(("tag", "name"), ((1, "MsgAcceptMessage"), (3, "MsgDone")))
def test_the_tags_of_local_transaction_submission(tag: int, name: str) -> None:
    [vector] = [one for one in VECTORS["shared_protocols"] if one["protocol"].startswith("local-tx") and one["hex"][3] == str(tag)]  # fmt: skip # noqa: E501
    assert type(decode_message(raw(vector["hex"]))).__name__ == name


def test_a_reason_with_a_text_too_many_is_read() -> None:
    [vector] = [one for one in STORED if "gouroboros" in one["name"]]
    assert decode_message(raw(vector["hex"])) == MsgRejectMessage(RejectKind.ALREADY_RECEIVED)


@pytest.mark.parametrize("message", SUBMISSION, ids=repr)
def test_round_trip(message: Message) -> None:
    assert decode_message(encode_message(message)) == message


def test_the_table() -> None:
    check_spec(
        TABLE,
        f"""
        StIdle initiator {ITEM_BYTES_MAX}B MsgSubmitMessage -> StBusy MsgDone -> StDone
        StBusy responder {2 * TEXT_BYTES_MAX}B MsgAcceptMessage -> StIdle MsgRejectMessage -> StIdle
        StDone nobody
        """,
    )
    check_every_step(TABLE)
    check_reachable(TABLE)


@pytest.mark.parametrize("fault", Fault, ids=lambda one: one.value)
def test_every_verdict_can_be_said(fault: Fault) -> None:
    said = {name: rejection(Rejected(fault, "7 of 5"), name) for name in ("dmq-0.5", "cip-29ffe0e")}
    what, colon, remedy = fault.reason.clause.partition(": ")
    text = f"{fault.value}: {what} (7 of 5){colon}{remedy}."
    invalid = MsgRejectMessage(RejectKind.INVALID, text)
    other, two = MsgRejectMessage(RejectKind.OTHER, text), MsgRejectMessage(RejectKind.TTL_TOO_LARGE)
    known = MsgRejectMessage(RejectKind.ALREADY_RECEIVED)
    expected = {
        Fault.DUPLICATE: (known, known),
        Fault.EXPIRED: (two, invalid),
        Fault.TTL_TOO_LARGE: (invalid, two),
        Fault.MEMPOOL_FULL: (other, other),
        Fault.POOL_FULL: (other, other),
        Fault.PACE_FULL: (other, other),
        Fault.DISK_FULL: (other, other),
    }.get(fault, (invalid, invalid))
    assert (said["dmq-0.5"], said["cip-29ffe0e"]) == expected
    assert all(decode_message(encode_message(one)) == one for one in said.values())


@pytest.mark.parametrize(
    ("wire", "cause"),
    (
        (encode([4]), "message 4 of 1 items"),
        (encode([0]), "message 0 of 1 items"),
        (encode([1, 0]), "message 1 of 2 items"),
        (encode([0, 1, 2]), "local message submission has 3 items"),
        (encode([2, [0]]), "reason 0 lacks its text"),
        (encode([2, [3]]), "reason 3 lacks its text"),
        (encode([2, [4]]), "reason 4 is unknown"),
        (encode([2, []]), "the reason has 0 items"),
        (encode([2, [0, "a", "b"]]), "the reason has 3 items"),
        (encode([2, [0, b"a"]]), "the reason's text is not a text"),
        (encode([2, [0, "a" * 1025]]), "the reason's text is longer than 1024 bytes"),
        (b"\x9f\x01\xff", "is of indefinite length"),
        (encode([3]) + b"\0", "1 byte follows the message"),
        (encode({}), "is not a list"),
        (b"", "it ends before"),
    ),
)
def test_what_is_no_message(wire: bytes, cause: str) -> None:
    with pytest.raises(Malformed, match=cause):
        decode_message(wire)
