"""Keys in TLS: our self-signed certificate, and the check of a peer's (R-B2, R-B3).

A certificate is only a container for the key; names, dates and issuers are ignored. TLS's CertificateVerify proves that
the peer holds the key, and there is no resumption, so every connection proves it afresh.
"""

from __future__ import annotations

import datetime
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto

from router.core.wire.crypto import InvalidKey, PublicKey, SigningKey
from router.core.wire.text import key_text, short
from router.transport.sockets import NotLetIn, words

ALPN = b"upsycle/1"  # R-A10, R-A13
CONTEXTS_MAX = 64  # signing keys whose TLS context is kept ready
REFUSAL_TEXT_MAX = 100  # characters of a library's text about a stranger's certificate

_LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NEVER = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)  # RFC 5280: no expiry


def connection(key: SigningKey, expect: PublicKey | None, *, server: bool) -> SSL.Connection:
    """Return one end of a TLS connection, without a socket; the peer must show `expect` unless that is None."""
    one = SSL.Connection(_context(key.seed), None)
    one.set_app_data(_Judge(expect))
    if server:
        one.set_accept_state()
    else:
        one.set_connect_state()
    return one


def proven_peer(connection: SSL.Connection) -> PublicKey:
    """Return the peer's key that the finished handshake has proved. Raises `NotLetIn`."""
    judge: _Judge = connection.get_app_data()
    certificate = connection.get_peer_certificate()
    if certificate is None or not judge.admits(certificate) or judge.peer is None:
        raise NotLetIn(judge.refusal or "the peer showed no certificate")
    if connection.get_alpn_proto_negotiated() != ALPN:
        raise NotLetIn(f"the peer speaks TLS but not the protocol {ALPN.decode()}; is it a node of this network?")
    return judge.peer


def why_failed(connection: SSL.Connection, error: SSL.Error) -> str:
    """Return in words why a handshake failed: our refusal of the peer's key, or OpenSSL's reason."""
    judge: _Judge = connection.get_app_data()
    return judge.refusal or f"the TLS handshake failed: {explain(error)}"


def claimed_peer(connection: SSL.Connection) -> PublicKey | None:
    """Return the key in the peer's certificate, which nothing has proved if the handshake failed; None if there was
    none."""
    judge: _Judge = connection.get_app_data()
    return judge.peer


_EXPLAINED = {
    "http request": "an HTTP request arrived where TLS was expected",
    "https proxy request": "an HTTP proxy request arrived where TLS was expected",
    "wrong version number": "the bytes are not TLS",
    "packet length too long": "the bytes are not TLS",
    "unsupported protocol": "the peer does not offer TLS 1.3",
    "tlsv1 alert protocol version": "the other end does not speak TLS 1.3",
    "tlsv1 alert internal error": "the other end takes no more handshakes now, or has failed; try again in a moment",
    "peer did not return a certificate": "the peer showed no certificate",
}


def explain(error: SSL.Error) -> str:
    """Return OpenSSL's reason in words."""
    if isinstance(error, SSL.SysCallError):
        return "the connection was cut"
    first = error.args[0] if error.args and error.args[0] else "unknown error"
    text = str(first[0][2] if isinstance(first, list) else first)
    return _EXPLAINED.get(text, text)


def self_signed(key: SigningKey) -> tuple[Ed25519PrivateKey, x509.Certificate]:
    """Return `key` as a private key of the cryptography library, and a certificate for it that never expires."""
    private = Ed25519PrivateKey.from_private_bytes(key.seed)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "router")])
    builder = x509.CertificateBuilder(name, name, private.public_key(), 1, _LONG_AGO, _NEVER)
    return private, builder.sign(private, None)


class _Judge:
    """Decides whether the key in the peer's certificate is acceptable, before we show anything of ours."""

    __slots__ = ("expect", "peer", "refusal")

    def __init__(self, expect: PublicKey | None) -> None:
        self.expect = expect
        self.peer: PublicKey | None = None
        self.refusal = ""

    def admits(self, certificate: crypto.X509) -> bool:
        try:
            self.peer = _key_in(certificate.to_cryptography())
        except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
            why = " ".join(words(error).split())[:REFUSAL_TEXT_MAX]
            self.refusal = f"the peer's certificate holds no usable Ed25519 key: {why}"
            return False
        if self.expect is not None and self.expect != self.peer:
            dialled, answered = (short(key_text("addr", one)) for one in (self.expect, self.peer))
            self.refusal = f"key {dialled} was dialled, but key {answered} answered; is the address still right?"
            return False
        return True


def _key_in(certificate: x509.Certificate) -> PublicKey:
    key = certificate.public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidKey(f"its key is of another kind ({type(key).__name__.removesuffix('PublicKey')})")
    return PublicKey.checked(key.public_bytes_raw())


def _verify(connection: SSL.Connection, certificate: crypto.X509, error: int, depth: int, ok: int) -> bool:
    """Answer OpenSSL's callback for each certificate of the peer's chain; only the leaf counts."""
    judge: _Judge = connection.get_app_data()
    return depth > 0 or judge.admits(certificate)


class _OtherProtocol(SSL.Error):
    """The client does not offer our protocol; OpenSSL turns this error into the alert that says so."""


def _choose_protocol(connection: SSL.Connection, offered: list[bytes]) -> bytes:
    if ALPN not in offered:
        raise _OtherProtocol(f"the client does not offer the protocol {ALPN.decode()}")
    return ALPN


@lru_cache(maxsize=CONTEXTS_MAX)
def _context(seed: bytes) -> SSL.Context:
    private, certificate = self_signed(SigningKey(seed))
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    context.use_certificate(certificate)
    context.use_privatekey(private)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_options(SSL.OP_NO_TICKET)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)  # a silent connection keeps no record buffers
    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, _verify)
    context.set_alpn_protos([ALPN])
    context.set_alpn_select_callback(_choose_protocol)
    return context
