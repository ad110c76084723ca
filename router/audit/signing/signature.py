"""An auditor's signature over the files of an audit, detached from them (cddl/audit-signature.cddl).

It is made with a kept key of the auditor's home, and is good for nothing else: what is signed begins with `LABEL`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from router.audit.signing.digests import OddFile, file_digests
from router.core.wire.codec import encode
from router.core.wire.crypto import InvalidKey, PublicKey, SigningKey, verify
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.text import printable

VERSION = 1
SCHEMA = "upsycle audit signature 1"
LABEL = b"upsycle audit signature 1"
FILE = "signature.json"
BYTES_MAX = 32 << 20
TOLD_MAX = 5
"""Most files that are named in an error."""
_AGAIN = "make the audit again with --sign, or get the files from whoever signed them"


class NotAsSigned(Exception):
    """An audit has no good signature, or its files are not those that were signed; the text says which and what to
    do, on one line, whatever the files' names are."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class AuditSignature(Struct, frozen=True, forbid_unknown_fields=True):
    """The signature's file. `at_s`: Unix time of signing; `files`: SHA-256 by path; keys and digests in hex."""

    v: int
    schema: str
    key: str
    at_s: int
    files: dict[str, str]
    signature: str


class CheckedAudit(NamedTuple):
    """What was signed: by which key, when (Unix time), and how many files."""

    key: PublicKey
    at_s: int
    files: int


def signed_bytes(key: bytes, at_s: int, files: Mapping[str, str]) -> bytes:
    """Return the bytes that are signed: the label, and the values as deterministic CBOR (R-B7). Raise `ValueError`."""
    digests = [[path, bytes.fromhex(digest)] for path, digest in sorted(files.items())]
    return LABEL + encode([VERSION, key, at_s, digests])


def sign(directory: Path, files: Mapping[str, str], key: SigningKey, at_s: int) -> None:
    """Write the signature over these files (`file_digests`) beside them."""
    signature = key.sign(signed_bytes(key.public, at_s, files)).hex()
    said = AuditSignature(VERSION, SCHEMA, key.public.hex(), at_s, dict(sorted(files.items())), signature)
    (directory / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(said), indent=1) + b"\n")


def check(directory: Path) -> CheckedAudit:
    """Check the signature of an audit, and that its files are those that were signed. Raise `NotAsSigned`."""
    said, key = _read(directory / FILE)
    try:
        found = file_digests(directory, said.files)
    except OddFile as error:
        raise NotAsSigned(str(error)) from None
    except OSError as error:
        raise NotAsSigned(f"{error.filename or directory} cannot be read: {error.strerror}; see to it") from None
    found.pop(FILE, None)
    odd = [f"{path} {why}" for path in sorted({*found, *said.files}) if (why := _difference(path, said.files, found))]
    if odd:
        more = f", and {len(odd) - TOLD_MAX} more" if len(odd) > TOLD_MAX else ""
        raise NotAsSigned(f"{directory}: {', '.join(odd[:TOLD_MAX])}{more}; {_AGAIN}")
    return CheckedAudit(key, said.at_s, len(said.files))


def _difference(path: str, signed: Mapping[str, str], found: Mapping[str, str]) -> str:
    if path not in signed:
        return "was not signed"
    if path not in found:
        return "is missing"
    return "" if signed[path] == found[path] else "was changed after it was signed"


def _read(path: Path) -> tuple[AuditSignature, PublicKey]:
    """Return the signature, whose own key has signed it."""
    try:
        if path.exists() and not path.is_file():
            raise NotAsSigned(f"{path} is no regular file: name the directory of an audit that was signed")
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise NotAsSigned(f"there is no {path}: `router audit LOGS --out DIR --sign` makes one") from None
    except OSError as error:
        raise NotAsSigned(f"{path} cannot be read: {error.strerror}; see to it") from None
    if len(data) > BYTES_MAX:
        raise NotAsSigned(f"{path} has more than {BYTES_MAX:,} bytes, so it is no signature of an audit; {_AGAIN}")
    try:
        said = msgspec.json.decode(data, type=AuditSignature)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise NotAsSigned(f"{path} is no signature of an audit, or is damaged; {_AGAIN}") from None
    if (said.v, said.schema) != (VERSION, SCHEMA):
        told = f"version {said.v} of {said.schema[:60]!r}; this program reads version {VERSION} of {SCHEMA!r}"
        raise NotAsSigned(f"{path} has {told}: use a newer one")
    try:
        key = PublicKey.checked(bytes.fromhex(said.key))
        is_good = verify(key, signed_bytes(key, said.at_s, said.files), bytes.fromhex(said.signature))
    except (InvalidKey, ValueError, OverflowError):
        is_good = False
    if not is_good:
        raise NotAsSigned(f"{path} was changed: its signature is not by the key that it names; {_AGAIN}")
    if said.at_s > UINT32_MAX:
        raise NotAsSigned(f"{path} says that it was signed after 2105, which no clock shows; {_AGAIN}")
    return said, key
