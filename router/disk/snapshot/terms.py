"""The values of a snapshot, and what is said of one that cannot be used."""

from __future__ import annotations

import struct

from msgspec import Struct, field
from nacl import bindings

Content = bytes | bytearray | memoryview
LENGTH = struct.Struct(">I")
OPERATIONS, MEMORY_BYTES = 3, 256 << 20
"""What argon2id costs whoever guesses a passphrase; the header names it, and a reader spends `OPERATIONS_MAX` and
`MEMORY_BYTES_MAX` at the most."""
OPERATIONS_MAX, MEMORY_BYTES_MIN, MEMORY_BYTES_MAX = 16, 8192, 1 << 30
SALT_BYTES = bindings.crypto_pwhash_SALTBYTES
ALTERED = "it was altered or damaged: take another one"
NOT_OPENED = "the passphrase is not the one that it was sealed with, or it was altered: give the right one"
CUT = "it ends too early, so it was cut or never finished: take another one"


class SnapshotFault(Exception):
    """A snapshot cannot be taken, read or put back; the text says why and what to do."""


class SavedFile(Struct, frozen=True, array_like=True):
    """A file of the home: its path in it, its size, and its BLAKE3."""

    path: str
    size: int
    digest: bytes


class Manifest(Struct, frozen=True):
    """What a snapshot holds. `at_s`: the Unix time of its moment; `router`: the address of its node, empty if it has
    never run; `damaged`: the paths of databases that could not be read whole, and are there as they were found."""

    at_s: int
    router: bytes
    parts: list[SavedFile]
    damaged: list[str] = field(default_factory=list)


class Cost(Struct, frozen=True, forbid_unknown_fields=True):
    """How argon2id makes a key of a passphrase: its salt, operations and bytes of memory."""

    salt: bytes
    operations: int
    memory: int


def usual_cost(salt: bytes) -> Cost:
    """Return the cost of a new snapshot."""
    return Cost(salt, OPERATIONS, MEMORY_BYTES)


class SnapshotHeader(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Random bytes that make the key of one snapshot its own, and how the key is made of a passphrase; no `cost`: the
    snapshot is plain."""

    stream: bytes
    cost: Cost | None = None
