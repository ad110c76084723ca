"""The checks of a node's conformance: handshake, multiplexer, submission and notification (by CIP-137, and by dmq-node
where the CIP is silent)."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from router.core.link.machine import Agency
from router.core.wire.codec import encode, head

from ..cbor import MAP, array_of
from ..messages.trial_messages import BODY, Signer, long_number, octets
from ..protocols import handshake as h
from ..protocols import notification as n
from ..protocols import submission as s
from ..protocols.handshake import CLIENT_VERSION, ClientData
from ..protocols.revision import REVISIONS, Revision
from .judging import CLOSED, OPEN, Begin, Check, pieces, said

LONG_SDU_MESSAGES = 50
UNKNOWN_PROTOCOL = 99
EMPTY_SDU = b"\x00\x00\x00\x00\x00\x0e\x00\x00"
_DEPLOYED = ("dmq-0.5", "dmq-0.4")


class Trial(Struct, frozen=True):
    """The keys for the checks. `stranger` has no stake on the node's chain; `known`, if given, has."""

    revision: Revision
    magic: int
    stranger: Signer
    known: Signer | None = None


def checks(trial: Trial) -> list[Check]:
    """Return the checks, in the order in which they are made."""
    return [*_handshakes(trial), *_multiplexer(trial), *_submissions(trial), *_faulty(trial), *_notifications(trial)]


def accepted(trial: Trial) -> str:
    """Return a node's possible answers to a correct handshake."""
    return f"MsgAcceptVersion {CLIENT_VERSION} magic {trial.magic}"


def propose(trial: Trial) -> bytes:
    return said(h.NUMBER, h.encode_message(h.propose(trial.magic)))


def request(revision: Revision, *, blocking: bool = False) -> bytes:
    """Return a consumer's request."""
    message: n.Message = n.MsgRequestMessagesBlocking() if blocking else n.MsgRequestMessagesNonBlocking()
    if n.MsgNextMessages in revision.notification.table[n.St.IDLE].on:
        message = n.MsgNextMessages()
    return revision.notification.encode(message)


def submit(wire: bytes) -> bytes:
    return s.encode_message(s.MsgSubmitMessage(wire))


def replies(revision: Revision) -> tuple[str, ...]:
    """Return a node's possible answers to a request that need not block."""
    names = {"cip-29ffe0e": ("MsgHasMessages", "MsgNoMessages"), "overview-2025-04": ("MsgReplyMessages",)}
    return names.get(revision.notification.name, ("MsgReplyMessagesNonBlocking",))


def dead(trial: Trial) -> tuple[bytes, str]:
    """Return a message that every node rejects before it looks at the pool, and the rejection."""
    if trial.revision.encoding.name.startswith("dmq"):
        return trial.stranger.message(trial.revision, BODY + b"dead", left_s=-60), "MsgRejectMessage expired"
    return trial.stranger.message(trial.revision, BODY + b"dead", left_s=60_000), "MsgRejectMessage ttlTooLarge"


def _handshakes(trial: Trial) -> list[Check]:
    return [*_agreed(trial), *_refused(trial), *_malformed(trial), *_no_proposals(trial)]


def _proposal(name: str, sent: str, payload: bytes, *expected: tuple[str, ...], then: str = CLOSED) -> Check:
    return Check(name, Begin.CONNECTED, "StPropose", sent, said(h.NUMBER, payload), expected, then)


def _agreed(trial: Trial) -> list[Check]:
    """Return the proposals that a node accepts."""
    data, offer = ClientData(trial.magic).encoded(), h.encode_message(h.propose(trial.magic))
    right, long_data = (accepted(trial),), b"\x82" + long_number(trial.magic) + b"\xf4"
    return [
        _proposal("accept", "the right proposal", offer, right, then=OPEN),
        _proposal(
            "more-versions",
            "4097, and 4098 with unknown data",
            _versions({4097: data, 4098: b"\x83\x01\x02\x03"}),
            right,
            then=OPEN,
        ),
        _proposal(
            "long-numbers",
            "version and magic in eight bytes each",
            array_of(b"\x00", head(1, MAP) + long_number(4097) + long_data),
            right,
            then=OPEN,
        ),
        Check(
            "split-handshake",
            Begin.CONNECTED,
            "StPropose",
            "the right proposal, one byte an SDU",
            said(h.NUMBER, *pieces(offer, 1)),
            (right,),
        ),
        Check(
            "idle-before-handshake",
            Begin.CONNECTED,
            "StPropose",
            "nothing, then the right proposal",
            propose(trial),
            (right,),
            quiet="before",
        ),
    ]


