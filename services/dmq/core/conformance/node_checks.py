"""The checks of how a node speaks with other nodes: handshake, multiplexer, keep-alive, and both sides of message
submission, by what dmq-node does; the CIP's text gives some numbers of version 2 another meaning, and is named.

In version 2 the checks only dial, and the node provides. In version 1 it asks, which it may do only of one that serves
it as well; what is announced to it are messages of a pool that nobody knows, which no node takes or passes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from router.core.link.machine import Agency
from router.core.wire.codec import Malformed, encode, head

from ..cbor import MAP, array_of
from ..messages.trial_messages import BODY, Signer, long_number, octets
from ..protocols import handshake as h
from ..protocols import keep_alive as ka
from ..protocols import message_submission as ms
from ..protocols import node_handshake as nh
from ..protocols import peer_sharing as ps
from ..protocols.mux import SENT_BYTES_MAX
from ..protocols.node_handshake import NodeData
from ..protocols.peer_session import HANDSHAKE, KEEP_ALIVE, SHARING
from ..protocols.revision import REVISIONS
from .judging import CLOSED, NOT_AS_WRITTEN, OPEN, in_words, pieces, said

COOKIE = 0xBEEF
NO_ID = bytes(32)
IDS_TOO_MANY = 200
"""More ids than any request asks for."""
SIZE_SLACK = 32
_CODECS = {protocol.number: protocol for protocol in (HANDSHAKE, KEEP_ALIVE, SHARING)}
TWO, ONE = ms.VERSIONS[2], ms.VERSIONS[1]
PONG = "MsgKeepAliveResponse"
IDS, NO_IDS, BODIES = "MsgReplySigIds", "MsgReplyNoSigIds", "MsgReplySigs"
BY_THE_TEXT = " (by the CIP's text, whose numbers 3, 4 and 5 no deployed node has)"
"""What is added to the answer of a node that follows it."""


class NodeStage(Enum):
    """The state of a connection when a check begins."""

    CONNECTED = "connected"
    VERSION_2 = "version 2 is agreed on"
    ANNOUNCED = "one id is announced and not acknowledged"
    ASKED = "version 1 is agreed on, and the node has asked for ids"


class Step(Struct, frozen=True):
    """Bytes that are sent, and the answers that may come; without any, none is awaited."""

    data: bytes
    expected: tuple[str, ...] = ()


class NodeCheck(Struct, frozen=True):
    """A check: its steps one after another, and whether the connection is open or closed at the end."""

    name: str
    stage: NodeStage
    state: str
    sent: str
    steps: tuple[Step, ...]
    then: str = OPEN

    @property
    def expectation(self) -> str:
        """Describe the expectation."""
        parts = [" or ".join(step.expected) for step in self.steps if step.expected]
        return in_words([*parts, *([CLOSED] if self.then == CLOSED else [])])


class NodeTrial(Struct, frozen=True):
    """The network, and the keys of a pool that has no stake on its chain."""

    magic: int
    stranger: Signer

    @property
    def data(self) -> NodeData:
        return NodeData(self.magic, initiator_only=True)


def node_checks(trial: NodeTrial) -> list[NodeCheck]:
    """Return the checks, in the order in which they are made."""
    found = [_agreed(trial), _refused(trial), _malformed(trial), _multiplexer(trial), _keep_alive()]
    return [one for some in (*found, _provider(), _announced(), _consumer(trial)) for one in some]


def proposal(trial: NodeTrial, *versions: int) -> bytes:
    """Return the SDU that proposes these versions, or version 2: version 1 alone as a side that serves as well, others
    as one that only dials."""
    versions = versions or (2,)
    return said(h.NUMBER, h.encode_message(nh.propose(_data_of(trial, max(versions)), versions)))


def refusal(number: int, wire: bytes) -> str | None:
    """Return why a node refuses a right proposal of its versions, in its words: as the network is another one; None if
    this is no such answer."""
    if number != h.NUMBER:
        return None
    try:
        answer = h.decode_message(wire)
    except Malformed:
        return None
    match answer:
        case h.MsgRefuse(h.Refused(_, text)):
            return text
    return None


def accepted(trial: NodeTrial, version: int) -> str:
    """Return the description of the answer to that."""
    return f"MsgAcceptVersion {version} {_in_words(_data_of(trial, version))}"


def _data_of(trial: NodeTrial, version: int) -> NodeData:
    return replace(trial.data, initiator_only=version == 2)


def ping(cookie: int = COOKIE) -> bytes:
    return said(ka.NUMBER, ka.encode_message(ka.MsgKeepAlive(cookie)))


def asks_ids(blocking: bool, acknowledged: int, requested: int) -> bytes:
    kind = ms.MsgRequestSigIdsBlocking if blocking else ms.MsgRequestSigIdsNonBlocking
    return TWO.encode(kind(acknowledged, requested))


def describe(number: int, wire: bytes, version: int) -> str:
    """Describe a node's message; if the bytes are no message of the protocol, say why."""
    try:
        codec = ms.VERSIONS[version] if number == ms.NUMBER else _CODECS[number]
        message = codec.decode(wire)
    except Malformed as error:
        return f"wrong bytes: {error}"
    words = " ".join([type(message).__name__, *_details(message)])
    return words if codec.encode(message) == wire else words + NOT_AS_WRITTEN


