"""Ordinary certificates, as the web uses them: the one that a listener shows, and the judgement of a server's.

They prove no key of a router: the link does that (R-B5). A listener's certificate is read again when its files change.
"""

from __future__ import annotations

import datetime
import logging
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.hashes import SHA256
from OpenSSL import SSL, crypto

from router.core.wire.text import clean
from router.transport.certificate import explain
from router.transport.contract import InvalidUrl, ListenFailed
from router.transport.sockets import NotLetIn, words
from router.transport.tcp import is_literal

HTTP = b"http/1.1"
NAMES_SAID = 3
"""Names of a certificate that an error shows, with at most `NAME_BYTES_MAX` bytes each."""
NAME_BYTES_MAX = 100
WHY_BYTES_MAX = 200
"""Bytes that are shown of a library's text about a file."""
_NO_PARTIAL_WILDCARDS = 0x4
_EXPIRED, _TOO_EARLY, _OTHER_NAME, _OTHER_IP = 10, 9, 62, 64  # OpenSSL's numbers of what is wrong with a certificate
_UNKNOWN = (2, 18, 19, 20, 21)  # nobody who is trusted has signed it

log = logging.getLogger(__name__)


# -- of a listener -----------------------------------------------------------------------------------------


class ServerCertificate:
    """The certificate of a listener, with those that lead to its authority, and its key: two files in PEM.

    Raises `ListenFailed` if they cannot be used at first; later the last good ones stay, and the log says why."""

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain = chain
        self._key = key
        self._seen = self._state()
        self._context = self._read()

    def __repr__(self) -> str:
        return f"<certificate in {self._chain}>"

    def connection(self) -> SSL.Connection:
        """Return a server's end of a TLS connection, without a socket, with the certificate that is there now."""
        state = self._state()
        if state != self._seen:
            self._seen = state
            try:
                self._context = self._read()
            except ListenFailed as error:
                log.warning("%s; until then the certificate before it is shown", error)
            else:
                log.info("the certificate in %s was read again", self._chain)
        one = SSL.Connection(self._context, None)
        one.set_accept_state()
        return one

    def _state(self) -> tuple[object, ...]:
        """Return what changes when a file is written or replaced."""
        found = list[object]()
        for path in (self._chain, self._key):
            try:
                at = path.stat()
            except OSError as error:
                found.append(error.errno)
            else:
                found.append((at.st_mtime_ns, at.st_size, at.st_ino))
        return tuple(found)

    def _read(self) -> SSL.Context:
        context = _context()
        context.set_alpn_select_callback(_choose_protocol)
        try:
            certificate, *issuers = x509.load_pem_x509_certificates(_content(self._chain))
            context.use_certificate(certificate)
            for issuer in issuers:
                context.add_extra_chain_cert(issuer)
            context.use_privatekey(_load_key(_content(self._key)))
            context.check_privatekey()
        except (SSL.Error, ValueError, TypeError, UnsupportedAlgorithm) as error:
            why = explain(error) if isinstance(error, SSL.Error) else words(error)
            said = f"{self._chain} and {self._key} are no certificate and its key ({clean(why, WHY_BYTES_MAX)})"
            raise ListenFailed(f"{said}; they must be in PEM, fit each other, and need no passphrase") from None
        if certificate.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
            log.warning("the certificate in %s expired on %s: renew it", self._chain, _day(certificate))
        return context


def _load_key(pem: bytes) -> Any:
    """Return a private key. Its module brings those of SSH, which only a listener with a certificate needs."""
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key(pem, None)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        remedy = "name the files of certificate and key, in PEM, so that this user can read them"
        raise ListenFailed(f"{path} cannot be read: {words(error)}; {remedy}") from None


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate in hex, as `openssl x509 -fingerprint -sha256` shows it with colons."""
    return certificate.fingerprint(SHA256()).hex()


def pin_of(chain: Path) -> str:
    """Return the fingerprint of the certificate in a file. Raises `InvalidUrl`."""
    try:
        return fingerprint(x509.load_pem_x509_certificates(chain.read_bytes())[0])
    except (OSError, ValueError) as error:
        raise InvalidUrl(f"{chain} holds no certificate in PEM ({words(error)}); name the file of this one") from None


class _OtherProtocol(SSL.Error):
    """The client does not offer HTTP/1.1; OpenSSL turns this error into the alert that says so."""


def _choose_protocol(connection: SSL.Connection, offered: list[bytes]) -> bytes:
    if HTTP not in offered:
        raise _OtherProtocol("the client does not offer HTTP/1.1")
    return HTTP


def server_failed(connection: SSL.Connection, error: SSL.Error) -> NotLetIn:
    """Return in words why a client's handshake failed."""
    return NotLetIn(f"the TLS handshake failed: {explain(error)}")


# -- of a server -------------------------------------------------------------------------------------------


