"""`router capd peers` and `address`: the neighbours of a running pool, and the address by which other pools name it."""

from __future__ import annotations

from typing import Any

import click

from router.cli.command import Command, invocation, json_option
from router.cli.output import columns, note, say, say_json
from router.cli.services import ask_service
from router.core.wire.text import counted, key_text, short, span_text
from services.capd.command_input import name_option


@click.command(cls=Command)
@name_option
@json_option
def peers(name: str, as_json: bool) -> None:
    """List the Nexa nodes and other pools that are connected, and the pools that reconcile over routers.

    With their lines, their points, and what was exchanged.
    """
    found = ask_service(invocation().home, name, "peers")
    if as_json:
        say_json(found)
        return
    _show_neighbours(found["neighbours"])
    _show_pools(found["pools"])
    _note_problems(found)


def _show_neighbours(neighbours: list[dict[str, Any]]) -> None:
    rows = [
        (
            one["target"] or one["address"],
            one["direction"],
            one["agent"] if one["open"] else "(greeting)",
            span_text(one["seconds"]),
            f"{one['line']}",
            f"{one['points']:g}",
            str(one.get("taken", 0)),
            str(one.get("sent", 0)),
            str(one.get("turned_away", 0)),
        )
        for one in neighbours
    ]
    heads = ("ADDRESS", "DIRECTION", "AGENT", "SINCE", "LINE", "POINTS", "BROUGHT", "GOT", "TURNED AWAY")
    columns(heads, rows, "no neighbours are connected")


def _show_pools(pools: list[dict[str, Any]]) -> None:
    rows = [
        (
            short(one["address"]),
            "yes" if one["present"] else "no",
            "-" if one["heard"] is None else span_text(one["heard"]),
            str(one.get("taken", 0)),
            str(one.get("sent", 0)),
            str(one.get("turned_away", 0)),
        )
        for one in pools
    ]
    if rows:
        say("")
        columns(("POOL OVER ROUTERS", "PRESENT", "HEARD", "BROUGHT", "GOT", "TURNED AWAY"), rows, "")


def _note_problems(found: dict[str, Any]) -> None:
    for one in found["pools"]:
        if one["problem"]:
            note(f"{short(one['address'])}: {one['problem']}")
    for one in found["unconnected"]:
        note(f"{one['target']}: {one['problem']}")
    for host, seconds in found["banned"].items():
        note(f"{host}: banned here for {span_text(seconds)} more, for what came from it")
    for word, count in found["refused"].items():
        note(f"{counted(count, 'connection')} {'was' if count == 1 else 'were'} refused or ended: {word}")


@click.command(cls=Command)
@name_option
@json_option
def address(name: str, as_json: bool) -> None:
    """Print the pool's address, by which the settings of other nodes name it in `peers`."""
    found = ask_service(invocation().home, name, "address")
    text = key_text("addr", bytes.fromhex(found["address"]))
    if as_json:
        say_json({"address": text})
    else:
        say(text)