def _refused(trial: Trial) -> list[Check]:
    """Return the proposals that a node answers and does not accept."""
    data, mismatch = ClientData(trial.magic).encoded(), (f"MsgRefuse VersionMismatch {CLIENT_VERSION}",)
    return [
        _proposal(
            "wrong-magic",
            "another network's magic",
            h.encode_message(h.propose(trial.magic ^ 1)),
            (f"MsgRefuse Refused {CLIENT_VERSION}",),
        ),
        _proposal("wrong-version", "version 4096 alone", _versions({4096: data}), mismatch),
        _proposal("no-version", "no version", _versions({}), mismatch),
        _proposal(
            "version-data",
            "a magic alone as version data",
            _versions({4097: encode(trial.magic)}),
            (f"MsgRefuse HandshakeDecodeError {CLIENT_VERSION}",),
        ),
        _proposal(
            "query",
            "a query",
            h.encode_message(h.propose(trial.magic, query=True)),
            (f"MsgQueryReply {CLIENT_VERSION}",),
        ),
    ]


def _malformed(trial: Trial) -> list[Check]:
    """Return proposals in an encoding at which a node closes the connection."""
    data = ClientData(trial.magic).encoded()
    return [
        _proposal(
            "unordered-versions",
            "4098 before 4097",
            array_of(b"\x00", head(2, MAP) + encode(4098) + data + encode(4097) + data),
        ),
        _proposal(
            "indefinite-versions",
            "a map of indefinite length",
            array_of(b"\x00", b"\xbf" + encode(4097) + data + b"\xff"),
        ),
        _proposal("long-proposal", "a proposal of 6,000 bytes", _versions({4097: data, 4098: octets(6000)})),
        _proposal(
            "proposal-of-three",
            "a list of three items",
            array_of(b"\x00", h.encode_message(h.propose(trial.magic))[2:], b"\x00"),
        ),
    ]


def _no_proposals(trial: Trial) -> list[Check]:
    """Return what begins a connection and is no proposal."""
    return [
        Check(
            "early-submission",
            Begin.CONNECTED,
            "StPropose",
            "MsgSubmitMessage before the handshake",
            said(s.NUMBER, submit(dead(trial)[0])),
            then=CLOSED,
        ),
        Check(
            "handshake-direction",
            Begin.CONNECTED,
            "StPropose",
            "a proposal as the responder",
            said(h.NUMBER, h.encode_message(h.propose(trial.magic)), by=Agency.RESPONDER),
            then=CLOSED,
        ),
    ]


def _versions(versions: dict[int, bytes]) -> bytes:
    return h.encode_message(h.MsgProposeVersions(versions))


def _multiplexer(trial: Trial) -> list[Check]:
    wire, answer = dead(trial)
    ask, hand_in, reply = request(trial.revision), submit(wire), replies(trial.revision)
    first, second = hand_in[:300], hand_in[300:]
    mixed = said(s.NUMBER, first) + said(n.NUMBER, ask) + said(s.NUMBER, second)

    end = CLOSED if trial.revision.ends_early else OPEN

    def check(name: str, sent: str, data: bytes, *expected: tuple[str, ...], then: str = OPEN) -> Check:
        return Check(name, Begin.AGREED, "StIdle", sent, data, expected, then)

    return [
        check("second-handshake", "another proposal", propose(trial), then=CLOSED),
        check("empty-sdu", "an SDU without payload", EMPTY_SDU, then=CLOSED),
        check(
            "unknown-protocol", f"an SDU of protocol {UNKNOWN_PROTOCOL}", said(UNKNOWN_PROTOCOL, b"\x80"), then=CLOSED
        ),
        check(
            "wrong-direction", "MsgDone as the responder", said(s.NUMBER, b"\x81\x03", by=Agency.RESPONDER), then=CLOSED
        ),
        check("two-in-one-sdu", "two requests in one SDU", said(n.NUMBER, ask + ask), reply, reply),
        check(
            "split-message",
            "MsgSubmitMessage, 7 bytes an SDU",
            said(s.NUMBER, *pieces(hand_in, 7)),
            (answer,),
            then=end,
        ),
        check("interleaved", "a request amid MsgSubmitMessage", mixed, (answer,), reply, then=end),
        check(
            "long-sdu",
            f"{LONG_SDU_MESSAGES} messages in one SDU",
            said(s.NUMBER, hand_in * LONG_SDU_MESSAGES),
            *[(answer,)] * (1 if trial.revision.ends_early else LONG_SDU_MESSAGES),
            then=end,
        ),
        Check("idle", Begin.AGREED, "StIdle", "nothing", b"", quiet="before"),
    ]


