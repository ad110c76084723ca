"""Shared by the tests of the app API: groups, apps that sign on to a router's end, and reading a few messages."""

from __future__ import annotations

from rigs.router_end import RouterEnd, later

import router
from router import Node
from router.client.group import Group
from router.client.received import Received
from router.core.wire.crypto import SigningKey
from router.core.wire.grouplink import new_group
from router.core.wire.message import seal_multicast

FAMILY = new_group(b"g" * 32, b"k" * 32, "family")
OPEN = SigningKey(b"o" * 32)


def sign_on(end: RouterEnd, seed: bytes = b"", **more: object) -> Node:
    key = SigningKey(seed * 32) if seed else None
    return router.connect(url=end.url, key=key, **more)  # type: ignore[arg-type]


async def take(source: Group | Node, count: int) -> list[Received]:
    """Return the first `count` messages; the last of them stays unsettled."""
    found = []
    async for message in source:
        found.append(message)
        if len(found) == count:
            break
    return found


def settled(end: RouterEnd, node: Node) -> int:
    return end.link_to(node.key).settled


def raw_wires(count: int, key: SigningKey = OPEN) -> list[bytes]:
    return [seal_multicast(key, b"%d" % number, ttl_s=60, expiry_min=later()) for number in range(count)]
