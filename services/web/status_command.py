"""`router web status`: the connections at the doors, and what they were answered."""

from __future__ import annotations

import click

from router.cli.command import Command, invocation, json_option
from router.cli.output import columns, say_json
from router.cli.services import ask_service

name_option = click.option("--service", default="web", metavar="NAME", help="The service's name, if it is another.")


@click.command(cls=Command)
@name_option
@json_option
def status(service: str, as_json: bool) -> None:
    """Show the connections at the doors, and what requests were answered, by status and reason."""
    found = ask_service(invocation().home, service, "status")
    if as_json:
        say_json(found)
        return
    rows = [
        (name, str(one["connections"]), _counts(one["answered"]), _counts(one["refused"]))
        for name, one in found.items()
    ]
    columns(("DOOR", "CONNECTIONS", "ANSWERED", "REFUSED"), rows, "no doors")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "none"
