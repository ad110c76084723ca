"""`router pubsub`: what the pub/sub service of a running node knows of other routers."""

from __future__ import annotations

from typing import Any

import click

from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.output import address_text, columns, hint, say_json
from router.cli.services import ask_service
from router.core.wire.text import counted, span_text

COMMANDS = {
    "pubsub": "Show the routers with which groups are shared, and those that pass nothing on.",
}

HEADS = ("ROUTER", "CONNECTED", "GROUPS", "NEIGHBOUR IN", "PASSES ON")


@click.group(cls=CommandGroup)
def pubsub() -> None:
    """Show what the pub/sub service of a running node knows of other routers."""


@pubsub.command(cls=Command)
@json_option
def peers(as_json: bool) -> None:
    """List the routers with which groups are shared, those that pass nothing on first.

    NEIGHBOUR IN says in how many of these groups messages may go to the router. One that takes messages and passes none
    on is barred for an hour, and for twice as long each time after that.
    """
    found = ask_service(invocation().home, "pubsub", "peers")
    if as_json:
        say_json(found)
        return
    rows = [
        (
            address_text(one["router"]),
            "yes" if one["connected"] else "no",
            f"{one['groups']:,}",
            f"{one['neighbour']:,}",
            judged_text(one),
        )
        for one in found["peers"]
    ]
    columns(HEADS, rows, "no group is shared with another router")
    if found["more"]:
        hint(f"and {counted(found['more'], 'router')} more, against which nothing stands")


def judged_text(one: dict[str, Any]) -> str:
    """Return what is known of a router: whether it is barred, and the proofs that it passes nothing on."""
    told = [
        *([f"{counted(one['lost'], 'message')} taken and lost"] if one["lost"] else []),
        *([f"{counted(one['withheld'], 'message')} withheld"] if one["withheld"] else []),
    ]
    if one["barred_s"]:
        kept = f", but kept in {counted(one['neighbour'], 'group')} without another" if one["neighbour"] else ""
        return f"nothing: barred for {span_text(one['barred_s'])} more{kept}"
    return f"in doubt: {', '.join(told)}" if told else "nothing is known against it"
