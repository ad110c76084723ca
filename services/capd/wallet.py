"""What a wallet does with the pool of its node: post, reply, watch, query, rescind. Import it from `services.capd`.

async with router.connect(as_name="ada") as node, open_pool(node) as pool:
    offer = await pool.post(b"TKD\\x0c5 for 7", rescindable=True, replies_s=600)
    async for hit in pool:
        await hit.settle()
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from router.cli.exits import Failure
from router.client.node import Node
from router.client.received import Received
from router.core.wire.codec import Malformed
from router.core.wire.errors import RouterError
from router.core.wire.reasons import Reason
from services.capd import reasons
from services.capd.client import SERVICE, PoolClient, pool_of
from services.capd.command_input import DATA_BYTES_MAX
from services.capd.core import messages as m
from services.capd.core.message import NEVER, SECRET_BYTES_MAX, CapdMessage, read_message, reply_prefix, shown_id
from services.capd.core.pattern import KEY_BYTES, Pattern
from services.capd.core.priority import LIFE_S
from services.capd.core.solving import Unsolvable, priority_for
from services.capd.drafting import Wish, made

REPLY_BYTES = 16
"""The first bytes of a reply, which name the message that it replies to."""
DAY_S = 86_400


class PoolError(RouterError):
    """Raised if the pool refuses, or does not answer. `reason`: the pool's reason, None without an answer."""

    def __init__(self, text: str, reason: Reason | None = None) -> None:
        super().__init__(text)
        self.reason = reason


class Offer(Struct, frozen=True):
    """A message of one's own. `id`: as people see it; `secret`: what rescinds it, b"" if it cannot be rescinded;
    `announced_to`: to how many neighbours and peers it was announced when it was posted."""

    message: CapdMessage
    secret: bytes
    announced_to: int | None

    @property
    def id(self) -> str:
        return shown_id(self.message.own_id())


class Hit(Struct, frozen=True):
    """A message of somebody. `state`: as `router capd query` prints it; `arrival`: what brought it, if it was watched
    for."""

    message: CapdMessage
    state: str
    arrival: Received | None = None

    @property
    def id(self) -> str:
        """Return the id as people see it."""
        return shown_id(self.message.own_id())

    @property
    def data(self) -> bytes:
        return self.message.data

    @property
    def priority(self) -> float:
        """Return the priority at this second."""
        return self.message.priority(int(time.time()))

    @property
    def reply(self) -> bytes:
        """Return the data behind the 16 bytes by which a reply names its message; of no meaning in what is no reply."""
        return self.message.data[REPLY_BYTES:]

    async def settle(self) -> None:
        """Say that the message is dealt with; one that is not comes again after a crash."""
        if self.arrival is not None:
            await self.arrival.settle()


