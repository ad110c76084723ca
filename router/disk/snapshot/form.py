"""The bytes of a snapshot (cddl/snapshot.cddl): a header, then pieces that hold a stream of records.

Each piece is compressed, if that is of use, and sealed by itself (zstd, AES-256-GCM), so that threads work on several
at once. The key of a snapshot is its own: it is made of the passphrase by argon2id and of the header, which holds
random bytes. A piece is sealed under its number and the bits of its length, one of which says that it is the last one:
none can be left out, doubled, exchanged or added. The key of a plain snapshot is known to everybody, so that a changed
byte is noticed there as well.

Records name a part, carry its bytes, and end with the manifest, which has the BLAKE3 of each part. What is read counts
only when the manifest has been read, and with it the last piece: a snapshot that was cut ends with a fault. Versions 1
and 2, whose pieces are sealed one after the other, are still read (`older_forms.py`).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from secrets import token_bytes
from typing import Any, NamedTuple, Protocol

import cbor2
from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import ValidationError, convert, to_builtins
from nacl import bindings
from nacl.exceptions import CryptoError

from router.core.wire.crypto import KEY_BYTES
from router.disk.snapshot import older_forms
from router.disk.snapshot.in_order import InOrder, calm, thread_count
from router.disk.snapshot.terms import (
    ALTERED,
    CUT,
    LENGTH,
    MEMORY_BYTES_MAX,
    MEMORY_BYTES_MIN,
    NOT_OPENED,
    OPERATIONS_MAX,
    SALT_BYTES,
    Content,
    Cost,
    Manifest,
    SavedFile,
    SnapshotFault,
    SnapshotHeader,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FIRST = b"router snapshot "
VERSION, READABLE = 3, (1, 2, 3)
PIECE_BYTES = 1 << 20
"""Records are gathered until they have as much; then they become a piece."""
PIECE_BYTES_MAX = 1 << 22
"""How many bytes a reader takes for one piece, packed or unpacked."""
RECORD_BYTES_MAX = 1 << 20
MANIFEST_BYTES_MAX = 64 << 20
PARTS_MAX, PATH_BYTES_MAX = 1_000_000, 4096
"""Most files of a snapshot, and bytes of a path: a reader takes no more, however well they are compressed."""
HEADER_BYTES_MAX = 1 << 10
AT_S_MAX = 253_402_300_799
"""The latest Unix second that has a date of four digits."""
COMPRESSION_LEVEL = 1
STREAM_BYTES = 24
PLAIN = blake3(b"router snapshot, plain").digest()
INLINE_BYTES = 1 << 16
"""Less than that is hashed at once, without a thread."""
SAMPLES, SAMPLE_BYTES, SAVED = 8, 2048, 0.03
"""By so many samples of a large piece it is judged whether compressing it saves at least that part: what was sealed
before it came here does not get smaller."""
LAST, PACKED = 1 << 31, 1 << 30  # bits of a piece's length: no other follows; it is compressed
_NONCE = struct.Struct(">QI")
RECORD = struct.Struct(">cI")
_PART, _DATA, _WITHDRAWN, MANIFEST = b"P", b"D", b"W", b"M"


class _Hash:
    """The BLAKE3 of a part, which a thread of its own makes."""

    def __init__(self, thread: InOrder[object]) -> None:
        self._thread, self._hasher, self.size = thread, blake3(), 0

    def add(self, data: Content) -> None:
        if len(data) < INLINE_BYTES:
            self.wait()
            self._hasher.update(data)
        else:
            for _ in self._thread.add(self._hasher.update, data):
                pass
        self.size += len(data)

    def wait(self) -> None:
        for _ in self._thread.rest():
            pass

    def saved(self, path: str) -> SavedFile:
        self.wait()
        return SavedFile(path, self.size, self._hasher.digest())


class SealKey(NamedTuple):
    """The key that a passphrase makes at that cost."""

    key: bytes
    cost: Cost


def seal_key(passphrase: bytes, cost: Cost) -> SealKey:
    """Make the key of a passphrase, in a thread that lets a node go first. Call it before a moment is held: it takes as
    long as it costs to guess. Raise `SnapshotFault` without the memory for it."""
    with ThreadPoolExecutor(1, "argon2id", calm) as threads:
        return SealKey(threads.submit(_key, passphrase, cost).result(), cost)


class SnapshotWriter:
    """Writes a snapshot to `write`, sealed by the key `seal`; None leaves it plain. `on_bytes` is called with the
    number of bytes of files that were taken."""

    def __init__(
        self, write: Callable[[bytes], Any], seal: SealKey | None, *, on_bytes: Callable[[int], object] = int
    ) -> None:
        self._write = write
        header = SnapshotHeader(token_bytes(STREAM_BYTES), seal.cost if seal else None)
        said = cbor2.dumps(to_builtins(header, builtin_types=(bytes,)))
        head = FIRST + b"%d\n" % VERSION + LENGTH.pack(len(said)) + said
        self._key = _own_key(seal.key if seal else PLAIN, head)
        self._write(head)
        threads = thread_count()
        self._sealing, self._hashing = (
            InOrder[tuple[bytes, bytes]](threads, 2 * threads, calm),
            InOrder[object](1, 4, calm),
        )
        self._waiting, self._waiting_bytes, self._number = list[Content](), 0, 0
        self._on_bytes = on_bytes
        self._parts: list[SavedFile] = []

    def __repr__(self) -> str:
        return f"<snapshot of {len(self._parts)} parts so far>"

    def part(self, path: str, file: ReadsBytes, is_whole: Callable[[], bool] = lambda: True) -> None:
        """Write a file of the home under its path there. If `is_whole`, asked at its end, says no, the part does not
        count, and may be written again."""
        try:
            self._record(_PART, path.encode())
        except UnicodeEncodeError:
            raise SnapshotFault(f"the name of {path!r} is not in UTF-8; rename that file, or move it away") from None
        found = _Hash(self._hashing)
        while data := file.read(RECORD_BYTES_MAX):
            self._record(_DATA, data)
            found.add(data)
            self._on_bytes(len(data))
        if is_whole():
            self._parts.append(found.saved(path))
        else:
            self._record(_WITHDRAWN, b"")

    def finish(self, at_s: int, router: bytes, damaged: list[str]) -> Manifest:
        """Write the manifest and the last piece; return the manifest."""
        parts = [[one.path, one.size, one.digest] for one in self._parts]
        said = cbor2.dumps({"at_s": at_s, "router": router, "parts": parts, "damaged": damaged})
        if len(parts) > PARTS_MAX or len(said) + len(PLAIN) > MANIFEST_BYTES_MAX:
            most = f"a snapshot lists {PARTS_MAX:,} files in {MANIFEST_BYTES_MAX >> 20} MiB at the most"
            raise SnapshotFault(f"the home has {len(parts):,} files, and {most}: let the node keep less of its log")
        self._record(MANIFEST, blake3(said).digest() + said)
        self._piece(LAST)
        self._pieces(self._sealing.rest())
        for threads in (self._sealing, self._hashing):
            threads.close()
        return Manifest(at_s, router, self._parts, damaged)

    def _record(self, kind: bytes, payload: Content) -> None:
        self._gather(RECORD.pack(kind, len(payload)))
        for at in range(0, len(payload), RECORD_BYTES_MAX):
            self._gather(payload if len(payload) <= RECORD_BYTES_MAX else payload[at : at + RECORD_BYTES_MAX])

    def _gather(self, data: Content) -> None:
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= PIECE_BYTES:
            self._piece(0)

    def _piece(self, last: int) -> None:
        waiting, number = self._waiting, self._number
        self._waiting, self._waiting_bytes, self._number = [], 0, number + 1
        self._pieces(self._sealing.add(_sealed, self._key, number, last, waiting))

    def _pieces(self, pieces: Iterator[tuple[bytes, bytes]]) -> None:
        for length, piece in pieces:
            self._write(length)
            self._write(piece)


class ReadsBytes(Protocol):
    """The part of a file that a writer of snapshots needs."""

    def read(self, size: int = -1, /) -> bytes | bytearray: ...


class ReadableFile(Protocol):
    """The part of a file that a reader of snapshots needs."""

    def read(self, size: int = -1, /) -> bytes: ...
    def readline(self, size: int = -1, /) -> bytes: ...


class SnapshotReader:
    """Reads a snapshot from a file that may be a pipe. Raise `SnapshotFault` where it is not as it was written."""

    def __init__(self, file: ReadableFile, passphrase: Callable[[], bytes]) -> None:
        self._file = file
        line = self._version_line()
        said = self._exactly(LENGTH.size)
        if (size := LENGTH.unpack(said)[0]) > HEADER_BYTES_MAX:
            raise SnapshotFault(ALTERED)
        content = self._exactly(size)
        self._head = line + said + content
        self._header = _header(content)
        self.is_sealed = self._header.cost is not None
        self._key = _key(passphrase(), self._header.cost) if self._header.cost else PLAIN

    def __repr__(self) -> str:
        return f"<snapshot, {'sealed' if self.is_sealed else 'plain'}>"

    @property
    def head(self) -> bytes:
        """All that is before the first piece."""
        return self._head

    @property
    def has_single_pieces(self) -> bool:
        """Whether each piece is sealed by itself, and so can be opened without those before it."""
        return self._version == VERSION

    def opened(self, number: int, said: int, piece: bytes) -> bytes:
        """Return what is in one piece, given its number, the field of its length, and its bytes."""
        fault = NOT_OPENED if self.is_sealed else ALTERED
        return _opened(_own_key(self._key, self._head), number, said & (LAST | PACKED), piece, fault)

    def read(self, begin: Callable[[str], Callable[[Content | None], Any]]) -> Manifest:
        """Call `begin` with the path of each part, and what it returns with the part's bytes; return the manifest,
        which agrees with them. An empty piece ends the part, None withdraws it: it may come again."""
        with InOrder[object](1, 4) as hashing:
            return self._read(begin, hashing)

    def _read(self, begin: Callable[[str], Callable[[Content | None], Any]], hashing: InOrder[object]) -> Manifest:
        found: list[SavedFile] = []
        path, take, part = "", None, _Hash(hashing)
        for kind, payload in self._records():
            if kind == _DATA and take is not None and payload:
                take(payload)
                part.add(payload)
                continue
            if kind == _WITHDRAWN and take is not None and not payload and self._version > 1:
                take(None)
                take = None
                continue
            if take is not None:
                found.append(part.saved(path))
                take(b"")
            if kind == MANIFEST:
                return _agreed(payload, found)
            if kind != _PART or len(found) == PARTS_MAX or len(payload) > PATH_BYTES_MAX:
                break
            path = bytes(payload).decode(errors="replace")
            take, part = begin(path), _Hash(hashing)
        raise SnapshotFault(ALTERED)

    def _records(self) -> Iterator[tuple[bytes, Content]]:
        """Yield the records; the manifest is yielded only when nothing follows it."""
        rest, needed = bytearray(), RECORD.size
        pieces = self._unpacked()
        for piece in pieces:
            if len(rest) + len(piece) < needed:
                rest += piece
                continue
            data = memoryview(rest + piece if rest else piece)
            at, needed = 0, RECORD.size
            while len(data) - at >= RECORD.size:
                kind, size = RECORD.unpack_from(data, at)
                if size > (MANIFEST_BYTES_MAX if kind == MANIFEST else RECORD_BYTES_MAX):
                    raise SnapshotFault(ALTERED)
                if len(data) - at < RECORD.size + size:
                    needed = RECORD.size + size
                    break
                payload = data[at + RECORD.size : at + RECORD.size + size]
                at += RECORD.size + size
                if kind == MANIFEST and (len(data) > at or any(pieces)):
                    raise SnapshotFault(ALTERED)
                yield kind, payload
            rest = bytearray(data[at:])
        raise SnapshotFault(ALTERED)

    def _unpacked(self) -> Iterator[bytes]:
        """Yield the stream of records in parts."""
        if self._version != VERSION:
            args = self._version, self._head, self._header.stream, self._key, self.is_sealed, self._exactly
            yield from older_forms.unpacked(*args)
        else:
            threads, key = thread_count(), _own_key(self._key, self._head)
            with InOrder[bytes](threads, 2 * threads) as opening:
                for number, bits, piece in self._pieces():
                    fault = NOT_OPENED if self.is_sealed and not number else ALTERED
                    yield from opening.add(_opened, key, number, bits, piece, fault)
                yield from opening.rest()
        if self._file.read(1):
            raise SnapshotFault(f"something follows its end: {ALTERED}")

    def _pieces(self) -> Iterator[tuple[int, int, bytes]]:
        number = bits = 0
        while not bits & LAST:
            [said] = LENGTH.unpack(self._exactly(LENGTH.size))
            bits = said & (LAST | PACKED)
            if not 0 < said - bits <= PIECE_BYTES_MAX:
                raise SnapshotFault(ALTERED)
            yield number, bits, self._exactly(said - bits)
            number += 1

    def _version_line(self) -> bytes:
        line = self._file.readline(len(FIRST) + 12)
        number = line.removeprefix(FIRST).removesuffix(b"\n")
        if FIRST.startswith(line) or (line == FIRST + number and number.isdigit()):
            raise SnapshotFault(CUT)
        if line != FIRST + number + b"\n" or not number.isdigit():
            raise SnapshotFault("it is no snapshot of a router's home: name a file that `router backup` wrote")
        self._version = int(number)
        if self._version not in READABLE:
            said = f"it has format {self._version}, and this program reads formats up to {VERSION}"
            raise SnapshotFault(f"{said}: use the version of the program that wrote it, or a newer one")
        return line

    def _exactly(self, size: int) -> bytes:
        parts = [self._file.read(size)]
        left = size - len(parts[0])
        while left and (more := self._file.read(left)):
            parts.append(more)
            left -= len(more)
        if left:
            raise SnapshotFault(CUT)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _sealed(key: bytes, number: int, last: int, records: list[Content]) -> tuple[bytes, bytes]:
    """Return the length of a piece with its bits, and the piece."""
    data, bits = b"".join(records), last
    if _shrinks(data):
        data, bits = zstd.compress(data, COMPRESSION_LEVEL), last | PACKED
    sealed = AESGCM(key).encrypt(_NONCE.pack(number, bits), data, None)
    return LENGTH.pack(len(sealed) | bits), sealed


def _shrinks(data: bytes) -> bool:
    """Return whether compressing the data is worth its time."""
    if len(data) < 4 * SAMPLES * SAMPLE_BYTES:
        return True
    step = len(data) // SAMPLES
    sample = b"".join(data[at : at + SAMPLE_BYTES] for at in range(0, step * SAMPLES, step))
    return len(zstd.compress(sample, COMPRESSION_LEVEL)) < (1 - SAVED) * len(sample)


def _opened(key: bytes, number: int, bits: int, piece: bytes, fault: str) -> bytes:
    """Return what was sealed; raise `SnapshotFault` with the text `fault` if it was not sealed under that key."""
    try:
        packed = AESGCM(key).decrypt(_NONCE.pack(number, bits), piece, None)
    except (InvalidTag, ValueError):
        raise SnapshotFault(fault) from None
    if not bits & PACKED:
        return packed
    try:
        unpacker = zstd.ZstdDecompressor(options=older_forms.WINDOW)
        data = unpacker.decompress(packed, PIECE_BYTES_MAX)
    except (zstd.ZstdError, EOFError):
        raise SnapshotFault(ALTERED) from None
    if not unpacker.eof or unpacker.unused_data:
        raise SnapshotFault(ALTERED)
    return data


def _header(content: bytes) -> SnapshotHeader:
    try:
        found = convert(cbor2.loads(content), SnapshotHeader)
    except (cbor2.CBORError, ValueError, ValidationError):
        raise SnapshotFault(ALTERED) from None
    fits = len(found.stream) == STREAM_BYTES
    if cost := found.cost:
        fits = fits and len(cost.salt) == SALT_BYTES
        fits = fits and 0 < cost.operations <= OPERATIONS_MAX and MEMORY_BYTES_MIN <= cost.memory <= MEMORY_BYTES_MAX
    if not fits:
        raise SnapshotFault(ALTERED)
    return found


@lru_cache(maxsize=1)  # a snapshot is read back where it was written
def _key(passphrase: bytes, cost: Cost) -> bytes:
    """Return the key that a passphrase makes at this cost; raise `SnapshotFault` without the memory for it."""
    kind = bindings.crypto_pwhash_ALG_ARGON2ID13
    try:
        return bindings.crypto_pwhash_alg(len(PLAIN), passphrase, cost.salt, cost.operations, cost.memory, kind)
    except (CryptoError, MemoryError):
        said = f"its passphrase takes {cost.memory >> 20} MiB of memory at once, and there is not as much"
        raise SnapshotFault(f"{said}: end what takes memory here, or do it on another machine") from None


def _own_key(key: bytes, head: bytes) -> bytes:
    """Return the key of the one snapshot that begins with those bytes."""
    return blake3(head, key=key).digest()


def _agreed(payload: Content, found: list[SavedFile]) -> Manifest:
    manifest = manifest_of(payload)
    if manifest.parts != found:
        raise SnapshotFault(ALTERED)
    return manifest


def manifest_of(payload: Content) -> Manifest:
    """Return the manifest in the content of the last record; raise `SnapshotFault` if that is none."""
    digest, said = bytes(payload[:32]), bytes(payload[32:])
    if blake3(said).digest() != digest:
        raise SnapshotFault(ALTERED)
    try:
        manifest = convert(cbor2.loads(said), Manifest)
    except (cbor2.CBORError, ValueError, ValidationError):
        raise SnapshotFault(ALTERED) from None
    if not 0 <= manifest.at_s <= AT_S_MAX or len(manifest.router) not in (0, KEY_BYTES):
        raise SnapshotFault(ALTERED)
    return manifest
