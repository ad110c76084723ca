"""`router capd decode`: print the fields of CAPD messages, without a node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click

from router.cli.command import Command, json_option
from router.cli.exits import Exit
from router.cli.output import note, say_json
from router.cli.streams import standard_input
from router.core.wire.codec import Malformed
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.text import hex_fault
from services.capd.command_input import bytes_behind, read_file
from services.capd.core.message import CapdMessage, end_of_message, read_message, shown_id
from services.capd.core.pool_file import messages_in
from services.capd.core.view import view_of


@click.command(cls=Command)
@click.argument("messages", nargs=-1, metavar="[HEX…]")
@click.option(
    "--at",
    type=click.IntRange(0, UINT32_MAX),
    metavar="UNIX",
    help="When their priority is looked at, in Unix seconds. Default: now.",
)
@click.option(
    "--dat",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A msgpool.dat of a Nexa node, or of `router capd export`; - is standard input.",
)
@json_option
def decode(messages: tuple[str, ...], at: int | None, files: tuple[Path, ...], as_json: bool) -> None:
    """Print what stands in messages, a JSON object a line, whether with --json or not.

    Without arguments, standard input has one message in hex a line. What is no message becomes {"error": …}; then the
    exit code is 1. `valid` says whether the message's work is done. Bytes behind a message are ignored, as Nexa nodes
    do, and said on standard error.
    """
    now_s = int(time.time()) if at is None else at
    failed = False
    for found in _found(messages, files):
        failed |= isinstance(found, Malformed)
        say_json({"error": str(found)} if isinstance(found, Malformed) else view_of(found, now_s))
    if failed:
        raise SystemExit(Exit.FAILED)


def _lines_of_input() -> Iterator[str]:
    lines = standard_input("give messages as HEX or with --dat FILE")
    return (text for line in lines if (text := line.decode(errors="replace").strip()))


def _found(messages: tuple[str, ...], files: tuple[Path, ...]) -> Iterator[CapdMessage | Malformed]:
    lines = messages if messages or files else _lines_of_input()
    for text in lines:
        if fault := hex_fault(text):
            yield Malformed(f"{text[:60]!r} {fault}")
            continue
        try:
            found = read_message(data := bytes.fromhex(text))
            if (end := end_of_message(data)) < len(data):
                note(f"{shown_id(found.own_id())}: {bytes_behind(data, end)}; what stands there is ignored")
            yield found
        except Malformed as error:
            yield error
    for path in files:
        try:
            yield from messages_in(read_file(path))
        except Malformed as error:
            yield Malformed(f"{path}: {error}")
