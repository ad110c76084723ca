"""`router keys` and `router leave`: kept keys, with which apps sign on under a name, and the groups they have
joined."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import Any

import click

from router.cli import given_link, loop
from router.cli.ask import ask
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import at_terminal, columns, note, say, say_json, short_text
from router.client.errors import NodeUnavailable
from router.client.node import connect
from router.core.wire.crypto import PublicKey
from router.core.wire.text import key_text
from router.settings import keyring
from router.settings.home import Home
from router.settings.names import Names


@click.command(cls=Command)
@json_option
def keys(as_json: bool) -> None:
    """List the keys kept here, and the groups that each has joined if the node runs.

    An app signs on with a kept key by `--as NAME`. Messages to the groups that the key has joined wait
    while it is away.
    """
    home = invocation().home
    joined = _joined(home)
    rows = [_row(name, address, joined) for name, address in keyring.addresses(home).items()]
    if as_json:
        say_json(rows)
        return
    names = Names.of(home)
    table = [
        (
            one["name"],
            short_text("addr", one["address"]),
            one["kind"],
            "?" if one["groups"] is None else " ".join(_group(names, key) for key in one["groups"]),
        )
        for one in rows
    ]
    columns(("NAME", "ADDRESS", "KIND", "HAS JOINED"), table, "no keys yet; `router init` makes the node's key")
    if joined is None:
        note("no node is running: which groups they have joined is not known")


@click.command(cls=Command)
@click.argument("group")
@click.option(
    "--as", "as_name", metavar="NAME", required=True, help="The kept key that leaves; `router keys` lists them."
)
@json_option
def leave(group: str, as_name: str, as_json: bool) -> None:
    """Leave a GROUP that a kept key has joined.

    The group's messages that wait for the key end `dropped`, reason `left`, and no more are kept for it.
    """
    given_link.warn_of_secret(group, given_link.KEEP_GROUP)
    home = invocation().home
    key = keyring.load(home, as_name).public
    found = loop.run(_leave, home, group, as_name)
    if as_json:
        say_json({"name": as_name, "address": key, "group": found})
    else:
        say(f"{as_name} has left {_group(Names.of(home), found.hex())}")


def check_name(home: Home, name: str | None) -> None:
    """Announce that signing on with this name makes a new key; at a terminal, ask first if the name looks mistyped."""
    known = keyring.names(home)
    if name is None or name in known or name == keyring.NODE:
        return
    near = get_close_matches(keyring.checked(name), [one for one in known if one != keyring.NODE], n=1)
    if near and sys.stdin is not None and sys.stdin.isatty() and at_terminal():
        asked = f'there is no key "{name}", but one "{near[0]}"; make a new one'
        if not click.confirm(asked, err=True):
            raise Failure(Exit.USAGE, f"nothing was made or sent; give --as {near[0]}")
    address = key_text("addr", keyring.load_or_create(home, name).public)
    like = f' (did you mean "{near[0]}"?)' if near else ""
    kept = f"messages of the groups it joins wait for it until `router leave GROUP --as {name}`"
    note(f'made a new key "{name}", {address}{like}; {kept}')


async def _leave(home: Home, group: str, as_name: str) -> bytes:
    async with connect(home=home, as_name=as_name) as node:
        found = node.group(group)
        await node.leave(found)
        return found.key


def _joined(home: Home) -> list[dict[str, Any]] | None:
    """Return the groups that each key has joined at the running node; None if none runs."""
    try:
        found: list[dict[str, Any]] = ask(home, "groups")
    except NodeUnavailable:
        return None
    return found


def _row(name: str, address: PublicKey, joined: list[dict[str, Any]] | None) -> dict[str, Any]:
    groups = None if joined is None else [one["group"] for one in joined if one["subscriber"] == address.hex()]
    kind = "node" if name == keyring.NODE else "service" if name.startswith("service-") else "app"
    return {"name": name, "address": address, "kind": kind, "groups": groups}


def _group(names: Names, hex_key: str) -> str:
    return names.of_group(hex_key) or short_text("group", bytes.fromhex(hex_key))
