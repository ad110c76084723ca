"""`router capd info`, `get`, `query` and `watch`: show what a pool holds, and the messages that come."""

from __future__ import annotations

import time
from typing import Any

import click
import trio

from router.cli import loop
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import facts, hint, one_line, say, say_json, size_text, while_read
from router.cli.spans import Seconds
from router.client.errors import Replaced
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.text import counted
from services.capd import reasons
from services.capd.client import PoolClient, pool_client
from services.capd.command_input import id_of, name_option, pattern_of, pattern_options
from services.capd.core import messages as m
from services.capd.core.message import read_message, shown_id
from services.capd.core.pattern import Pattern
from services.capd.core.view import number, view_of

LIFE_S = 86_400
ALONE = "nobody: the pool is alone, and its offers stay here; name nodes in services.capd.connect, or pools in peers"
NO_QUERY = "{0} has no such query; give the pattern with which `router capd watch --as {0}` left it"


@click.command(cls=Command)
@name_option
@json_option
def info(name: str, as_json: bool) -> None:
    """Say how full the pool is, and which priorities it passes on and takes."""
    found, outside = loop.run(_info, name)
    if as_json:
        say_json(
            {
                "neighbours": outside,
                "size": found.size,
                "count": found.count,
                "relayPriority": number(found.relay),
                "minPriority": number(found.least),
                "maxPriority": number(found.highest),
            }
        )
        return
    facts(
        [
            ("messages", f"{found.count}, which count for {size_text(found.size)}"),
            ("passes on", f"from a priority of {found.relay:.4g}"),
            ("takes", f"from a priority of {found.least:.4g}"),
            ("highest", f"{found.highest:.4g}"),
            ("connected", f"{outside} of its neighbours and peers" if outside else ALONE),
        ]
    )


@click.command(cls=Command)
@click.argument("id")
@name_option
@json_option
def get(id: str, name: str, as_json: bool) -> None:
    """Print the message with this ID, however it stands; exit code 1 if the pool does not hold it."""
    own_id = id_of(id)
    found: m.Found = loop.run(_ask, name, m.Get, own_id)
    if not found.messages:
        found = loop.run(_ask, name, m.Get, own_id[::-1])  # in the order in which an id is sent
    if not found.messages:
        said = f"the pool does not hold {id}; `router why {id}` says what became of it, if this node had it"
        raise Failure(Exit.FAILED, said)
    [(standing, wire)] = found.messages
    _show(standing.value, wire, as_json)


@click.command(cls=Command)
@pattern_options
@click.option("--ids", is_flag=True, help="Print ids only.")
@click.option("--start", type=click.IntRange(0, UINT32_MAX), default=0, metavar="N", help="Leave out the first N.")
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Print N at most.")
@name_option
@json_option
def query(
    prefix: str | None,
    value: str | None,
    mask: str | None,
    ids: bool,
    start: int,
    limit: int | None,
    name: str,
    as_json: bool,
) -> None:
    """Print the messages whose first bytes match, one a line; those that the pool took last come first.

    A byte beyond the end of short data matches only where the mask is 0.
    """
    loop.run(_query, name, pattern_of(prefix, value, mask), start, limit, ids, as_json)


