"""The pieces of snapshots of versions 1 and 2, which are still read: sealed by libsodium's secretstream, the first one
bound to the header before it, and compressed as one stream, by zlib in version 1 and by zstd in version 2."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator

from nacl import bindings
from nacl.exceptions import CryptoError

from router.disk.snapshot.terms import ALTERED, LENGTH, NOT_OPENED, SnapshotFault

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE_BYTES_MAX = 1 << 19
UNPACKED_BYTES_MAX = 1 << 20
WINDOW_LOG_MAX = 23
"""What a reader keeps of the unpacked bytes at the most, as a power of two."""
WINDOW: dict[int, int] = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG_MAX}
_TAG_MORE, _TAG_LAST = 0, bindings.crypto_secretstream_xchacha20poly1305_TAG_FINAL


def unpacked(
    version: int, head: bytes, stream: bytes, key: bytes, is_sealed: bool, exactly: Callable[[int], bytes]
) -> Iterator[bytes]:
    """Yield the stream of records. `head`: all bytes before the first piece; `stream`: the header of the secretstream;
    `exactly`: reads so many bytes. Raise `SnapshotFault`."""
    pieces = _pieces(head, stream, key, is_sealed, exactly)
    return _inflated(pieces) if version == 1 else _decompressed(pieces)


def _pieces(
    head: bytes, stream: bytes, key: bytes, is_sealed: bool, exactly: Callable[[int], bytes]
) -> Iterator[bytes]:
    state = bindings.crypto_secretstream_xchacha20poly1305_state()
    bindings.crypto_secretstream_xchacha20poly1305_init_pull(state, stream, key)
    bound: bytes | None = head
    tag = _TAG_MORE
    while tag != _TAG_LAST:
        [size] = LENGTH.unpack(exactly(LENGTH.size))
        if not 0 < size <= PIECE_BYTES_MAX:
            raise SnapshotFault(ALTERED)
        piece = exactly(size)
        try:
            data, tag = bindings.crypto_secretstream_xchacha20poly1305_pull(state, piece, bound)
        except (CryptoError, ValueError):
            raise SnapshotFault(NOT_OPENED if bound and is_sealed else ALTERED) from None
        bound = None
        yield data


def _decompressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    unpacker = zstd.ZstdDecompressor(options=WINDOW)
    try:
        for piece in pieces:
            data = piece
            while data or not unpacker.needs_input:
                yield unpacker.decompress(data, UNPACKED_BYTES_MAX)
                data = b""
                if unpacker.eof:
                    break
    except (zstd.ZstdError, EOFError):
        raise SnapshotFault(ALTERED) from None
    if not unpacker.eof or unpacker.unused_data:
        raise SnapshotFault(ALTERED)


def _inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj()
    try:
        for piece in pieces:
            data = piece
            while data:
                yield unpacker.decompress(data, UNPACKED_BYTES_MAX)
                data = unpacker.unconsumed_tail
        yield unpacker.flush()
    except zlib.error:
        raise SnapshotFault(ALTERED) from None
    if not unpacker.eof or unpacker.unused_data:
        raise SnapshotFault(ALTERED)
