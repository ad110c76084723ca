"""The API of `router.connect` without `async`, for scripts and threads: the connection lives in its own thread.

    with router.connect_blocking() as node:
        group = node.join("family")
        group.publish(b"hello")
        for message in group:
            print(message.body)

Any thread may call; each call waits for its result. Where the asynchronous API would be cancelled from outside, calls
here take `timeout_s` and raise `TimeoutError`; a loop's `next(timeout_s)` returns None.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, Literal, TypeVar, Unpack, overload

import trio

from router.client.caught_up import CaughtUp
from router.client.errors import ClientError, NodeUnavailable
from router.client.feed import Feed
from router.client.group import IN_FLIGHT, Group, Manner, Publisher
from router.client.node import ANSWER_S, Node, connect
from router.client.options import Options
from router.client.ordering import GAP_S, Order
from router.client.outcomes import Outcomes
from router.client.portal import BlockingLoop, Portal
from router.client.received import Message, Received
from router.client.senders import GroupName
from router.client.sending import Address, UnicastManner
from router.core.wire.control import Report
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.link_items import Missed, RecipientOutcome
from router.core.wire.reasons import Reason

T = TypeVar("T")


def connect_blocking(**settings: Unpack[Options]) -> BlockingNode:
    """Sign on to a node: `with router.connect_blocking() as node`. Takes what `router.connect` takes.

    Callbacks (such as `on_problem`) are called in the connection's thread.
    """
    return BlockingNode(settings)


@dataclass(frozen=True, slots=True)
class BlockingReceived(Message):
    """A message in an app's hands, as `Received` is, with a blocking `settle` and `refuse`."""

    _settle: Callable[[], None] = field(repr=False, compare=False)
    _refuse: Callable[[Reason | str, str], None] = field(repr=False, compare=False)

    def settle(self) -> None:
        """Settle this message at the node; with a journal, once it is on disk there. Calling it twice is harmless."""
        self._settle()

    def refuse(self, reason: Reason | str = Reason.PEER_REFUSED, text: str = "") -> None:
        """Refuse this message at the node; see `Received.refuse`."""
        self._refuse(reason, text)


class _Messages(AsyncIterator[BlockingReceived]):
    """Wrap a loop's messages so that their `settle` blocks."""

    def __init__(self, portal: Portal, source: AsyncIterator[Received]) -> None:
        self._portal = portal
        self._source = source

    async def __anext__(self) -> BlockingReceived:
        received = await anext(self._source)
        one, run = received, self._portal.run
        return BlockingReceived(
            one.id,
            one.body,
            one.group,
            one.source,
            one.sender,
            one.seq,
            one.deps,
            one.code,
            one.via,
            one.received_at,
            one.redelivered,
            one.seen,
            one.expiry_min,
            one.wire,
            partial(run, one.settle),
            lambda reason, text: run(partial(one.refuse, reason, text)),
            sealed=one.sealed,
            missing=one.missing,
            late=one.late,
        )


class BlockingFeed(Generic[T]):
    """`Feed` for a blocking caller."""

    def __init__(self, portal: Portal, feed: Feed[T]) -> None:
        self._portal = portal
        self._feed = feed

    def __repr__(self) -> str:
        return repr(self._feed)

    def __len__(self) -> int:
        return len(self._feed)

    @property
    def total(self) -> int:
        return self._feed.total

    def unread(self) -> list[T]:
        return self._portal.do(self._feed.unread)

    def __iter__(self) -> BlockingLoop[T]:
        return BlockingLoop(self._portal, self._feed)


class BlockingOutcomes:
    """`Outcomes` for a blocking caller."""

    def __init__(self, portal: Portal, outcomes: Outcomes) -> None:
        self._portal = portal
        self._outcomes = outcomes
        self.id, self.sealed = outcomes.id, outcomes.sealed

    def __repr__(self) -> str:
        return repr(self._outcomes)

    def __str__(self) -> str:
        return self._portal.do(lambda: str(self._outcomes))

    @property
    def recipients(self) -> list[RecipientOutcome]:
        return self._portal.do(lambda: self._outcomes.recipients)

    @property
    def complete(self) -> bool:
        return self._portal.do(lambda: self._outcomes.complete)

    def final(self, timeout_s: float | None = None) -> list[RecipientOutcome]:
        return self._portal.run(partial(self._outcomes.final, timeout_s))

    def __iter__(self) -> BlockingLoop[RecipientOutcome]:
        return BlockingLoop(self._portal, self._outcomes)


