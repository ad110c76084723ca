"""The bytes of a snapshot (cddl/snapshot.cddl): a header, then pieces that hold one compressed stream of records.

Version 2 compresses by zstd; version 1, which is still read, by zlib. Threads for sealing and unsealing were measured
to gain nothing on two cores: they hand the interpreter's lock to and fro.

Each piece is sealed by libsodium's secretstream, the first one bound to the header before it. The key is made of the
passphrase by argon2id; that of a plain snapshot is known to everybody, so that a changed byte is noticed there as well.
Records name a part, carry its bytes, and end with the manifest, which has the BLAKE3 of each part. What is read counts
only when the manifest has been read, and with it the last piece: a snapshot that was cut ends with a fault.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, BinaryIO, Protocol

import cbor2
from blake3 import blake3
from msgspec import Struct, ValidationError, convert, field, to_builtins
from nacl import bindings
from nacl.exceptions import CryptoError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FIRST = b"router snapshot "
VERSION, READABLE = 2, (1, 2)
PIECE_BYTES = 1 << 18
RECORD_BYTES_MAX = 1 << 20
MANIFEST_BYTES_MAX = 64 << 20
HEADER_BYTES_MAX = 1 << 10
COMPRESSION_LEVEL = 1
WINDOW_LOG_MAX = 23
"""What a reader keeps of the unpacked bytes at the most, as a power of two; a writer of this level needs less."""
OPERATIONS, MEMORY_BYTES = 3, 256 << 20
"""What argon2id costs whoever guesses a passphrase; the header names it, and a reader spends `OPERATIONS_MAX` and
`MEMORY_BYTES_MAX` at the most."""
OPERATIONS_MAX, MEMORY_BYTES_MIN, MEMORY_BYTES_MAX = 16, 8192, 1 << 30
SALT_BYTES = bindings.crypto_pwhash_SALTBYTES
_KEY_BYTES = bindings.crypto_secretstream_xchacha20poly1305_KEYBYTES
PLAIN = blake3(b"router snapshot, plain").digest(_KEY_BYTES)
_LENGTH = struct.Struct(">I")
_RECORD = struct.Struct(">cI")
_PART, _DATA, _WITHDRAWN, _MANIFEST = b"P", b"D", b"W", b"M"
_TAG_MORE, _TAG_LAST = 0, bindings.crypto_secretstream_xchacha20poly1305_TAG_FINAL
_ALTERED = "it was altered or damaged: take another one"
_NOT_OPENED = "the passphrase is not the one that it was sealed with, or it was altered: give the right one"
_CUT = "it ends too early, so it was cut or never finished: take another one"


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
    """The header of the secretstream, and how its key is made; no `cost`: the snapshot is plain."""

    stream: bytes
    cost: Cost | None = None


class SnapshotWriter:
    """Writes a snapshot to `write`, sealed by a key of passphrase and cost; None leaves it plain. `on_bytes`
    is called with the number of bytes of files that were taken."""

    def __init__(
        self,
        write: Callable[[bytes], Any],
        seal: tuple[bytes, Cost] | None,
        *,
        on_bytes: Callable[[int], object] = int,
    ) -> None:
        self._write = write
        self._state = bindings.crypto_secretstream_xchacha20poly1305_state()
        stream = bindings.crypto_secretstream_xchacha20poly1305_init_push(self._state, _key(*seal) if seal else PLAIN)
        said = cbor2.dumps(to_builtins(SnapshotHeader(stream, seal[1] if seal else None), builtin_types=(bytes,)))
        self._bound: bytes | None = FIRST + b"%d\n" % VERSION + _LENGTH.pack(len(said)) + said
        self._write(self._bound)
        self._compressor = zstd.ZstdCompressor(level=COMPRESSION_LEVEL)
        self._waiting = bytearray()
        self._on_bytes = on_bytes
        self._parts: list[SavedFile] = []

    def __repr__(self) -> str:
        return f"<snapshot of {len(self._parts)} parts so far>"

    def part(self, path: str, file: BinaryIO, is_whole: Callable[[], bool] = lambda: True) -> None:
        """Write a file of the home under its path there. If `is_whole`, asked at its end, says no, the part does not
        count, and may be written again."""
        try:
            self._record(_PART, path.encode())
        except UnicodeEncodeError:
            raise SnapshotFault(f"the name of {path!r} is not in UTF-8; rename that file, or move it away") from None
        hasher, size = blake3(), 0
        while data := file.read(RECORD_BYTES_MAX):
            self._record(_DATA, data)
            hasher.update(data)
            size += len(data)
            self._on_bytes(len(data))
        if is_whole():
            self._parts.append(SavedFile(path, size, hasher.digest()))
        else:
            self._record(_WITHDRAWN, b"")

    def finish(self, at_s: int, router: bytes, damaged: list[str]) -> Manifest:
        """Write the manifest and the last piece; return the manifest."""
        parts = [[one.path, one.size, one.digest] for one in self._parts]
        said = cbor2.dumps({"at_s": at_s, "router": router, "parts": parts, "damaged": damaged})
        self._record(_MANIFEST, blake3(said).digest() + said)
        self._waiting += self._compressor.flush()
        self._pieces(0)
        self._piece(bytes(self._waiting), _TAG_LAST)
        return Manifest(at_s, router, self._parts, damaged)

    def _record(self, kind: bytes, payload: bytes) -> None:
        self._waiting += self._compressor.compress(_RECORD.pack(kind, len(payload)) + payload)
        self._pieces(PIECE_BYTES)

    def _pieces(self, left: int) -> None:
        while len(self._waiting) > max(left, PIECE_BYTES):
            self._piece(bytes(self._waiting[:PIECE_BYTES]), _TAG_MORE)
            del self._waiting[:PIECE_BYTES]

    def _piece(self, data: bytes, tag: int) -> None:
        bound, self._bound = self._bound, None
        sealed = bindings.crypto_secretstream_xchacha20poly1305_push(self._state, data, bound, tag)
        self._write(_LENGTH.pack(len(sealed)) + sealed)


class ReadableFile(Protocol):
    """The part of a file that a reader of snapshots needs."""

    def read(self, size: int = -1, /) -> bytes: ...
    def readline(self, size: int = -1, /) -> bytes: ...


class SnapshotReader:
    """Reads a snapshot from a file that may be a pipe. Raise `SnapshotFault` where it is not as it was written."""

    def __init__(self, file: ReadableFile, passphrase: Callable[[], bytes]) -> None:
        self._file = file
        line = self._version_line()
        said = self._exactly(_LENGTH.size)
        if (size := _LENGTH.unpack(said)[0]) > HEADER_BYTES_MAX:
            raise SnapshotFault(_ALTERED)
        content = self._exactly(size)
        self._bound: bytes | None = line + said + content
        header = _header(content)
        self.is_sealed = header.cost is not None
        key = _key(passphrase(), header.cost) if header.cost else PLAIN
        self._state = bindings.crypto_secretstream_xchacha20poly1305_state()
        bindings.crypto_secretstream_xchacha20poly1305_init_pull(self._state, header.stream, key)

    def __repr__(self) -> str:
        return f"<snapshot, {'sealed' if self.is_sealed else 'plain'}>"

    def read(self, begin: Callable[[str], Callable[[bytes | None], Any]]) -> Manifest:
        """Call `begin` with the path of each part, and what it returns with the part's bytes; return the manifest,
        which agrees with them. An empty piece ends the part, None withdraws it: it may come again."""
        found: list[SavedFile] = []
        path, take, hasher, size = "", None, blake3(), 0
        for kind, payload in self._records():
            if kind == _DATA and take is not None:
                take(payload)
                hasher.update(payload)
                size += len(payload)
                continue
            if kind == _WITHDRAWN and take is not None and not payload and self._version > 1:
                take(None)
                take = None
                continue
            if take is not None:
                found.append(SavedFile(path, size, hasher.digest()))
                take(b"")
            if kind == _MANIFEST:
                return _agreed(payload, found)
            if kind != _PART:
                break
            path = payload.decode(errors="replace")
            take, hasher, size = begin(path), blake3(), 0
        raise SnapshotFault(_ALTERED)

    def _records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the records; the manifest is yielded only when nothing follows it."""
        buffer = bytearray()
        pieces = self._unpacked()
        for data in pieces:
            buffer += data
            at = 0
            while len(buffer) - at >= _RECORD.size:
                kind, size = _RECORD.unpack_from(buffer, at)
                if size > (MANIFEST_BYTES_MAX if kind == _MANIFEST else RECORD_BYTES_MAX):
                    raise SnapshotFault(_ALTERED)
                if len(buffer) - at < _RECORD.size + size:
                    break
                payload = bytes(buffer[at + _RECORD.size : at + _RECORD.size + size])
                at += _RECORD.size + size
                if kind == _MANIFEST and (len(buffer) > at or any(pieces)):
                    raise SnapshotFault(_ALTERED)
                yield kind, payload
            del buffer[:at]
        raise SnapshotFault(_ALTERED)

    def _unpacked(self) -> Iterator[bytes]:
        return _inflated(self._pieces()) if self._version == 1 else _unpacked(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        tag = _TAG_MORE
        while tag != _TAG_LAST:
            [size] = _LENGTH.unpack(self._exactly(_LENGTH.size))
            if not 0 < size <= 2 * PIECE_BYTES:
                raise SnapshotFault(_ALTERED)
            data, tag = self._opened(self._exactly(size))
            yield data
        if self._file.read(1):
            raise SnapshotFault(f"something follows its end: {_ALTERED}")

    def _opened(self, piece: bytes) -> tuple[bytes, int]:
        bound, self._bound = self._bound, None
        try:
            data, tag = bindings.crypto_secretstream_xchacha20poly1305_pull(self._state, piece, bound)
        except (CryptoError, ValueError):
            raise SnapshotFault(_NOT_OPENED if bound and self.is_sealed else _ALTERED) from None
        return data, tag

    def _version_line(self) -> bytes:
        line = self._file.readline(len(FIRST) + 12)
        number = line.removeprefix(FIRST).removesuffix(b"\n")
        if FIRST.startswith(line) or (line == FIRST + number and number.isdigit()):
            raise SnapshotFault(_CUT)
        if line != FIRST + number + b"\n" or not number.isdigit():
            raise SnapshotFault("it is no snapshot of a router's home: name a file that `router backup` wrote")
        self._version = int(number)
        if self._version not in READABLE:
            said = f"it has format {self._version}, and this program reads formats up to {VERSION}"
            raise SnapshotFault(f"{said}: use the version of the program that wrote it, or a newer one")
        return line

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        while len(data) < size and (more := self._file.read(size - len(data))):
            data += more
        if len(data) < size:
            raise SnapshotFault(_CUT)
        return data


def _unpacked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    unpacker = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG_MAX})
    try:
        for piece in pieces:
            data = piece
            while data or not unpacker.needs_input:
                yield unpacker.decompress(data, RECORD_BYTES_MAX)
                data = b""
                if unpacker.eof:
                    break
    except (zstd.ZstdError, EOFError):
        raise SnapshotFault(_ALTERED) from None
    if not unpacker.eof or unpacker.unused_data:
        raise SnapshotFault(_ALTERED)