def _details(message: object) -> list[str]:
    match message:
        case h.MsgAcceptVersion(version, data):
            try:
                return [str(version), _in_words(nh.read_node_data(data))]
            except Malformed as error:
                return [str(version), f"with wrong data: {error}"]
        case h.MsgRefuse(h.VersionMismatch(versions)):
            return ["VersionMismatch", *map(str, versions)]
        case h.MsgRefuse(h.HandshakeDecodeError(version) | h.Refused(version) as reason):
            return [type(reason).__name__, str(version)]
        case h.MsgQueryReply(versions):
            return list(map(str, versions))
        case ka.MsgKeepAlive(cookie) | ka.MsgKeepAliveResponse(cookie):
            return [str(cookie)]
        case ms.MsgReplySigIds(()) | ms.MsgReplySigs(()):
            return ["of nothing"]
    return []


def _in_words(data: NodeData) -> str:
    mode = "initiator only" if data.initiator_only else "duplex"
    return f"magic {data.magic} {mode}" + " sharing" * data.peer_sharing + " query" * data.query


# -- handshake -----------------------------------------------------------------------------------------------------


def _proposes(name: str, sent: str, payload: bytes, *expected: str, then: str = CLOSED, sdus: bytes = b"") -> NodeCheck:
    steps = (Step(sdus or said(h.NUMBER, payload), expected),)
    return NodeCheck(name, NodeStage.CONNECTED, "StPropose", sent, steps, then)


def _versions(versions: dict[int, bytes]) -> bytes:
    return h.encode_message(h.MsgProposeVersions(versions))


def _agreed(trial: NodeTrial) -> list[NodeCheck]:
    data, offer = trial.data.encoded(), h.encode_message(nh.propose(trial.data))
    both = {1: data, 2: data}
    shares = replace(trial.data, peer_sharing=True).encoded()
    long_data = b"\x84" + long_number(trial.magic) + b"\xf5\x00\xf4"
    right = accepted(trial, 2)
    return [
        _proposes("accept", "the right proposal", offer, right, then=OPEN),
        _proposes("version-1", "version 1 alone", _versions({1: data}), right.replace("2", "1", 1), then=OPEN),
        _proposes("version-2", "version 2 alone", _versions({2: data}), right, then=OPEN),
        _proposes(
            "more-versions",
            "versions 1, 2, and 7 with unknown data",
            _versions({**both, 7: b"\xa1\x00\x41\x78"}),
            right,
            then=OPEN,
        ),
        _proposes(
            "no-sharing",
            "peer sharing, over a connection that is not duplex",
            _versions({1: shares, 2: shares}),
            right,
            then=OPEN,
        ),
        _proposes(
            "long-numbers",
            "version and magic in eight bytes each",
            array_of(b"\x00", head(1, MAP) + long_number(2) + long_data),
            right,
            then=OPEN,
        ),
        _proposes(
            "split-handshake",
            "the right proposal, one byte an SDU",
            b"",
            right,
            then=OPEN,
            sdus=said(h.NUMBER, *pieces(offer, 1)),
        ),
    ]


