"""Make a solved message as a user wishes it: its data, life and expiration, and the secret that rescinds it."""

from __future__ import annotations

import time
from collections.abc import Callable
from secrets import randbelow, token_bytes
from typing import Any, TypeVar

import click
from msgspec import Struct

from router.cli.exits import Exit, Failure
from router.cli.output import at_terminal, note
from router.cli.spans import WholeSeconds
from router.core.wire.text import span_text
from services.capd.core.message import NEVER, NO_HASH, CapdMessage, rescind_hash_of, shown_id
from services.capd.core.priority import LOCAL_PRIORITY, RELAY_PRIORITY, last_second
from services.capd.core.solving import (
    HARDER_MAX,
    Draft,
    Unsolvable,
    bits_of_priority,
    born_at,
    priority_for,
)
from services.capd.solver import SolverFailed, cores, expected_s, solve

RELAY_S = 300
LOCAL_S = 10
"""Least time for which a local message is above the line, which covers its way to the pool."""
SECRET_BYTES = 32
SAID_S = 1.0
"""Longest work that is not announced."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Wish(Struct, frozen=True):
    """A user's wishes for a message. `relay_s`: None if it stays local; `expires_s`: None if it never expires."""

    data: bytes
    relay_s: int | None
    expires_s: int | None
    rescindable: bool
    processes: int | None


class Solved(Struct, frozen=True):
    """A message whose work is done, and the secret that rescinds it; b"" if it cannot be rescinded."""

    message: CapdMessage
    secret: bytes

    def facts(self, relay_line: float = RELAY_PRIORITY) -> dict[str, Any]:
        """Return the values that commands print."""
        message, now_s = self.message, int(time.time())
        until_s = last_second(message.initial_priority, message.create_time, relay_line)
        if message.expires_at is not None:
            until_s = min(until_s, message.expires_at - 1)
        return {
            "id": shown_id(message.own_id()),
            "priority": message.priority(now_s),
            "relay_until": until_s if until_s >= now_s else None,
            "secret": self.secret.hex() or None,
        }


def wish_options(command: Function) -> Function:
    """Add the options that describe a message to be made."""
    for option in (
        click.option(
            "--processes", type=click.IntRange(1, 64), metavar="N", help="Solve with N processes. Default: one a core."
        ),
        click.option("--rescindable", is_flag=True, help="Make a secret with which the message can be rescinded."),
        click.option(
            "--expires",
            type=WholeSeconds(1, NEVER - 1),
            metavar="S",
            help="After S seconds it is served no more. Default: never, only its priority is used up after 600 s.",
        ),
        click.option("--local", is_flag=True, help="Only for this node's pool: the least work that it takes."),
        click.option(
            "--relay-s",
            type=WholeSeconds(1),
            metavar="S",
            help=f"Let nodes pass it on for S seconds, less than 600. Default: {RELAY_S}.",
        ),
        click.option("--hex", "hex_text", metavar="HEX", help="The data in hex, instead of DATA."),
    ):
        command = option(command)
    return command


def wish_of(
    data: bytes, relay_s: int | None, expires: int | None, processes: int | None, *, local: bool, rescindable: bool
) -> Wish:
    """Return the wish that the options describe. Raise `Failure` if no work can fulfil it."""
    if local and relay_s is not None:
        raise Failure(Exit.USAGE, "--local and --relay-s exclude each other: a local message is not passed on")
    chosen = None if local else RELAY_S if relay_s is None else relay_s
    try:
        priority_for(LOCAL_S if chosen is None else chosen)
    except Unsolvable as error:
        raise Failure(Exit.USAGE, f"--relay-s {chosen}: {error}") from None
    if chosen is not None and expires is not None and expires < chosen:
        note(f"this message is passed on for {expires} s, until its --expires, and not for {chosen} s")
    return Wish(data, chosen, expires, rescindable, processes)


async def made(
    wish: Wish, relay_line: float = RELAY_PRIORITY, local_line: float = LOCAL_PRIORITY, *, is_quiet: bool = False
) -> Solved:
    """Solve a message that is to be above these lines of a pool; if the work takes long, print beforehand how long,
    unless `is_quiet`."""
    secret = token_bytes(SECRET_BYTES) if wish.rescindable else b""
    processes = wish.processes or cores()
    line = max(LOCAL_PRIORITY, local_line) if wish.relay_s is None else max(RELAY_PRIORITY, relay_line)
    life_s = LOCAL_S if wish.relay_s is None else wish.relay_s
    draft = _draft(wish, secret, line, life_s)
    if (takes_s := expected_s(draft.difficulty_bits, processes)) > SAID_S:
        if not is_quiet:
            note(f"the work takes about {span_text(takes_s)} on average, with {processes} processes")
        draft = _draft(wish, secret, line, life_s, int(takes_s))
    try:
        return Solved(await solve(draft, processes, _progress(takes_s, is_quiet=is_quiet)), secret)
    except SolverFailed as error:
        raise Failure(Exit.FAILED, str(error)) from None


def _draft(wish: Wish, secret: bytes, line: float, life_s: int, takes_s: int = 0) -> Draft:
    """Return the message to be solved. `takes_s`: the time that the work takes, by which its life is longer."""
    now_s = int(time.time())
    born = born_at(now_s, life_s + takes_s)
    try:
        bits = bits_of_priority(priority_for(life_s + takes_s, line), len(wish.data), randbelow(HARDER_MAX))
    except Unsolvable as error:
        took = f"the work alone takes about {span_text(takes_s)}; " if takes_s else ""
        raise Failure(Exit.USAGE, f"{took}{error}") from None
    expiration = NEVER if wish.expires_s is None else min(NEVER - 1, wish.expires_s + now_s - born)
    return Draft(wish.data, born, bits, expiration, rescind_hash_of(secret) if secret else NO_HASH)


def _progress(takes_s: float, *, is_quiet: bool) -> Callable[[int], None]:
    began_s = time.monotonic()

    def show(tried: int) -> None:
        if at_terminal() and not is_quiet:
            spent_s = time.monotonic() - began_s
            click.echo(f"\r{tried:,} tried in {spent_s:.0f} s of about {takes_s:.0f} ", nl=False, err=True)

    return show
