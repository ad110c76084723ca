"""`router dmq mempool`: the live messages of a running DMQ node."""

from __future__ import annotations

import datetime
from typing import Any

import click

from router.cli.command import Command, invocation, json_option
from router.cli.output import columns, say_json
from router.cli.services import ask_service

from .status import name_option


@click.command(cls=Command)
@name_option
@json_option
def mempool(name: str, as_json: bool) -> None:
    """List the live messages, in the order in which they were taken."""
    found: list[dict[str, Any]] = []
    after = 0
    while True:
        page = ask_service(invocation().home, name, "mempool", str(after))
        found += page["messages"]
        if not (after := page["next"]):
            break
    if as_json:
        say_json(found)
        return
    rows = [
        (str(one["number"]), one["id"], one["pool"][:16], str(one["size"]), _time(one["expires_at"])) for one in found
    ]
    columns(("NUMBER", "ID", "POOL", "BYTES", "EXPIRES (UTC)"), rows, "no messages")


def _time(wall_s: int) -> str:
    return datetime.datetime.fromtimestamp(wall_s, datetime.UTC).strftime("%H:%M:%S")
