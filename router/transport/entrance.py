"""Where connections to a TCP port wait for a place, and shake hands with the transport that listens there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import trio
from trio.socket import SocketType

from router.core.wire.crypto import PublicKey
from router.transport import tcp
from router.transport.contract import Handler, OnRefused, TaskStatus
from router.transport.handshakes import Places, is_gone, source_name, turn_away
from router.transport.limits import HandshakeLimits
from router.transport.local_users import user_on_loopback
from router.transport.sockets import Acceptor, NotLetIn, words
from router.transport.stream import DuplexStream

ShakeHands = Callable[[SocketType, str], Awaitable[DuplexStream]]
"""Does a server's part of the handshake on (socket, where). Raises `NotLetIn`; then the socket is closed."""


class Entrance:
    """Where connections to a listener wait for a place and shake hands. `is_busy`: what is sent to those that wait in
    vain. Once a key for which `is_known` holds has proven itself, handshakes from its address prefix wait less. On
    loopback each user of this machine counts alone."""

    def __init__(
        self,
        shake_hands: ShakeHands,
        is_busy: bytes,
        limits: HandshakeLimits,
        is_known: Callable[[PublicKey], bool],
    ) -> None:
        self.places = Places(limits)
        self._shake_hands = shake_hands
        self._is_busy = is_busy
        self._is_known = is_known

    def __repr__(self) -> str:
        return f"<entrance with {self.places!r}>"

    async def admit(self, sock: SocketType, where: str) -> DuplexStream:
        """Shake hands once there is a place for it. Raises `NotLetIn`."""
        try:
            address = sock.getpeername()[0]
        except OSError as error:
            raise NotLetIn(f"the connection broke before its handshake: {words(error)}") from None
        has_begun, user = False, user_on_loopback(sock)
        try:
            async with self.places.place(address, partial(is_gone, sock), user):
                has_begun = True
                tcp.tune(sock)
                stream = await self._shake_hands(sock, where)
                if user:
                    stream.place = source_name(address, user)
                stream.when_proven(partial(self._proven, address, user))
                return stream
        finally:
            if not has_begun:
                turn_away(sock, self._is_busy)

    def _proven(self, address: str, user: str, key: PublicKey) -> None:
        if self._is_known(key):
            self.places.proven(address, user)


async def accept_at(
    host: str,
    port: int,
    entrance: Entrance,
    handler: Handler,
    *,
    scheme: str,
    told: Callable[[int], str],
    task_status: TaskStatus,
    on_refused: OnRefused,
    connections_max: int,
) -> None:
    """Listen on every address of `host` until cancelled; `told` returns the URL at which this is, by the port. Raises
    `ListenFailed`."""
    acceptor = Acceptor(entrance.admit, handler, on_refused, connections_max)
    listeners = await tcp.bind(host, port)

    def where(address: tuple[str, int]) -> str:
        return f"{scheme} {tcp.host_port(address[0], address[1])}"

    def neighbourhood(sock: SocketType, address: tuple[str, int]) -> str:
        return source_name(address[0], user_on_loopback(sock))

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(entrance.places.run)
            for listener in listeners:
                nursery.start_soon(acceptor.run, listener, where, neighbourhood)
            task_status.started(told(listeners[0].getsockname()[1]))
    finally:
        for listener in listeners:
            listener.close()