def _submissions(trial: Trial) -> list[Check]:
    revision, end = trial.revision, CLOSED if trial.revision.ends_early else OPEN
    wire, answer = dead(trial)
    invalid = ("MsgRejectMessage invalid",)

    def check(name: str, sent: str, message: bytes, *expected: tuple[str, ...]) -> Check:
        return Check(name, Begin.AGREED, "StIdle", sent, said(s.NUMBER, submit(message)), expected, end)

    found = [
        check(answer.rpartition(" ")[2], "a message that lives no more, or too long", wire, (answer,)),
        check(
            "unknown-pool",
            "a message of a pool without stake",
            trial.stranger.message(revision, BODY + b"unknown"),
            invalid,
        ),
    ]
    if not revision.ends_early:
        again = said(s.NUMBER, b"\x81\x03", submit(wire))
        found.append(Check("done-and-again", Begin.AGREED, "StIdle", "MsgDone, then a message", again, ((answer,),)))
    if revision.encoding.name in _DEPLOYED:
        far = trial.stranger.message(revision, left_s=3600)
        found.append(check("expiry-too-far", "a message that expires in an hour", far, invalid))
    if revision.name == "dmq-0.5":
        wrong = replace(trial.stranger.parts(), id=octets(32)).message()
        found.append(check("wrong-id", "a message whose id is not the digest", wrong, invalid))
    if trial.known is not None:
        found += _of_a_known_pool(trial, trial.known, end)
    return found


def _of_a_known_pool(trial: Trial, known: Signer, end: str) -> list[Check]:
    """Return the checks that need the keys of a pool with stake. A node may refuse the pool's later messages as too
    frequent."""
    revision, invalid = trial.revision, ("MsgRejectMessage invalid",)
    right = known_message(trial, known)
    bad_kes = known.message(revision, BODY + b"k")
    spoiled = bad_kes.replace(b"k", b"l", 1) if BODY + b"k" in bad_kes else bad_kes

    def one(name: str, sent: str, message: bytes, expected: str, then: str = end) -> Check:
        return Check(name, Begin.AGREED, "StIdle", sent, said(s.NUMBER, submit(message)), ((expected,),), then)

    found = [
        one("taken", "a right message, one number longer than necessary", right, "MsgAcceptMessage", OPEN),
        one("replay", "the same again", right, "MsgRejectMessage alreadyReceived"),
        one("signature-of-another-body", "a body that was changed", spoiled, *invalid),
    ]
    if revision.name == "dmq-0.5":
        parts, other = known.parts(BODY + b"o"), trial.stranger.parts(BODY + b"o")
        found += [
            one(
                "kes-signature",
                "another pool's KES signature",
                replace(parts, kes_signature=other.kes_signature).message(),
                *invalid,
            ),
            one(
                "certificate",
                "another pool's certificate",
                replace(parts, certificate=other.certificate).message(),
                *invalid,
            ),
        ]
    return found


def known_message(trial: Trial, known: Signer) -> bytes:
    """Return the message that the checks hand in and look for at consumers; a new one each second."""
    body = BODY + str(known.wall_s).encode()
    if trial.revision.name == "dmq-0.5":
        return known.parts(body, is_long=True).message()
    return known.message(trial.revision, body)


