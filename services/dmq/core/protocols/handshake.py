"""The handshake: both ends agree on a version and a network (CIP-137, "Network node handshaking").

    [0, {version => data}]                 MsgProposeVersions
    [1, version, data]                     MsgAcceptVersion
    [2, [0, [*version]]] and other reasons MsgRefuse
    [3, {version => data}]                 MsgQueryReply

A node's clients speak version 4097 (1, and bit 12 for a client), whose data is `[network magic, query]`. The data of
unknown versions is skipped, so it may be anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from msgspec import Struct

from router.core.link.machine import Agency, Row, Table
from router.core.wire.codec import Malformed, encode, head
from router.core.wire.text import clean

from ..cbor import MAP, Reader, array_of

NUMBER = 0
"""The protocol's number in the multiplexer."""
CLIENT_VERSION = 4097
MAGICS = {"mainnet": 2_912_307_721, "preprod": 2_147_483_649, "preview": 2_147_483_650}
MAGIC_BITS = 32
VERSION_BITS = 64
VERSIONS_MAX = 64
TEXT_BYTES_MAX = 1024
MESSAGE_BYTES_MAX = 5760
NO_PLACE = "no place"
"""How the text of a refusal begins if the node is full."""
DATA_MAX = 64
"""How many different data of versions are remembered as they were read."""


class MsgProposeVersions(Struct, frozen=True):
    """The versions that a client offers, each with its data as encoded."""

    versions: Mapping[int, bytes]


class MsgAcceptVersion(Struct, frozen=True):
    """The version that the node has chosen, with its data as encoded."""

    version: int
    data: bytes


class MsgQueryReply(Struct, frozen=True):
    """The versions that the node speaks, for a client that only asked; the connection ends with it."""

    versions: Mapping[int, bytes]


class VersionMismatch(Struct, frozen=True):
    """None of the offered versions is known; these are."""

    versions: tuple[int, ...]


class HandshakeDecodeError(Struct, frozen=True):
    """The data of the highest common version cannot be read."""

    version: int
    text: str


class Refused(Struct, frozen=True):
    """The data of the highest common version was read, and does not suit."""

    version: int
    text: str


class MsgRefuse(Struct, frozen=True):
    """The node's refusal; the connection ends with it."""

    reason: VersionMismatch | HandshakeDecodeError | Refused


Answer = MsgAcceptVersion | MsgRefuse | MsgQueryReply
Message = MsgProposeVersions | Answer


class St(Enum):
    """The states of the handshake."""

    PROPOSE = "StPropose"
    CONFIRM = "StConfirm"
    DONE = "StDone"


TABLE: Table = {
    St.PROPOSE: Row(Agency.INITIATOR, {MsgProposeVersions: St.CONFIRM}, bytes_max=MESSAGE_BYTES_MAX),
    St.CONFIRM: Row(
        Agency.RESPONDER, {MsgAcceptVersion: St.DONE, MsgRefuse: St.DONE, MsgQueryReply: St.DONE},
        bytes_max=MESSAGE_BYTES_MAX,
    ),
    St.DONE: Row(Agency.NOBODY),
}  # fmt: skip


class ClientData(Struct, frozen=True):
    """The data of version 4097: the network, and whether the client only asks which versions there are."""

    magic: int
    query: bool = False

    def encoded(self) -> bytes:
        return encode([self.magic, self.query])


@lru_cache(DATA_MAX)
def read_client_data(data: bytes) -> ClientData:
    """Return the data of version 4097; raise `Malformed` for anything but `[magic, query]`."""
    reader = Reader(data)
    reader.array("the version data", 2)
    found = ClientData(reader.uint("the network magic", MAGIC_BITS), reader.boolean("query"))
    reader.finish("the version data")
    return found


def propose(magic: int, *, query: bool = False) -> MsgProposeVersions:
    """Return a client's first message."""
    return MsgProposeVersions({CLIENT_VERSION: ClientData(magic, query).encoded()})


