"""`router capd export` and `import`: a pool as a `msgpool.dat`, the file in which a Nexa node keeps its pool."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import trio

from router.cli import loop
from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import facts, note, say_json
from router.cli.streams import DASH, beside, no_terminal, standard_output
from router.core.wire.codec import Malformed
from router.core.wire.reasons import Reason
from router.core.wire.text import counted
from router.disk import private_file
from services.capd import reasons
from services.capd.client import PoolClient, pool_client
from services.capd.command_input import bytes_behind, hex_of, name_option, read_file
from services.capd.core import messages as m
from services.capd.core.limits import Standing
from services.capd.core.message import CapdMessage, end_of_message, read_message, shown_id
from services.capd.core.pattern import Pattern
from services.capd.core.pool_file import HEAD_BYTES, encode_pool, may_be_pool_file, messages_in

AT_ONCE = 4
"""Batches of messages that `import` hands in before the first of them is answered."""
NAMED_MAX = 16
"""Most messages that were turned away and that `import` names one by one."""
TOO_LONG = m.PostOutcome(int(reasons.TOO_LARGE), text=f"more than {m.MESSAGE_BYTES_MAX} bytes with its data")


@click.command("export", cls=Command)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@name_option
@json_option
def export_(file: Path, name: str, as_json: bool) -> None:
    """Write the messages that the pool serves to FILE (`-`: standard output), a msgpool.dat, in ascending priority.

    What has expired or was rescinded is left out, and counted: another pool would serve it.
    """
    _check_place(file)
    found, left_out = loop.run(_all, name)
    now_s = int(time.time())
    found.sort(key=lambda message: message.priority(now_s))
    try:
        if file == DASH:
            output = standard_output("name a file")
            output.write(encode_pool(found))
            output.flush()
        else:
            private_file.replace(file, encode_pool(found))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(Exit.FAILED, f"cannot write {file}: {error.strerror}; name another place") from None
    with beside(file):
        _say({"exported": len(found), "left_out": left_out}, as_json)
    if left_out:
        are, where = "is" if left_out == 1 else "are", "it" if file == DASH else file
        note(f"{counted(left_out, 'message')} of the pool {are} not in {where}: expired or rescinded")


def _check_place(file: Path) -> None:
    """Raise `Failure` if the export cannot go there."""
    if file == DASH:
        no_terminal("a msgpool.dat")
        return
    if file.is_dir():
        raise Failure(Exit.USAGE, "the export goes into a file, and none is named; name one, as pool.dat")
    if file.exists() and not file.is_file():
        raise Failure(
            Exit.USAGE, f"{file} is a device or a pipe, which the export would take the place of; name a file"
        )
    if file.exists() and not may_be_pool_file(_beginning(file)):
        raise Failure(Exit.USAGE, f"{file} is there already, and no msgpool.dat; name another file")


def _beginning(file: Path) -> bytes:
    try:
        with file.open("rb") as old:
            return old.read(HEAD_BYTES)
    except OSError as error:
        raise Failure(Exit.FAILED, f"cannot look at {file}: {error.strerror}; name another place") from None


@click.command("import", cls=Command)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--hex", "messages", multiple=True, metavar="HEX", help="A message in hex, instead of FILE. Repeatable.")
@name_option
@json_option
def import_(file: Path | None, messages: tuple[str, ...], name: str, as_json: bool) -> None:
    """Hand the messages of FILE, a msgpool.dat, to the pool, which judges each as any other.

    Says how many there were, how many the pool has taken now (new), how many it held already (known), of these how
    many it serves no more, and how many it has turned away, by reason; it names the first 16 of these. Exit code 4 if
    it has turned one away; 1 if the file is damaged: then what comes before the damage has been handed in.
    """
    if (file is None) is not bool(messages):
        raise Failure(Exit.USAGE, "name a FILE, or give messages with --hex")
    given = [_whole(hex_of(text, "--hex")) for text in messages] if file is None else messages_in(read_file(file))
    handed_in = HandedIn()
    try:
        loop.run(_hand_in, name, given, handed_in)
    except Exception as error:
        if isinstance(error, Malformed) or handed_in.counts["handed_in"]:
            _say_handed_in(handed_in, as_json)
        if isinstance(error, Malformed):
            raise Failure(Exit.FAILED, f"{file}: {error}") from None
        raise
    _say_handed_in(handed_in, as_json)
    if handed_in.turned_away:
        raise SystemExit(Exit.REFUSED)


def _whole(data: bytes) -> CapdMessage:
    """Return the message that fills the data to its end. Raise `Failure`."""
    try:
        found = read_message(data)
    except Malformed as error:
        raise Failure(Exit.FAILED, f"a message: {error}") from None
    if (end := end_of_message(data)) < len(data):
        raise Failure(Exit.FAILED, f"a message: {bytes_behind(data, end)}; give the message alone")
    return found


async def _all(name: str) -> tuple[list[CapdMessage], int]:
    """Return the messages that the pool serves, and the number of others that it holds."""
    async with pool_client(name) as pool:
        info: m.PoolInfo = await pool.ask(m.Info)
        found = [read_message(wire) async for _, wire in pool.messages(Pattern.prefix(b""))]
        return found, max(0, info.count - len(found))


class HandedIn:
    """What became of the messages that `import` has handed in: how many were new, known, or turned away and why."""

    def __init__(self) -> None:
        self.counts = Counter({"handed_in": 0, "new": 0, "known": 0})
        self.turned_away = Counter[Reason]()

    def __repr__(self) -> str:
        return f"<HandedIn: {self.counts}, {self.turned_away}>"

    def add(self, place: int, message: CapdMessage, became: m.PostOutcome) -> None:
        """Count one message; name it if it was turned away, as one of the first."""
        self.counts["handed_in"] += 1
        if became.result:
            if self.turned_away.total() < NAMED_MAX:
                said = f"{reasons.of(became.result).word}: {became.text}"
                note(f"message {place}, {shown_id(message.own_id())}: {said}")
            self.turned_away[reasons.of(became.result)] += 1
        else:
            self.counts["new" if became.held is None else "known"] += 1
        if became.held is not None and not became.held.is_served:
            self.counts[became.held.value] += 1


async def _hand_in(name: str, messages: Iterable[CapdMessage], handed_in: HandedIn) -> None:
    async with pool_client(name) as pool:
        await hand_in(pool, messages, handed_in)


async def hand_in(pool: PoolClient, messages: Iterable[CapdMessage], handed_in: HandedIn) -> None:
    """Hand in messages in their order, as many at a time as the pool takes in one transaction, and count what became of
    each. Raise `Malformed` when those before the damage have been handed in."""
    damage: Malformed | None = None
    await pool.ask(m.Info)  # so that the pool's prekey is here: who waits for it goes on in any order
    room = trio.Semaphore(AT_ONCE)

    async def post(first: int, some: list[CapdMessage]) -> None:
        outcomes: tuple[m.PostOutcome, ...] = (TOO_LONG,)
        if len(some) > 1 or len(some[0].encoded()) <= m.MESSAGE_BYTES_MAX:
            outcomes = (await pool.ask(m.PostMany, tuple(one.encoded() for one in some))).outcomes
        for place, (message, became) in enumerate(zip(some, outcomes, strict=True), first):
            handed_in.add(place, message, became)
        room.release()

    async with trio.open_nursery() as nursery:
        first = 1
        try:
            for some in batches(messages):
                await room.acquire()  # the batch before has been sent by then
                nursery.start_soon(post, first, some)
                first += len(some)
        except Malformed as error:
            damage = error
    if damage is not None:
        raise damage


def batches(messages: Iterable[CapdMessage], most: int = m.POST_MESSAGES_MAX) -> Iterator[list[CapdMessage]]:
    """Yield the messages in batches of at most `most`, and of `PAGE_BYTES` unless one alone has more. Raise `Malformed`
    after the batch with those before the damage."""
    some, size = list[CapdMessage](), 0
    try:
        for message in messages:
            own_size = len(message.encoded())
            if some and (len(some) == most or size + own_size > m.PAGE_BYTES):
                yield some
                some, size = [], 0
            some.append(message)
            size += own_size
    except Malformed:
        if some:
            yield some
        raise
    if some:
        yield some


def _say_handed_in(handed_in: HandedIn, as_json: bool) -> None:
    counts, turned_away = handed_in.counts, handed_in.turned_away
    if as_json:
        say_json({**counts, **{reason.word: count for reason, count in turned_away.items()}})
        return
    ended = [f"{counts[one.value]} {one.value}" for one in Standing if counts[one.value]]
    facts(
        [
            ("handed in", str(counts["handed_in"])),
            ("new", str(counts["new"])),
            ("known", ", ".join((str(counts["known"]), *ended))),
            *((reason.word, f"{count}: {reason.clause}") for reason, count in turned_away.items()),
        ]
    )


def _say(found: dict[str, int], as_json: bool) -> None:
    if as_json:
        say_json(found)
    else:
        facts([(name, str(count)) for name, count in found.items()])
