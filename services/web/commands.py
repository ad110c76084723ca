"""`router web`: invitations for browsers, the tokens of scripts, a demo. Each command has a file of its own."""

from __future__ import annotations

import click

from router.cli.command import CommandGroup
from services.web.demo_command import demo
from services.web.invite_command import invite
from services.web.status_command import status
from services.web.token_commands import token, tokens

COMMANDS = {
    "web": "Pages, scripts and links over HTTP: who may use them, and how they are used.",
}


@click.group(cls=CommandGroup)
def web() -> None:
    """Pages, scripts and links over HTTP: who may use them, and how they are used."""


for _command in (invite, status, token, tokens, demo):
    web.add_command(_command)
