"""Local message notification in three revisions: stored messages, tables, and messages invalid in a revision."""

from __future__ import annotations

import pytest
from rigs.tables import check_every_step, check_reachable, check_spec
from samples.dmq import VECTORS, raw
from samples.dmq_messages import NOTIFICATION, ONE, OTHER

from router.core.link.machine import LocalProtocolError, Machine
from router.core.wire.codec import Malformed, TooLarge, encode
from services.dmq.core.cbor import array_of, indefinite
from services.dmq.core.protocols.notification import (
    MESSAGES_MAX,
    REPLY_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REVISIONS,
    Message,
    MsgReplyMessagesBlocking,
    MsgReplyMessagesNonBlocking,
    Notification,
)

DMQ = REVISIONS["dmq"]
STORED = {
    one["name"]: one["hex"] for one in VECTORS["protocol_messages"] if one["protocol"].startswith("local-msg-not")
}
ONLY_READ = {
    "reply blocking one, old with hasMore",
    "reply blocking one, pallas server",
    "reply non-blocking definite list",
}
CASES = [(REVISIONS[name], message) for name, messages in NOTIFICATION.items() for message in messages]


@pytest.mark.parametrize("name", [one for one in STORED if one not in ONLY_READ])
def test_stored_messages_are_read_and_written_back(name: str) -> None:
    assert DMQ.encode(DMQ.decode(raw(STORED[name]))).hex() == STORED[name]


def test_other_forms_of_stored_replies_are_read() -> None:
    blocking = DMQ.decode(raw(STORED["reply blocking one"]))
    assert DMQ.decode(raw(STORED["reply blocking one, old with hasMore"])) == blocking
    assert DMQ.decode(raw(STORED["reply blocking one, pallas server"])) == blocking
    assert isinstance(blocking, MsgReplyMessagesBlocking)
    definite = DMQ.decode(raw(STORED["reply non-blocking definite list"]))
    assert definite == MsgReplyMessagesNonBlocking(blocking.messages, False)


@pytest.mark.parametrize(("revision", "message"), CASES, ids=lambda one: repr(one)[:60])
def test_round_trip_in_its_own_revision(revision: Notification, message: Message) -> None:
    assert revision.decode(revision.encode(message)) == message


@pytest.mark.parametrize(("revision", "message"), CASES, ids=lambda one: repr(one)[:60])
def test_no_revision_writes_what_its_table_does_not_hold(revision: Notification, message: Message) -> None:
    for other in REVISIONS.values():
        kinds = {kind for row in other.table.values() for kind in row.on}
        if type(message) not in kinds:
            with pytest.raises(AssertionError, match="is not a message of this revision"):
                other.encode(message)


SPECS = {
    "cip-29ffe0e": f"""
        StIdle initiator {REQUEST_BYTES_MAX}B MsgNextMessages -> StBusy MsgDone -> StDone
        StBusy responder {REPLY_BYTES_MAX}B MsgHasMessages -> StIdle MsgNoMessages -> StIdle
        StDone nobody
    """,
    "overview-2025-04": f"""
        StIdle initiator {REQUEST_BYTES_MAX}B MsgRequestMessagesNonBlocking -> StBusyNonBlocking
            MsgRequestMessagesBlocking -> StBusyBlocking MsgClientDone -> StDone
        StBusyBlocking responder {REPLY_BYTES_MAX}B MsgReplyMessages -> StIdle MsgServerDone -> StDone
        StBusyNonBlocking responder {REPLY_BYTES_MAX}B MsgReplyMessages -> StIdle MsgServerDone -> StDone
        StDone nobody
    """,
    "dmq": f"""
        StIdle initiator {REQUEST_BYTES_MAX}B MsgRequestMessagesNonBlocking -> StBusyNonBlocking
            MsgRequestMessagesBlocking -> StBusyBlocking MsgClientDone -> StDone
        StBusyBlocking responder {REPLY_BYTES_MAX}B MsgReplyMessagesBlocking -> StIdle
        StBusyNonBlocking responder {REPLY_BYTES_MAX}B MsgReplyMessagesNonBlocking -> StIdle
        StDone nobody
    """,
}


@pytest.mark.parametrize("name", REVISIONS)
def test_the_tables(name: str) -> None:
    table = REVISIONS[name].table
    check_spec(table, SPECS[name].replace("\n            ", " "))
    check_every_step(table)
    check_reachable(table)


def test_a_non_blocking_reply_does_not_answer_a_blocking_request() -> None:
    asked, replied = (type(NOTIFICATION["dmq"][at]) for at in (1, 2))
    machine = Machine(DMQ.table)
    machine.step(machine.agency, asked)
    with pytest.raises(LocalProtocolError, match="in StBusyBlocking, which allows MsgReplyMessagesBlocking"):
        Machine(DMQ.table, machine.state, we=machine.agency).step(machine.agency, replied)


@pytest.mark.parametrize(
    ("name", "wire", "cause"),
    (
        ("dmq", encode([0]), "message 0 of 1 items"),
        ("dmq", encode([0, True, b"a"]), "message 0 of 3 items"),
        ("dmq", encode([0, 1]), "isBlocking is neither true nor false"),
        ("dmq", encode([1, []]), "message 1 of 2 items"),
        ("dmq", encode([1, [], 0]), "hasMore is neither true nor false"),
        ("dmq", encode([2, []]), "a blocking reply is empty"),
        ("dmq", encode([2, b"a"]), "the messages is not a list"),
        ("dmq", encode([2, [[]], 5]), "hasMore is neither true nor false"),
        ("dmq", encode([4]), "message 4 of 1 items"),
        ("dmq", encode([3]) + b"\0", "1 byte follows"),
        ("dmq", b"\x9f\x03\xff", "is of indefinite length"),
        ("dmq", array_of(b"\x02", b"\x9f\x80"), "it ends before"),
        ("cip-29ffe0e", encode([0, True]), "message 0 of 2 items"),
        ("cip-29ffe0e", encode([1, [], True]), "message 1 of 3 items"),
        ("cip-29ffe0e", encode([4]), "message 4 of 1 items"),
        ("overview-2025-04", encode([0]), "message 0 of 1 items"),
        ("overview-2025-04", encode([0, True, 1]), "an acknowledged id is not a byte string"),
        ("overview-2025-04", encode([0, True, b"a" * 65]), "an acknowledged id has 65 bytes instead of 0 to 64"),
        ("overview-2025-04", encode([0, True, *[b""] * 1001]), "has 1,003 items instead of"),
        ("overview-2025-04", encode([2, []]), "message 2 of 2 items"),
    ),
)
def test_what_is_no_message(name: str, wire: bytes, cause: str) -> None:
    with pytest.raises(Malformed) as caught:
        REVISIONS[name].decode(wire)
    assert cause in str(caught.value)[:200] + str(caught.value)[-40:]


@pytest.mark.parametrize("written", (lambda items: indefinite(*items), lambda items: array_of(*items)))
def test_a_reply_of_too_many_messages(written: object) -> None:
    assert callable(written)
    most = array_of(b"\x02", written([ONE] * MESSAGES_MAX))
    assert DMQ.decode(most) == MsgReplyMessagesBlocking((ONE,) * MESSAGES_MAX)
    with pytest.raises(TooLarge, match="the messages holds more than 1000 items"):
        DMQ.decode(array_of(b"\x02", written([OTHER] * (MESSAGES_MAX + 1))))
