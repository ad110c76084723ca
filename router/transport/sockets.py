"""Stream sockets: whole writes of shared buffers, and accepting for ever within limits."""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import trio
from trio.socket import SocketType

from router.core.wire.crypto import PublicKey
from router.transport.contract import Buffer, ConnectFailed, Handler, ListenFailed, OnRefused, StreamBroken
from router.transport.stream import DuplexStream

PARTS_MAX = 1024  # buffers per system call (IOV_MAX)
ACCEPT_PAUSE_S = 0.1  # wait this long when the process or the system is out of sockets
DISCARD_READS_MAX = 64  # reads of DISCARD_BYTES that are discarded before a close
DISCARD_BYTES = 1 << 16
TURN_BYTES = 1 << 14
"""Bytes from which a send lets other tasks run, even if the socket takes all at once."""
RECEIVE_BYTES_MAX = 1 << 18
"""Bytes that are taken from the kernel at once, at most."""

EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""Errors of accept(2) for want of descriptors or memory, which other connections may give back."""
RAISE_LIMIT = "raise the limit of open files (LimitNOFILE of the service, ulimit -Hn)"
UNPROVEN = "it had not proven a key when another connection needed its place"
_LISTENER_GONE = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP}


def words(error: BaseException) -> str:
    """Return the text of an operating system's error, beginning in lower case, as part of a sentence."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def user_of(sock: Any) -> int | None:
    """Return the number of the user at the other end of a Unix socket, None if the system does not give it."""
    if sock.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


async def send_whole(sock: SocketType, parts: Sequence[Buffer]) -> None:
    """Send all these buffers without joining them. Raises `StreamBroken`.

    Other tasks run meanwhile if there are at least `TURN_BYTES`, or if the socket has no room for all: a turn of the
    loop costs more than the call that sends a settling."""
    try:
        if len(parts) <= PARTS_MAX:
            return await _send_batch(sock, parts)
        for at in range(0, len(parts), PARTS_MAX):
            await _send_batch(sock, parts[at : at + PARTS_MAX])
    except (OSError, trio.ClosedResourceError) as error:
        raise StreamBroken(f"sending failed: {words(error)}") from None


async def _send_batch(sock: SocketType, parts: Sequence[Buffer]) -> None:
    left = size = sum(map(len, parts))
    await trio.lowlevel.checkpoint_if_cancelled()
    while left:
        try:
            sent = os.writev(sock.fileno(), parts)
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
            continue
        left -= sent
        if left:
            parts = _without(parts, sent)
    if size >= TURN_BYTES:
        await trio.lowlevel.cancel_shielded_checkpoint()


def _without(parts: Sequence[Buffer], sent: int) -> list[Buffer]:
    """Return `parts` without their first `sent` bytes."""
    for at, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[at + 1 :]]
        sent -= len(part)
    return []


