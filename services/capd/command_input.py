"""Options and arguments that several commands of the CAPD pool share, and their parsing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from router.cli.exits import Exit, Failure
from router.cli.streams import standard_input
from router.core.wire.codec import Malformed
from router.core.wire.text import hex_fault
from services.capd.core.message import ID_BYTES
from services.capd.core.pattern import KEY_BYTES, Pattern

FILE_BYTES_MAX = 1 << 30
DATA_BYTES_MAX = 900_000
NAME = "capd"

Function = TypeVar("Function", bound=Callable[..., Any])


def name_option(command: Function) -> Function:
    return click.option("--name", default=NAME, help="The pool's name, if there are several.")(command)


def hex_of(text: str, name: str) -> bytes:
    """Return the bytes of a hexadecimal argument. Raise `Failure`."""
    if fault := hex_fault(text):
        raise Failure(Exit.USAGE, f"{name} {text[:60]!r} {fault}")
    return bytes.fromhex(text)


def bytes_behind(data: bytes, end: int) -> str:
    """Describe the bytes behind a message that ends at this offset."""
    count = len(data) - end
    return f"{count} {'byte stands' if count == 1 else 'bytes stand'} behind the message, which ends at byte {end}"


def id_of(text: str) -> bytes:
    """Return an id as it is sent, from the digits that people see. Raise `Failure`."""
    found = hex_of(text, "the id")
    if len(found) != ID_BYTES:
        raise Failure(Exit.USAGE, f"the id {text[:80]!r} has {len(found)} bytes instead of {ID_BYTES}; give all of it")
    return found[::-1]


def data_of(text: str | None, hex_text: str | None) -> bytes:
    """Return the data of a message: an argument, standard input for `-`, or hexadecimal. Raise `Failure`."""
    if (text is None) is (hex_text is None):
        raise Failure(
            Exit.USAGE, "give the data of the message once: as DATA, as - for standard input, or as --hex HEX"
        )
    if hex_text is not None:
        found = hex_of(hex_text, "--hex")
    elif text == "-":
        found = standard_input("give the data as DATA or --hex HEX").read(DATA_BYTES_MAX + 1)
    else:
        assert text is not None
        found = text.encode(errors="surrogateescape")
    if len(found) > DATA_BYTES_MAX:
        raise Failure(
            Exit.USAGE, f"the data has more than {DATA_BYTES_MAX} bytes; send less, or a place to fetch it from"
        )
    return found


def pattern_options(command: Function) -> Function:
    """Add the options that choose messages by their first bytes."""
    for names, about in (
        (("--mask",), f"With --value: the bits that count, as many bytes, at most {KEY_BYTES}."),
        (("--value",), "With --mask: what the data's first bytes are to be, in hex."),
        (("--prefix",), f"What the data begins with, in hex, at most {KEY_BYTES} bytes. Default: any data."),
    ):
        command = click.option(*names, metavar="HEX", help=about)(command)
    return command


def pattern_of(prefix: str | None, value: str | None, mask: str | None) -> Pattern:
    """Return the pattern that the options describe. Raise `Failure`."""
    if (value is None) is not (mask is None):
        raise Failure(Exit.USAGE, "--value and --mask belong together; for whole bytes at the beginning, give --prefix")
    if prefix is not None and value is not None:
        raise Failure(Exit.USAGE, "give either --prefix, or --value and --mask")
    try:
        if value is not None and mask is not None:
            return Pattern.of(hex_of(value, "--value"), hex_of(mask, "--mask"))
        if len(found := hex_of(prefix or "", "--prefix")) > KEY_BYTES:
            said = f"--prefix has {len(found)} bytes, and only the first {KEY_BYTES} of the data are looked at"
            raise Failure(Exit.USAGE, f"{said}; give {KEY_BYTES} at most")
        return Pattern.prefix(found)
    except Malformed as error:
        raise Failure(Exit.USAGE, str(error)) from None


def read_file(path: Path) -> bytes:
    """Return the bytes of a file; `-` is standard input. Raise `Failure`."""
    try:
        with click.open_file(str(path), "rb") as file:
            data: bytes = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Failure(Exit.USAGE, f"cannot read {path}: {error.strerror}; name a file that can be read") from None
    if len(data) > FILE_BYTES_MAX:
        raise Failure(Exit.USAGE, f"{path} has more than {FILE_BYTES_MAX >> 20} MiB; a pool is smaller")
    return data
