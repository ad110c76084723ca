"""`router capd post`, `reply`, `solve` and `rescind`: messages of one's own."""

from __future__ import annotations

import time
from typing import Any

import click
import trio

from router.cli import loop
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import facts, note, say, say_json, time_text
from router.cli.spans import WholeSeconds
from router.core.wire.errors import RouterError
from router.core.wire.text import counted
from services.capd import reasons, secrets_file
from services.capd.client import PoolClient, held_id, pool_client
from services.capd.command_input import data_of, hex_of, id_of, name_option
from services.capd.core import messages as m
from services.capd.core.limits import Standing
from services.capd.core.message import SECRET_BYTES_MAX, read_message, reply_prefix, rescind_hash_of, shown_id
from services.capd.drafting import Solved, Wish, made, wish_of, wish_options

ANEW_S, ANEW_SHARE = 15, 4
"""An offer that is kept alive is posted anew `ANEW_S` seconds before its relay life ends, or one part in `ANEW_SHARE`
of that life if this is less, and earlier by twice the time that its work took."""
AGAIN_S = 3.0
"""Seconds until posting anew is tried again after a failure."""
LOCAL_LIFE_S = 500
"""The life of a local offer that is kept alive, before whose end it is posted anew."""


@click.command(cls=Command)
@click.argument("data", required=False, metavar="[DATA|-]")
@wish_options
@click.option("--keep", type=WholeSeconds(1), metavar="S", help="Keep it alive for S seconds: post it anew in time.")
@name_option
@json_option
def post(data: str | None, hex_text: str | None, keep: int | None, name: str, as_json: bool, **wishes: Any) -> None:
    """Do the work of a message and post it to this node's pool.

    Prints id, priority, until when nodes pass it on (with --json in Unix seconds), and the secret that rescinds it.
    It is on disk when the command returns. With --keep it is posted anew before nodes cease to pass it on,
    and the message before is rescinded, as long as the command runs; it waits for a node that is away. When it
    ends, the last one stays until its life is over: `router capd rescind ID` ends it before. Begun again, the
    command knows nothing of those before.
    """
    loop.run(_post_all, _wish(data_of(data, hex_text), wishes, keep), keep, name, as_json)


@click.command(cls=Command)
@click.argument("id")
@click.argument("data", required=False, metavar="[DATA|-]")
@wish_options
@name_option
@json_option
def reply(id: str, data: str | None, hex_text: str | None, name: str, as_json: bool, **wishes: Any) -> None:
    """Post a reply to the message with this ID.

    Its data begins with 16 bytes of that id, for which the other can watch. The message may be one that this pool does
    not hold; then the command says so.
    """
    own_id, rest = id_of(id), data_of(data, hex_text)
    held = loop.run(held_id, name, own_id)
    if held is None:
        note(f"the pool does not hold {id}: look whether that is the id; the reply is posted all the same")
    whole = reply_prefix(held or own_id) + rest
    loop.run(_post_all, _wish(whole, wishes, None), None, name, as_json)


@click.command(cls=Command)
@click.argument("data", required=False, metavar="[DATA|-]")
@wish_options
@json_option
def solve(data: str | None, hex_text: str | None, as_json: bool, **wishes: Any) -> None:
    """Do the work of a message, and print it in hex; no node is asked.

    `router capd import --hex` hands it in, at any node's pool.
    """
    found = loop.run(made, _wish(data_of(data, hex_text), wishes, None))
    wire = found.message.encoded().hex()
    if as_json:
        say_json({**found.facts(), "message": wire})
    else:
        say(wire)
        if found.secret:
            note(f"the secret that rescinds it: {found.secret.hex()}")


@click.command(cls=Command)
@click.argument("id")
@click.argument("secret", required=False)
@name_option
@json_option
def rescind(id: str, secret: str | None, name: str, as_json: bool) -> None:
    """Rescind a message that was posted with --rescindable.

    Without SECRET (in hex), the one that this home has kept. The message is neither served nor matched any more. Of one
    that was rescinded before it says so, and is content.
    """
    own_id = id_of(id)
    if secret is not None:
        found = hex_of(secret, "the secret")
        if len(found) > SECRET_BYTES_MAX:
            raise Failure(Exit.USAGE, f"the secret has {len(found)} bytes; one has at most {SECRET_BYTES_MAX}")
    else:
        found = _kept_secret(own_id)
    ended, standing = loop.run(_rescind, name, own_id, found)
    shown = [shown_id(one) for one in ended]
    if as_json:
        say_json({"rescinded": shown})
    elif shown:
        say("\n".join(shown))
    if not shown and standing is not Standing.RESCINDED:
        raise Failure(Exit.FAILED, _unended(own_id))
    if not shown:
        note(f"{shown_id(own_id)} was rescinded before; nothing is left to be done")