def _inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Unpack the stream of version 1."""
    unpacker = zlib.decompressobj()
    try:
        for piece in pieces:
            data = piece
            while data:
                yield unpacker.decompress(data, RECORD_BYTES_MAX)
                data = unpacker.unconsumed_tail
        yield unpacker.flush()
    except zlib.error:
        raise SnapshotFault(_ALTERED) from None
    if not unpacker.eof or unpacker.unused_data:
        raise SnapshotFault(_ALTERED)


def _header(content: bytes) -> SnapshotHeader:
    try:
        found = convert(cbor2.loads(content), SnapshotHeader)
    except (cbor2.CBORError, ValueError, ValidationError):
        raise SnapshotFault(_ALTERED) from None
    fits = len(found.stream) == bindings.crypto_secretstream_xchacha20poly1305_HEADERBYTES
    if cost := found.cost:
        fits = fits and len(cost.salt) == SALT_BYTES
        fits = fits and 0 < cost.operations <= OPERATIONS_MAX and MEMORY_BYTES_MIN <= cost.memory <= MEMORY_BYTES_MAX
    if not fits:
        raise SnapshotFault(_ALTERED)
    return found


@lru_cache(maxsize=1)  # a snapshot is read back where it was written
def _key(passphrase: bytes, cost: Cost) -> bytes:
    kind = bindings.crypto_pwhash_ALG_ARGON2ID13
    return bindings.crypto_pwhash_alg(_KEY_BYTES, passphrase, cost.salt, cost.operations, cost.memory, kind)


def _agreed(payload: bytes, found: list[SavedFile]) -> Manifest:
    digest, said = payload[:32], payload[32:]
    try:
        manifest = convert(cbor2.loads(said), Manifest)
    except (cbor2.CBORError, ValueError, ValidationError):
        raise SnapshotFault(_ALTERED) from None
    if blake3(said).digest() != digest or manifest.parts != found:
        raise SnapshotFault(_ALTERED)
    return manifest
