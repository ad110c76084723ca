"""An app's end of a CAPD pool: requests to the pool's address, their answers, and the matches of standing queries."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from secrets import randbits
from typing import Any
from weakref import WeakSet

import trio

from router.cli.ask import problem_of, service_answer
from router.cli.command import invocation
from router.cli.exits import Exit, Failure
from router.cli.output import note
from router.client.errors import NodeUnavailable, NotAnswered, Refused, Renewed, Replaced
from router.client.node import ANSWER_S, Node, connect
from router.client.received import Received
from router.core.wire.codec import Malformed
from router.core.wire.crypto import PublicKey
from router.core.wire.reasons import Reason
from router.core.wire.text import counted
from services.capd import reasons
from services.capd.core import messages as m
from services.capd.core.answers import WAITING
from services.capd.core.limits import Standing
from services.capd.core.message import CapdMessage, read_message, shown_id
from services.capd.core.pattern import Pattern

WAITING_MAX = 4096
"""Most matches that wait for their reader; further ones wait at the node."""
POST_S, POST_AGAIN_S, AWAY_S = 60.0, 10.0, 1.0
"""How long a message is posted again while the pool does not answer, after which time each, and after which where the
node is away."""
SERVICE = "capd"
LATER = Reason.QUEUE_FULL_RECIPIENT
GONE = "gone"
READS = (m.Query, m.Get, m.Info)
"""The requests that need no disk."""
_in_use: WeakSet[Node] = WeakSet()
"""The connections whose unicasts a client of a pool reads. Two would take each other's answers."""


class PoolClient:
    """Requests to one pool over one connection. `data_bytes_max`: the most data that it takes in one message; None if
    it has not said so."""

    def __init__(self, node: Node, pool: PublicKey, service: str = SERVICE, data_bytes_max: int | None = None) -> None:
        self._node = node
        self._data_bytes_max = data_bytes_max
        self._pool = pool
        self._service = service
        self._next = randbits(31)
        self._open: dict[int, tuple[trio.Event, list[m.Answer]]] = {}
        self._put, self.matches = trio.open_memory_channel[tuple[m.Match, Received]](WAITING_MAX)

    def __repr__(self) -> str:
        return f"<client of the pool {self._pool.hex()}: {len(self._open)} requests>"

    def check_size(self, data: bytes) -> None:
        """Raise `Failure` if the pool would refuse a message with this data as too large: before its work is done."""
        most = self._data_bytes_max
        if most is not None and len(data) > most:
            said = f"this is {counted(len(data), 'byte')} of data, and the pool takes {most:,} in one message"
            raise Failure(Exit.REFUSED, f"{reasons.TOO_LARGE.word}: {said}; send less, or a place to fetch it from")

    async def ask(self, kind: type[Any], *arguments: Any) -> Any:
        """Send a request of this type, and return its answer. Raise `Failure` if none comes in time."""
        answer = await self._ask_within(ANSWER_S, kind, *arguments)
        if answer is None:
            said = f"the pool has not answered within {ANSWER_S:.0f} s"
            cause = await problem_of(self._node, self._service) or "`router status` says whether it runs"
            raise Failure(Exit.TIMED_OUT, f"{said}: {cause}")
        return answer

    async def post(self, message: CapdMessage) -> m.PostAnswer:
        """Post a message, and return the pool's answer. Where none comes, as node or pool has died meanwhile, it is
        posted again, for `POST_S`: a pool takes it once. Raise `Failure` if it is not known then whether it did."""
        wire, end_s, why = message.encoded(), trio.current_time() + POST_S, ""
        while trio.current_time() < end_s:
            try:
                answer: m.PostAnswer | None = await self._ask_within(POST_AGAIN_S, m.Post, wire)
            except (Replaced, Renewed) as error:
                why = f" ({error})"
                break
            except NodeUnavailable as error:
                answer, why = None, f" ({error})"
                await trio.sleep(AWAY_S)
            if answer is not None:
                return answer
        shown = shown_id(message.own_id())
        said = f"the pool gave no answer{why}, and whether it holds {shown} is not known"
        raise Failure(Exit.TIMED_OUT, f"{said}; `router capd get {shown}` tells, once node and pool run")

    async def _ask_within(self, seconds: float, kind: type[Any], *arguments: Any) -> Any:
        """Send a request, and return its answer; None if none has come in that time."""
        n = self._next = (self._next + 1) % (1 << 32)
        heard, answers = trio.Event(), list[m.Answer]()
        self._open[n] = heard, answers
        try:
            await self._node.send(self._pool, m.encode_message(kind(n, *arguments)), ttl_s=max(1, int(seconds)))
            with trio.move_on_after(seconds):
                await heard.wait()
        except Refused as error:
            if error.reason is not Reason.DISK_FULL:
                raise
            if kind in READS:
                return await self._read_without_message(kind(n, *arguments))
            said = "make room there, and ask again; what the pool has answered is safe"
            raise Failure(Exit.REFUSED, f"{error}; {said}") from None
        finally:
            del self._open[n]
        return answers[0] if answers else None

    async def _read_without_message(self, request: m.Request) -> Any:
        """Ask the pool through its node's operator: a node whose disk is full takes no messages, but its pool still
        answers."""
        body = b64encode(m.encode_message(request)).decode()
        found = await service_answer(self._node, self._service, f"read {body}")
        if "answer" not in found:
            raise Failure(Exit.REFUSED, str(found.get("error", "the pool has not answered")))
        return m.decode_message(b64decode(found["answer"]))

    async def state_now(self, told: m.Match, own_id: bytes) -> str:
        """Return the state of a message now: that of the match if the pool is away, `gone` if the pool no longer holds
        it."""
        found = await self.how_it_stands(own_id)
        state = GONE if found.get("error") == m.NOT_HELD else str(found.get("state", told.standing.value))
        return Standing.RELAYED.value if state == WAITING else state

    async def how_it_stands(self, own_id: bytes) -> dict[str, Any]:
        """Return a message's state, and to how many others it was announced, as `router why` shows them.

        The node is asked, not the pool by a message: its answer would come behind the matches that wait."""
        found: dict[str, Any] = await service_answer(self._node, self._service, f"why {shown_id(own_id)}")
        return found

    async def announced_to(self, message: CapdMessage) -> int | None:
        """Return to how many neighbours and peers a message was announced; None if that is not known, as the node is
        away, or was started since."""
        try:
            found: int | None = (await self.how_it_stands(message.own_id())).get("announced_to")
        except (NodeUnavailable, NotAnswered):
            return None
        return found

    async def outside(self) -> int:
        """Return the number of neighbours that are connected and of peers that are present."""
        found = await service_answer(self._node, self._service, "peers")
        open_ones = [one for one in found.get("neighbours", ()) if one["open"]]
        return len(open_ones) + len([one for one in found.get("pools", ()) if one["present"]])

    async def messages(
        self, pattern: Pattern, start: int = 0, limit: int | None = None
    ) -> AsyncIterator[tuple[Standing, bytes]]:
        """Yield the messages that match, page by page, each with its standing, the newest first. What comes meanwhile
        moves the pages, and yet each is yielded once."""
        seen: set[bytes] = set()
        async for page in self._pages(pattern, start, limit, m.PAGE_MESSAGES_MAX, ids=False):
            for standing, wire in page.messages:
                if (own_id := read_message(wire).own_id()) not in seen:
                    seen.add(own_id)
                    yield standing, wire

    async def ids(self, pattern: Pattern, start: int = 0, limit: int | None = None) -> AsyncIterator[bytes]:
        """Yield the ids of the messages that match, page by page, each once, the newest first."""
        seen: set[bytes] = set()
        async for page in self._pages(pattern, start, limit, m.PAGE_IDS_MAX, ids=True):
            for one in page.ids:
                if one not in seen:
                    seen.add(one)
                    yield one

    async def _pages(
        self, pattern: Pattern, start: int, limit: int | None, most: int, *, ids: bool
    ) -> AsyncIterator[Any]:
        at, end = start, None if limit is None else start + limit
        while end is None or at < end:
            page = await self.ask(m.Query, pattern, ids, at, most if end is None else min(most, end - at))
            count = len(page.ids if ids else page.messages)
            yield page
            at += count
            if not count or at >= page.count:
                return

    async def read(self) -> None:
        """Receive the pool's messages, for ever; the caller that takes a match settles the message that brought it.
        What others have sent to this app stays at the node."""
        async for one in self._node.unicasts(settle_on_next=False):
            if one.source != self._pool:
                await _leave(one)
                continue
            said = self._read(one.body)
            if isinstance(said, m.Match):
                try:
                    await self._put.send((said, one))
                except trio.Cancelled:
                    await _leave(one)
                    raise
                continue
            if isinstance(said, m.Answer) and said.n in self._open:
                heard, answers = self._open[said.n]
                answers.append(said)
                heard.set()
            await one.settle()

    async def leave_matches(self) -> None:
        """Leave the matches that nobody has taken at the node, for who reads next."""
        with suppress(trio.WouldBlock):
            while True:
                _, arrival = self.matches.receive_nowait()
                await _leave(arrival)

    @staticmethod
    def _read(body: bytes) -> m.Message | None:
        try:
            return m.decode_message(body)
        except Malformed:
            return None