class BlockingPublisher:
    """`Publisher` for a blocking caller."""

    def __init__(self, portal: Portal, publisher: Publisher) -> None:
        self._portal = portal
        self._publisher = publisher

    def __repr__(self) -> str:
        return repr(self._publisher)

    def publish(self, body: bytes, *, timeout_s: float | None = None) -> MessageId:
        return self._portal.run(partial(self._publisher.publish, body), timeout_s)

    def flush(self, *, timeout_s: float | None = None) -> None:
        self._portal.run(self._publisher.flush, timeout_s)

    def __enter__(self) -> BlockingPublisher:
        self._publisher.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.flush()


class BlockingGroup:
    """`Group` for a blocking caller."""

    def __init__(self, portal: Portal, group: Group) -> None:
        self._portal = portal
        self._group = group
        self.key, self.name, self.raw = group.key, group.name, group.raw

    def __repr__(self) -> str:
        return repr(self._group)

    def __iter__(self) -> BlockingLoop[BlockingReceived]:
        return self.messages()

    def messages(self, *, settle_on_next: bool = True) -> BlockingLoop[BlockingReceived]:
        source = self._portal.do(partial(self._group.messages, settle_on_next=settle_on_next))
        return BlockingLoop(self._portal, _Messages(self._portal, source))

    @overload
    def publish(
        self, body: bytes, *, wait: Literal[False] = ..., timeout_s: float | None = ..., **manner: Unpack[Manner]
    ) -> MessageId: ...
    @overload
    def publish(
        self, body: bytes, *, wait: Literal[True], timeout_s: float | None = ..., **manner: Unpack[Manner]
    ) -> BlockingOutcomes: ...
    def publish(
        self, body: bytes, *, wait: bool = False, timeout_s: float | None = None, **manner: Unpack[Manner]
    ) -> MessageId | BlockingOutcomes:
        if not wait:
            return self._portal.run(lambda: self._group.publish(body, **manner), timeout_s)
        told = self._portal.run(lambda: self._group.publish(body, wait=True, **manner), timeout_s)
        return BlockingOutcomes(self._portal, told)

    def publisher(
        self,
        in_flight: int = IN_FLIGHT,
        *,
        on_refused: Callable[[ClientError], None] | None = None,
        **manner: Unpack[Manner],
    ) -> BlockingPublisher:
        return BlockingPublisher(self._portal, self._group.publisher(in_flight, on_refused=on_refused, **manner))

    def publish_many(
        self,
        bodies: Iterable[bytes],
        in_flight: int = IN_FLIGHT,
        *,
        timeout_s: float | None = None,
        **manner: Unpack[Manner],
    ) -> list[MessageId]:
        """Publish all of them; return their ids when all are in custody. `bodies` is iterated in the connection's
        thread, so it must not block."""
        return self._portal.run(partial(self._group.publish_many, bodies, in_flight, **manner), timeout_s)

    def leave(self, *, timeout_s: float | None = None) -> None:
        self._portal.run(self._group.leave, timeout_s)


