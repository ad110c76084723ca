"""Asks the own router for the messages of a group that its store holds (R-C31)."""

from __future__ import annotations

import base64
import json

from router.client.errors import ClientError
from router.client.node import Node
from router.core.wire.admin import HELD
from router.service.contract import HeldIds, ListHeld


async def held_ids(node: Node, asked: ListHeld) -> HeldIds:
    """Return one page; with an error if the router did not answer."""
    try:
        said = json.loads(await node.ask(HELD, json.dumps({"group": asked.group.hex(), "after": asked.after})))
    except ClientError as error:
        return HeldIds(asked.group, error=error.text)
    if "error" in said:
        return HeldIds(asked.group, error=str(said["error"]))
    return HeldIds(asked.group, base64.b64decode(said["keys"]), said["upto"], said["more"], said["gone"])
