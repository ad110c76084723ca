"""`router web open` and `logins`: who may see the operator's page."""

from __future__ import annotations

import getpass
import shlex
import socket
from datetime import UTC, datetime
from urllib.parse import urljoin

import click
from msgspec import convert

from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import columns, note, say, say_json
from router.cli.services import ask_service, written_settings
from services.web.core.operator.logins import LINK_S, LOGIN_S
from services.web.core.scripts.spans import span_of
from services.web.settings import Settings
from services.web.status_command import name_option


@click.command("open", cls=Command)
@click.option("--expires", metavar="SPAN", help=f"The login is over after that time; else after {LOGIN_S // 86_400}d.")
@name_option
@json_option
def open_page(expires: str | None, service: str, as_json: bool) -> None:
    """Print a link that opens the operator's page in a browser, once.

    The page is answered on this machine unless its door speaks TLS, so a line for ssh is printed with it.
    """
    site = _site(service)
    found = ask_service(invocation().home, service, "open", str(_span(expires)))
    url, tunnel = urljoin(site.operator_page_url, f"login?link={found['link']}"), _tunnel(site)
    if as_json:
        say_json({"url": url, "ssh": tunnel, "id": found["id"], "until_s": found["until_s"]})
        return
    say(url)
    note(f"it works once, within {LINK_S // 60} minutes; `router web logins` lists who is logged in")
    if tunnel:
        note(f"from another machine, first run there: {tunnel}")


def _site(service: str) -> Settings:
    """Return the settings of the web side; raise `Failure` if it has no door for the operator."""
    site = convert(written_settings(invocation().home, service), Settings, strict=False)
    if not site.operator:
        said = f"there is no page for the operator, since services.{service}.operator is empty"
        raise Failure(Exit.USAGE, f'{said}; write there "tcp://127.0.0.1:4181", and start the node again')
    return site


def _tunnel(site: Settings) -> str | None:
    """Return the command that brings the door to another machine, None if it can be reached from there."""
    if (target := site.operator_tunnel(invocation().home.path)) is None:
        return None
    host = socket.gethostname()
    try:
        where = f"{getpass.getuser()}@{host}"
    except (KeyError, OSError):  # a user without a name
        where = host
    return shlex.join(("ssh", "-N", "-L", target, where))


def _span(text: str | None) -> int:
    try:
        return LOGIN_S if text is None else span_of(text)
    except ValueError as error:
        raise Failure(Exit.USAGE, f"--expires: {error}") from None


@click.command(cls=Command)
@click.option("--end", metavar="ID", help="End this login at once, with the pages that it has open.")
@name_option
@json_option
def logins(end: str | None, service: str, as_json: bool) -> None:
    """List who is logged in to the operator's page, and the links that nobody has used. Or end one."""
    home = invocation().home
    found = ask_service(home, service, "logins") if end is None else ask_service(home, service, "end-login", end)
    if as_json:
        say_json(found)
    elif end is not None:
        say(f"The login {end} is ended.")
    else:
        rows = [
            (one["id"], _STATES[one["state"]], _time(one["until_s"]), one["caller"] or "-", one["browser"] or "-")
            for one in found
        ]
        columns(("LOGIN", "STATE", "UNTIL (UTC)", "FROM", "BROWSER"), rows, "no logins")


_STATES = {
    "link": "link, not used yet", "open": "logged in", "ended": "ended", "over": "over", "unused": "link, never used",
}  # fmt: skip


def _time(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M}"
