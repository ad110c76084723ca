"""`router capd export` and `import`: a pool as a `msgpool.dat`, as a Nexa node keeps it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click
import trio

from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import facts, note, say_json
from router.core.wire.codec import Malformed
from router.core.wire.reasons import Reason
from router.disk import private_file
from services.capd import reasons
from services.capd.client import pool_client
from services.capd.command_input import bytes_behind, hex_of, name_option, read_file
from services.capd.core import messages as m
from services.capd.core.message import CapdMessage, end_of_message, read_message
from services.capd.core.pattern import Pattern
from services.capd.core.pool_file import encode_pool, messages_in

_WORDS = {int(one): one.word for one in vars(reasons).values() if isinstance(one, Reason)}


@click.command("export", cls=Command)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@name_option
@json_option
def export_(file: Path, name: str, as_json: bool) -> None:
    """Write the messages that the pool serves to FILE, a msgpool.dat, in ascending priority.

    What has expired or was rescinded is left out, and counted: another pool would serve it.
    """
    if file.exists() and not file.is_file():
        raise Failure(
            Exit.USAGE, f"{file} is a device or a pipe, which the export would take the place of; name a file"
        )
    found, left_out = trio.run(_all, name)
    now_s = int(time.time())
    found.sort(key=lambda message: message.priority(now_s))
    try:
        private_file.replace(file, encode_pool(found))
    except OSError as error:
        raise Failure(Exit.FAILED, f"cannot write {file}: {error.strerror}; name another place") from None
    _say({"exported": len(found), "left_out": left_out}, as_json)
    if left_out:
        note(f"{left_out} messages of the pool are not in {file}: they have expired, or were rescinded")


@click.command("import", cls=Command)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--hex", "messages", multiple=True, metavar="HEX", help="A message in hex, instead of FILE. Repeatable.")
@name_option
@json_option
def import_(file: Path | None, messages: tuple[str, ...], name: str, as_json: bool) -> None:
    """Hand the messages of FILE, a msgpool.dat, to the pool, which judges each as any other.

    Says how many it has taken or held already, and how many not, by reason; exit code 1 if the file is damaged:
    then what comes before the damage has been handed in.
    """
    if (file is None) is not bool(messages):
        raise Failure(Exit.USAGE, "name a FILE, or give messages with --hex")
    counts: Counter[str] = Counter()
    given = [_whole(hex_of(text, "--hex")) for text in messages] if file is None else messages_in(read_file(file))
    try:
        trio.run(_hand_in, name, given, counts)
    except* Malformed as group:
        _say(dict(counts), as_json)
        raise Failure(Exit.FAILED, f"{file}: {_first(group)}") from None
    _say(dict(counts), as_json)


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


def _whole(data: bytes) -> CapdMessage:
    """Return the message that is all of the data; else end the command."""
    try:
        found = read_message(data)
    except Malformed as error:
        raise Failure(Exit.FAILED, f"a message: {error}") from None
    if (end := end_of_message(data)) < len(data):
        raise Failure(Exit.FAILED, f"a message: {bytes_behind(data, end)}; give the message alone")
    return found


async def _all(name: str) -> tuple[list[CapdMessage], int]:
    """Return what the pool serves, and how many messages it holds beside that."""
    async with pool_client(name) as pool:
        info: m.PoolInfo = await pool.ask(m.Info)
        found = [read_message(wire) async for _, wire in pool.messages(Pattern.prefix(b""))]
        return found, max(0, info.count - len(found))


async def _hand_in(name: str, messages: Iterable[CapdMessage], counts: Counter[str]) -> None:
    async with pool_client(name) as pool:
        for message in messages:
            answer: m.PostAnswer = await pool.ask(m.Post, message.encoded())
            counts[_WORDS.get(answer.result, str(answer.result)) if answer.result else "taken"] += 1


def _say(found: dict[str, int], as_json: bool) -> None:
    if as_json:
        say_json(found)
    else:
        facts([(name, str(count)) for name, count in found.items()] or [("taken", "0")])
