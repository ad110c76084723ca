"""Read the messages of a group that the own router holds from before an app joined it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Protocol

import trio
from msgspec import Struct

from router.client.custody.arrivals import Arrival
from router.client.errors import ClientError
from router.client.received import Received
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.message import read_header
from router.service.verbs.held import ListHeld

AT_ONCE = 32

ROW_BYTES = 36  # expiry minute(4) id(32)
NO_HISTORY = (
    'this node keeps no history, as it has no pub/sub service: add "services.pubsub" to `services` in its router.toml'
)


class HistorySource(Protocol):
    """The part of an app's connection that is needed to read history (`router.client.node.Node`)."""

    async def ask(self, word: str, argument: str = "") -> bytes: ...
    async def pull(self, group: PublicKey, id: MessageId) -> bytes | None: ...
    def opened(self, one: Arrival) -> Received | None: ...


class HistoryPlace(Struct):
    """The arrival number of the last message that was read, after which reading continues."""

    after: int = 0


async def history(
    node: HistorySource, group: PublicKey, since_s: int, place: HistoryPlace | None = None
) -> AsyncIterator[Received]:
    """Yield the messages of a joined group that the node holds and that arrived at that Unix second or later, in order
    of arrival. Messages that arrive meanwhile may be among them, and come to the group's loops as well.

    `place`: the place from which to read, which is updated. Raises `NotAnswered`, `NodeUnavailable`, `ClientError`."""
    place = HistoryPlace() if place is None else place
    after, more = place.after, True
    while more:
        asked = ListHeld(group, after, max(0, since_s))
        said = json.loads(await node.ask(asked.WORD, asked.to_argument()))
        if "error" in said:
            raise ClientError(str(said["error"]))
        if not (said["keys"] or after or said["goes_on"]):
            raise ClientError(NO_HISTORY)
        keys, after, more = base64.b64decode(said["keys"]), said["upto"], said["more"]
        ids = [MessageId(keys[at + 4 : at + ROW_BYTES]) for at in range(0, len(keys), ROW_BYTES)]
        for at in range(0, len(ids), AT_ONCE):
            for id, wire in await _pulled(node, group, ids[at : at + AT_ONCE]):
                if (one := node.opened(_arrival(id, wire))) is not None:
                    yield one
        place.after = after


async def _pulled(node: HistorySource, group: PublicKey, ids: list[MessageId]) -> list[tuple[MessageId, bytes]]:
    """Return the messages that the router still holds, in this order."""
    found: dict[MessageId, bytes] = {}

    async def pull(id: MessageId) -> None:
        if (wire := await node.pull(group, id)) is not None:
            found[id] = wire

    async with trio.open_nursery() as nursery:
        for id in ids:
            nursery.start_soon(pull, id)
    return [(id, found[id]) for id in ids if id in found]


def _arrival(id: MessageId, wire: bytes) -> Arrival:
    """Return a message as an arrival without a connection, which counts as settled."""
    return Arrival(0, 0, wire, 0, len(wire), read_header(wire, 0, len(wire)), id, time.time(), False, done=True)
