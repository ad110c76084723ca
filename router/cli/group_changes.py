"""Tell the services of a running node that the groups of its home have changed, so that they take part at once."""

from __future__ import annotations

import json
import os
from functools import partial

import trio

from router.cli import loop
from router.cli.ask import SERVICE
from router.cli.output import note
from router.client.errors import ClientError, NodeUnavailable
from router.client.node import Node, connect
from router.service.verbs.answer import LOOK_AT_GROUPS
from router.settings.home import Home

TELL_S = 5.0
"""How long a command waits until the services have joined or left."""


def tell_services(home: Home) -> None:
    """Return when the services of the home's node, if it runs, have joined and left as the home's groups now are, so
    that what is published from then on comes to them; say whose answer does not come in time."""
    if not os.path.lexists(home.socket_path):
        return
    try:
        silent = loop.run(_told, home)
    except NodeUnavailable:  # a socket that a killed node has left
        return
    except ClientError as error:
        note(f"whether the node's services take part by this now is not known: {error}")
        return
    if silent:
        said = f"not heard within {TELL_S:g} s whether {' and '.join(silent)} takes part by this now"
        note(f"{said}; a service looks for itself every few seconds, and `router status` says why one is away")


async def _told(home: Home) -> list[str]:
    """Return the names of the running services that have not answered."""
    silent = list[str]()
    async with connect(home=home) as node:
        rows = json.loads(await node.ask("status", timeout_s=TELL_S)).get("services", ())
        async with trio.open_nursery() as nursery:
            for row in rows:
                if row["state"] == "running":
                    nursery.start_soon(partial(_tell, node, row["name"], silent))
    return sorted(silent)


async def _tell(node: Node, name: str, silent: list[str]) -> None:
    try:
        await node.ask(SERVICE, f"{name} {LOOK_AT_GROUPS}", timeout_s=TELL_S)
    except ClientError:
        silent.append(name)
