"""`router web`: invitations for browsers, tokens of scripts, logins of the operator. Each command has its own file."""

from __future__ import annotations

import click

from router.cli.command import CommandGroup
from services.web.demo_command import demo
from services.web.invite_command import invite
from services.web.login_commands import logins, open_page
from services.web.status_command import status
from services.web.token_commands import token, tokens

COMMANDS = {
    "web": "Pages, scripts and links over HTTP: who may use them, and how they are used.",
}


@click.group(cls=CommandGroup)
def web() -> None:
    """Pages, scripts and links over HTTP: who may use them, and how they are used."""


for _command in (invite, logins, open_page, status, token, tokens, demo):
    web.add_command(_command)
