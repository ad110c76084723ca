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
    "web": "Let browsers and scripts in over HTTP, and show what they do.",
}


@click.group(cls=CommandGroup)
def web() -> None:
    """Let browsers and scripts in over HTTP, and show what they do."""


for _command in (invite, logins, open_page, status, token, tokens, demo):
    web.add_command(_command)