def answer(offer: MsgProposeVersions, magic: int) -> Answer:
    """Return a node's answer to a client: the highest version that both know, on the same network, or the refusal."""
    if CLIENT_VERSION not in offer.versions:
        return MsgRefuse(VersionMismatch((CLIENT_VERSION,)))
    try:
        data = read_client_data(offer.versions[CLIENT_VERSION])
    except Malformed as error:
        return MsgRefuse(HandshakeDecodeError(CLIENT_VERSION, str(error)))
    if data.magic != magic:
        text = f"version data mismatch: the network magic is {data.magic}, and {magic} on this node"
        return MsgRefuse(Refused(CLIENT_VERSION, text))
    if data.query:
        return MsgQueryReply({CLIENT_VERSION: ClientData(magic).encoded()})
    return _accepted(data)


def no_place(text: str) -> MsgRefuse:
    """Return the answer to a client that would be accepted if there were a place; `text` begins with `NO_PLACE`."""
    return MsgRefuse(Refused(CLIENT_VERSION, text))


@lru_cache(1)
def _accepted(data: ClientData) -> MsgAcceptVersion:
    return MsgAcceptVersion(CLIENT_VERSION, data.encoded())


def check_accepted(answer: MsgAcceptVersion) -> ClientData:
    """Return the agreement of a client and its node; raise `Malformed` for a version that was not proposed."""
    if answer.version != CLIENT_VERSION:
        raise Malformed(f"version {answer.version} was accepted, and {CLIENT_VERSION} proposed")
    return read_client_data(answer.data)


def encode_message(message: Message) -> bytes:
    match message:
        case MsgProposeVersions(versions):
            return array_of(b"\x00", _versions(versions))
        case MsgAcceptVersion(version, data):
            return array_of(b"\x01", head(version, 0), data)
        case MsgRefuse(reason):
            return array_of(b"\x02", _refusal(reason))
        case MsgQueryReply(versions):
            return array_of(b"\x03", _versions(versions))


def decode_message(data: bytes) -> Message:
    """Return the message; raise `Malformed` for any other bytes."""
    reader = Reader(data)
    length = reader.array("a message of the handshake", 2, 3)
    kind = reader.uint("its number", 8)
    if length != (3 if kind == 1 else 2) or kind > 3:
        raise Malformed(f"message {kind} of {length} items is not one of the handshake")
    found = _read(reader, kind)
    reader.finish("the message")
    return found


def _read(reader: Reader, kind: int) -> Message:
    if kind == 1:
        version = reader.uint("the version", VERSION_BITS)
        return MsgAcceptVersion(version, reader.data[reader.skip()])
    if kind == 2:
        return MsgRefuse(_read_refusal(reader))
    versions = _read_versions(reader)
    return MsgQueryReply(versions) if kind == 3 else MsgProposeVersions(versions)


def _read_versions(reader: Reader) -> dict[int, bytes]:
    versions: dict[int, bytes] = {}
    for _ in range(reader.map("the map of versions", VERSIONS_MAX)):
        version = reader.uint("a version", VERSION_BITS)
        if version <= max(versions, default=-1):
            raise Malformed(f"version {version} stands out of order (unordered version)")
        versions[version] = reader.data[reader.skip()]
    return versions


def _read_refusal(reader: Reader) -> VersionMismatch | HandshakeDecodeError | Refused:
    length = reader.array("the reason", 2, 3)
    kind = reader.uint("its number", 8)
    if length != (2 if kind == 0 else 3) or kind > 2:
        raise Malformed(f"reason {kind} of {length} items is not one of the handshake")
    if kind == 0:
        return VersionMismatch(
            tuple(reader.uint("a version", VERSION_BITS) for _ in reader.items("the versions", VERSIONS_MAX))
        )
    version, text = reader.uint("the version", VERSION_BITS), reader.text("the text", TEXT_BYTES_MAX)
    return HandshakeDecodeError(version, text) if kind == 1 else Refused(version, text)


def _versions(versions: Mapping[int, bytes]) -> bytes:
    return head(len(versions), MAP) + b"".join(head(number, 0) + versions[number] for number in sorted(versions))


def _refusal(reason: VersionMismatch | HandshakeDecodeError | Refused) -> bytes:
    match reason:
        case VersionMismatch(versions):
            return encode([0, list(versions)])
        case HandshakeDecodeError(version, text):
            return encode([1, version, clean(text, TEXT_BYTES_MAX)])
        case Refused(version, text):
            return encode([2, version, clean(text, TEXT_BYTES_MAX)])
