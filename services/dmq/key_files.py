"""The keys of a test pool in a directory: written with access for their owner only, and read only if that is so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from router.disk import private_file

from .core.messages.envelope import ENVELOPE_BYTES_MAX, BadEnvelope, read_certificate_file, read_kes_key
from .core.messages.pool_keys import CERTIFICATE, KES_SECRET, BadKeys, PoolKeys

T = TypeVar("T")


def write(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write new files with 0600 into the directory; raise `BadKeys` if one of them is there, or cannot be written."""
    there = [name for name in files if (directory / name).exists()]
    if there:
        raise BadKeys(f"{directory} holds {', '.join(there)} already; name another directory")
    try:
        private_file.make_directory(directory)
        for name, data in files.items():
            private_file.create(directory / name, data)
    except OSError as error:
        raise BadKeys(f"cannot write keys into {directory}: {error.strerror}; name another directory") from None


def read(directory: Path) -> PoolKeys:
    """Return the signing keys; raise `BadKeys` if the KES key is open to others, and `BadEnvelope` for other
    contents."""
    secret, certificate = directory / KES_SECRET, directory / CERTIFICATE
    try:
        with certificate.open("rb") as file:
            public = file.read(ENVELOPE_BYTES_MAX + 1)
        keys = PoolKeys(
            _content(secret, read_kes_key, private_file.read(secret, ENVELOPE_BYTES_MAX)),
            _content(certificate, read_certificate_file, public),
        )
    except private_file.Exposed as error:
        raise BadKeys(f"{error}; make it yours alone with chmod 600 {error.path}") from None
    except OSError as error:
        raise BadKeys(f"cannot read {error.filename}: {error.strerror}; name the directory of a pool's keys") from None
    if not keys.belong_together:
        said = f"{certificate} is the certificate of another KES key than {secret}"
        raise BadKeys(f"{said}; put the two there that were made together")
    return keys


def _content(path: Path, read: Callable[[bytes], T], data: bytes) -> T:
    try:
        return read(data)
    except BadEnvelope as error:
        raise BadEnvelope(f"{path}: {error}") from None