def _faulty(trial: Trial) -> list[Check]:
    """Return bytes that are no message: the connection must be closed without an answer."""

    def check(name: str, sent: str, payload: bytes) -> Check:
        return Check(name, Begin.AGREED, "StIdle", sent, said(s.NUMBER, payload), then=CLOSED)

    wire = dead(trial)[0]
    found = [
        check("no-cbor", "a byte that begins no item", b"\xff"),
        check("unknown-message", "message 4 of protocol 14", b"\x81\x04"),
        check("out-of-turn", "MsgAcceptMessage", b"\x81\x01"),
        check("submission-of-three", "MsgSubmitMessage of three items", array_of(b"\x00", wire, b"\x00")),
        check("indefinite-submission", "MsgSubmitMessage of indefinite length", b"\x9f\x00" + wire + b"\xff"),
        check("no-message", "a byte string instead of a message", submit(octets(100))),
        check(
            "other-revision",
            "a message of another revision",
            submit(trial.stranger.message(REVISIONS["dmq-0.5" if trial.revision.name == "dmq-0.4" else "dmq-0.4"])),
        ),
    ]
    if trial.revision.name != "dmq-0.5":
        return found
    parts = trial.stranger.parts()
    wrong = {
        "body-89": ("a body of 89 bytes", trial.stranger.parts(bytes(89)).message()),
        "body-2001": ("a body of 2,001 bytes", trial.stranger.parts(bytes(2001)).message()),
        "id-31": ("an id of 31 bytes", replace(parts, id=octets(31)).message()),
        "kes-signature-447": ("a KES signature of 447 bytes", replace(parts, kes_signature=octets(447)).message()),
        "cold-key-33": ("a cold key of 33 bytes", replace(parts, cold_key=octets(33)).message()),
        "certificate-of-three": (
            "a certificate of three items",
            replace(parts, certificate=array_of(octets(32), b"\x00", b"\x00")).message(),
        ),
        "indefinite-message": ("a message of indefinite length", parts.indefinite_message()),
        "indefinite-payload": ("a payload of indefinite length", parts.indefinite_payload()),
        "expiry-of-five-bytes": ("an expiry above 2^32", replace(parts, expires_at=encode(1 << 32)).message()),
    }
    return found + [check(name, sent, submit(message)) for name, (sent, message) in wrong.items()]


def _notifications(trial: Trial) -> list[Check]:
    revision, reply = trial.revision, replies(trial.revision)
    ask, name = request(revision), revision.notification.name

    def check(one: str, sent: str, payload: bytes, *expected: tuple[str, ...], then: str = CLOSED) -> Check:
        return Check(one, Begin.AGREED, "StIdle", sent, said(n.NUMBER, payload), expected, then)

    unknown, backwards = b"\x81\x18\x63", {"cip-29ffe0e": b"\x81\x02", "overview-2025-04": b"\x81\x03"}
    found = [
        check("request", "a request that need not block", ask, reply, then=OPEN),
        check("unknown-request", "message 99 of protocol 15", unknown),
        check("reply-of-the-client", "a reply instead of a request", backwards.get(name, b"\x83\x01\x9f\xff\xf4")),
    ]
    if name == "dmq":
        found += [
            check("request-of-the-seed", "MsgNextMessages of the first CIP", b"\x81\x00"),
            check("request-with-ids", "a request that acknowledges", encode([0, False, bytes(32)])),
            check("request-by-number", "1 instead of true", b"\x82\x00\x01"),
            check("done-and-asked", "MsgClientDone, then a request", b"\x81\x03" + ask, reply, then=OPEN),
        ]
    if name != "cip-29ffe0e":
        blocking = said(n.NUMBER, request(revision, blocking=True))
        found.append(
            Check(
                "blocking",
                Begin.DRAINED,
                "StIdle",
                "a blocking request when there is nothing",
                blocking,
                quiet="after",
                ping=s.NUMBER,
            )
        )
        answer = ("MsgReplyMessages",) if name == "overview-2025-04" else ("MsgReplyMessagesBlocking",)
        if trial.known is not None:
            sent = "a blocking request when there is a message"
            found.append(Check("blocking-reply", Begin.AGREED, "StIdle", sent, blocking, (answer,)))
    return found
