"""Dial back for a service: only the address that a router's open link comes from (R-D23)."""

from __future__ import annotations

import json
from ipaddress import ip_address

import trio

from router.client.node import Node
from router.core.wire.address import IpAddress
from router.core.wire.admin import WHENCE
from router.core.wire.crypto import SigningKey
from router.core.wire.reasons import Reason
from router.service.roles.discovery import DialBack, DialledBack
from router.transport import contract as transport
from router.transport.contract import ConnectFailed

DIAL_S = 10.0
GOODBYE_S = 1.0


async def dialled_back(node: Node, key: SigningKey, asked: DialBack) -> DialledBack:
    """Dial the asker with the service's own key; the router that answers must have the key that its link has proven."""
    answer = json.loads(await node.ask(WHENCE, asked.router.hex()))
    ip = str(answer.get("ip", ""))
    if not ip:
        return DialledBack(
            asked.tag, "", Reason.CONNECT_FAILED, "that router has no link here that comes from an address"
        )
    url = IpAddress(ip_address(ip.partition("%")[0]), asked.port).url
    try:
        stream = await transport.dial(url, key, asked.router, timeout_s=DIAL_S)
    except ConnectFailed as error:
        return DialledBack(asked.tag, ip, error.reason, error.text)
    with trio.move_on_after(GOODBYE_S):
        await stream.aclose()
    return DialledBack(asked.tag, ip)
