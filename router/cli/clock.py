"""`router clock`: show whether the running node trusts its machine's clock, and let the operator confirm the clock."""

from __future__ import annotations

import time
from typing import Any

import click

from router.cli.ask import ask
from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.output import facts, say, say_json
from router.core.wire.lifetime import SECOND_NS


@click.group(cls=CommandGroup, invoke_without_command=True)
@json_option
@click.pass_context
def clock(ctx: click.Context, as_json: bool) -> None:
    """Show whether the node trusts its clock; `router clock confirm` confirms it."""
    if ctx.invoked_subcommand is None:
        _tell(ask(invocation().home, "clock"), as_json)


@clock.command(cls=Command)
@json_option
def confirm(as_json: bool) -> None:
    """Confirm that this machine's clock is right.

    Check the clock first: messages that it shows as expired end at once. Differing clocks of neighbours are then
    ignored until this clock jumps.
    """
    _tell(ask(invocation().home, "clock", "confirm"), as_json)


def _tell(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say_json(found)
        return
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found["shown_ns"] // SECOND_NS))
    facts([("clock", shown), ("state", found["state"])])
    if found["problem"]:
        say(found["problem"])
