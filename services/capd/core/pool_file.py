"""`msgpool.dat`, in which the reference keeps its pool over a restart: version 1, a count, and the messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct

from router.core.wire.codec import Malformed

from .message import CapdMessage, next_message
from .serialisation import Reader

VERSION = 1
_HEAD = Struct("<QQ")
HEAD_BYTES = _HEAD.size
VERSIONS_MAX = 255
"""A greater number at the beginning is not a version: the file is something else."""


def encode_pool(messages: Iterable[CapdMessage]) -> bytes:
    """Return the file's bytes; the reference writes messages in ascending priority."""
    encoded = [message.encoded() for message in messages]
    return _HEAD.pack(VERSION, len(encoded)) + b"".join(encoded)


def may_be_pool_file(head: bytes) -> bool:
    """Whether a file whose first `HEAD_BYTES` are these is a msgpool.dat, or empty."""
    return not head or (len(head) == HEAD_BYTES and 0 < int.from_bytes(head[:8], "little") <= VERSIONS_MAX)


def messages_in(data: bytes) -> Iterator[CapdMessage]:
    """Yield the file's messages without judging them. Raise `Malformed` where the file is damaged, cut or is no
    msgpool.dat."""
    if len(data) < _HEAD.size:
        raise Malformed(f"it is no msgpool.dat: it has {len(data)} bytes, and one has {_HEAD.size} at least")
    reader = Reader(data)
    version, count = reader.uint(8, "the version"), reader.uint(8, "the count")
    if not 0 < version <= VERSIONS_MAX:
        begins = f"it begins with {data[:8].hex()}, and one with {VERSION.to_bytes(8, 'little').hex()}"
        raise Malformed(f"it is no msgpool.dat: {begins}; a message in hex is handed in with --hex")
    if version != VERSION:
        raise Malformed(f"it is of version {version}, and this program knows version {VERSION}")
    for number in range(count):
        try:
            yield next_message(reader)
        except Malformed as error:
            raise Malformed(f"message {number + 1} of {count}: {error}") from None
    if reader.rest:
        raise Malformed(f"{reader.rest} bytes follow the {count} messages that it counts")