def _kept_secret(own_id: bytes) -> bytes:
    """Return the secret that this home has kept for a message, whose id is given in either order of its bytes."""
    for one in (own_id, own_id[::-1]):
        if (kept := secrets_file.find(invocation().home.path, shown_id(one))) is not None:
            return kept
    said = f"this home has no secret for {shown_id(own_id)}"
    raise Failure(Exit.FAILED, f"{said}: it was not posted from here with --rescindable, or long ago; give SECRET")


def _unended(own_id: bytes) -> str:
    said = "the pool holds no live message that this secret rescinds"
    return f"{said}; `router capd get {shown_id(own_id)}` says how it stands"


def _wish(data: bytes, wishes: dict[str, Any], keep: int | None) -> Wish:
    return wish_of(
        data,
        wishes["relay_s"],
        wishes["expires"],
        wishes["processes"],
        local=wishes["local"],
        rescindable=wishes["rescindable"] or keep is not None,
    )


async def _post_all(wish: Wish, keep_s: int | None, name: str, as_json: bool) -> None:
    """Post a message; with `keep_s`, go on for that long: post it anew before its life ends, and rescind the one
    before."""
    end_s = time.monotonic() + (keep_s or 0)
    if wish.rescindable:  # its secret is kept in the home
        invocation().home.check_format()
    async with pool_client(name) as pool:
        last: Solved | None = None
        is_late = False
        while True:
            began_s = time.monotonic()
            try:
                pool.check_size(wish.data)
                info: m.PoolInfo = await pool.ask(m.Info)
                found = await made(wish, info.relay, info.least)
                took_s = time.monotonic() - began_s
                announced_to = await _post(pool, found, is_local=wish.relay_s is None)
                if last is not None:
                    await pool.ask(m.Rescind, last.secret)
            except (Failure, RouterError) as error:
                if last is None or time.monotonic() > end_s:
                    raise
                if not is_late:
                    note(f"not posted anew; that is tried again until it is: {error}")
                is_late = True
                await trio.sleep(AGAIN_S)
                continue
            _show(found, info, announced_to, as_json)
            last, is_late = found, False
            life_s = LOCAL_LIFE_S if wish.relay_s is None else wish.relay_s
            pause_s = max(1.0, life_s - min(ANEW_S, life_s / ANEW_SHARE) - 2 * took_s)
            if time.monotonic() + pause_s > end_s:
                return
            await trio.sleep(pause_s)


async def _post(pool: PoolClient, found: Solved, *, is_local: bool) -> int | None:
    """Post a message; return to how many neighbours and peers it was announced, None if it is local, or that is not
    known."""
    own_id = shown_id(found.message.own_id())
    if found.secret:
        secrets_file.keep(invocation().home.path, own_id, found.secret)
    answer = await pool.post(found.message)
    if answer.result:
        raise Failure(Exit.REFUSED, f"{reasons.of(answer.result).word}: {answer.text}")
    return None if is_local else await pool.announced_to(found.message)


def _show(found: Solved, info: m.PoolInfo, announced_to: int | None, as_json: bool) -> None:
    shown = {**found.facts(info.relay), "announced_to": announced_to}
    if as_json:
        say_json(shown)
        return
    until_s = shown["relay_until"]
    facts(
        [
            ("id", shown["id"]),
            ("priority", f"{shown['priority']:.4g}"),
            ("relay_until", None if until_s is None else time_text(until_s)),
            ("announced_to", None if announced_to is None else _reach(announced_to)),
            ("secret", shown["secret"]),
        ]
    )


def _reach(announced_to: int) -> str:
    return (
        counted(announced_to, "neighbour")
        if announced_to
        else "nobody yet; it is announced to each neighbour whose relay line it reaches"
    )


async def _rescind(name: str, own_id: bytes, secret: bytes) -> tuple[tuple[bytes, ...], Standing]:
    """Rescind the message with this id; return the ids of those that ended with it, and how it stood before. Raise
    `Failure` if the secret is another message's, since the pool is asked by the secret alone."""
    async with pool_client(name) as pool:
        for one in (own_id, own_id[::-1]):
            found: m.Found = await pool.ask(m.Get, one)
            if found.messages:
                break
        else:
            said = f"the pool does not hold {shown_id(own_id)}"
            raise Failure(Exit.FAILED, f"{said}; `router why {shown_id(own_id)}` says what became of it")
        if read_message(found.messages[0][1]).rescind_hash != rescind_hash_of(secret):
            said = f"the secret is not that of {shown_id(own_id)}"
            raise Failure(Exit.REFUSED, f"{said}; nothing was rescinded: give the one that `router capd post` printed")
        answer: m.Rescinded | m.Done = await pool.ask(m.Rescind, secret)
        return answer.ids if isinstance(answer, m.Rescinded) else (), found.messages[0][0]
