"""TLS handshakes that end early, on real sockets: the socket is closed, however they end."""

from __future__ import annotations

import trio
from OpenSSL import SSL
from samples.core import ALICE

from router.core.wire.crypto import PublicKey
from router.transport.certificate import connection
from router.transport.sockets import NotLetIn
from router.transport.tls_stream import shake_hands


class GivenUp:
    """A TLS connection whose handshake is given up in the moment in which it fails."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self._tls = connection(ALICE, None, server=True)
        self._scope = scope

    def __getattr__(self, name: str) -> object:
        return getattr(self._tls, name)

    def do_handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except SSL.WantReadError:
            raise
        except SSL.Error:
            self._scope.cancel()
            raise


async def test_a_handshake_that_is_given_up_while_its_last_words_are_sent_closes_its_socket() -> None:
    ours, theirs = trio.socket.socketpair()
    with theirs:
        await theirs.send(b"GET / HTTP/1.1\r\n\r\n")
        with trio.CancelScope() as scope:
            await shake_hands(ours, GivenUp(scope), "here", _nobody, _failed, b"no page")  # type: ignore[arg-type]
        assert scope.cancelled_caught and ours.fileno() == -1


def _nobody(tls: SSL.Connection) -> PublicKey | None:
    raise AssertionError("no handshake is done")


def _failed(tls: SSL.Connection, error: SSL.Error) -> NotLetIn:
    return NotLetIn(str(error))
