"""DMQ nodes with one deliberate fault each, and the check that must find it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import cycle
from typing import Any, NamedTuple

import trio
from msgspec.structs import replace
from samples.dmq import POOLS

from rigs.plain_dmq_node import PlainClient, PlainNode
from router.core.link.machine import Agency, RemoteProtocolError
from router.core.wire.codec import Malformed, decode, encode
from router.core.wire.reasons import Reason
from services.dmq.core.cbor import ItemScanner, array_of
from services.dmq.core.messages.fault import Fault, Rejected
from services.dmq.core.messages.signed_message import BodyBounds, Dmq05, SignedMessage
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import mux
from services.dmq.core.protocols import notification as n
from services.dmq.core.protocols import submission as s
from services.dmq.core.protocols.client_session import Session
from services.dmq.core.protocols.mux import HEAD

RESPONDER = 0x8000
Change = Callable[[PlainNode], None]


class Faulty(NamedTuple):
    """A fault: how to put it into a node, the check that finds it, and whether only a missing message shows it."""

    put: Change
    check: str
    is_silence: bool = False


def greets(answer: Callable[[PlainNode, h.MsgProposeVersions], h.Answer]) -> Change:
    def put(node: PlainNode) -> None:
        node.greets = lambda offer: answer(node, offer)  # type: ignore[method-assign]

    return put


def reads(taken: Callable[[int, bytes], Iterable[tuple[int, bytes]]]) -> Change:
    """Replace the SDUs that the node reads."""

    def put(node: PlainNode) -> None:
        node.reads = taken  # type: ignore[method-assign,assignment]

    return put


def takes_for(number: int, wrong: bytes, right: bytes) -> Change:
    """Take a payload for another one; without `right`, ignore it."""
    return reads(lambda numbered, payload: (
        [(numbered, payload)] if (numbered, payload) != (number, wrong) else [(number, right)] if right else []
    ))  # fmt: skip


def rewrites(number: int, change: Callable[[bytes], bytes]) -> Change:
    return reads(lambda numbered, payload: [(numbered, change(payload) if numbered == number else payload)])


def passes(*faults: Fault) -> Change:
    """Accept messages that have one of the faults."""

    def put(node: PlainNode) -> None:
        judges = node.judges
        node.judges = lambda message: _unless(judges(message), faults)  # type: ignore[method-assign]

    return put


def _unless(rejected: Rejected | None, faults: tuple[Fault, ...]) -> Rejected | None:
    return None if rejected is None or rejected.fault in faults else rejected


def rejects(name: Callable[[SignedMessage], bool], fault: Fault) -> Change:
    def put(node: PlainNode) -> None:
        judges = node.judges
        node.judges = lambda message: Rejected(fault) if name(message) else judges(message)  # type: ignore[method-assign]

    return put


def answers(change: Callable[[s.Message], s.Message]) -> Change:
    def put(node: PlainNode) -> None:
        right = node.answers
        node.answers = lambda rejected: change(right(rejected))  # type: ignore[method-assign]

    return put


def writes(number: int, change: Callable[[bytes], bytes]) -> Change:
    """Change the payloads of a protocol before they are written."""

    def put(node: PlainNode) -> None:
        def written(sdu: bytes) -> bytes:
            _, numbered, _ = HEAD.unpack_from(sdu)
            payload = sdu[HEAD.size :]
            return mux.sdu((number, Agency.RESPONDER), change(payload), 0) if numbered == number | RESPONDER else sdu

        node.writes = written  # type: ignore[method-assign]

    return put


def writes_sdus(change: Callable[[bytes], bytes]) -> Change:
    def put(node: PlainNode) -> None:
        node.writes = change  # type: ignore[method-assign,assignment]

    return put


def gives(change: Callable[[PlainClient, list[SignedMessage]], list[SignedMessage]]) -> Change:
    def put(node: PlainNode) -> None:
        right = node.gives
        node.gives = lambda client: change(client, right(client))  # type: ignore[method-assign]

    return put


def sets(**values: Any) -> Change:
    def put(node: PlainNode) -> None:
        for name, value in values.items():
            setattr(node, name, value)

    return put


def reads_bodies(bounds: BodyBounds) -> Change:
    def put(node: PlainNode) -> None:
        node.revision = node.revision._replace(encoding=Dmq05(bounds))

    return put


def notifies(encoded: Callable[[Any, bytes], bytes]) -> Change:
    """Change the encoding of messages in notification."""

    def put(node: PlainNode) -> None:
        right = node.revision.notification
        told = right._replace(encode=lambda message: encoded(message, right.encode(message)))
        node.revision = node.revision._replace(notification=told)

    return put


def stays_after_the_last_word(node: PlainNode) -> None:
    async def sleep(client: PlainClient) -> None:
        await trio.sleep_forever()

    node.at_end = sleep  # type: ignore[method-assign]


def speaks_unasked(node: PlainNode) -> None:
    async def speak(client: PlainClient) -> None:
        await client.stream.send_all(mux.sdu((n.NUMBER, Agency.RESPONDER), b"\x83\x01\x9f\xff\xf4", 0))

    node.after_handshake = speak  # type: ignore[method-assign]


def ends_after(number: int) -> Change:
    """End the connection when a protocol is done."""

    class Ends(Session):
        def _ends_with(self, message: Any) -> bool:
            return isinstance(message, s.MsgDone if number == s.NUMBER else n.MsgClientDone)

    return sets_session(Ends)


class EndsAfterReject(Session):
    """Ends a session after a reject, as the implementation of seed 001 does."""

    def _ends_with(self, message: Any) -> bool:
        return isinstance(message, s.MsgRejectMessage)


def sets_session(kind: type[Session]) -> Change:
    def put(node: PlainNode) -> None:
        node.session = lambda: kind(Agency.RESPONDER, node.revision)  # type: ignore[method-assign]

    return put


def one_cursor_for_all(node: PlainNode) -> None:
    given = 0

    def rest(client: PlainClient) -> list[SignedMessage]:
        nonlocal given
        found, given = node.held[given:], len(node.held)
        client.cursor = given
        return found

    node.gives = rest  # type: ignore[method-assign]


def _accept(version: int, data: bytes) -> h.Answer:
    return h.MsgAcceptVersion(version, data)


def any_magic(node: PlainNode, offer: h.MsgProposeVersions) -> h.Answer:
    data = offer.versions.get(4097)
    return h.answer(offer, h.read_client_data(data).magic if data else node.magic)


def known_only(node: PlainNode, offer: h.MsgProposeVersions) -> h.Answer:
    return h.MsgRefuse(h.VersionMismatch((4097,))) if set(offer.versions) - {4097} else h.answer(offer, node.magic)


def bare_magic(node: PlainNode, offer: h.MsgProposeVersions) -> h.Answer:
    if offer.versions.get(4097) == encode(node.magic):
        return _accept(4097, h.ClientData(node.magic).encoded())
    return h.answer(offer, node.magic)


def other_data(node: PlainNode, offer: h.MsgProposeVersions) -> h.Answer:
    answer = h.answer(offer, node.magic)
    return _accept(4097, h.ClientData(1).encoded()) if isinstance(answer, h.MsgAcceptVersion) else answer


def query_is_no_query(node: PlainNode, offer: h.MsgProposeVersions) -> h.Answer:
    answer = h.answer(offer, node.magic)
    return _accept(4097, offer.versions[4097]) if isinstance(answer, h.MsgQueryReply) else answer


def mismatch_for_all(node: PlainNode, offer: h.MsgProposeVersions) -> h.Answer:
    answer = h.answer(offer, node.magic)
    return h.MsgRefuse(h.VersionMismatch((4097,))) if isinstance(answer, h.MsgRefuse) else answer


def no_known_versions(node: PlainNode, offer: h.MsgProposeVersions) -> h.Answer:
    return h.answer(offer, node.magic) if 4097 in offer.versions else h.MsgRefuse(h.VersionMismatch(()))


def takes_4096(node: PlainNode, offer: h.MsgProposeVersions) -> h.Answer:
    return _accept(4096, offer.versions[4096]) if set(offer.versions) == {4096} else h.answer(offer, node.magic)


def shortest_numbers(numbered: int, payload: bytes) -> Iterable[tuple[int, bytes]]:
    """Refuse numbers that are not encoded in the shortest form."""
    if numbered == h.NUMBER and len(payload) > 1:
        try:
            decode(payload, 400)
        except Malformed as error:
            raise RemoteProtocolError(Reason.MALFORMED, str(error)) from None
    yield numbered, payload


def sorted_versions(payload: bytes) -> bytes:
    return payload if payload[:3] != b"\x82\x00\xa2" else h.encode_message(h.propose(int.from_bytes(payload[8:12])))


def first_item(numbered: int, payload: bytes) -> Iterable[tuple[int, bytes]]:
    """Ignore the bytes that follow the first message in an SDU."""
    end = ItemScanner().end_in(payload) if payload and payload != b"\xff" else None
    yield numbered, payload[:end]


def whole_items(numbered: int, payload: bytes) -> Iterable[tuple[int, bytes]]:
    """Ignore SDUs that are not a whole message."""
    if numbered != s.NUMBER or ItemScanner().end_in(payload) is not None:
        yield numbered, payload


def short_sdus(numbered: int, payload: bytes) -> Iterable[tuple[int, bytes]]:
    if len(payload) > 12_288:
        raise RemoteProtocolError(Reason.TOO_LARGE, "a long SDU")
    yield numbered, payload


def first_of_a_kind(number: int) -> Change:
    """Ignore all SDUs of a protocol but the first that reaches the node."""
    seen = iter((True,))
    return drops(lambda numbered, _: numbered != number or next(seen, False))


def drops(wanted: Callable[[int, bytes], bool]) -> Change:
    return reads(lambda numbered, payload: [(numbered, payload)] if wanted(numbered, payload) else [])


def definite_submission(payload: bytes) -> bytes:
    return b"\x82\x00" + payload[2:-1] if payload[:2] == b"\x9f\x00" else payload


def definite_message(payload: bytes) -> bytes:
    return b"\x82\x00\x85" + payload[3:-1] if payload[:3] == b"\x82\x00\x9f" else payload


def two_items(payload: bytes) -> bytes:
    return b"\x82\x00" + payload[2:-1] if payload[:2] == b"\x83\x00" else payload


def shortest_period(message: SignedMessage) -> SignedMessage:
    """Return the message decoded and encoded again."""
    payload = array_of(encode(message.body), encode(message.kes_period), encode(message.expires_at))
    return replace(message, wire=message.wire.replace(message.signed, payload))


def is_long(message: SignedMessage) -> bool:
    return b"\x1a\x00\x00" in message.signed[-12:]


def every_other_backwards() -> Callable[[PlainClient, list[SignedMessage]], list[SignedMessage]]:
    steps = cycle((1, -1))
    return lambda client, found: found[:: next(steps)] if found else found


def holds_a_dead_message(node: PlainNode) -> None:
    wire = node.revision.encoding.write(POOLS[1].draft(expires_at=1))
    node.held.append(node.revision.encoding.read(wire))


FAULTS: dict[str, Faulty] = {
    "takes any magic": Faulty(greets(any_magic), "wrong-magic"),
    "takes version 4096": Faulty(greets(takes_4096), "wrong-version"),
    "refuses versions that it does not know": Faulty(greets(known_only), "more-versions"),
    "takes a magic alone": Faulty(greets(bare_magic), "version-data"),
    "accepts another magic than was proposed": Faulty(greets(other_data), "accept"),
    "takes a query for a proposal": Faulty(greets(query_is_no_query), "query"),
    "says mismatch whatever is wrong": Faulty(greets(mismatch_for_all), "wrong-magic"),
    "names no versions in a mismatch": Faulty(greets(no_known_versions), "wrong-version"),
    "stays after a refusal": Faulty(stays_after_the_last_word, "wrong-magic", True),
    "stays after a query": Faulty(stays_after_the_last_word, "query", True),
    "refuses long numbers": Faulty(reads(shortest_numbers), "long-numbers"),
    "sorts versions": Faulty(rewrites(h.NUMBER, sorted_versions), "unordered-versions"),
    "takes the handshake in either direction": Faulty(
        reads(lambda numbered, payload: [(numbered & ~RESPONDER if numbered == RESPONDER else numbered, payload)]),
        "handshake-direction",
    ),
    "passes over a second handshake": Faulty(first_of_a_kind(h.NUMBER), "second-handshake", True),
    "gives up a client that is silent": Faulty(sets(idle_s=0.001), "idle"),
    "gives up a client that has not begun": Faulty(sets(idle_s=0.0), "idle-before-handshake"),
    "speaks unasked": Faulty(speaks_unasked, "idle"),
    "passes over empty SDUs": Faulty(drops(lambda _, payload: bool(payload)), "empty-sdu", True),
    "passes over unknown protocols": Faulty(drops(lambda numbered, _: numbered < 99), "unknown-protocol", True),
    "takes either direction": Faulty(
        reads(lambda numbered, payload: [(numbered & ~RESPONDER, payload)]), "wrong-direction", True
    ),
    "writes in the wrong direction": Faulty(writes_sdus(lambda one: one[:4] + bytes(2) + one[6:]), "accept"),
    "writes empty SDUs": Faulty(writes_sdus(lambda one: one[:6] + bytes(2) + one), "accept"),
    "reads one message an SDU": Faulty(reads(first_item), "two-in-one-sdu", True),
    "reads only whole messages": Faulty(reads(whole_items), "split-message"),
    "reads only short SDUs": Faulty(reads(short_sdus), "long-sdu"),
    "takes what has expired": Faulty(passes(Fault.EXPIRED), "expired"),
    "takes every pool": Faulty(passes(Fault.UNKNOWN_POOL), "unknown-pool"),
    "takes any expiry": Faulty(passes(Fault.EXPIRY_TOO_FAR), "expiry-too-far"),
    "takes any id": Faulty(passes(Fault.WRONG_ID), "wrong-id"),
    "takes any KES signature": Faulty(passes(Fault.BAD_SIGNATURE), "kes-signature"),
    "takes any certificate": Faulty(passes(Fault.BAD_CERTIFICATE), "certificate"),
    "refuses numbers that are long": Faulty(rejects(is_long, Fault.WRONG_ID), "taken"),
    "takes replays": Faulty(passes(Fault.DUPLICATE), "replay"),
    "calls all rejects invalid": Faulty(
        answers(lambda one: s.MsgRejectMessage(s.RejectKind.INVALID, "no") if isinstance(one, s.MsgRejectMessage)
                else one), "expired"),
    "writes two items where one belongs": Faulty(
        writes(s.NUMBER, lambda payload: payload.replace(b"\x82\x02\x81\x02", b"\x82\x02\x82\x02\x60")), "expired"
    ),
    "ends after a reject": Faulty(sets_session(EndsAfterReject), "expired"),
    "ends when the signer is done": Faulty(ends_after(s.NUMBER), "done-and-again"),
    "ends when the consumer is done": Faulty(ends_after(n.NUMBER), "done-and-asked"),
    "takes short bodies": Faulty(reads_bodies(BodyBounds(0, 2000)), "body-89"),
    "takes long bodies": Faulty(reads_bodies(BodyBounds(90, 3000)), "body-2001"),
    "passes over a third item": Faulty(rewrites(s.NUMBER, two_items), "submission-of-three"),
    "takes a submission of indefinite length": Faulty(rewrites(s.NUMBER, definite_submission), "indefinite-submission"),
    "takes a message of indefinite length": Faulty(rewrites(s.NUMBER, definite_message), "indefinite-message"),
    "passes over what is no CBOR": Faulty(takes_for(s.NUMBER, b"\xff", b""), "no-cbor", True),
    "passes over what is out of turn": Faulty(takes_for(s.NUMBER, b"\x81\x01", b""), "out-of-turn", True),
    "passes over unknown messages": Faulty(takes_for(n.NUMBER, b"\x81\x18\x63", b""), "unknown-request", True),
    "takes 1 for true": Faulty(takes_for(n.NUMBER, b"\x82\x00\x01", b"\x82\x00\xf4"), "request-by-number"),
    "takes a request of the seed": Faulty(takes_for(n.NUMBER, b"\x81\x00", b"\x82\x00\xf4"), "request-of-the-seed"),
    "answers a blocking request with nothing": Faulty(sets(is_patient=False), "blocking"),
    "writes lists of definite length": Faulty(
        notifies(lambda message, right: array_of(b"\x01", b"\x80", b"\xf4")
                 if isinstance(message, n.MsgReplyMessagesNonBlocking) and not message.messages else right), "request"),
    "says whether there is more in a blocking reply": Faulty(
        notifies(lambda message, right: b"\x83" + right[1:] + b"\xf4"
                 if isinstance(message, n.MsgReplyMessagesBlocking) else right), "blocking-reply"),
    "writes the head of a list of three": Faulty(
        notifies(lambda message, right: b"\x83" + right[1:]
                 if isinstance(message, n.MsgReplyMessagesBlocking) else right), "blocking-reply"),
    "always says that there is more": Faulty(
        notifies(lambda message, right: right[:-1] + b"\xf5"
                 if isinstance(message, n.MsgReplyMessagesNonBlocking) else right), "order"),
    "gives messages twice": Faulty(gives(lambda client, found: found * 2), "order"),
    "gives messages in another order to the next": Faulty(gives(every_other_backwards()), "order"),
    "gives what has expired": Faulty(holds_a_dead_message, "order"),
    "gives messages to the first consumer alone": Faulty(one_cursor_for_all, "order"),
    "encodes messages again": Faulty(gives(lambda client, found: list(map(shortest_period, found))), "given"),
}  # fmt: skip