class BlockingNode:
    """`Node` for a blocking caller, to be used in `with`, once."""

    def __init__(self, settings: Options) -> None:
        self._settings = settings
        self._inside: tuple[Node, Portal] | None = None
        self._started = SimpleQueue[BaseException | None]()
        self._thread = threading.Thread(target=self._live, name="router client", daemon=True)
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_left = False
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        return "<node, not yet connected>" if self._inside is None else repr(self._node)

    @property
    def _node(self) -> Node:
        return self._entered()[0]

    @property
    def _portal(self) -> Portal:
        return self._entered()[1]

    def _entered(self) -> tuple[Node, Portal]:
        if self._inside is None:
            raise ClientError("this connection has not begun: use `with router.connect_blocking() as node`")
        return self._inside

    def _live(self) -> None:
        """Run the connection in its thread, from beginning to end."""
        try:
            trio.run(self._run)
        except BaseException as error:
            self._started.put(error)
            self._failure = error

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        if self._is_left:
            return
        with self._scope:
            async with connect(**self._settings) as node:
                self._inside = node, Portal(self._token)
                self._started.put(None)
                await trio.sleep_forever()

    def __enter__(self) -> BlockingNode:
        if self._thread.ident is not None:
            raise ClientError("a connection serves one `with`; call connect_blocking() again")
        atexit.register(self._leave)  # for a Ctrl-C that comes just as the block ends
        try:
            self._thread.start()
            if (failure := self._started.get()) is not None:
                raise failure
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with suppress(NodeUnavailable):  # the thread has already ended
                self._portal.do(partial(self._node.fail, error))
        finally:
            self._leave()
        if self._failure is not None and error is None:
            raise self._failure

    def _leave(self) -> None:
        """Sign off, and return when that is done."""
        self._is_left = True
        if self._thread.is_alive():  # not so in a process forked from this one
            if self._token is not None:
                with suppress(trio.RunFinishedError):
                    self._token.run_sync_soon(self._scope.cancel)
            self._thread.join()
        atexit.unregister(self._leave)

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def key(self) -> PublicKey:
        return self._node.key

    @property
    def router(self) -> PublicKey | None:
        return self._node.router

    @property
    def is_up(self) -> bool:
        return self._node.is_up

    @property
    def problems(self) -> BlockingFeed[str]:
        return BlockingFeed(self._portal, self._node.problems)

    @property
    def missed(self) -> BlockingFeed[Missed]:
        return BlockingFeed(self._portal, self._node.missed)

    @property
    def caught_up(self) -> BlockingFeed[CaughtUp]:
        return BlockingFeed(self._portal, self._node.caught_up)

    @property
    def reports(self) -> BlockingFeed[Report]:
        return BlockingFeed(self._portal, self._node.reports)

    # -- groups and messages -------------------------------------------------------------------------------

    def join(
        self,
        group: GroupName,
        *,
        raw: bool = False,
        local: bool = False,
        order: Order = "arrival",
        gap_s: float = GAP_S,
        timeout_s: float = ANSWER_S,
    ) -> BlockingGroup:
        act = partial(self._node.join, group, raw=raw, local=local, order=order, gap_s=gap_s, timeout_s=timeout_s)
        return BlockingGroup(self._portal, self._portal.run(act))

    def group(self, group: GroupName, *, raw: bool = False) -> BlockingGroup:
        return BlockingGroup(self._portal, self._portal.do(partial(self._node.group, group, raw=raw)))

    def leave(self, group: BlockingGroup | GroupName, *, timeout_s: float = ANSWER_S) -> None:
        key = group.key if isinstance(group, BlockingGroup) else group
        self._portal.run(partial(self._node.leave, key, timeout_s=timeout_s))

    def __iter__(self) -> BlockingLoop[BlockingReceived]:
        return self.messages()

    def messages(self, *, settle_on_next: bool = True) -> BlockingLoop[BlockingReceived]:
        source = self._portal.do(partial(self._node.messages, settle_on_next=settle_on_next))
        return BlockingLoop(self._portal, _Messages(self._portal, source))

    def unicasts(self, *, settle_on_next: bool = True) -> BlockingLoop[BlockingReceived]:
        source = self._portal.do(partial(self._node.unicasts, settle_on_next=settle_on_next))
        return BlockingLoop(self._portal, _Messages(self._portal, source))

    @overload
    def send(
        self,
        address: Address,
        body: bytes,
        *,
        wait: Literal[False] = ...,
        timeout_s: float | None = ...,
        **manner: Unpack[UnicastManner],
    ) -> MessageId: ...
    @overload
    def send(
        self,
        address: Address,
        body: bytes,
        *,
        wait: Literal[True],
        timeout_s: float | None = ...,
        **manner: Unpack[UnicastManner],
    ) -> BlockingOutcomes: ...
    def send(
        self,
        address: Address,
        body: bytes,
        *,
        wait: bool = False,
        timeout_s: float | None = None,
        **manner: Unpack[UnicastManner],
    ) -> MessageId | BlockingOutcomes:
        if not wait:
            return self._portal.run(lambda: self._node.send(address, body, **manner), timeout_s)
        told = self._portal.run(lambda: self._node.send(address, body, wait=True, **manner), timeout_s)
        return BlockingOutcomes(self._portal, told)

    def ask(self, word: str, argument: str = "", *, timeout_s: float = ANSWER_S) -> bytes:
        return self._portal.run(partial(self._node.ask, word, argument, timeout_s=timeout_s))
