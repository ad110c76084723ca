"""`router web invite`: a link that opens the chat in a browser, and lets its guest in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

import click
from msgspec import convert

from router.cli import qr
from router.cli.command import Command, invocation
from router.cli.exits import Exit, Failure
from router.cli.invite import address_to_dial, explain, issue, options, print_issued, settings_that_let_in
from router.cli.output import note
from router.cli.services import ask_service, written_settings
from services.web.settings import Settings
from services.web.status_command import name_option

GRANT = "join,store,why"
"""The rights of somebody who talks in a browser: reading, having messages kept, and asking how far their own came."""


@click.command(cls=Command)
@options(GRANT)
@click.option("--group", required=True, help="The name of the group in which to talk; it is made if there is none.")
@name_option
def invite(group: str, service: str, draw: qr.Drawing, as_json: bool, **wish: Any) -> None:
    """Print a link that opens the chat in a browser, for somebody who has nothing else. The node must run.

    Its secret stands behind the #, which browsers send to nobody.
    """
    qr.check(draw)
    home = invocation().home_to_change
    ask_service(home, service, "status")
    site = _site(service, written_settings(home, service))
    issued = issue(home, settings_that_let_in(home), (address_to_dial(site.link_url),), group, **wish)
    print_issued(issued, f"{urljoin(site.page_url, 'chat/')}#{issued.link}", draw, as_json)
    if site.page_note:
        note(site.page_note)
    if not as_json:
        explain(issued, "Whoever opens it in a browser gives a name and talks")


def _site(service: str, written: Mapping[str, Any]) -> Settings:
    """Return the settings of the web side; raise `Failure` if they do not say where browsers reach it."""
    site = convert(written, Settings, strict=False)
    if not site.page_url:
        said = f"browsers would not know where to reach the web side, since services.{service}.url is empty"
        raise Failure(Exit.USAGE, f"{said}; write there the address that they open, as https://hub.example/")
    return site
