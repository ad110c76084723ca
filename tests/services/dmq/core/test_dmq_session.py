"""Both ends of a connection: exchanges in every revision, faults, early messages, and any bytes whole or one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.dmq import VECTORS, raw
from samples.dmq_messages import WIRES

from router.core.link.machine import Agency, LocalProtocolError, RemoteProtocolError
from router.core.wire.codec import encode
from router.core.wire.reasons import Reason
from services.dmq.core.messages.signed_message import Dmq05, SignedMessage
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import notification as n
from services.dmq.core.protocols import submission as s
from services.dmq.core.protocols.client_session import WAITING_BYTES_MAX, Heard, Session
from services.dmq.core.protocols.mux import sdu
from services.dmq.core.protocols.revision import REVISIONS, Revision

MAGIC = h.MAGICS["preprod"]
DEPLOYED = REVISIONS["dmq-0.5"]
ASK, SUBMIT, HELLO = ((number, Agency.INITIATOR) for number in (n.NUMBER, s.NUMBER, h.NUMBER))


def written(session: Session) -> bytes:
    return b"".join(iter(lambda: session.take(0), b""))


class Pair:
    """A node and a client that pass each other their bytes, in pieces of `size`."""

    def __init__(self, revision: Revision = DEPLOYED, size: int = 1 << 20) -> None:
        self.node, self.client = Session(Agency.RESPONDER, revision), Session(Agency.INITIATOR, revision)
        self._size = size

    def open(self) -> Pair:
        [offer] = self.ask(h.NUMBER, h.propose(MAGIC))
        assert self.answer(h.NUMBER, h.answer(offer, MAGIC)) == [h.answer(offer, MAGIC)]
        return self

    def ask(self, number: int, message: Any) -> list[Any]:
        return self._said(self.client, self.node, number, message)

    def answer(self, number: int, message: Any) -> list[Any]:
        return self._said(self.node, self.client, number, message)

    def _said(self, speaker: Session, hearer: Session, number: int, message: Any) -> list[Any]:
        speaker.say(number, message)
        data, found = written(speaker), []
        for at in range(0, len(data), self._size):
            found += hearer.hear(data[at : at + self._size], 0)
        return [one.message for one in found if one.number == number]


@pytest.mark.parametrize("size", (1, 7, 1 << 20))
@pytest.mark.parametrize("name", ("dmq-0.5", "dmq-0.4", "cip-29ffe0e", "overview-2025-04"))
def test_a_signer(name: str, size: int) -> None:
    """The signer does as mithril's: handshake, a message, the answer, done; here twice, as the protocol may begin
    again."""
    pair = Pair(REVISIONS[name], size).open()
    wire = WIRES[REVISIONS[name].encoding.name][0]
    for _ in range(1 if name == "overview-2025-04" else 2):
        [submitted] = pair.ask(s.NUMBER, s.MsgSubmitMessage(wire))
        assert isinstance(submitted, SignedMessage) and submitted.wire == wire
        assert pair.answer(s.NUMBER, s.MsgAcceptMessage()) == [s.MsgAcceptMessage()]
        assert pair.ask(s.NUMBER, s.MsgDone()) == [s.MsgDone()]
    assert pair.node.ends is (name == "overview-2025-04")


@pytest.mark.parametrize("name", ("dmq-0.5", "overview-2025-04"))
def test_a_reject_ends_the_connection_in_seed_001_alone(name: str) -> None:
    """F5: the other revisions keep it open."""
    pair = Pair(REVISIONS[name]).open()
    pair.ask(s.NUMBER, s.MsgSubmitMessage(WIRES[REVISIONS[name].encoding.name][0]))
    no = s.MsgRejectMessage(s.RejectKind.ALREADY_RECEIVED)
    assert pair.answer(s.NUMBER, no) == [no]
    assert pair.node.ends is pair.client.ends is (name == "overview-2025-04")


TALKS: dict[str, list[tuple[Any, Any]]] = {
    "dmq-0.5": [
        (n.MsgRequestMessagesNonBlocking(), n.MsgReplyMessagesNonBlocking((), False)),
        (n.MsgRequestMessagesBlocking(), n.MsgReplyMessagesBlocking(WIRES["dmq-0.5"])),
        (n.MsgRequestMessagesNonBlocking(), n.MsgReplyMessagesNonBlocking(WIRES["dmq-0.5"] * 20, True)),
    ],
    "cip-29ffe0e": [
        (n.MsgNextMessages(), n.MsgNoMessages()),
        (n.MsgNextMessages(), n.MsgHasMessages(WIRES["cip-29ffe0e"])),
    ],
    "overview-2025-04": [
        (n.MsgRequestMessagesNonBlocking(), n.MsgReplyMessages(WIRES["cip-29ffe0e"])),
        (n.MsgRequestMessagesNonBlocking((b"id", b"of")), n.MsgReplyMessages(())),
        (n.MsgRequestMessagesBlocking(), n.MsgServerDone()),
    ],
}


@pytest.mark.parametrize("size", (3, 1 << 20))
@pytest.mark.parametrize("name", TALKS)
def test_a_consumer(name: str, size: int) -> None:
    pair = Pair(REVISIONS[name], size).open()
    for question, reply in TALKS[name]:
        assert pair.ask(n.NUMBER, question) == [question]
        assert not pair.client.is_our_turn(n.NUMBER) and pair.node.is_our_turn(n.NUMBER)
        assert pair.answer(n.NUMBER, reply) == [reply]


def test_a_long_reply_does_not_hold_up_an_answer() -> None:
    pair = Pair().open()
    pair.ask(n.NUMBER, n.MsgRequestMessagesBlocking())
    pair.ask(s.NUMBER, s.MsgSubmitMessage(WIRES["dmq-0.5"][0]))
    pair.node.say(n.NUMBER, n.MsgReplyMessagesBlocking(WIRES["dmq-0.5"] * 20))
    pair.node.say(s.NUMBER, s.MsgAcceptMessage())
    heard = [one.number for one in pair.client.hear(written(pair.node), 0)]
    assert heard == [s.NUMBER, n.NUMBER]


def test_what_comes_ahead_of_its_turn_waits_for_it() -> None:
    """A signer need not wait for its answers; each message is answered in order."""
    pair = Pair().open()
    wires = WIRES["dmq-0.5"]
    early = b"".join(sdu(SUBMIT, s.encode_message(s.MsgSubmitMessage(wire)), 0) for wire in wires)
    early += sdu(SUBMIT, s.encode_message(s.MsgDone()), 0)
    [first] = pair.node.hear(early, 0)
    assert first.message.wire == wires[0]
    [second] = pair.node.say(s.NUMBER, s.MsgAcceptMessage())
    assert second.message.wire == wires[1]
    assert pair.node.say(s.NUMBER, s.MsgAcceptMessage()) == [Heard(s.NUMBER, s.MsgDone())]


def test_a_query_and_a_refusal_end_the_connection() -> None:
    for offer in (h.propose(MAGIC, query=True), h.propose(1), h.MsgProposeVersions({})):
        pair = Pair()
        assert pair.ask(h.NUMBER, offer) == [offer]
        answer = h.answer(offer, MAGIC)
        assert pair.answer(h.NUMBER, answer) == [answer]
        assert pair.node.ends and pair.client.ends and not pair.node.is_open
        assert pair.node.hear(sdu(HELLO, h.encode_message(offer), 0), 0) == [], "nothing is heard any more"


def opened() -> Session:
    return Pair().open().node


SUBMITTED = s.encode_message(s.MsgSubmitMessage(WIRES["dmq-0.5"][0]))


@pytest.mark.parametrize(
    ("session", "data", "reason", "cause"),
    (
        (Pair().node, sdu(SUBMIT, SUBMITTED, 0), Reason.UNSUPPORTED, "protocol 14 is unknown"),
        (
            Pair().node,
            sdu(HELLO, encode([1, 4097, 0]), 0),
            Reason.MALFORMED,
            "initiator sent MsgAcceptVersion in StPropose",
        ),
        (Pair().node, sdu(HELLO, b"\x82\x00\xbf\xff", 0), Reason.MALFORMED, "indefinite length"),
        (
            Pair().node,
            sdu(HELLO, b"\x82\x00\xa1\x00\x59\x20\x00", 0),
            Reason.TOO_LARGE,
            "limit in this state is 5760",
        ),
        (opened(), sdu(HELLO, h.encode_message(h.propose(MAGIC)), 0), Reason.UNSUPPORTED, "protocol 0 is unknown"),
        (opened(), sdu((14, Agency.RESPONDER), b"\x81\x01", 0), Reason.UNSUPPORTED, "protocol 14 does not run here"),
        (opened(), sdu((11, Agency.INITIATOR), b"\x81\x01", 0), Reason.UNSUPPORTED, "protocol 11 is unknown"),
        (opened(), sdu(SUBMIT, b"", 0), Reason.MALFORMED, "an SDU is empty"),
        (opened(), sdu(SUBMIT, b"\x81\x01", 0), Reason.MALFORMED, "initiator sent MsgAcceptMessage in StIdle"),
        (opened(), sdu(SUBMIT, b"\xff", 0), Reason.MALFORMED, "a break stands"),
        (opened(), sdu(SUBMIT, encode([0, bytes(32)]), 0), Reason.MALFORMED, "the message is not a list"),
        (opened(), sdu(SUBMIT, b"\x82\x00\x59\xff\xff", 0), Reason.TOO_LARGE, "the limit in this state is 4098"),
        (
            opened(),
            sdu(ASK, n.REVISIONS["cip-29ffe0e"].encode(n.MsgNextMessages()), 0),
            Reason.MALFORMED,
            "0 of 1 items",
        ),
        (
            opened(),
            b"".join(sdu(SUBMIT, SUBMITTED, 0) for _ in range(WAITING_BYTES_MAX // len(SUBMITTED) + 3)),
            Reason.WINDOW_EXCEEDED,
            "IngressQueueOverRun",
        ),
    ),
)
def test_faults_of_a_client(session: Session, data: bytes, reason: Reason, cause: str) -> None:
    with pytest.raises(RemoteProtocolError, match=cause) as caught:
        session.hear(data, 0)
    assert caught.value.reason is reason


def test_what_came_before_a_fault_is_heard() -> None:
    data = sdu(ASK, b"\x82\x00\xf5", 0) + sdu(SUBMIT, SUBMITTED + b"\xff", 0) + sdu((9, Agency.INITIATOR), b"x", 0)
    with pytest.raises(RemoteProtocolError, match="protocol 9") as caught:
        opened().hear(data, 0)
    assert [one.number for one in caught.value.before] == [n.NUMBER, s.NUMBER]


def test_a_client_that_is_told_another_version_closes() -> None:
    pair = Pair()
    pair.ask(h.NUMBER, h.propose(MAGIC))
    with pytest.raises(RemoteProtocolError, match="version 1 was accepted"):
        pair.answer(h.NUMBER, h.MsgAcceptVersion(1, h.ClientData(MAGIC).encoded()))


def test_our_own_faults_are_ours() -> None:
    pair = Pair().open()
    with pytest.raises(LocalProtocolError, match="responder sent MsgAcceptMessage in StIdle"):
        pair.node.say(s.NUMBER, s.MsgAcceptMessage())
    assert not written(pair.node)


def test_one_byte_a_second_is_overdue() -> None:
    node = Pair().node
    data = sdu(HELLO, h.encode_message(h.propose(MAGIC)), 0)
    assert node.deadline_s() == float("inf"), "silence has no limit, as at a dmq-node"
    for second, byte in enumerate(data[:-1]):
        assert node.hear(bytes((byte,)), 5.0 + second) == [] and node.deadline_s() == 15.0
    [heard] = node.hear(data[-1:], 14.0)
    assert node.deadline_s() == float("inf")
    node.say(h.NUMBER, h.answer(heard.message, MAGIC))
    node.hear(b"\x00", 20.0)
    assert node.deadline_s() == 50.0 and node.is_open
    assert repr(node) == "<Session of the responder, dmq-0.5: 0 in StDone, 14 in StIdle, 15 in StIdle>"


def test_the_stored_connection_of_a_signer() -> None:
    """The stored SDUs of handshake, submission and a blocking request, in one read."""
    stored = {one["name"]: raw(one["sdu_hex"]) for one in VECTORS["sdus"]}
    node = Session(Agency.RESPONDER, DEPLOYED)
    [offer] = node.hear(stored["handshake propose n2c mainnet"], 0)
    node.say(h.NUMBER, h.answer(offer.message, h.MAGICS["mainnet"]))
    assert node.take(16_909_061) == stored["handshake accept n2c mainnet"]
    submitted, asked = node.hear(stored["submit"] + stored["notification request blocking"], 0)
    assert submitted.message == Dmq05().read(raw(stored["submit"].hex()[20:]))
    assert asked.message == n.MsgRequestMessagesBlocking()
    node.say(s.NUMBER, s.MsgAcceptMessage())
    assert node.take(2) == stored["accept"]


PIECES = st.lists(
    st.sampled_from(
        [
            sdu(SUBMIT, SUBMITTED, 0),
            sdu(SUBMIT, SUBMITTED[:500], 0),
            sdu(SUBMIT, SUBMITTED[500:], 0),
            sdu(SUBMIT, b"\x81\x03", 0),
            sdu(ASK, b"\x82\x00\xf4", 0),
            sdu(ASK, b"\x81\x03", 0),
            sdu(ASK, b"\x82\x01\x9f", 0),
            sdu(HELLO, h.encode_message(h.propose(MAGIC)), 0),
        ]
    )
    | st.binary(max_size=12),
    max_size=6,
)


def outcome(session: Session, pieces: list[bytes]) -> tuple[list[Heard], str]:
    heard: list[Heard] = []
    try:
        for piece in pieces:
            heard += session.hear(piece, 0)
    except RemoteProtocolError as error:
        return heard + list(error.before), str(error)
    return heard, ""


@pytest.mark.parametrize("name", REVISIONS)
@given(pieces=PIECES, changes=st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 255)), max_size=2))
def test_any_bytes_are_messages_or_a_fault_whole_and_one_by_one(
    name: str, pieces: list[bytes], changes: list[tuple[int, int]]
) -> None:
    data = bytearray(b"".join(pieces))
    for at, change in changes:
        if at < len(data):
            data[at] ^= change
    whole = outcome(Pair(REVISIONS[name]).open().node, [bytes(data)])
    assert whole == outcome(Pair(REVISIONS[name]).open().node, [bytes((byte,)) for byte in data])
    fresh = outcome(Pair(REVISIONS[name]).node, [bytes(data)])
    assert fresh == outcome(Pair(REVISIONS[name]).node, [bytes((byte,)) for byte in data])


@given(st.binary(max_size=300), st.sampled_from([h.NUMBER, s.NUMBER, n.NUMBER]))
def test_any_bytes_of_a_protocol_are_messages_or_a_fault(payload: bytes, number: int) -> None:
    for session in (Pair().node, Pair().open().node):
        outcome(session, [sdu((number, Agency.INITIATOR), payload, 0)] if payload else [])
    client = Pair().open().client
    client.say(n.NUMBER, n.MsgRequestMessagesBlocking())
    outcome(client, [sdu((number, Agency.RESPONDER), payload, 0)] if payload else [])