def _refused(trial: NodeTrial) -> list[NodeCheck]:
    data, mismatch = trial.data.encoded(), "MsgRefuse VersionMismatch 1 2"
    other = replace(trial.data, magic=trial.magic ^ 1)
    asks = replace(trial.data, query=True)
    wrong, client = "MsgRefuse HandshakeDecodeError 2", h.encode_message(h.propose(trial.magic))
    return [
        _proposes(
            "wrong-magic",
            "another network's magic",
            h.encode_message(nh.propose(other)),
            "MsgRefuse Refused 2",
        ),
        _proposes("wrong-version", "version 3 alone", _versions({3: data}), mismatch),
        _proposes("no-version", "no version", _versions({}), mismatch),
        _proposes("client-version", "the version of clients", client, mismatch),
        _proposes("version-data", "a magic alone as version data", _versions({2: encode(trial.magic)}), wrong),
        _proposes("client-data", "the version data of clients", _versions({2: encode([trial.magic, False])}), wrong),
        _proposes("sharing-2", "peer sharing 2", _versions({2: encode([trial.magic, True, 2, False])}), wrong),
        _proposes(
            "magic-of-33-bits",
            "a magic of 33 bits",
            _versions({2: encode([1 << 32, True, 0, False])}),
            wrong,
        ),
        _proposes("query", "a query", h.encode_message(nh.propose(asks)), "MsgQueryReply 1 2"),
    ]


def _malformed(trial: NodeTrial) -> list[NodeCheck]:
    data, offer = trial.data.encoded(), h.encode_message(nh.propose(trial.data))
    unordered = array_of(b"\x00", head(2, MAP) + encode(2) + data + encode(1) + data)
    backwards = said(h.NUMBER, offer, by=Agency.RESPONDER)
    return [
        _proposes("unordered-versions", "2 before 1", unordered),
        _proposes(
            "indefinite-versions",
            "a map of indefinite length",
            array_of(b"\x00", b"\xbf" + encode(2) + data + b"\xff"),
        ),
        _proposes("long-proposal", "a proposal of 6,000 bytes", _versions({2: data, 7: octets(6000)})),
        _proposes("proposal-of-three", "a list of three items", array_of(b"\x00", offer[2:], b"\x00")),
        _proposes("handshake-direction", "a proposal as the responder", b"", sdus=backwards),
        _proposes("early-keep-alive", "MsgKeepAlive before the handshake", b"", sdus=ping()),
        _proposes("early-request", "a request before the handshake", b"", sdus=said(11, asks_ids(True, 0, 1))),
    ]


# -- multiplexer, keep-alive ---------------------------------------------------------------------------------------


def _agreed_on(name: str, state: str, sent: str, data: bytes, *expected: str, then: str = OPEN) -> NodeCheck:
    return NodeCheck(name, NodeStage.VERSION_2, state, sent, (Step(data, expected),), then)


