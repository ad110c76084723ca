"""Arguments that several commands of the CAPD pool share, and how they are read."""

from __future__ import annotations

import re
from pathlib import Path

import click

from router.cli.exits import Exit, Failure

FILE_BYTES_MAX = 1 << 30
_HEX = re.compile(r"([0-9a-fA-F]{2})*")


def hex_of(text: str, name: str) -> bytes:
    """Return the bytes that a hexadecimal argument stands for; else end the command."""
    if not _HEX.fullmatch(text):
        raise Failure(Exit.USAGE, f"{name} {text[:60]!r} is not hexadecimal; write two digits a byte")
    return bytes.fromhex(text)


def read_file(path: Path) -> bytes:
    """Return what the file holds; `-` is standard input."""
    try:
        with click.open_file(str(path), "rb") as file:
            data: bytes = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Failure(Exit.USAGE, f"cannot read {path}: {error.strerror}; name a file that can be read") from None
    if len(data) > FILE_BYTES_MAX:
        raise Failure(Exit.USAGE, f"{path} has more than {FILE_BYTES_MAX >> 20} MiB; a pool is smaller")
    return data