@click.command(cls=Command)
@pattern_options
@click.option("--ids", is_flag=True, help="Print ids only.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after N messages.")
@click.option(
    "--timeout",
    type=Seconds(0, min_open=True),
    metavar="S",
    help="End after S seconds, with exit code 5 if fewer than --count have come.",
)
@click.option("--as", "as_name", metavar="NAME", help="Sign on with the kept key NAME: what matches waits while away.")
@click.option(
    "--life",
    type=click.IntRange(1, m.LIFE_S_MAX),
    default=LIFE_S,
    show_default=True,
    metavar="S",
    help="For so long the pool keeps the query.",
)
@click.option("--forget", is_flag=True, help="End this query of NAME instead.")
@name_option
@json_option
def watch(
    prefix: str | None,
    value: str | None,
    mask: str | None,
    ids: bool,
    count: int | None,
    timeout: float | None,
    as_name: str | None,
    life: int,
    forget: bool,
    name: str,
    as_json: bool,
) -> None:
    """Print messages that come from now on and match, one a line.

    With --as the query stays when this command ends, and the messages wait for NAME like any that are sent to it;
    without, the query ends with the command. A message is told once, however often it comes to the pool.

    With --as all that waits for NAME is printed and counted, also what other queries of NAME have found. The state
    printed is that of now: rescinded and expired messages, and those gone from the pool, are printed as such.
    """
    pattern = pattern_of(prefix, value, mask)
    if forget:
        if as_name is None:
            raise Failure(Exit.USAGE, "--forget ends the query of a kept key; name it with --as")
        if prefix is None and value is None:
            said = "--forget ends one query: give it as it was left, with --prefix, or with --value and --mask"
            raise Failure(Exit.USAGE, f"{said}; that for any data is --prefix ''")
        if not invocation().keeps_key(as_name):  # connecting would create the key
            raise Failure(Exit.FAILED, NO_QUERY.format(as_name))
        loop.run(_forget, name, as_name, pattern)
        return
    try:
        shown = loop.run(_watch, name, as_name, pattern, life, count, timeout, ids, as_json)
    except* Replaced:
        said = f"another command has signed on as {as_name}, and what waits for {as_name} is printed there from now on"
        raise Failure(Exit.FAILED, f"{said}; give each watch a name of its own") from None
    if count is not None and shown < count:
        raise Failure(Exit.TIMED_OUT, f"{shown} of {counted(count, 'message')} came within {timeout:g} s")


async def _ask(name: str, kind: type[Any], *arguments: Any) -> Any:
    async with pool_client(name) as pool:
        return await pool.ask(kind, *arguments)


async def _info(name: str) -> tuple[m.PoolInfo, int]:
    """Return a pool's lines, and the number of its neighbours and peers that are there."""
    async with pool_client(name) as pool:
        found: m.PoolInfo = await pool.ask(m.Info)
        return found, await pool.outside()


async def _query(name: str, pattern: Pattern, start: int, limit: int | None, ids: bool, as_json: bool) -> None:
    async with pool_client(name) as pool:
        if ids:
            async for own_id in pool.ids(pattern, start, limit):
                _show_id(own_id, as_json)
        else:
            async for standing, wire in pool.messages(pattern, start, limit):
                _show(standing.value, wire, as_json)


async def _forget(name: str, as_name: str, pattern: Pattern) -> None:
    async with pool_client(name, as_name) as pool:
        answer: m.Done = await pool.ask(m.Unwatch, pattern)
    if answer.result:
        raise Failure(Exit.FAILED, NO_QUERY.format(as_name))


async def _watch(
    name: str,
    as_name: str | None,
    pattern: Pattern,
    life_s: int,
    count: int | None,
    timeout_s: float | None,
    ids: bool,
    as_json: bool,
) -> int:
    """Print messages that come until there were `count` or the time is over; return their number.

    Messages found by other queries of this key are printed, too: settled unprinted, they would never be seen."""
    shown = 0
    async with pool_client(name, as_name) as pool, while_read():
        await _begin(pool, pattern, life_s)
        with trio.move_on_after(timeout_s if timeout_s is not None else float("inf")):
            async for match, received in pool.matches:
                message = read_message(match.message)
                own_id = message.own_id()
                if ids:
                    _show_id(own_id, as_json)
                else:
                    waited = as_name is not None
                    state = await pool.state_now(match, own_id) if waited else match.standing.value
                    _show(state, match.message, as_json)
                await received.settle()
                shown += 1
                if shown == count:
                    break
        if as_name is None:
            await pool.ask(m.Unwatch, pattern)
    return shown


async def _begin(pool: PoolClient, pattern: Pattern, life_s: int) -> None:
    answer: m.Done = await pool.ask(m.Watch, pattern, life_s)
    if answer.result:
        raise Failure(Exit.REFUSED, f"{reasons.of(answer.result).word}: {answer.text}")
    hint("watching; what comes is printed here, Ctrl-C ends")


def _show(state: str, wire: bytes, as_json: bool) -> None:
    message = read_message(wire)
    view = view_of(message, int(time.time()))
    if as_json:
        say_json({**view, "state": state})
    else:
        say(f"{view['id']} {state} {message.priority(int(time.time())):.3f} {one_line(message.data)}")


def _show_id(own_id: bytes, as_json: bool) -> None:
    shown = shown_id(own_id)
    if as_json:
        say_json({"id": shown})
    else:
        say(shown)
