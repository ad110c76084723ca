"""TLS records without a socket: OpenSSL between two memory buffers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from OpenSSL import SSL

from router.transport.certificate import explain
from router.transport.contract import Buffer, StreamBroken
from router.transport.reading_pauses import SHORT_BYTES

RECORD_BYTES = 1 << 14  # plaintext in one full record
RECORD_ROOM = RECORD_BYTES + 512  # a record with its head and tag, and a key update before it
FEED_BYTES = 1 << 14  # ciphertext given to OpenSSL at once, and
FLOW_BYTES = 1 << 16  # while it carries data: its buffer grows no larger
OUTGOING_BYTES = 1 << 16  # more than a handshake or what one read can make OpenSSL answer
RECORD_HEAD = 22  # head, kind and tag of a record
SPARE_BYTES = 1 << 12  # allowed bytes without data: some 150 key updates in a connection's life, and more
SPARE_SHARE = 256  # one byte more is allowed for this many bytes of plaintext
RECORD_BYTES_LEAST = 64  # one read takes at most as many records as would fill it at this many bytes each
EMPTY = (
    "TLS: the peer sends too much that carries no data (key updates, empty or padded records); its program is at fault"
)
SMALL_BYTES = 1 << 12  # up to this many bytes at once, the buffers hardly grow


class TlsRecords:
    """OpenSSL between two memory buffers: bytes in, bytes out, no socket. Raises `StreamBroken`."""

    __slots__ = (
        "_cipher",
        "_failure",
        "_tls",
        "ciphertext_bytes",
        "ended",
        "grown",
        "plaintext_bytes",
        "records",
        "short",
        "waiting",
    )

    def __init__(self, tls: SSL.Connection) -> None:
        self._tls = tls
        self._cipher: Buffer = b""  # received, not yet given to OpenSSL
        self._failure: str | None = None
        self.ciphertext_bytes = 0  # given to OpenSSL
        self.plaintext_bytes = self.records = 0  # read from it
        self.short = 0  # of these records, those with fewer than SHORT_BYTES
        self.waiting = True  # there may be more to read without new ciphertext
        self.ended = False  # the peer has said goodbye
        self.grown = True  # the buffers may have grown beyond what a silent connection needs, as by the handshake

    def feed(self, ciphertext: bytes) -> None:
        """Take bytes from the socket; only when `read` has nothing more to give."""
        assert not self._cipher
        self.grown = self.grown or len(ciphertext) > SMALL_BYTES
        self._cipher = memoryview(ciphertext)
        self.waiting = True
        self._feed_more()

    def read(self, max_bytes: int) -> bytes:
        """Return decrypted bytes, at most `max_bytes`; `b""` when more ciphertext is needed, or at the end.

        With small records it returns less, and the next call returns more.
        """
        if self._failure:
            raise StreamBroken(self._failure)
        chunks: list[bytes] = []
        room = max_bytes
        while room > 0 and self.waiting and len(chunks) <= max_bytes // RECORD_BYTES_LEAST:
            try:
                chunk = self._tls.recv(min(room, RECORD_BYTES))
            except SSL.WantReadError:
                if self._is_empty():
                    self._failure = EMPTY
                    raise StreamBroken(EMPTY) from None
                self._feed_more(FLOW_BYTES if chunks else FEED_BYTES)
            except SSL.ZeroReturnError:
                self.ended, self.waiting = True, False
            except SSL.Error as error:
                self._failure = f"TLS: {explain(error)}"
                if not chunks:  # bytes before the error are returned first
                    raise StreamBroken(self._failure) from None
                break
            else:
                chunks.append(chunk)
                room -= len(chunk)
                self.records += 1
                self.short += len(chunk) < SHORT_BYTES
                self.plaintext_bytes += len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _is_empty(self) -> bool:
        """Whether the peer sent more bytes without data than an honest one; part of a record may wait in OpenSSL."""
        nothing = self.ciphertext_bytes - self.plaintext_bytes - RECORD_HEAD * self.records
        return nothing > RECORD_ROOM + SPARE_BYTES + self.plaintext_bytes // SPARE_SHARE

    def _feed_more(self, size: int = FEED_BYTES) -> None:
        if self._cipher:
            self.ciphertext_bytes += self._tls.bio_write(self._cipher[:size])
            self._cipher = self._cipher[size:] or b""  # an empty view would still hold the whole
        else:
            self.waiting = False

    def encrypt(self, piece: Buffer) -> list[Buffer]:
        """Return the records that carry `piece`, made one by one so that OpenSSL's buffer stays one record long."""
        tls, view = self._tls, memoryview(piece)
        self.grown = self.grown or len(view) > SMALL_BYTES
        ciphertext: list[Buffer] = []
        try:
            for at in range(0, len(view), RECORD_BYTES):
                tls.send(view[at : at + RECORD_BYTES])
                ciphertext.append(tls.bio_read(RECORD_ROOM))
        except SSL.Error as error:
            raise StreamBroken(f"TLS: {explain(error)}") from None
        return ciphertext

    def outgoing(self) -> bytes:
        """Return the bytes that OpenSSL itself wants to send: handshake, alerts, answers to key updates."""
        try:
            return self._tls.bio_read(OUTGOING_BYTES)
        except SSL.WantReadError:
            return b""

    def goodbye(self) -> bytes:
        """Return the close_notify alert, which gives the peer a clean end."""
        with suppress(SSL.Error):
            self._tls.shutdown()
        return self.outgoing()

    def shrink(self) -> None:
        """Replace OpenSSL's memory buffers, which never shrink (2 x 22 KiB after traffic); both are empty.

        pyOpenSSL has no public call for this; the names are those of 26.x, to which the project is pinned.
        """
        lib: Any = SSL.__dict__["_lib"]
        into_tls, from_tls = lib.BIO_new(lib.BIO_s_mem()), lib.BIO_new(lib.BIO_s_mem())
        lib.SSL_set_bio(self._tls._ssl, into_tls, from_tls)
        self._tls._into_ssl, self._tls._from_ssl = into_tls, from_tls
        self.grown = False