class NodePool:
    """The pool of a node, for a wallet that is connected there."""

    def __init__(self, client: PoolClient) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<NodePool over {self._client!r}>"

    async def post(
        self,
        data: bytes,
        *,
        relay_s: int = 300,
        expires_s: int | None = None,
        rescindable: bool = False,
        replies_s: int | None = None,
    ) -> Offer:
        """Do the work of a message that nodes pass on for `relay_s` seconds, and post it. With `replies_s`, replies are
        watched for as long, from before anybody can reply. Raise `PoolError` before the work for numbers that no
        message can have, and for more data than the pool takes."""
        wish = _wish(data, relay_s, expires_s, rescindable=rescindable)
        if replies_s is not None:
            _check("replies_s", replies_s, m.LIFE_S_MAX)
        try:
            self._client.check_size(wish.data)
            info: m.PoolInfo = await self._client.ask(m.Info)
            made_ = await made(wish, info.relay, info.least, is_quiet=True)
        except Failure as error:
            raise PoolError(str(error)) from None
        own_id = made_.message.own_id()
        if replies_s is not None:
            await self._ask(m.Watch, Pattern.prefix(reply_prefix(own_id)), replies_s)
        await self._answered(self._client.post(made_.message))
        return Offer(made_.message, made_.secret, await self._client.announced_to(made_.message))

    async def reply(self, to: Hit | Offer, data: bytes, *, relay_s: int = 300) -> Offer:
        """Post a reply to a message."""
        return await self.post(reply_prefix(to.message.own_id()) + data, relay_s=relay_s)

    async def watch(self, value: bytes, mask: bytes | None = None, *, life_s: int = DAY_S) -> None:
        """Leave a standing query for data that begins with these bytes, of which only the bits in `mask` count. Matches
        come by `async for hit in pool`, also those that waited while the wallet was away, if its connection has a kept
        name."""
        _check("life_s", life_s, m.LIFE_S_MAX)
        await self._ask(m.Watch, _pattern(value, mask), life_s)

    async def unwatch(self, value: bytes, mask: bytes | None = None) -> None:
        """End a standing query."""
        await self._ask(m.Unwatch, _pattern(value, mask))

    def __aiter__(self) -> NodePool:
        return self

    async def __anext__(self) -> Hit:
        """Return the next message that standing queries have found; `settle` it when it is dealt with."""
        match, arrival = await self._client.matches.receive()
        return Hit(read_message(match.message), match.standing.value, arrival)

    async def query(self, value: bytes = b"", mask: bytes | None = None, *, limit: int | None = None) -> list[Hit]:
        """Return the messages that match, the newest first; neighbours are asked for them as well, for three seconds
        at most. Raise `PoolError` for a limit below 1, and if the pool does not answer."""
        if limit is not None and limit < 1:
            raise PoolError(f"a limit of {limit} asks for nothing; give 1 or more, or none")
        try:
            pages = self._client.messages(_pattern(value, mask), 0, limit)
            return [Hit(read_message(wire), standing.value) async for standing, wire in pages]
        except Failure as error:
            raise PoolError(str(error)) from None

    async def rescind(self, offer: Offer | bytes) -> None:
        """End a message that was posted as rescindable, given as it was posted, or by its secret, which a wallet keeps
        for the time after a restart. No pool of ours serves it any more. One that was rescinded before is no error.
        Raise `PoolError`, with `capd:no-such-secret`, if the pool holds no message that the secret rescinds."""
        if not isinstance(offer, Offer | bytes):
            said = f"an offer as `post` returned it, or its secret as bytes, is rescinded, not a {type(offer).__name__}"
            raise PoolError(said)
        secret = offer if isinstance(offer, bytes) else offer.secret
        if isinstance(offer, Offer) and not secret:
            raise PoolError(f"{offer.id} was not posted with rescindable=True")
        if not 0 < len(secret) <= SECRET_BYTES_MAX:
            raise PoolError(f"the secret has {len(secret)} bytes; one has 1 to {SECRET_BYTES_MAX}")
        await self._ask(m.Rescind, secret)

    async def _ask(self, kind: type[Any], *arguments: Any) -> Any:
        return await self._answered(self._client.ask(kind, *arguments))

    @staticmethod
    async def _answered(request: Awaitable[Any]) -> Any:
        try:
            answer = await request
        except Failure as error:
            raise PoolError(str(error)) from None
        if result := getattr(answer, "result", 0):
            reason = reasons.of(result)
            raise PoolError(f"{reason.word}: {answer.text or reason.clause}", reason)
        return answer


def _pattern(value: bytes, mask: bytes | None) -> Pattern:
    if mask is None and len(value) > KEY_BYTES:
        raise PoolError(f"the prefix has {len(value)} bytes, and only the first {KEY_BYTES} of data are looked at")
    try:
        return Pattern.prefix(value) if mask is None else Pattern.of(value, mask)
    except Malformed as error:
        raise PoolError(str(error)) from None


def _wish(data: bytes, relay_s: int, expires_s: int | None, *, rescindable: bool) -> Wish:
    """Return the wish for a message; raise `PoolError` if there can be no such message."""
    if len(data) > DATA_BYTES_MAX:
        raise PoolError(f"there are {len(data)} bytes of data; no pool takes more than {DATA_BYTES_MAX}")
    try:
        priority_for(relay_s)
    except Unsolvable as error:
        raise PoolError(f"relay_s is {relay_s}: {error}") from None
    _check("relay_s", relay_s, LIFE_S - 1)
    if expires_s is not None:
        _check("expires_s", expires_s, NEVER - 1)
    return Wish(data, relay_s, expires_s, rescindable, None)


def _check(name: str, value: int, most: int) -> None:
    if not isinstance(value, int) or not 1 <= value <= most:
        raise PoolError(f"{name} is {value!r}; give a whole number of seconds from 1 to {most}")


@asynccontextmanager
async def open_pool(node: Node, service: str = SERVICE) -> AsyncIterator[NodePool]:
    """Use the pool of that name at the node. The connection's unicasts are read here: those that are not the pool's
    stay at the node, for who reads `node.unicasts()` when the pool is closed, or over another connection with this
    name. Raise `PoolError` if there is no such pool, or if the connection has one open already."""
    try:
        async with pool_of(node, service) as client:
            yield NodePool(client)
    except Failure as error:
        raise PoolError(str(error)) from None