class _ReadRoom(threading.local):
    """The bytes of one thread into which the kernel copies what has arrived.

    A buffer for each read would be cut to the length of what came: a few bytes that stay would lie where the next one
    needs the whole place, and the heap would grow by a hole for each of them."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(RECEIVE_BYTES_MAX))


_room = _ReadRoom()


async def receive(sock: SocketType, max_bytes: int) -> bytes:
    """Return the bytes that have arrived, at most `max_bytes` and `RECEIVE_BYTES_MAX`; `b""` at the end. Other tasks
    run once, before it returns or while it waits. Raises `StreamBroken`."""
    try:
        await trio.lowlevel.checkpoint_if_cancelled()
        has_waited = False
        while True:
            try:
                view = _room.view[:max_bytes]
                data = bytes(view[: os.readv(sock.fileno(), [view])])
            except BlockingIOError:
                await trio.lowlevel.wait_readable(sock)
                has_waited = True
            else:
                if not has_waited:
                    await trio.lowlevel.cancel_shielded_checkpoint()
                return data
    except (OSError, trio.ClosedResourceError) as error:
        raise StreamBroken(f"receiving failed: {words(error)}") from None


def close_after_last_byte(sock: SocketType) -> None:
    """Close so that the peer can still read our last bytes.

    The kernel answers a close over unread bytes with a reset, which would overtake them.
    """
    with suppress(OSError, trio.ClosedResourceError):
        sock.shutdown(socket.SHUT_WR)
        for _ in range(DISCARD_READS_MAX):
            if not os.read(sock.fileno(), DISCARD_BYTES):
                break
    sock.close()


class NotLetIn(Exception):
    """A connection is not let in; the text is for the log. `claimed`: the key that the other end says it has, if it has
    got that far."""

    def __init__(self, text: str, claimed: PublicKey | None = None) -> None:
        super().__init__(text)
        self.claimed = claimed


class Listener(Protocol):
    """A socket that listens."""

    async def accept(self) -> tuple[SocketType, Any]: ...


Admit = Callable[[SocketType, str], Awaitable[DuplexStream]]  # (socket, where); raises NotLetIn or StreamBroken


class Acceptor:
    """Accepts connections until cancelled, each in a separate task; at most `connections_max` are open at once.

    At most half of these have not proven a key, by the handshake or, where that proves none, on the link. To admit one
    more, the oldest unproven one of the neighbourhood with most of them is closed; if there is none, the new one is
    closed. Both are reported. Without free file descriptors it waits and tries again.
    """

    def __init__(self, admit: Admit, handler: Handler, on_refused: OnRefused, connections_max: int) -> None:
        self._admit = admit
        self._handler = handler
        self._on_refused = on_refused
        self._connections_max = connections_max
        self._open = 0
        self._unproven: dict[
            str, dict[trio.CancelScope, None]
        ] = {}  # by neighbourhood, in the order in which they came
        self._exhausted = False

    def __repr__(self) -> str:
        return f"<Acceptor with {self._open} of at most {self._connections_max} connections open>"

    async def run(
        self,
        listener: Listener,
        name: Callable[[Any], str],
        neighbourhood: Callable[[SocketType, Any], str] = lambda *_: "",
    ) -> None:
        """Serve one listening socket. `name` gives an accepted address in words, `neighbourhood` the group of addresses
        that an accepted socket and address count with."""
        async with trio.open_nursery() as nursery:
            while True:
                accepted = await self._accept(listener)
                if accepted is None:
                    continue
                sock, where = accepted[0], name(accepted[1])
                if not self._has_place():
                    sock.close()
                    self._on_refused(where, f"{self._open} connections are open, and no more are allowed")
                    continue
                self._open += 1
                nursery.start_soon(self._serve, sock, where, neighbourhood(*accepted))

    def _has_place(self) -> bool:
        """Whether there is a place for one more connection; closes one that has not proven a key if necessary."""
        most = self._connections_max
        if self._open < most and sum(map(len, self._unproven.values())) < max(1, most // 2):
            return True
        if not self._unproven:
            return False
        neighbourhood = max(self._unproven, key=lambda one: len(self._unproven[one]))
        oldest = next(iter(self._unproven[neighbourhood]))
        self._forget(neighbourhood, oldest)
        oldest.cancel()
        return True

    def _forget(self, neighbourhood: str, scope: trio.CancelScope) -> None:
        unproven = self._unproven.get(neighbourhood, {})
        unproven.pop(scope, None)
        if not unproven:
            self._unproven.pop(neighbourhood, None)

    async def _accept(self, listener: Listener) -> tuple[SocketType, Any] | None:
        try:
            accepted = await listener.accept()
        except OSError as error:
            if error.errno in _LISTENER_GONE:
                raise ListenFailed(f"the listening socket is gone: {words(error)}") from None
            if error.errno in EXHAUSTED:
                await self._pause(error)
            return None  # the others (aborted, unreachable, …) concern one connection only
        self._exhausted = False
        return accepted

    async def _pause(self, error: OSError) -> None:
        if not self._exhausted:  # say it once, not ten times a second
            self._exhausted = True
            text = f"cannot accept: {words(error)}; {RAISE_LIMIT}"
            self._on_refused("a new connection", text)
        await trio.sleep(ACCEPT_PAUSE_S)

    async def _serve(self, sock: SocketType, where: str, neighbourhood: str) -> None:
        try:
            stream = await self._admitted(sock, where, neighbourhood)
            try:
                if stream.peer is None and stream.place:
                    await self._handle_unproven(stream, neighbourhood)
                else:
                    await self._handler(stream)
            finally:
                await stream.aclose()
        except* NotLetIn as group:
            self._on_refused(where, "; ".join(str(error) for error in group.exceptions))
        except* (StreamBroken, ConnectFailed):
            pass  # the link has reported it
        finally:
            sock.close()
            self._open -= 1

    async def _admitted(self, sock: SocketType, where: str, neighbourhood: str) -> DuplexStream:
        with trio.CancelScope() as scope:
            self._unproven.setdefault(neighbourhood, {})[scope] = None
            try:
                return await self._admit(sock, where)
            finally:
                self._forget(neighbourhood, scope)
        raise NotLetIn(UNPROVEN)

    async def _handle_unproven(self, stream: DuplexStream, neighbourhood: str) -> None:
        """Run the handler of a stream from the network whose key the transport cannot prove: until the link has done
        so, it gives way to others."""
        with trio.CancelScope() as scope:
            self._unproven.setdefault(neighbourhood, {})[scope] = None
            stream.when_proven(lambda _: self._forget(neighbourhood, scope))
            try:
                await self._handler(stream)
            finally:
                self._forget(neighbourhood, scope)
                if scope.cancel_called:
                    await stream.aclose()
        if scope.cancelled_caught:
            raise NotLetIn(UNPROVEN)
