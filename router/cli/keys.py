"""`router init` and `router id`: the node's own key."""

from __future__ import annotations

from typing import cast

import click

from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import facts, say, say_json
from router.core.wire.text import key_text
from router.settings import config, keyring


@click.command(cls=Command)
@click.option(
    "--role",
    type=click.Choice(["edge", "core"]),
    help="An edge node serves its owner, a core node others too.",
)
@json_option
def init(role: str | None, as_json: bool) -> None:
    """Make the key and a commented configuration; print the address.

    What exists already stays as it is.
    """
    home = invocation().chosen_home
    is_new = home.create(cast(config.Role, role or "edge"))
    settings, _ = config.load(home.config_path)
    if role is not None and role != settings.node.role:
        said = f'{home.config_path} says role = "{settings.node.role}" already'
        raise Failure(Exit.USAGE, f"{said}; change that line to make it a {role} node")
    address = keyring.load_or_create(home, keyring.NODE).public
    if as_json:
        say_json({"address": address, "role": settings.node.role, "home": str(home.path), "created": is_new})
        return
    say(key_text("addr", address))
    facts([("role", settings.node.role), ("configuration", home.config_path), ("key", home.key_path)])


@click.command("id", cls=Command)
@json_option
def show_id(as_json: bool) -> None:
    """Print this node's address, whether it runs or not."""
    home = invocation().home
    address = keyring.load(home, keyring.NODE).public
    if as_json:
        say_json({"address": address, "text": key_text("addr", address), "home": str(home.path)})
    else:
        say(key_text("addr", address))
