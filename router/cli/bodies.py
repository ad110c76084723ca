"""The bodies to send: arguments, or standard input, one message a line or all of it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import BinaryIO

import trio

from router.cli.exits import Exit, Failure
from router.cli.output import note

READ_BYTES = 1 << 16
BODY_BYTES_MAX = 64 << 20  # what the largest frame could hold; a longer line is no message


async def bodies(arguments: tuple[str, ...], *, whole: bool) -> AsyncGenerator[bytes, None]:
    """Each argument as it is; without arguments, or with the argument -, what standard input brings."""
    if arguments and arguments != ("-",):
        for one in arguments:
            yield os.fsencode(one)
        return
    stdin = sys.stdin.buffer
    if stdin.isatty():
        note("reading messages from the terminal, " + ("Ctrl-D ends" if whole else "one a line; Ctrl-D ends"))
    async with aclosing(_read_whole(stdin) if whole else _read_lines(stdin)) as read:
        async for body in read:
            yield body


async def _read_whole(stdin: BinaryIO) -> AsyncGenerator[bytes, None]:
    body = await trio.to_thread.run_sync(stdin.read, BODY_BYTES_MAX + 1, abandon_on_cancel=True)
    _check(body)
    yield body


async def _read_lines(stdin: BinaryIO) -> AsyncGenerator[bytes, None]:
    """Lines without their ends; the last one need not have one."""
    read = getattr(stdin, "read1", stdin.read)
    rest = b""
    while data := await trio.to_thread.run_sync(read, READ_BYTES, abandon_on_cancel=True):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
        _check(rest)
    if rest:
        yield rest


def _check(body: bytes) -> None:
    if len(body) > BODY_BYTES_MAX:
        said = f"standard input holds a message of more than {BODY_BYTES_MAX >> 20} MiB"
        raise Failure(Exit.USAGE, f"{said}; split it, one message a line")
