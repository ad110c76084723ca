"""`router copy`: show whether another node runs with this node's key, and keep this node as the one that stays."""

from __future__ import annotations

import time
from typing import Any

import click

from router.cli.ask import ask
from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import for_this_home, say, say_json
from router.core.wire.errors import RouterError

BEGINS_S, AGAIN_S = 60.0, 0.3
"""How long the node may take to begin its new life, and how often it is asked meanwhile."""


@click.group(cls=CommandGroup, invoke_without_command=True)
@json_option
@click.pass_context
def copy(ctx: click.Context, as_json: bool) -> None:
    """Show whether another node runs with this node's key; `router copy keep` keeps this one."""
    if ctx.invoked_subcommand is None:
        found = ask(invocation().home, "copy")
        if as_json:
            say_json(found)
        else:
            said = found["copy"]
            say(for_this_home(said["problem"]) if said else "no other node with this node's key was heard of")


@copy.command(cls=Command)
@json_option
def keep(as_json: bool) -> None:
    """Make this node the one that stays, of those that run with its key.

    It begins a new life and connects again; every other node with its key stops where a neighbour knows both. Remove
    the other home: what waits there stays there.
    """
    home = invocation().home
    life = ask(home, "copy", "keep")["life"]
    until_s = time.monotonic() + BEGINS_S
    while (found := _asked()) is None or found["life"] != life:
        if time.monotonic() > until_s:
            said = f"the node has not begun its new life within {BEGINS_S:g} s"
            raise Failure(Exit.TIMED_OUT, f"{said}; its log says why, and `router copy` how it stands")
        time.sleep(AGAIN_S)
    if as_json:
        say_json(found)
    else:
        say("this node is the one that stays, and has begun a new life; remove the other home")


def _asked() -> dict[str, Any] | None:
    """Return the node's answer; None while it starts again."""
    try:
        found: dict[str, Any] = ask(invocation().home, "copy")
    except (Failure, RouterError):
        return None
    return found