def _multiplexer(trial: NodeTrial) -> list[NodeCheck]:
    def check(name: str, sent: str, data: bytes) -> NodeCheck:
        return _agreed_on(name, "StIdle", sent, data, then=CLOSED)

    empty = b"\x00\x00\x00\x00\x00\x0c\x00\x00"
    return [
        check("second-handshake", "another proposal", proposal(trial)),
        check("empty-sdu", "an SDU without payload", empty),
        check("unknown-protocol", "an SDU of protocol 99", said(99, b"\x80")),
        check("client-protocol", "a request of clients", said(15, b"\x82\x00\xf4")),
        check("sharing-not-agreed", "MsgShareRequest, on which nobody agreed", said(ps.NUMBER, b"\x82\x00\x01")),
        check(
            "wrong-direction",
            "MsgDone of keep-alive as the responder",
            said(ka.NUMBER, b"\x81\x02", by=Agency.RESPONDER),
        ),
    ]


def _keep_alive() -> list[NodeCheck]:
    def check(name: str, sent: str, payloads: Iterable[bytes], *expected: str, then: str = OPEN) -> NodeCheck:
        return _agreed_on(name, "StClient", sent, said(ka.NUMBER, *payloads), *expected, then=then)

    asks = ka.encode_message(ka.MsgKeepAlive(COOKIE))
    pong = f"{PONG} {COOKIE}"
    twice = (Step(ping(1) + ping(2), (f"{PONG} 1",)), Step(b"", (f"{PONG} 2",)))
    return [
        check("keep-alive", "MsgKeepAlive", [asks], pong),
        check("split-keep-alive", "MsgKeepAlive, one byte an SDU", pieces(asks, 1), pong),
        check("long-cookie", "a cookie in eight bytes", [b"\x82\x00" + long_number(COOKIE)], pong),
        NodeCheck("two-keep-alives", NodeStage.VERSION_2, "StClient", "two MsgKeepAlive ahead", twice),
        check("done-and-alive", "MsgDone, then MsgKeepAlive", [b"\x81\x02", asks], pong),
        check("cookie-of-17-bits", "a cookie above 65,535", [encode([0, 1 << 16])], then=CLOSED),
        check("unasked-answer", "MsgKeepAliveResponse", [b"\x82\x01\x01"], then=CLOSED),
        check("unknown-keep-alive", "message 3 of protocol 12", [b"\x81\x03"], then=CLOSED),
        check("no-cbor", "a byte that begins no item", [b"\xff"], then=CLOSED),
    ]


# -- message submission --------------------------------------------------------------------------------------------


def _provider() -> list[NodeCheck]:
    """Return what a provider of version 2 closes at, whatever it holds, and that it begins again."""

    def check(name: str, sent: str, payload: bytes, then: str = CLOSED) -> NodeCheck:
        return _agreed_on(name, "StIdle", sent, said(ms.NUMBER, *pieces(payload, SENT_BYTES_MAX)), then=then)

    body = TWO.encode(ms.MsgRequestSigs((NO_ID,)))
    return [
        check("requested-nothing", "a request that blocks for no ids", asks_ids(True, 0, 0)),
        check("requested-too-many", "a request for 133 ids", asks_ids(True, 0, 133)),
        check("acked-too-many", "an acknowledgement of one id", asks_ids(True, 1, 1)),
        check("request-non-blocking", "a request that does not block, at the start", asks_ids(False, 0, 1)),
        check("unavailable-sig", "a request for a body that was not announced", body),
        check("early-answer", "MsgReplyNoSigIds", b"\x81\x03"),
        check("init-in-version-2", "MsgInit of version 1, which is MsgDone here", b"\x81\x06", then=OPEN),
        check("unknown-message", "message 7 of protocol 11", b"\x81\x07"),
        check("version-1-request", "a request for ids of version 1", b"\x84\x00\xf5\x00\x01"),
        check("text-of-the-cip", "a request for bodies of the CIP's text", b"\x82\x03\x9f\x58\x20" + NO_ID + b"\xff"),
        check("request-of-three", "a request of three items", b"\x83\x01\xf5\x00"),
        check("request-by-number", "1 instead of true", b"\x84\x01\x01\x00\x01"),
        check("count-of-17-bits", "a request for 65,536 ids", encode([1, True, 0, 1 << 16])),
        check("long-request", "a message above 65,535 bytes", b"\x82\x04\x9f" + octets(32) * 2_200),
    ]


