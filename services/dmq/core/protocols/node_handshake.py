"""The handshake between nodes: versions 1 and 2, whose data is `[magic, initiator only, peer sharing, query]`.

Both ends agree on the highest version that both know, on the smaller mode (one that only dials serves nobody over that
connection), and on peer sharing if both want it and serve each other. Where both have dialled each other at the same
moment, each reads the other's proposal as an answer, and both find the same.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from router.core.link.machine import Agency, RemoteProtocolError, Row, Table
from router.core.wire.codec import Malformed, encode
from router.core.wire.reasons import Reason

from ..cbor import Reader
from .handshake import (
    MAGIC_BITS,
    MESSAGE_BYTES_MAX,
    Answer,
    HandshakeDecodeError,
    MsgAcceptVersion,
    MsgProposeVersions,
    MsgQueryReply,
    MsgRefuse,
    Refused,
    St,
    VersionMismatch,
)

VERSIONS = (1, 2)
HELLO_S = 10.0
"""Seconds that each side has for its part."""
_ANSWERS = {MsgAcceptVersion: St.DONE, MsgRefuse: St.DONE, MsgQueryReply: St.DONE, MsgProposeVersions: St.DONE}
TABLE: Table = {
    St.PROPOSE: Row(Agency.INITIATOR, {MsgProposeVersions: St.CONFIRM}, HELLO_S, MESSAGE_BYTES_MAX),
    St.CONFIRM: Row(Agency.RESPONDER, _ANSWERS, HELLO_S, MESSAGE_BYTES_MAX),
    St.DONE: Row(Agency.NOBODY),
}
"""The table of the handshake between nodes: as with clients, but with limits in time, and with a proposal as the answer
to a proposal."""


class NodeData(Struct, frozen=True):
    """The data of both versions. `initiator_only`: the node only dials; `query`: it asks which versions there are."""

    magic: int
    initiator_only: bool = False
    peer_sharing: bool = False
    query: bool = False

    def encoded(self) -> bytes:
        return encode([self.magic, self.initiator_only, int(self.peer_sharing), self.query])


class Agreement(Struct, frozen=True):
    """What two nodes agreed on. `is_duplex`: whether each may begin protocols, not only the one that has dialled."""

    version: int
    is_duplex: bool
    shares_peers: bool


def read_node_data(data: bytes) -> NodeData:
    """Return the data of a version; raise `Malformed`."""
    reader = Reader(data)
    reader.array("the version data", 4)
    magic = reader.uint("the network magic", MAGIC_BITS)
    initiator_only, peer_sharing = reader.boolean("the mode"), reader.uint("peer sharing", 8)
    if peer_sharing > 1:
        raise Malformed(f"peer sharing is {peer_sharing}; 0 and 1 are known")
    found = NodeData(magic, initiator_only, bool(peer_sharing), reader.boolean("query"))
    reader.finish("the version data")
    return found


def propose(ours: NodeData, versions: Collection[int] = VERSIONS) -> MsgProposeVersions:
    """Return the first message of a node that dials."""
    return MsgProposeVersions({version: ours.encoded() for version in sorted(versions)})


def answer(offer: MsgProposeVersions, ours: NodeData, versions: Collection[int] = VERSIONS) -> Answer:
    """Return the answer to a node that has dialled."""
    agreed = _agreed(offer, ours, versions)
    if isinstance(agreed, MsgRefuse):
        return agreed
    version, data = agreed
    if data.query:
        return MsgQueryReply({one: ours.encoded() for one in sorted(versions)})
    return MsgAcceptVersion(version, data.encoded())


def agreement(answered: MsgAcceptVersion, ours: NodeData, versions: Collection[int] = VERSIONS) -> Agreement:
    """Return what an answer to our proposal agrees on, or our own answer; raise `Malformed` for one that is none."""
    if answered.version not in versions:
        known = " and ".join(map(str, sorted(versions)))
        raise Malformed(f"version {answered.version} was accepted, and {known} proposed")
    theirs = read_node_data(answered.data)
    if theirs.magic != ours.magic:
        raise Malformed(f"the network magic {theirs.magic} was accepted, and {ours.magic} proposed")
    return _as_agreement(answered.version, _smaller(ours, theirs))


def met(offer: MsgProposeVersions, ours: NodeData, versions: Collection[int] = VERSIONS) -> Agreement:
    """Return the agreement with a node that proposed while we did; raise `RemoteProtocolError` if there is none."""
    agreed = _agreed(offer, ours, versions)
    if isinstance(agreed, MsgRefuse):
        raise RemoteProtocolError(Reason.UNSUPPORTED, f"both have dialled, and do not agree: {said_in(agreed)}")
    version, data = agreed
    return _as_agreement(version, data)


def said_in(refused: MsgRefuse) -> str:
    """Return a refusal in words."""
    match refused.reason:
        case VersionMismatch(versions):
            known = ", ".join(map(str, versions)) or "no version"
            return f"it speaks {known} between nodes, not {' or '.join(map(str, VERSIONS))}"
        case HandshakeDecodeError(version, text) | Refused(version, text):
            return f"of version {version} it says: {text}"


def _agreed(offer: MsgProposeVersions, ours: NodeData, versions: Collection[int]) -> tuple[int, NodeData] | MsgRefuse:
    common = [version for version in offer.versions if version in versions]
    if not common:
        return MsgRefuse(VersionMismatch(tuple(sorted(versions))))
    version = max(common)
    try:
        theirs = read_node_data(offer.versions[version])
    except Malformed as error:
        return MsgRefuse(HandshakeDecodeError(version, str(error)))
    if theirs.magic != ours.magic:
        text = f"version data mismatch: the network magic is {theirs.magic}, and {ours.magic} on this node"
        return MsgRefuse(Refused(version, text))
    return version, _smaller(ours, theirs)


def _smaller(ours: NodeData, theirs: NodeData) -> NodeData:
    """Return what both data have in common."""
    initiator_only = ours.initiator_only or theirs.initiator_only
    shares_peers = ours.peer_sharing and theirs.peer_sharing and not initiator_only
    return NodeData(ours.magic, initiator_only, shares_peers, ours.query or theirs.query)


def _as_agreement(version: int, data: NodeData) -> Agreement:
    return Agreement(version, not data.initiator_only, data.peer_sharing)
