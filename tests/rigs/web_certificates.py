"""Ordinary certificates for tests: of P-256 keys, self-signed or signed by an authority of the test."""

from __future__ import annotations

import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class WebCertificate(NamedTuple):
    """A certificate and its key, and the files that hold them."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    chain: Path
    secret: Path

    @property
    def options(self) -> str:
        """Return the options of a URL to listen at."""
        return f"?certificate={self.chain}&key={self.secret}"

    @property
    def pin(self) -> str:
        """Return the option of a URL to dial."""
        return f"?pin={self.certificate.fingerprint(SHA256()).hex()}"


def web_certificate(
    folder: Path, *names: str, issuer: WebCertificate | None = None, days: int = 2, is_authority: bool = False
) -> WebCertificate:
    """Make a certificate for these names or IP addresses in a folder, in place of one that is there; with `days` below
    zero it has expired."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority" if is_authority else "a server")])
    begin, end = now - datetime.timedelta(days=30), now + datetime.timedelta(days=days)
    signed_by = issuer.certificate.subject if issuer else subject
    builder = x509.CertificateBuilder(signed_by, subject, key.public_key(), x509.random_serial_number(), begin, end)
    builder = builder.add_extension(x509.BasicConstraints(is_authority, None), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(one) for one in names]), critical=False)
    certificate = builder.sign(issuer.key if issuer else key, SHA256())
    made = WebCertificate(certificate, key, folder / "chain.pem", folder / "key.pem")
    made.chain.write_bytes(certificate.public_bytes(Encoding.PEM))
    made.secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return made


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)
