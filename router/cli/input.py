"""Read the bodies to send: arguments, whole files, or standard input, as one message or one a line."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import IO, BinaryIO

import click
import trio

from router.cli.exits import Exit, Failure
from router.cli.output import note
from router.cli.streams import standard_input

READ_BYTES = 1 << 16
BODY_BYTES_MAX = 64 << 20  # the most that the largest frame could hold; a longer line is no message
CLOSED = "give messages as BODY or with --file PATH"


async def bodies(
    arguments: tuple[str, ...], files: tuple[str, ...] = (), *, whole: bool
) -> AsyncGenerator[bytes, None]:
    """Yield each argument and each file as a body; without any, or for the argument -, read standard input."""
    for path in files:
        if path == "-":
            standard_input(CLOSED)
        with click.open_file(path, "rb") as file:
            yield await _read_whole(file, "standard input" if path == "-" else path)
    if files:
        return
    if arguments and arguments != ("-",):
        for one in arguments:
            yield os.fsencode(one)
        return
    stdin = standard_input(CLOSED)
    if stdin.isatty():
        note("reading messages from the terminal, " + ("Ctrl-D ends" if whole else "one a line; Ctrl-D ends"))
    if whole:
        yield await _read_whole(stdin, "standard input")
        return
    async with aclosing(_read_lines(stdin)) as read:
        async for body in read:
            yield body


async def _read_whole(file: IO[bytes], name: str) -> bytes:
    body = bytearray()
    while data := await _read(file):
        body += data
        if len(body) > BODY_BYTES_MAX:
            said = f"{name} holds more than {BODY_BYTES_MAX >> 20} MiB, the most that one message may hold"
            raise Failure(Exit.USAGE, f"{said}: split it")
    return bytes(body)


async def _read_lines(stdin: BinaryIO) -> AsyncGenerator[bytes, None]:
    """Yield lines without their line ends; the last one need not have one."""
    rest = b""
    while data := await _read(stdin):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
        _check(rest)
    if rest:
        yield rest


async def _read(file: IO[bytes]) -> bytes:
    """Read the available bytes, past the buffer: its lock would be fatal if a waiting thread held it at exit."""
    raw: IO[bytes] = getattr(file, "raw", file)
    return await trio.to_thread.run_sync(raw.read, READ_BYTES, abandon_on_cancel=True)


def _check(body: bytes) -> None:
    if len(body) > BODY_BYTES_MAX:
        said = f"standard input holds a message of more than {BODY_BYTES_MAX >> 20} MiB"
        raise Failure(Exit.USAGE, f"{said}; split it, one message a line")
