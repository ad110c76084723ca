"""TLS 1.3 over TCP, both sides with a self-signed Ed25519 certificate: the key in it is the address (R-B3).

Bytes move between OpenSSL's memory buffers and the socket, in full records if there is enough to send. The receiving
task never waits for the sending direction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count

import trio
from OpenSSL import SSL
from trio.socket import SocketType

from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.transport import tcp
from router.transport.certificate import claimed_peer, connection, proven_peer, why_failed
from router.transport.contract import (
    Buffer,
    ConnectFailed,
    Handler,
    InvalidUrl,
    ListenFailed,
    OnRefused,
    StreamBroken,
    TaskStatus,
    tcp_address,
    unheard,
)
from router.transport.handshakes import Places, is_gone, prefix_of, turn_away
from router.transport.limits import CONNECTIONS_MAX, HandshakeLimits
from router.transport.records import TlsRecords
from router.transport.sockets import Acceptor, NotLetIn, close_after_last_byte, receive, send_whole, words
from router.transport.stream import CUT, DuplexStream

PIECE_BYTES = 1 << 18  # plaintext joined, encrypted and given to the kernel at once
RECEIVE_BYTES = 1 << 18  # ciphertext taken from the kernel at once, but not more than twice what is asked for
CONTROL_BYTES_MAX = 1 << 14  # TLS's own answers to the peer (key updates) that it has not taken yet
HANDSHAKE_READ_BYTES = 1 << 12
HANDSHAKE_BYTES_MAX = 1 << 14  # from the peer, until the handshake is done
HANDSHAKE_READS = 8  # reads without a pause; after them, each waits HANDSHAKE_PAUSE_S first
HANDSHAKE_PAUSE_S = 0.05
HANDSHAKES = HandshakeLimits()
CLOSE_TIMEOUT_S = 1.0  # how long our goodbye may wait for a peer that does not read
QUIET_S = 0.1  # a connection that has been silent for this long frees its buffers


def check(url: str) -> None:
    """Raise `InvalidUrl` unless this names a host and a port."""
    tcp_address(url)


async def dial(url: str, key: SigningKey, expect: PublicKey | None, *, timeout_s: float) -> TlsStream:
    """Connect and prove both keys; the peer must show `expect` unless it is None. Raises `ConnectFailed`."""
    has_answered = False
    try:
        host, port = tcp_address(url)
        if not host or not port:
            raise InvalidUrl(f"{url!r} names no host and port to dial")
        with trio.fail_after(timeout_s):
            sock = await tcp.connect(host, port)
            has_answered = True
            return await _handshake(sock, connection(key, expect, server=False), _where((host, port)))
    except InvalidUrl as error:
        raise ConnectFailed(Reason.CONNECT_FAILED, str(error)) from None
    except NotLetIn as error:
        text = f"{_where((host, port))}: {error}"
        raise ConnectFailed(Reason.CONNECT_FAILED, text, has_answered=True, answered_by=error.claimed) from None
    except trio.TooSlowError:
        text = f"{url} did not answer within {timeout_s:g} s; is the address right? is there a firewall?"
        raise ConnectFailed(Reason.CONNECT_TIMEOUT, text, has_answered=has_answered) from None


async def resolve(url: str, *, timeout_s: float) -> list[str]:
    """Return the URLs of the addresses that the host has. Raises `ConnectFailed`, `InvalidUrl`."""
    host, port = tcp_address(url)
    if not host or tcp.is_literal(host):
        return [url]
    found = await tcp.look_up(host, port, timeout_s=timeout_s)
    return [f"tls://{tcp.host_port(ip, port)}" for ip in found]


def _where(address: tuple[str, int]) -> str:
    return f"tls {tcp.host_port(address[0], address[1])}"


async def listen(
    url: str,
    key: SigningKey,
    handler: Handler,
    *,
    task_status: TaskStatus = trio.TASK_STATUS_IGNORED,
    on_refused: OnRefused = unheard,
    connections_max: int = CONNECTIONS_MAX,
    handshakes: HandshakeLimits = HANDSHAKES,
    is_known: Callable[[PublicKey], bool] = lambda _key: False,
) -> None:
    """Accept connections until cancelled; `handler` gets streams whose peer has proved its key. Raises `ListenFailed`.

    Once a key for which `is_known` holds has proven itself, handshakes from its address prefix wait less.
    """
    entrance = _Entrance(key, Places(handshakes), is_known)
    try:
        host, port = tcp_address(url)
    except InvalidUrl as error:
        raise ListenFailed(str(error)) from None
    acceptor = Acceptor(entrance.admit, handler, on_refused, connections_max)
    listeners = await tcp.bind(host, port)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(entrance.places.run)
            for listener in listeners:
                nursery.start_soon(acceptor.run, listener, _where, lambda address: prefix_of(address[0]))
            task_status.started(f"tls://{tcp.host_port(host, listeners[0].getsockname()[1])}")
    finally:
        for listener in listeners:
            listener.close()


class _Entrance:
    """Where connections to a listener wait for a place and prove their keys."""

    def __init__(self, key: SigningKey, places: Places, is_known: Callable[[PublicKey], bool]) -> None:
        self.places = places
        self._key = key
        self._is_known = is_known

    async def admit(self, sock: SocketType, where: str) -> TlsStream:
        """Do the handshake once there is a place for it. Raises `NotLetIn`."""
        try:
            address = sock.getpeername()[0]
        except OSError as error:
            raise NotLetIn(f"the connection broke before the TLS handshake: {words(error)}") from None
        has_begun = False
        try:
            async with self.places.place(address, partial(is_gone, sock)):
                has_begun = True
                tcp.tune(sock)
                stream = await _handshake(sock, connection(self._key, None, server=True), where)
                if stream.peer is not None and self._is_known(stream.peer):
                    self.places.proven(address)
                return stream
        finally:
            if not has_begun:
                turn_away(sock)


async def _handshake(sock: SocketType, tls: SSL.Connection, where: str) -> TlsStream:
    """Do the handshake; the caller bounds the time. A failure closes the socket. Raises `NotLetIn`.

    A client is done before the server has checked its certificate: a refusal appears at the client's first read.
    """
    records = TlsRecords(tls)
    try:
        await _exchange(sock, tls, records)
        peer = proven_peer(tls)
        await send_whole(sock, [records.outgoing()])
        return TlsStream(sock, records, peer, where, sock.getpeername()[0])
    except SSL.Error as error:
        with suppress(StreamBroken):
            await send_whole(sock, [records.outgoing()])  # our alert
        close_after_last_byte(sock)
        raise NotLetIn(why_failed(tls, error), claimed_peer(tls)) from None
    except (StreamBroken, OSError) as error:
        sock.close()
        raise NotLetIn(f"the connection broke during the TLS handshake: {error}") from None
    except BaseException:
        sock.close()
        raise


async def _exchange(sock: SocketType, tls: SSL.Connection, records: TlsRecords) -> None:
    left = HANDSHAKE_BYTES_MAX
    for reads in count():
        try:
            return tls.do_handshake()
        except SSL.WantReadError:
            await send_whole(sock, [records.outgoing()])
        if reads >= HANDSHAKE_READS:
            await trio.sleep(HANDSHAKE_PAUSE_S)
        data = await receive(sock, HANDSHAKE_READ_BYTES)
        left -= len(data)
        if not data:
            raise NotLetIn("the peer closed the connection during the TLS handshake")
        if left < 0:
            raise NotLetIn(f"the peer sent more than {HANDSHAKE_BYTES_MAX} bytes of TLS handshake")
        tls.bio_write(data)


class TlsStream(DuplexStream):
    """A TLS connection whose peer has proved its key. See `router.transport.Stream`."""

    __slots__ = ("_outbox", "_records", "_socket")

    def __init__(self, sock: SocketType, records: TlsRecords, peer: PublicKey, where: str, ip: str) -> None:
        super().__init__(where, peer=peer, place=prefix_of(ip), ip=ip, path=tcp.path_of(sock))
        self._socket = sock
        self._records = records
        self._outbox = bytearray()  # TLS's own answers to the peer, at most CONTROL_BYTES_MAX

    @property
    def received_bytes(self) -> int:
        return self._records.ciphertext_bytes

    async def _receive(self, max_bytes: int) -> bytes:
        records = self._records
        if records.waiting and (data := self._read(max_bytes)):
            await trio.lowlevel.checkpoint()
            return data
        while not records.ended:
            await self._feed(min(2 * max_bytes, RECEIVE_BYTES))
            if data := self._read(max_bytes):
                return data
        await trio.lowlevel.checkpoint()
        return b""

    async def _feed(self, max_bytes: int) -> None:
        """Wait for ciphertext and give it to OpenSSL; no buffer is held here while waiting."""
        ciphertext = None
        if self._records.grown:
            with trio.move_on_after(QUIET_S):
                ciphertext = await receive(self._socket, max_bytes)
        if ciphertext is None:
            if self._records.grown:
                self._records.shrink()
            ciphertext = await receive(self._socket, max_bytes)
        if not ciphertext:
            raise StreamBroken(CUT)
        self._records.feed(ciphertext)

    def _read(self, max_bytes: int) -> bytes:
        """Decrypt, and send TLS's own answers as far as possible without waiting; the next send does the rest.

        If the receiving task waited for the sending direction, two ends could wait for each other.
        """
        try:
            return self._records.read(max_bytes)
        finally:
            self._outbox += self._records.outgoing()
            if self._outbox and not self._sending:
                with suppress(OSError):
                    del self._outbox[: os.write(self._socket.fileno(), self._outbox)]
            if len(self._outbox) > CONTROL_BYTES_MAX:
                raise StreamBroken("the peer demands key updates but does not read them")

    async def _send(self, parts: Sequence[Buffer]) -> None:
        for piece in _joined(parts):
            await self._flush(self._records.encrypt(piece))
        if self._outbox:
            await self._flush([])

    async def _flush(self, ciphertext: list[Buffer]) -> None:
        if self._outbox:  # it was encrypted earlier, so it must leave earlier
            ciphertext.insert(0, bytes(self._outbox))
            self._outbox.clear()
        await send_whole(self._socket, ciphertext)

    async def _finish(self) -> None:
        goodbye = self._records.goodbye()
        with trio.move_on_after(CLOSE_TIMEOUT_S), suppress(StreamBroken):
            await self._flush([goodbye])
            close_after_last_byte(self._socket)

    def _abandon(self) -> None:
        self._socket.close()


def _joined(parts: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the bytes of `parts` in pieces of at most PIECE_BYTES, for full records; one small buffer is not copied."""
    if sum(map(len, parts)) <= PIECE_BYTES:
        yield parts[0] if len(parts) == 1 else b"".join(parts)
        return
    batch: list[Buffer] = []
    room = PIECE_BYTES
    for part in parts:
        view = memoryview(part)
        while len(view) > room:
            yield b"".join((*batch, view[:room]))
            view, batch, room = view[room:], [], PIECE_BYTES
        batch.append(view)
        room -= len(view)
    yield b"".join(batch)
