"""The messages in packets: greetings, pings and commands; and the limits of payloads, checked before they are read."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from hashlib import sha256

from msgspec import Struct

from services.capd.core.message import ID_BYTES, SECRET_BYTES_MAX
from services.capd.core.serialisation import Reader, vector

from . import commands, own_commands
from .envelope import Packet
from .greeting import EXTVERSION_BYTES_MAX, Version, encode_extversion, read_extversion, read_version

SMALL_BYTES_MAX = 1_024
MESSAGES_BYTES_MAX = 32 << 20
"""Longest payload with messages: a Nexa node answers a request for ids in one packet, however long the messages are."""
MALFORMED_CODE, OBSOLETE_CODE = 1, 17
PARSING = "error parsing message"
"""The text of a rejection of what cannot be read."""
_U64 = struct.Struct("<Q")


class ExtVersion(Struct, frozen=True):
    """A node's declarations about itself, as numbers by their keys."""

    values: Mapping[int, int]


class Verack(Struct, frozen=True):
    """The end of a node's greeting."""


class Ping(Struct, frozen=True):
    """A request for a `Pong` with the same number."""

    nonce: int


class Pong(Struct, frozen=True):
    """The answer to a `Ping`."""

    nonce: int


class Reject(Struct, frozen=True):
    """A report that a command could not be read, or, with another code, that a version is too old."""

    command: str
    text: str
    code: int = MALFORMED_CODE


Greeting = Version | ExtVersion | Verack
Command = commands.Command | own_commands.OwnCommand
Message = Greeting | Ping | Pong | Reject | Command
COMMANDS: tuple[type, ...] = (
    commands.GetInfo, commands.PoolLines, commands.Inv, commands.GetMsg, commands.Msg, commands.PrefixQuery,
    commands.MessagesReply, commands.IdsReply, commands.BadLengthReply, commands.Remove,
    own_commands.MaskedQuery, own_commands.GetHeld, own_commands.HeldIds, own_commands.RescindSecrets,
)  # fmt: skip
PAYLOADS: Mapping[str, int] = {
    "version": SMALL_BYTES_MAX,
    "extversion": EXTVERSION_BYTES_MAX,
    "xversion": EXTVERSION_BYTES_MAX,
    "verack": SMALL_BYTES_MAX,
    "ping": SMALL_BYTES_MAX,
    "pong": SMALL_BYTES_MAX,
    "capdgetinfo": SMALL_BYTES_MAX,
    "capdinfo": SMALL_BYTES_MAX,
    "capdinv": 2 * commands.INV_IDS_MAX * ID_BYTES,
    "capdgetmsg": 2 * commands.GET_IDS_MAX * ID_BYTES,
    "capdmsg": MESSAGES_BYTES_MAX,
    "capdq": SMALL_BYTES_MAX,
    "capdqreply": MESSAGES_BYTES_MAX,
    "capdremove": SMALL_BYTES_MAX,
    "capdmaskq": SMALL_BYTES_MAX,
    "capdgetheld": SMALL_BYTES_MAX,
    "capdheld": SMALL_BYTES_MAX + own_commands.HELD_IDS_MAX * ID_BYTES,
    "capdrescind": SMALL_BYTES_MAX + own_commands.SECRETS_MAX * (SECRET_BYTES_MAX + 3),
}
"""The longest payload in bytes, by command; the payload of any other command is skipped."""


def read_packet(packet: Packet) -> Message | None:
    """Return the message in a packet; None for an unknown command. Raise `Malformed` for a bad payload."""
    name, payload = packet.command, packet.payload
    match name:
        case "version":
            return read_version(payload)
        case "extversion":
            return ExtVersion(read_extversion(payload))
        case "xversion":  # an older form, which declares no pool
            return ExtVersion({})
        case "verack":
            return Verack()
        case "ping":
            return Ping(Reader(payload).uint(8, "the nonce"))
        case "pong":
            return Pong(_nonce(payload))
    if (read := own_commands.OWN_READERS.get(name)) is not None:
        return read(Reader(payload))
    return commands.decode_command(name, payload)


def packet_of(message: Message, cookie: int = 0) -> Packet:
    """Return the packet of a message."""
    match message:
        case Version():
            return Packet("version", message.encoded(), cookie)
        case ExtVersion(values):
            return Packet("extversion", encode_extversion(values), cookie)
        case Verack():
            return Packet("verack", b"", cookie)
        case Ping(nonce):
            return Packet("ping", _U64.pack(nonce), cookie)
        case Pong(nonce):
            return Packet("pong", _U64.pack(nonce), cookie)
        case Reject(command, text, code):
            payload = vector(command.encode()) + bytes((code,)) + vector(text.encode())
            return Packet("reject", payload, cookie)
        case (
            own_commands.MaskedQuery() | own_commands.GetHeld() | own_commands.HeldIds() | own_commands.RescindSecrets()
        ):
            return Packet(*own_commands.encode_own(message), cookie)
        case _:
            return Packet(*commands.encode_command(message), cookie)


def checksum(payload: bytes) -> int:
    """Return the checksum that stands in place of the cookie in packets to a node that knows no cookies."""
    return int.from_bytes(sha256(sha256(payload).digest()).digest()[:4], "little")


def _nonce(payload: bytes) -> int:
    """Return the number of a pong; 0 for one without a number, which answers no ping of ours."""
    return Reader(payload).uint(8, "the nonce") if payload else 0
