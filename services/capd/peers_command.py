"""`router capd peers`: the neighbours of a running pool, by the protocol between Nexa nodes."""

from __future__ import annotations

import click

from router.cli.command import Command, invocation, json_option
from router.cli.output import columns, note, say_json, span_text
from router.cli.services import ask_service
from services.capd.command_input import name_option


@click.command(cls=Command)
@name_option
@json_option
def peers(name: str, as_json: bool) -> None:
    """List the Nexa nodes and other pools that are connected: their lines, their points, and what was exchanged."""
    found = ask_service(invocation().home, name, "peers")
    if as_json:
        say_json(found)
        return
    rows = [
        (
            one["target"] or one["address"], one["direction"], one["agent"] if one["open"] else "(greeting)",
            span_text(one["seconds"]), f"{one['line']}", f"{one['points']:g}", str(one.get("taken", 0)),
            str(one.get("sent", 0)), str(one.get("turned_away", 0)),
        )
        for one in found["neighbours"]
    ]  # fmt: skip
    heads = ("ADDRESS", "DIRECTION", "AGENT", "SINCE", "LINE", "POINTS", "BROUGHT", "GOT", "TURNED AWAY")
    columns(heads, rows, "no neighbours are connected")
    pools = [
        (one["address"], "yes" if one["present"] else "no", span_text(one["heard"]), str(one.get("taken", 0)))
        for one in found["pools"]
    ]
    if pools:
        columns(("POOL OVER ROUTERS", "PRESENT", "HEARD", "BROUGHT"), pools, "")
    for one in found["unconnected"]:
        note(f"{one['target']}: {one['problem']}")
    for word, count in found["refused"].items():
        note(f"{count} connections were refused or ended: {word}")
