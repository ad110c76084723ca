"""`router web token` and `tokens`: what scripts may do over HTTP."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import click

from router.cli import loop
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import columns, hint, say, say_json
from router.cli.services import ask_service
from router.client.node import connect
from services.web.core.scripts.spans import span_of
from services.web.status_command import name_option


@click.command(cls=Command)
@click.argument("name")
@click.option("--publish", multiple=True, metavar="GROUP", help="It may publish in this group. Repeatable.")
@click.option("--read", multiple=True, metavar="GROUP", help="It may read this group. Repeatable.")
@click.option("--expires", metavar="SPAN", help="It is over after that time, like 12h or 30d; else it has no end.")
@click.option("--in-url", is_flag=True, help="It may also stand in an address, as ?auth=TOKEN, where many may see it.")
@click.option("--end", is_flag=True, help="End the token of this name.")
@name_option
@json_option
def token(
    name: str,
    publish: tuple[str, ...],
    read: tuple[str, ...],
    expires: str | None,
    in_url: bool,
    end: bool,
    service: str,
    as_json: bool,
) -> None:
    """Make a token for a script, and print it, once: the node keeps its digest only. Or end one."""
    home = invocation().home
    if end:
        if publish or read or expires or in_url:
            raise Failure(Exit.USAGE, "--end ends a token; it goes with no other option")
        found = ask_service(home, service, "end", name)
        if as_json:
            say_json(found)
        else:
            say(f'The token "{name}" is ended.')
        return
    keys = loop.run(_keys_of, (*publish, *read))
    wish = {
        "name": name,
        "publish": {one: keys[one] for one in publish},
        "read": {one: keys[one] for one in read},
        "until_s": 0 if expires is None else int(time.time()) + _span(expires),
        "in_url": in_url,
    }
    found = ask_service(home, service, "token", json.dumps(wish, separators=(",", ":")))
    if as_json:
        say_json(found)
        return
    say(found["token"])
    hint("it is shown this once; a script sends it as `Authorization: Bearer TOKEN`")


async def _keys_of(groups: tuple[str, ...]) -> dict[str, str]:
    """Return the key of each group of the home, in hexadecimal digits. Raises the client's errors."""
    async with connect(home=invocation().home) as node:
        return {name: node.group(name).key.hex() for name in groups}


def _span(text: str) -> int:
    try:
        return span_of(text)
    except ValueError as error:
        raise Failure(Exit.USAGE, f"--expires: {error}") from None


@click.command(cls=Command)
@name_option
@json_option
def tokens(service: str, as_json: bool) -> None:
    """List the tokens of scripts, and what each may do."""
    found = ask_service(invocation().home, service, "tokens")
    if as_json:
        say_json(found)
        return
    rows = [
        (
            one["name"],
            ", ".join(one["publish"]) or "-",
            ", ".join(one["read"]) or "-",
            _time(one["until_s"]) if one["until_s"] else "no end",
            "yes" if one["in_url"] else "no",
        )
        for one in found
    ]
    columns(("TOKEN", "PUBLISHES IN", "READS", "UNTIL (UTC)", "IN ADDRESSES"), rows, "no tokens")


def _time(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M}"
