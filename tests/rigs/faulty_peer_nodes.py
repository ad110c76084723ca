"""DMQ nodes between nodes with one deliberate fault each, and the check that must find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rigs.plain_peer_node import MAGIC, PlainPeer
from router.core.link.machine import Agency
from router.core.wire.codec import encode
from services.dmq.core.conformance.judging import CLOSED
from services.dmq.core.conformance.node_checks import COOKIE, NodeCheck, NodeStage, NodeTrial, node_checks
from services.dmq.core.messages.trial_messages import long_number
from services.dmq.core.protocols import handshake as h
from services.dmq.core.protocols import keep_alive as ka
from services.dmq.core.protocols import message_submission as ms
from services.dmq.core.protocols import mux
from services.dmq.core.protocols import node_handshake as nh
from services.dmq.core.protocols.mux import HEAD, RESPONDER_BIT
from services.dmq.core.protocols.node_handshake import NodeData

Change = Callable[[PlainPeer], None]
HANDSHAKE, SUBMISSION, KEEP_ALIVE = h.NUMBER, ms.NUMBER, ka.NUMBER
PROPOSED = NodeData(MAGIC, initiator_only=True)


class FaultyPeer(NamedTuple):
    """A fault: how to put it into a node, and the check that finds it."""

    put: Change
    check: str


def sets(**values: Any) -> Change:
    def put(node: PlainPeer) -> None:
        for name, value in values.items():
            setattr(node, name, value)

    return put


def writes(number: int, change: Callable[[bytes], bytes]) -> Change:
    """Change the answers of a protocol before they are written."""

    def written(said: bytes) -> bytes:
        _, numbered, _ = HEAD.unpack_from(said)
        if numbered & ~RESPONDER_BIT != number:
            return said
        by = Agency.RESPONDER if numbered & RESPONDER_BIT else Agency.INITIATOR
        return mux.sdu((number, by), change(said[HEAD.size :]), 0)

    return sets(writes=written)


def instead(number: int, wrong: bytes, right: bytes) -> Change:
    """Write these bytes in place of a right answer."""
    return writes(number, lambda said: wrong if said == right else said)


def tolerates(check: NodeCheck) -> Change:
    """Take what a node has to close at for a keep-alive, or before the handshake for the right proposal."""
    sdus, data = [], check.steps[0].data
    while data:
        _, numbered, size = HEAD.unpack_from(data)
        sdus.append((numbered, data[HEAD.size : HEAD.size + size]))
        data = data[HEAD.size + size :]
    taken = KEEP_ALIVE, ka.encode_message(ka.MsgKeepAlive(7))
    if check.stage is NodeStage.CONNECTED:
        taken = HANDSHAKE, h.encode_message(nh.propose(PROPOSED))
    return sets(reads=lambda numbered, payload: [taken if (numbered, payload) == sdus[0] else (numbered, payload)])


def faults(trial: NodeTrial) -> dict[str, FaultyPeer]:
    """Return the faulty nodes by name; of what a node has to close at, one that does not for each check."""
    kept_open = {
        f"tolerates {check.name}": FaultyPeer(tolerates(check), check.name)
        for check in node_checks(trial)
        if check.then == CLOSED and len(check.steps) == 1 and not check.steps[0].expected and check.name not in _OTHERS
    }
    return kept_open | _ANSWERS | _RULES


_OTHERS = ("empty-sdu", "long-request", "ids-not-requested", "early-request", "early-keep-alive")
"""Checks whose bytes no plain node gets as one SDU, or that are those of other checks."""


def _accepts(version: int, data: NodeData) -> bytes:
    return h.encode_message(h.MsgAcceptVersion(version, data.encoded()))


_DUPLEX = NodeData(MAGIC, peer_sharing=True)
_PONG = ka.encode_message(ka.MsgKeepAliveResponse(COOKIE))
_MISMATCH = h.encode_message(h.MsgRefuse(h.VersionMismatch((1, 2))))
_BOTH = h.encode_message(h.MsgQueryReply({1: _DUPLEX.encoded(), 2: _DUPLEX.encoded()}))
_ANSWERS = {
    "answers the lower version": FaultyPeer(instead(HANDSHAKE, _accepts(1, PROPOSED), _accepts(2, PROPOSED)), "accept"),
    "answers its own mode": FaultyPeer(instead(HANDSHAKE, _accepts(2, _DUPLEX), _accepts(2, PROPOSED)), "accept"),
    "shares over one direction": FaultyPeer(
        instead(HANDSHAKE, _accepts(2, NodeData(MAGIC, True, True)), _accepts(2, PROPOSED)), "no-sharing"
    ),
    "answers data of clients": FaultyPeer(
        instead(HANDSHAKE, encode([1, 2, [MAGIC, False]]), _accepts(2, PROPOSED)), "version-2"
    ),
    "does not know version 1": FaultyPeer(instead(HANDSHAKE, _MISMATCH, _accepts(1, PROPOSED)), "version-1"),
    "names one version alone": FaultyPeer(
        instead(HANDSHAKE, h.encode_message(h.MsgRefuse(h.VersionMismatch((2,)))), _MISMATCH), "wrong-version"
    ),
    "names its versions in an indefinite list": FaultyPeer(
        instead(HANDSHAKE, b"\x82\x02\x82\x00\x9f\x01\x02\xff", _MISMATCH), "client-version"
    ),
    "answers a query with one version": FaultyPeer(
        instead(HANDSHAKE, h.encode_message(h.MsgQueryReply({2: _DUPLEX.encoded()})), _BOTH), "query"
    ),
    "answers another cookie": FaultyPeer(
        instead(KEEP_ALIVE, ka.encode_message(ka.MsgKeepAliveResponse(COOKIE - 1)), _PONG), "keep-alive"
    ),
    "answers a long cookie": FaultyPeer(instead(KEEP_ALIVE, b"\x82\x01" + long_number(COOKIE), _PONG), "long-cookie"),
    "asks where it should answer": FaultyPeer(
        instead(KEEP_ALIVE, ka.encode_message(ka.MsgKeepAlive(COOKIE)), _PONG), "split-keep-alive"
    ),
    "ends keep-alive": FaultyPeer(instead(KEEP_ALIVE, b"\x81\x02", _PONG), "done-and-alive"),
    "writes bodies in a definite list": FaultyPeer(
        instead(SUBMISSION, b"\x82\x05\x80", b"\x82\x05\x9f\xff"), "no-bodies"
    ),
    "writes ids in a definite list": FaultyPeer(
        writes(SUBMISSION, lambda said: said.replace(b"\x82\x02\x9f", b"\x82\x02\x81").rstrip(b"\xff")), "at-once"
    ),
    "answers bodies by the CIP's text": FaultyPeer(
        instead(SUBMISSION, b"\x82\x04\x9f\xff", b"\x82\x05\x9f\xff"), "no-bodies"
    ),
}
_RULES = {
    "lets more bodies be asked for": FaultyPeer(sets(has=lambda *_: True), "unavailable-sig"),
    "lets the window be any": FaultyPeer(sets(judges=lambda *_: True), "window-of-133"),
    "takes any body": FaultyPeer(sets(checks_bodies=lambda *_: True), "sig-not-requested"),
    "takes any size": FaultyPeer(sets(checks_bodies=lambda *_: True), "size-error"),
    "takes a wrong id": FaultyPeer(sets(checks_bodies=lambda *_: True), "invalid-sig-id"),
}
