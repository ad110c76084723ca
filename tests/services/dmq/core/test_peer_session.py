"""Sessions between nodes: stored conversations, protocols in both directions, requests ahead, limits, wrong bytes."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.dmq import BETWEEN_NODES, raw

from router.core.link.machine import Agency, LocalProtocolError, RemoteProtocolError
from services.dmq.core.messages.signed_message import Dmq05
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import keep_alive as ka
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols import node_handshake as nh
from services.dmq.core.protocols import peer_sharing as ps
from services.dmq.core.protocols.mux import HEAD, RESPONDER_BIT, sdu
from services.dmq.core.protocols.node_handshake import Agreement, NodeData
from services.dmq.core.protocols.peer_session import (
    IDLE_S,
    TURN_MAX,
    PeerAgreed,
    PeerAnswered,
    PeerEvent,
    PeerRefused,
    PeerSaid,
    PeersAsked,
    PeerSession,
    PeersTold,
    Side,
)
from services.dmq.core.protocols.talk import AHEAD_MAX

MAGIC = h.MAGICS["mainnet"]
OWN = NodeData(MAGIC, peer_sharing=True)
ID = b"i" * 32
ANNOUNCED = ms.MsgReplySigIds(((ID, 1),))
ASK = ms.MsgRequestSigIdsBlocking(0, 33)
CONVERSATIONS = BETWEEN_NODES["conversations"]


class Pair:
    """A node that dials and one that listens, which pass each other their bytes in pieces of `size`."""

    def __init__(
        self,
        ours: NodeData = OWN,
        theirs: NodeData = OWN,
        versions: tuple[int, ...] = tuple(ms.VERSIONS),
        size: int = 1 << 20,
    ) -> None:
        self.dialler = PeerSession(
            Agency.INITIATOR, ours, 0.0, {one: ms.VERSIONS[one] for one in versions}, cookie=0x1233
        )
        self.listener = PeerSession(Agency.RESPONDER, theirs, 0.0, cookie=0xFFFE)
        self._size = size

    def pass_on(self, now_s: float = 0.0) -> list[tuple[str, PeerEvent]]:
        """Pass on all that is queued, and what follows from it; return what each has heard."""
        found = []
        while self.dialler.has_to_write or self.listener.has_to_write:
            for name, hearer, speaker in (
                ("listener", self.listener, self.dialler),
                ("dialler", self.dialler, self.listener),
            ):
                for data in written(speaker):
                    pieces = [data[at : at + self._size] for at in range(0, len(data), self._size)]
                    found += [(name, event) for piece in pieces for event in hearer.hear(piece, now_s)]
        return found


def written(session: PeerSession) -> Iterator[bytes]:
    return iter(lambda: session.take(0), b"")


def opened(**given: Any) -> Pair:
    pair = Pair(**given)
    pair.pass_on()
    return pair


def listening(ours: NodeData = OWN) -> PeerSession:
    """Return a listener that has agreed with somebody who says nothing by itself."""
    session = PeerSession(Agency.RESPONDER, ours, 0.0)
    said = h.encode_message(nh.propose(OWN))
    assert session.hear(sdu((h.NUMBER, Agency.INITIATOR), said, 0), 0.0) == [PeerAgreed(Agreement(2, True, True))]
    list(written(session))
    return session


def heard(session: PeerSession, number: int, payload: bytes, now_s: float = 0.0, *, answers: bool = False) -> Any:
    by = Agency.RESPONDER if answers else Agency.INITIATOR
    return session.hear(sdu((number, by), payload, 0), now_s)


# -- stored conversations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", (1, 7, 1 << 20))
@pytest.mark.parametrize("name", [one["name"] for one in CONVERSATIONS[:2]])
def test_both_ends_of_a_stored_conversation_say_what_is_stored(name: str, size: int) -> None:
    [steps] = [one["steps"] for one in CONVERSATIONS if one["name"] == name]
    pair = Pair(versions=(1,) if name.startswith("version 1") else (1, 2), size=size)
    ends = {"dialler": pair.dialler, "listener": pair.listener}
    version = 1 if name.startswith("version 1") else 2
    for step in steps:
        speaker, hearer = ends[step["from"]], ends["listener" if step["from"] == "dialler" else "dialler"]
        if step["protocol"] == ms.NUMBER:
            submission = ms.VERSIONS[version]
            began = Agency.RESPONDER if step["responder_bit"] else Agency.INITIATOR
            side = Side.PROVIDER if began is submission.provider else Side.CONSUMER
            speaker.say(side, submission.decode(raw(step["payload_hex"])), 1.0)
        elif step["what"].startswith("keep-alive"):
            speaker.keep_alive(1.0)
        elif step["what"].startswith("done"):
            speaker.finish(1.0)
        of_step = [one for one in written(speaker) if HEAD.unpack_from(one)[1] & ~RESPONDER_BIT == step["protocol"]]
        assert [one[4:].hex() for one in of_step] == [step["sdus_hex"][8:]], step["what"]
        for at in range(0, len(of_step[0]), size):
            hearer.hear(of_step[0][at : at + size], 1.0)
    assert not pair.dialler.ends and not pair.listener.ends


def test_a_long_reply_goes_out_in_the_stored_sdus() -> None:
    [step] = CONVERSATIONS[2]["steps"]
    pair = opened()
    pair.dialler.say(Side.CONSUMER, ms.MsgRequestSigs((ID,) * 5), 0.0)
    pair.pass_on()
    reply = ms.VERSIONS[2].decode(raw(step["payload_hex"]))
    pair.listener.say(Side.PROVIDER, reply, 0.0)
    first, second = written(pair.listener)
    cut = 2 * (8 + 12_288)
    assert (first[4:].hex(), second[4:].hex()) == (step["sdus_hex"][8:cut], step["sdus_hex"][cut + 8 :])
    assert [*pair.dialler.hear(first, 0.0), *pair.dialler.hear(second, 0.0)] == [PeerSaid(Side.CONSUMER, reply)]


@pytest.mark.parametrize("vector", BETWEEN_NODES["keep_alive"], ids=lambda one: one["verdict"])
def test_a_stored_answer_to_keep_alive_is_judged_as_stored(vector: dict[str, str]) -> None:
    asked = ka.decode_message(raw(vector["asked_hex"]))
    assert isinstance(asked, ka.MsgKeepAlive)
    dialler = PeerSession(Agency.INITIATOR, OWN, 0.0, cookie=asked.cookie - 1)
    heard(dialler, h.NUMBER, h.encode_message(nh.answer(nh.propose(OWN), OWN)), answers=True)
    assert [one[8:].hex() for one in written(dialler)][-1] == vector["asked_hex"]
    if vector["verdict"] == "ok":
        assert heard(dialler, ka.NUMBER, raw(vector["heard_hex"]), 2.5, answers=True) == [PeerAnswered(2.5)]
        return
    with pytest.raises(RemoteProtocolError, match="cookie"):
        heard(dialler, ka.NUMBER, raw(vector["heard_hex"]), answers=True)


@pytest.mark.parametrize(
    "vector", [one for one in BETWEEN_NODES["addresses"] if one["address"].startswith(("eleven", "ten"))],
    ids=lambda one: one["address"],
)  # fmt: skip
def test_a_stored_answer_to_peer_sharing_is_judged_as_stored(vector: dict[str, str]) -> None:
    pair = opened()
    assert pair.dialler.ask_peers(10, 0.0)
    if vector["reads"] == "ok":
        [told] = heard(pair.dialler, ps.NUMBER, raw(vector["hex"]), answers=True)
        assert isinstance(told, PeersTold) and len(told.addresses) == 10
        return
    with pytest.raises(RemoteProtocolError, match="it shares 11 peers, and was asked for 10"):
        heard(pair.dialler, ps.NUMBER, raw(vector["hex"]), answers=True)


@pytest.mark.parametrize("vector", BETWEEN_NODES["consumer_version_2"], ids=lambda one: one["name"])
def test_a_stored_reply_of_a_provider_is_judged_as_stored(vector: dict[str, str]) -> None:
    """The session judges the bytes; what was asked for, and the id of a body, are judged by whom it tells."""
    pair = opened()
    pair.dialler.say(Side.CONSUMER, ms.VERSIONS[2].decode(raw(vector["asked_hex"])), 0.0)
    assert [one[8:].hex() for one in written(pair.dialler)] == [vector["asked_hex"]]
    if vector["verdict"] == "decoder failure":
        with pytest.raises(RemoteProtocolError):
            heard(pair.dialler, ms.NUMBER, raw(vector["heard_hex"]), answers=True)
            pair.dialler.say(Side.CONSUMER, ASK, 0.0)  # what came behind a message is read when its turn comes
            heard(pair.dialler, ms.NUMBER, ms.VERSIONS[2].encode(ANNOUNCED), answers=True)
        return
    [told] = heard(pair.dialler, ms.NUMBER, raw(vector["heard_hex"]), answers=True)
    assert isinstance(told, PeerSaid) and told.side is Side.CONSUMER
    match told.message:
        case ms.MsgReplySigs(bodies):
            asked = [body for body in bodies if Dmq05().read(body).id.hex() in vector["asked_hex"]]
            assert (asked != list(bodies)) is (vector["verdict"] == "SigNotRequested")


# -- handshake -----------------------------------------------------------------------------------------------------


def test_who_dials_begins_with_keep_alive_at_once() -> None:
    pair = Pair()
    agreed = PeerAgreed(Agreement(2, True, True))
    assert pair.pass_on() == [("listener", agreed), ("dialler", agreed), ("dialler", PeerAnswered(0.0))]
    assert pair.dialler.deadline_s() == ka.EVERY_S and pair.listener.deadline_s() == ka.CLIENT_S


def test_both_that_have_dialled_at_once_run_every_protocol() -> None:
    pair = Pair()
    pair.listener = PeerSession(Agency.INITIATOR, OWN, 0.0)
    heard_by = dict.fromkeys(("dialler", "listener"), 0)
    for name, event in pair.pass_on():
        heard_by[name] += isinstance(event, PeerAgreed | PeerAnswered)
    assert heard_by == {"dialler": 2, "listener": 2}
    for one in (pair.dialler, pair.listener):
        one.say(Side.CONSUMER, ASK, 1.0)
    assert pair.pass_on(1.0) == [(name, PeerSaid(Side.PROVIDER, ASK)) for name in ("listener", "dialler")]


def test_a_refusal_ends_both_and_names_the_cause() -> None:
    pair = Pair(theirs=NodeData(MAGIC ^ 1))
    said = pair.pass_on()
    assert [name for name, _ in said] == ["listener", "dialler"] and pair.dialler.ends and pair.listener.ends
    assert all(isinstance(one, PeerRefused) and "version data mismatch" in one.text for _, one in said)


def test_a_query_ends_both_without_a_fault() -> None:
    pair = Pair(ours=NodeData(MAGIC, query=True))
    assert pair.pass_on() == [("listener", PeerRefused("")), ("dialler", PeerRefused(""))]
    assert pair.dialler.ends and pair.listener.ends


def test_over_a_connection_of_one_that_only_dials_the_listener_begins_nothing() -> None:
    pair = opened(ours=NodeData(MAGIC, initiator_only=True))
    assert pair.listener.agreement == Agreement(2, False, False)
    assert [pair.dialler.may(side) for side in Side] == [False, True]
    assert [pair.listener.may(side) for side in Side] == [True, False]
    pair.listener.keep_alive(1.0)
    assert not pair.listener.has_to_write and not pair.listener.ask_peers(1, 1.0)
    with pytest.raises(RemoteProtocolError, match="protocol 12 does not run here for the initiator"):
        heard(pair.dialler, ka.NUMBER, b"\x82\x00\x00")


# -- both directions, and requests ahead ---------------------------------------------------------------------------


def test_each_side_pulls_from_the_other_over_one_connection() -> None:
    pair = opened()
    for one in (pair.dialler, pair.listener):
        assert one.is_our_turn(Side.CONSUMER) and not one.is_our_turn(Side.PROVIDER)
        one.say(Side.CONSUMER, ASK, 0.0)
    assert pair.pass_on() == [(name, PeerSaid(Side.PROVIDER, ASK)) for name in ("listener", "dialler")]
    assert pair.listener.is_asked_to_wait and pair.dialler.is_asked_to_wait
    pair.listener.say(Side.PROVIDER, ANNOUNCED, 0.0)
    pair.dialler.say(Side.PROVIDER, ms.MsgReplyNoSigIds(), 0.0)
    assert not pair.listener.is_asked_to_wait
    assert pair.pass_on() == [
        ("listener", PeerSaid(Side.CONSUMER, ms.MsgReplyNoSigIds())),
        ("dialler", PeerSaid(Side.CONSUMER, ANNOUNCED)),
    ]


def test_in_version_1_the_dialler_provides_as_soon_as_it_begins() -> None:
    pair = opened(versions=(1,))
    assert not pair.listener.is_our_turn(Side.CONSUMER)
    pair.dialler.begin(Side.PROVIDER, 0.0)
    assert pair.pass_on() == [("listener", PeerSaid(Side.CONSUMER, ms.MsgInit()))]
    pair.listener.say(Side.CONSUMER, ASK, 0.0)
    assert pair.pass_on() == [("dialler", PeerSaid(Side.PROVIDER, ASK))]
    pair.dialler.begin(Side.PROVIDER, 0.0)
    assert not pair.dialler.has_to_write, "it has begun"


def test_requests_ahead_are_answered_in_order() -> None:
    pair = opened()
    bodies, more = ms.MsgRequestSigs((ID,)), ms.MsgRequestSigIdsNonBlocking(0, 1)
    for request in (bodies, more, bodies):
        pair.dialler.say(Side.CONSUMER, request, 0.0)
    assert pair.pass_on() == [("listener", PeerSaid(Side.PROVIDER, bodies))], "the others wait for their turn"
    waited = pair.listener.say(Side.PROVIDER, ms.MsgReplySigs(()), 1.0)
    assert waited == [PeerSaid(Side.PROVIDER, more)]
    assert pair.listener.say(Side.PROVIDER, ANNOUNCED, 1.0) == [PeerSaid(Side.PROVIDER, bodies)]
    pair.listener.say(Side.PROVIDER, ms.MsgReplySigs((b"\x80",)), 1.0)
    answers = [event.message for _, event in pair.pass_on(1.0) if isinstance(event, PeerSaid)]
    assert answers == [ms.MsgReplySigs(()), ANNOUNCED, ms.MsgReplySigs((b"\x80",))]
    assert pair.dialler.is_our_turn(Side.CONSUMER)


def test_the_state_of_a_request_ahead_begins_with_the_answer_before_it() -> None:
    pair = opened()
    for _ in range(2):
        pair.dialler.say(Side.CONSUMER, ms.MsgRequestSigs((ID,)), 0.0)
    pair.pass_on()
    assert pair.dialler.deadline_s() == ms.ANSWER_S
    pair.listener.say(Side.PROVIDER, ms.MsgReplySigs(()), 4.0)
    pair.pass_on(4.0)
    assert pair.dialler.overdue(13.9) == "" and "StSigs of protocol 11 took 10 s" in pair.dialler.overdue(14.0)


def test_no_more_than_so_many_requests_go_ahead_and_no_answer_does() -> None:
    pair = opened()
    for _ in range(1 + AHEAD_MAX):
        pair.dialler.say(Side.CONSUMER, ms.MsgRequestSigs((ID,)), 0.0)
    with pytest.raises(LocalProtocolError, match="out of turn"):
        pair.dialler.say(Side.CONSUMER, ms.MsgRequestSigs((ID,)), 0.0)
    with pytest.raises(LocalProtocolError, match="out of turn"):
        pair.dialler.say(Side.PROVIDER, ANNOUNCED, 0.0)


def test_a_protocol_that_has_ended_may_begin_again() -> None:
    pair = opened()
    for _ in range(2):
        pair.dialler.say(Side.CONSUMER, ms.MsgDone(), 0.0)
        assert pair.pass_on() == [("listener", PeerSaid(Side.PROVIDER, ms.MsgDone()))]
    pair.dialler.say(Side.CONSUMER, ASK, 0.0)
    assert pair.pass_on() == [("listener", PeerSaid(Side.PROVIDER, ASK))]


def test_peers_are_asked_for_one_answer_at_a_time() -> None:
    pair = opened()
    assert pair.dialler.ask_peers(3, 0.0) and not pair.dialler.ask_peers(3, 0.0)
    assert pair.pass_on() == [("listener", PeersAsked(3))]
    address = ps.PeerAddress("1.2.3.4", 3141)
    pair.listener.tell_peers((address,), 0.0)
    assert pair.pass_on() == [("dialler", PeersTold((address,)))]


# -- time ----------------------------------------------------------------------------------------------------------


def test_keep_alive_is_asked_every_ten_seconds() -> None:
    pair = opened()
    for turn in range(1, 4):
        now_s = turn * ka.EVERY_S
        assert pair.dialler.deadline_s() == now_s
        pair.dialler.due(now_s)
        assert pair.pass_on(now_s) == [("dialler", PeerAnswered(0.0))]


@pytest.mark.parametrize(
    ("said", "at_s", "cause"),
    (
        (None, nh.HELLO_S, "no handshake within 10 s"),
        ([], IDLE_S, "nothing has run on the connection for 5 s"),
        ([(ka.NUMBER, b"\x82\x00\x01")], ka.CLIENT_S, "StClient of protocol 12 took 97 s"),
        ([(ka.NUMBER, b"\x82\x00\x01"), (ka.NUMBER, b"\x81\x02")], IDLE_S, "nothing has run"),
        ([(ka.NUMBER, b"\x82\x00\x01"), (ms.NUMBER, b"\x84")], 60.0, "a part of a message came"),
    ),
)
def test_a_listener_waits_for_so_long(said: Any, at_s: float, cause: str) -> None:
    session = PeerSession(Agency.RESPONDER, OWN, 0.0) if said is None else listening()
    for number, payload in said or ():
        heard(session, number, payload)
    assert session.deadline_s() == at_s and session.overdue(at_s - 0.1) == ""
    assert session.overdue(at_s).startswith(cause)


def test_an_sdu_that_has_begun_is_whole_in_time() -> None:
    session = listening()
    heard(session, ka.NUMBER, b"\x82\x00\x01")
    session.hear(b"\x00", 7.0)
    assert session.overdue(36.9) == "" and session.deadline_s() == 37.0
    assert session.overdue(37.0) == "a part of an SDU came, and the rest did not in time"


@pytest.mark.parametrize(
    ("said", "at_s", "state"),
    (
        (ASK, ms.BLOCKING_S, "StSigIdsBlocking"),
        (ms.MsgRequestSigIdsNonBlocking(1, 1), ms.ANSWER_S, "StSigIdsNonBlocking"),
        (ms.MsgRequestSigs((ID,)), ms.ANSWER_S, "StSigs"),
    ),
)
def test_a_provider_has_so_long_for_its_answer(said: ms.Message, at_s: float, state: str) -> None:
    pair = opened()
    pair.dialler.say(Side.CONSUMER, said, 0.0)
    assert pair.dialler.overdue(at_s - 0.1) == ""
    assert pair.dialler.overdue(at_s) == f"{state} of protocol 11 took {at_s:g} s"


def test_peers_that_are_asked_for_come_within_a_minute() -> None:
    pair = opened()
    pair.dialler.ask_peers(1, 0.0)
    assert pair.dialler.overdue(59.9) == "" and "StBusy of protocol 13 took 60 s" in pair.dialler.overdue(60.0)


def test_a_session_whose_own_turn_it_is_has_no_deadline_but_its_keep_alive() -> None:
    pair = opened()
    pair.dialler.say(Side.CONSUMER, ASK, 0.0)
    pair.pass_on()
    assert pair.listener.deadline_s() == ka.CLIENT_S
    pair.dialler.finish(0.0)
    assert pair.dialler.deadline_s() < inf


@pytest.mark.parametrize("number", (ka.NUMBER, ps.NUMBER))
def test_a_flood_of_short_messages_is_handled_turn_by_turn(number: int) -> None:
    session, count = listening(), 3 * TURN_MAX + 1
    events = heard(session, number, b"\x82\x00\x01" * count)
    turns, answered = 1, 0
    while session.deadline_s() <= 0.0 or events:
        if events:
            answered += 1
            events = [*events[1:], *session.tell_peers((), 0.0)]
        else:
            turns, events = turns + 1, session.due(0.0)
    answers = sum(len(one) - HEAD.size for one in written(session)) // 3
    assert (turns, answers) == (4, count) and answered == (count if number == ps.NUMBER else 0)


def test_who_goes_on_flooding_overruns_what_may_wait() -> None:
    session = listening()
    with pytest.raises(RemoteProtocolError, match="more than 1408 bytes wait"):
        session.hear(sdu((ka.NUMBER, Agency.INITIATOR), b"\x82\x00\x01", 0) * 6_000, 0.0)


# -- wrong bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "payload", "cause"),
    (
        (99, b"\x80", "protocol 99 is unknown"),
        (h.NUMBER, b"\x80", "protocol 0 is unknown"),
        (14, b"\x81\x03", "protocol 14 is unknown"),
        (ms.NUMBER, b"\x81\x03", "MsgReplyNoSigIds in StIdle"),
        (ms.NUMBER, b"\xff", "a break stands"),
        (ms.NUMBER, b"\x82\x03\x9f\xff", "message 3 of 2 items is not one of message submission in version 2"),
        (ka.NUMBER, b"\x82\x01\x01", "MsgKeepAliveResponse in StClient"),
        (ka.NUMBER, b"\x82\x00\x01" * 470, "wait for their turn"),
        (ps.NUMBER, b"\x82\x01\x80", "MsgSharePeers in StIdle"),
        (ps.NUMBER, bytes(5_761), "wait for their turn"),
    ),
)
def test_wrong_bytes_end_the_session(number: int, payload: bytes, cause: str) -> None:
    with pytest.raises(RemoteProtocolError, match=cause):
        heard(listening(), number, payload)


def test_what_waits_of_message_submission_is_bounded() -> None:
    session = listening()
    heard(session, ms.NUMBER, ms.VERSIONS[2].encode(ASK))
    waits = b"\x82\x04\x9f" + b"\x58\x20" + ID
    payload = waits.ljust(50_000, b"\x00")
    for _ in range(2):
        heard(session, ms.NUMBER, payload)
    with pytest.raises(RemoteProtocolError, match="more than 101640 bytes wait"):
        heard(session, ms.NUMBER, payload)


def test_an_empty_answer_to_a_request_that_blocks_is_a_fault() -> None:
    pair = opened()
    pair.dialler.say(Side.CONSUMER, ASK, 0.0)
    pair.pass_on()
    with pytest.raises(RemoteProtocolError, match="announces nothing"):
        heard(pair.dialler, ms.NUMBER, b"\x82\x02\x9f\xff", answers=True)


def test_events_before_a_fault_are_kept() -> None:
    session, asks = listening(), ms.VERSIONS[2].encode(ms.MsgRequestSigs((ID,)))
    with pytest.raises(RemoteProtocolError) as raised:
        session.hear(sdu((ms.NUMBER, Agency.INITIATOR), asks, 0) + sdu((99, Agency.INITIATOR), b"x", 0), 0.0)
    assert raised.value.before == [PeerSaid(Side.PROVIDER, ms.MsgRequestSigs((ID,)))]


@given(st.lists(st.binary(max_size=60), max_size=6), st.booleans())
def test_any_bytes_give_events_or_a_remote_fault(chunks: list[bytes], has_agreed: bool) -> None:
    session = listening() if has_agreed else PeerSession(Agency.RESPONDER, OWN, 0.0)
    try:
        for chunk in chunks:
            session.hear(chunk, 0.0)
    except RemoteProtocolError:
        return
    assert session.deadline_s() > 0


@given(st.sampled_from((ms.NUMBER, ka.NUMBER, ps.NUMBER)), st.binary(min_size=1, max_size=40), st.booleans())
def test_any_message_gives_events_or_a_remote_fault(number: int, payload: bytes, answers: bool) -> None:
    pair = opened()
    pair.dialler.say(Side.CONSUMER, ASK, 0.0)
    try:
        heard(pair.dialler, number, payload, answers=answers)
    except RemoteProtocolError:
        return


def test_repr() -> None:
    assert repr(opened().dialler).startswith("<PeerSession of the initiator: <Talk 11 of the ")