class ServerJudge:
    """Judges the certificate of a server by its `name` (as DNS writes it), date and authority, or by its fingerprint
    alone (`pin`)."""

    def __init__(self, name: str, pin: str = "") -> None:
        self._name = name
        self._pin = pin
        self._refusal = ""

    def __repr__(self) -> str:
        return f"<judge of the certificate of {self._name}>"

    def connection(self) -> SSL.Connection:
        """Return a client's end of a TLS connection, without a socket."""
        one = SSL.Connection(_pinned() if self._pin else _trusting(), None)
        one.set_app_data(self)
        if not is_literal(self._name):
            one.set_tlsext_host_name(self._name.encode())
        if not self._pin:
            _expect(one, self._name)
        one.set_connect_state()
        return one

    def prove(self, connection: SSL.Connection) -> None:
        """Check what the finished handshake has shown. Raises `NotLetIn`."""
        certificate = connection.get_peer_certificate(as_cryptography=True)
        if certificate is None:
            raise NotLetIn("the server showed no certificate")
        if self._pin and fingerprint(certificate) != self._pin:
            said = f"its certificate has the SHA-256 {fingerprint(certificate)}, and another was pinned"
            raise NotLetIn(f"{said}; ask its operator which is right, and change the pin")

    def failed(self, connection: SSL.Connection, error: SSL.Error) -> NotLetIn:
        """Return in words why the handshake failed: our refusal of the certificate, or OpenSSL's reason."""
        return NotLetIn(self._refusal or f"the TLS handshake failed: {explain(error)}")

    def note(self, certificate: crypto.X509, error: int) -> None:
        """Note what is wrong with a certificate, of which the first fault counts."""
        self._refusal = self._refusal or self._said(certificate.to_cryptography(), error)

    def _said(self, certificate: x509.Certificate, error: int) -> str:
        if error == _EXPIRED:
            return f"its certificate expired on {_day(certificate)}; its operator must renew it, or this clock is wrong"
        if error == _TOO_EARLY:
            return "its certificate is not valid yet; is this machine's clock right?"
        if error in (_OTHER_NAME, _OTHER_IP):
            return f"its certificate is not for {self._name} but for {_names(certificate)}; dial it by that name"
        if error in _UNKNOWN:
            said = "nobody whom this machine trusts has signed its certificate"
            return f"{said}; if its operator confirms its SHA-256, dial it with ?pin={fingerprint(certificate)}"
        return f"its certificate does not count (OpenSSL's error {error}); its operator must renew it"


def checked_pin(text: str) -> str:
    """Return a fingerprint as 64 digits; raise `InvalidUrl` if it is none."""
    found = text.replace(":", "").lower()
    if len(found) != 64 or set(found) - set("0123456789abcdef"):
        said = f"the pin {clean(text, NAME_BYTES_MAX)!r} is no SHA-256 of a certificate"
        raise InvalidUrl(f"{said}: 64 digits of hex, as `openssl x509 -noout -fingerprint -sha256 -in FILE` prints")
    return found


def _names(certificate: x509.Certificate) -> str:
    try:
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = [*named.get_values_for_type(x509.DNSName), *map(str, named.get_values_for_type(x509.IPAddress))]
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        found = []
    shown = [clean(one, NAME_BYTES_MAX) for one in found[:NAMES_SAID]]
    return (", ".join(shown) + (" and others" if len(found) > NAMES_SAID else "")) or "no name at all"


def _day(certificate: x509.Certificate) -> str:
    return f"{certificate.not_valid_after_utc:%Y-%m-%d}"


def _expect(connection: SSL.Connection, name: str) -> None:
    """Have OpenSSL check that the certificate is for this name or IP address.

    pyOpenSSL has no public call for this; the names are those of 26.x, to which the project is pinned.
    """
    lib: Any = SSL.__dict__["_lib"]
    found = lib.SSL_get0_param(connection._ssl)
    lib.X509_VERIFY_PARAM_set_hostflags(found, _NO_PARTIAL_WILDCARDS)
    if is_literal(name):
        packed = ip_address(name.partition("%")[0]).packed
        done = lib.X509_VERIFY_PARAM_set1_ip(found, packed, len(packed))
    else:
        asked = name.encode()
        done = lib.X509_VERIFY_PARAM_set1_host(found, asked, len(asked))
    assert done == 1


def _verify(connection: SSL.Connection, certificate: crypto.X509, error: int, depth: int, ok: int) -> bool:
    """Answer OpenSSL's callback for each certificate of a server's chain, and for each fault."""
    judge: ServerJudge = connection.get_app_data()
    if not ok:
        judge.note(certificate, error)
    return bool(ok)


def _context() -> SSL.Context:
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)  # what a record may add is counted (`TlsRecords`)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_options(SSL.OP_NO_TICKET)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)  # a silent connection keeps no record buffers
    return context


@lru_cache(maxsize=1)
def _trusting() -> SSL.Context:
    context = _context()
    context.set_alpn_protos([HTTP])
    context.set_default_verify_paths()
    context.set_verify(SSL.VERIFY_PEER, _verify)
    return context


@lru_cache(maxsize=1)
def _pinned() -> SSL.Context:
    context = _context()
    context.set_alpn_protos([HTTP])
    context.set_verify(SSL.VERIFY_NONE)
    return context