@asynccontextmanager
async def pool_client(service: str, as_name: str | None = None) -> AsyncIterator[PoolClient]:
    """Connect to the pool of that name on the node of the chosen home. Raise `Failure` if there is none."""
    home = invocation().home
    async with connect(home=home, as_name=as_name, on_away=note) as node, pool_of(node, service) as client:
        yield client


@asynccontextmanager
async def pool_of(node: Node, service: str = SERVICE) -> AsyncIterator[PoolClient]:
    """Use the pool of that name over an app's connection, whose unicasts are read here: those of others stay at the
    node. Raise `Failure` if there is none, or if the connection has a pool open already."""
    found = await service_answer(node, service, "address")
    if "address" not in found:
        raise Failure(Exit.FAILED, str(found.get("error", f"{service} is no CAPD pool")))
    if node in _in_use:
        raise Failure(Exit.USAGE, "this connection has a pool open already: use that one, or another connection")
    _in_use.add(node)
    client = PoolClient(node, PublicKey(bytes.fromhex(found["address"])), service, found.get("data_bytes_max"))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.read)
            yield client
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        raise group.exceptions[0] from group.exceptions[0].__cause__  # as the caller's block has raised it
    finally:
        _in_use.discard(node)
        with trio.CancelScope(shield=True):
            await client.leave_matches()


async def _leave(one: Received) -> None:
    """Leave a message at the node, which brings it again after a pause."""
    await one.refuse(LATER, "this app reads what its pool sends, and nothing else now")


async def held_id(service: str, own_id: bytes) -> bytes | None:
    """Return the id, as it is sent, of a message that the pool holds, given in either order of its bytes; None if it
    holds neither."""
    async with pool_client(service) as client:
        for one in (own_id, own_id[::-1]):
            found: m.Found = await client.ask(m.Get, one)
            if found.messages:
                return one
    return None
