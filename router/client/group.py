"""A group as an app sees it: a loop over its messages, and a way to publish."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Literal, TypedDict, overload

import trio

from router.client.composer import Composed, Composer, GroupSender, Lifetime, octets
from router.client.errors import ClientError
from router.client.interrupts import uninterrupted
from router.client.loops import AddressLoops, Messages
from router.client.outcomes import Outcomes
from router.client.publishing import Posted, Publishing
from router.client.received import Received
from router.client.senders import GroupKeys
from router.core.wire.codec import unframe
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.lifetime import EXPIRY_MIN, TTL_S
from router.core.wire.text import key_text, short

IN_FLIGHT = 1000

Leave = Callable[[PublicKey], Awaitable[None]]


class Lifespan(TypedDict, total=False):
    """The longest time that a message may wait, and the time for which it is valid; see `Group.publish`."""

    ttl_s: int
    expiry_min: int


class Manner(Lifespan, total=False):
    """The longest time that a message may wait, the time for which it is valid, and whether its body goes unsealed
    (`raw`)."""

    raw: bool | None


@uninterrupted
class Group:
    """A group of one app, made by `Node.join` (which receives) or `Node.group` (which need not).

    `raw`: bodies are published and handed out unsealed. Otherwise they are sealed for the group's members.
    """

    def __init__(
        self,
        sender: GroupSender,
        name: str | None,
        composer: Composer,
        publishing: Publishing,
        door: AddressLoops,
        leave: Leave,
        *,
        raw: bool,
    ) -> None:
        self.key = sender.group
        self.name = name
        self.raw = raw or sender.content_key is None
        self.causes = sender.causes
        self.hints = sender.hints
        self.group_keys = GroupKeys(None if self.raw else sender.content_key, sender.causes)
        self._sender = sender
        self._composer = composer
        self._publishing = publishing
        self._door = door
        self._leave = leave

    def __repr__(self) -> str:
        name = f'"{self.name}" ' if self.name else ""
        may = "may publish" if self.may_publish else "read only"
        return f"<group {name}{short(key_text('group', self.key))}, {may}{', raw' if self.raw else ''}>"

    @property
    def may_publish(self) -> bool:
        """Whether the key to send in this group is at hand."""
        return self._sender.signer is not None

    # -- receiving -----------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Received]:
        return self._door.loop()

    def messages(self, *, settle_on_next: bool = True) -> Messages:
        """Return a loop over the group's messages. Without `settle_on_next` each must be settled by hand, in any order;
        the node sends at most a window beyond the oldest unsettled one."""
        return self._door.loop(settle_on_next=settle_on_next)

    async def leave(self) -> None:
        """Leave this group; its messages queued for this app are logged as dropped."""
        await self._leave(self.key)

    # -- publishing ----------------------------------------------------------------------------------------

    @overload
    async def publish(
        self,
        body: bytes,
        *,
        ttl_s: int = ...,
        expiry_min: int = ...,
        raw: bool | None = ...,
        wait: Literal[False] = ...,
    ) -> MessageId: ...
    @overload
    async def publish(
        self, body: bytes, *, ttl_s: int = ..., expiry_min: int = ..., raw: bool | None = ..., wait: Literal[True]
    ) -> Outcomes: ...
    async def publish(
        self,
        body: bytes,
        *,
        ttl_s: int = TTL_S,
        expiry_min: int = EXPIRY_MIN,
        raw: bool | None = None,
        wait: bool = False,
    ) -> MessageId | Outcomes:
        """Publish, and return the message's id when the router has it in custody; with `wait`, return its outcomes.

        `ttl_s`: seconds that it may wait at each router for absent recipients; `expiry_min`: minutes for which it is
        valid. For an unsealed body either may be up to an eighth less (255 at most), so that equal bodies differ.
        Raises `Refused`, `NodeUnavailable`, `CannotPublish`. If cancelled before it was sent, the message is taken
        back; if cancelled later, it may have been published.
        """
        compose = self._compose(body, Lifetime(ttl_s, expiry_min), raw)
        posted = await self._publishing.deliver(compose, follow=wait)
        return posted.id if posted.outcomes is None else posted.outcomes

    def signed(self, body: bytes, lifetime: Lifetime, *, raw: bool | None = None) -> bytes:
        """Sign a message without publishing it; see `Wires.hand_in`."""
        return unframe(self._compose(body, lifetime, raw)().frame)

    def signed_once(self, body: bytes, ttl_s: int, until_s: int) -> bytes:
        """Sign an unsealed message that is the same whoever signs it, without publishing it."""
        return unframe(self._composer.once(self._sender, octets(body), ttl_s, until_s).frame)

    def publisher(
        self,
        in_flight: int = IN_FLIGHT,
        *,
        ttl_s: int = TTL_S,
        expiry_min: int = EXPIRY_MIN,
        raw: bool | None = None,
        on_refused: Callable[[ClientError], None] | None = None,
        on_custody: Callable[[MessageId], None] | None = None,
    ) -> Publisher:
        """Return a `Publisher`, which publishes many with at most `in_flight` not yet in custody."""
        compose = partial(self._compose, lifetime=Lifetime(ttl_s, expiry_min), raw=raw)
        return Publisher(self._publishing, compose, in_flight, on_refused, on_custody)

    async def publish_many(
        self,
        bodies: Iterable[bytes] | AsyncIterable[bytes],
        in_flight: int = IN_FLIGHT,
        *,
        ttl_s: int = TTL_S,
        expiry_min: int = EXPIRY_MIN,
        raw: bool | None = None,
    ) -> list[MessageId]:
        """Publish all of them; return their ids when all are in custody. Raise the error of the first that failed."""
        ids: list[MessageId] = []
        async with self.publisher(in_flight, ttl_s=ttl_s, expiry_min=expiry_min, raw=raw) as publisher:
            if isinstance(bodies, AsyncIterable):
                async for body in bodies:
                    ids.append(await publisher.publish(body))
            else:
                for body in bodies:
                    ids.append(await publisher.publish(body))
        return ids

    def _compose(self, body: bytes, lifetime: Lifetime, raw: bool | None) -> Callable[[], Composed]:
        as_it_is = self.raw if raw is None else raw
        return partial(self._composer.multicast, self._sender, octets(body), lifetime, raw=as_it_is)


@uninterrupted
class Publisher:
    """`async with group.publisher() as p: await p.publish(body)`: return the id when the message is handed in, and wait
    while `in_flight` are not yet in custody. Leaving the block waits for all of them.

    The first failure is raised at the next `publish` or at the end of the block; with `on_refused`, each error goes
    there instead and publishing goes on. `on_custody` gets the id of each message that is in custody.
    """

    def __init__(
        self,
        publishing: Publishing,
        compose: Callable[[bytes], Callable[[], Composed]],
        in_flight: int,
        on_refused: Callable[[ClientError], None] | None,
        on_custody: Callable[[MessageId], None] | None,
    ) -> None:
        if in_flight < 1:
            raise ValueError(f"in_flight is {in_flight}; at least 1 message must be allowed")
        self._publishing = publishing
        self._compose = compose
        self._most = in_flight
        self._on_refused = on_refused
        self._on_custody = on_custody
        self._lot = trio.lowlevel.ParkingLot()
        self._error: ClientError | None = None
        self._is_entered = False
        self.in_flight = 0
        self.settled = 0

    def __repr__(self) -> str:
        return f"<publisher: {self.settled} settled, {self.in_flight} of at most {self._most} in flight>"

    async def publish(self, body: bytes) -> MessageId:
        """Hand in the next message as soon as there is room, and return its id. Raise the error of an earlier one that
        failed."""
        if not self._is_entered:
            raise ClientError("a publisher is used in a `with` block, whose end waits for what is still on its way")
        while self.in_flight >= self._most and self._error is None:
            await self._lot.park()
        self._raise()
        self.in_flight += 1  # before waiting for room: other tasks may publish meanwhile
        try:
            posted, _ = await self._publishing.post(self._compose(body), done=self._over)
        except BaseException:
            self.in_flight -= 1
            self._lot.unpark_all()
            raise
        return posted.id

    def _over(self, posted: Posted) -> None:
        self.in_flight -= 1
        if posted.error is None:
            self.settled += 1
            if self._on_custody is not None:
                self._on_custody(posted.id)
        elif self._on_refused is not None:
            self._on_refused(posted.error)
        elif self._error is None:
            self._error = posted.error
        self._lot.unpark_all()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def flush(self) -> None:
        """Wait until all messages published so far are in custody. Raise the error of the first that failed."""
        await trio.lowlevel.checkpoint()
        while self.in_flight:
            await self._lot.park()
        self._raise()

    def enter(self) -> None:
        """Begin the publisher's block."""
        self._is_entered = True

    async def __aenter__(self) -> Publisher:
        self.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.flush()