def _announced() -> list[NodeCheck]:
    """Return what is asked when one id is announced; the node must hold a message for that."""

    def check(name: str, sent: str, payload: bytes, *expected: str, then: str = CLOSED) -> NodeCheck:
        return NodeCheck(name, NodeStage.ANNOUNCED, "StIdle", sent, (Step(said(ms.NUMBER, payload), expected),), then)

    none = TWO.encode(ms.MsgRequestSigs(()))
    return [
        check("request-blocking", "a request that blocks, with one unacknowledged", asks_ids(True, 0, 1)),
        check("window-of-133", "a request for 132 more", asks_ids(False, 0, 132)),
        check("nothing-at-all", "a request for nothing that acknowledges nothing", asks_ids(False, 0, 0)),
        check("acked-two", "an acknowledgement of two", asks_ids(False, 2, 1)),
        check("left-nothing", "a request that does not block and leaves none", asks_ids(False, 1, 1)),
        check(
            "at-once",
            "a request that does not block for another",
            asks_ids(False, 0, 1),
            IDS,
            f"{IDS} of nothing",
            then=OPEN,
        ),
        check("no-bodies", "a request for no bodies", none, f"{BODIES} of nothing", then=OPEN),
    ]


def _consumer(trial: NodeTrial) -> list[NodeCheck]:
    """Return what is announced and given to a node that asks, in version 1."""
    wire = trial.stranger.message(REVISIONS["dmq-0.5"], BODY + b"between nodes")
    read = REVISIONS["dmq-0.5"].encoding.read
    message_id, other = read(wire).id, trial.stranger.message(REVISIONS["dmq-0.5"], BODY + b"another")
    asked, more = ("MsgRequestSigs",), ("MsgRequestSigIdsBlocking", "MsgRequestSigIdsNonBlocking")

    def announced(size: int, *ids: bytes) -> bytes:
        return said(ms.NUMBER, ONE.encode(ms.MsgReplySigIds(tuple((one, size) for one in ids))))

    def given(*wires: bytes) -> bytes:
        return said(ms.NUMBER, ONE.encode(ms.MsgReplySigs(wires)))

    def check(name: str, sent: str, *steps: Step, then: str = CLOSED) -> NodeCheck:
        return NodeCheck(name, NodeStage.ASKED, "StSigIdsBlocking", sent, steps, then)

    first = Step(announced(len(wire), message_id), asked)
    many = [index.to_bytes(32, "big") for index in range(1, IDS_TOO_MANY + 1)]
    changed = wire.replace(b"between nodes", b"between nodez")
    return [
        check("taken-or-dropped", "a right message of an unknown pool", first, Step(given(wire), more), then=OPEN),
        check("withheld", "an id, and then no body", first, Step(given(), more), then=OPEN),
        check("ids-not-requested", f"{IDS_TOO_MANY} ids", Step(announced(1_000, *many))),
        check("announced-nothing", "no ids, while the request blocks", Step(announced(0))),
        check("sig-not-requested", "another body", first, Step(given(other))),
        check(
            "size-error",
            f"a body {SIZE_SLACK + 1} bytes shorter than announced",
            Step(announced(len(wire) + SIZE_SLACK + 1, message_id), asked),
            Step(given(wire)),
        ),
        check("invalid-sig-id", "a body that was changed", first, Step(given(changed))),
        check("no-message", "a byte string instead of a message", first, Step(given(octets(100)))),
        check("ids-twice", "ids where bodies were asked for", first, Step(announced(len(wire), message_id))),
        check("size-of-33-bits", "a size above 32 bits", Step(said(ms.NUMBER, encode([1, [[NO_ID, 1 << 32]]])))),
        check("init-again", "MsgInit", Step(said(ms.NUMBER, b"\x81\x06"))),
    ]
