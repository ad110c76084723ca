"""`router guestbook` and `router guestbook-strike`: both ask the running service."""

from __future__ import annotations

import click

from router.cli.command import Command, invocation, json_option
from router.cli.output import columns, say, say_json
from router.cli.services import ask_service

COMMANDS = {
    "guestbook": "Read the guestbook.",
    "guestbook-strike": "Remove a page from the guestbook.",
}


@click.command(cls=Command)
@click.option("--name", default="guestbook", help="The guestbook's name, if there are several.")
@json_option
def guestbook(name: str, as_json: bool) -> None:
    """Read the guestbook."""
    pages, first = [], 1
    while first:
        found = ask_service(invocation().home, name, "pages", str(first))
        pages += found["pages"]
        first = found["next"]
    if as_json:
        say_json(pages)
    else:
        columns(("PAGE", "GUEST", "TEXT"), [(one["page"], one["guest"][:16], one["text"]) for one in pages], "no pages")


@click.command(cls=Command)
@click.argument("page", type=int)
@click.option("--name", default="guestbook", help="The guestbook's name, if there are several.")
def guestbook_strike(page: int, name: str) -> None:
    """Remove a page from the guestbook."""
    say(f"{ask_service(invocation().home, name, 'strike', str(page))['struck']} struck out")
