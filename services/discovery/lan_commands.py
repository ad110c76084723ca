"""`router lan`: the local networks on which this node is found, and finds others."""

from __future__ import annotations

from typing import Any

import click

from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.output import columns, note, say, say_json
from router.cli.services import ask_service, name_with_role
from router.core.service.roles import Role

_HEADS = ("INTERFACE", "ADDRESS", "ALLOWED", "NODES HEARD", "NETWORK ID")
_MODES = {
    "off": "off: this node says nothing on local networks; `router lan on` allows the one it is in",
    "everywhere": "on everywhere: this node says that it is there on each local network",
}


@click.group(cls=CommandGroup)
def lan() -> None:
    """Find other nodes on local networks, and be found there.

    Until a network is allowed, nothing is sent there. On an allowed one, whoever listens learns this node's address and
    that it is there, and nothing of its groups.
    """


@lan.command(cls=Command)
@click.option("--everywhere", is_flag=True, help="Allow all networks that this machine will ever be in.")
@json_option
def on(everywhere: bool, as_json: bool) -> None:
    """Allow the networks that this machine is in, for good."""
    _show(_ask("everywhere" if everywhere else "on"), as_json)


@lan.command("list", cls=Command)
@json_option
def list_(as_json: bool) -> None:
    """List the local networks that this machine is in.

    ALLOWED: whether this node says there that it is here. NODES HEARD: how many others say so now. NETWORK ID: what
    `networks` in router.toml calls the network; it is the same for all who share its gateway. If all places for nodes
    heard are taken, a line before the list says by how many hosts, and how many more nodes wait.
    """
    _show(_ask("list"), as_json)


@lan.command(cls=Command)
@json_option
def off(as_json: bool) -> None:
    """Be silent on all networks. Those that were allowed are so again after `router lan on`."""
    _show(_ask("off"), as_json)


def _ask(word: str) -> Any:
    home = invocation().home
    return ask_service(home, name_with_role(home, Role.FINDER), "lan", word)


def _show(found: Any, as_json: bool) -> None:
    if found.get("full"):
        note(found["full"])
    if as_json:
        say_json(found["networks"])
    else:
        _show_networks(found)
    if found["problem"]:
        note(found["problem"])


def _show_networks(found: Any) -> None:
    if found["mode"] in _MODES:
        say(_MODES[found["mode"]])
    rows = [
        (
            one["interface"],
            " ".join(one["addresses"][:1]),
            "yes" if one["allowed"] else "no",
            str(one["heard"]) if one["allowed"] else "-",
            one["network"] or "not known yet",
        )
        for one in found["networks"]
    ]
    columns(_HEADS, rows, "this machine is in no local network")
