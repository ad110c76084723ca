"""Actors as trio tasks: pykka's references and registry, run in the nursery of the code that started them.

Only the actor's task touches its state. `tell` works from every thread; in trio, ask by `await ref.ask(message,
block=False)`, because a blocking ask raises `WouldBlock` there.

* Stopping: messages sent before are handled, children stop (last started first), tasks in `nursery` are cancelled,
  `on_stop` runs, and asks that are still open raise `ActorDeadError`. Cancelling does the same but discards the inbox.
* Failing: an exception in an *ask* is raised in the asker and the actor lives on. In a *tell*, a hook or a task of
  `nursery` it ends the actor: it is logged, then `on_failure` and the parent's `on_child_end` run. `sys.exit()` in an
  actor counts as its failure and does not end the process. A `fatal` actor ends its parent too, and at the top the
  system: `ActorFailed` is raised from `actor_system()`.
* Hooks are synchronous; `on_receive` and methods called through a proxy may be `async def`.

The overridden `_create_actor_inbox`, `_create_future` and `_start_actor_loop` are pykka 4's hooks for this.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import CoroutineType
from typing import Any, ClassVar, Self, TypeVar

import pykka
import trio
from msgspec import Struct, field
from pykka import messages
from pykka._envelope import Envelope

from router.actors.inbox import INBOX_MESSAGES_MAX, ChildEnded, TrioFuture, TrioInbox, answer, answer_dead
from router.core.wire.crypto import PublicKey
from router.core.wire.errors import RouterError, cause_of

T = TypeVar("T")
log = logging.getLogger(__name__)

BURST_MESSAGES_MAX = 256
"""Messages that one actor handles before other tasks run."""
STOP_S = 10.0
"""Seconds that a stopped actor has to handle its inbox; then it is cancelled."""


class ActorFailed(Exception):
    """A `fatal` actor has failed; `__cause__` says why."""


class ActorQuit(Exception):
    """Raised if an actor tried to end the process, for example with `sys.exit()`; the text names the exception."""


class _Family(Struct):
    """The actors started in one place, in order; `parent` is the actor that started them, None for the system."""

    nursery: trio.Nursery
    parent: TrioActor | None
    actors: list[TrioActor] = field(default_factory=list)
    closed: bool = False

    async def stop(self, stop_s: float) -> None:
        """Stop the actors, last started first: each may handle its inbox for at most `stop_s`, then it is cancelled."""
        while self.actors:
            actor = self.actors[-1]
            if actor.actor_ref.is_alive():
                actor.stop()
            with trio.move_on_after(stop_s) as patience:
                await actor._ended.wait()
            if patience.cancelled_caught:
                log.warning("%s did not stop within %g s and is cancelled", actor, stop_s)
                await actor._cancel()

    async def cancel(self) -> None:
        """Cancel the actors, last started first, and wait for each to end. No actor can be started here afterwards."""
        self.closed = True
        while self.actors:
            await self.actors[-1]._cancel()

    def leave(self, actor: TrioActor, failure: Exception | None) -> None:
        self.actors.remove(actor)
        if self.parent is not None and self.parent.actor_ref.is_alive():
            self.parent.actor_ref.tell(ChildEnded(actor.actor_ref, failure))


_family: ContextVar[_Family] = ContextVar("actor_family")


def _family_here(who: str) -> _Family:
    family = _family.get(None)
    if family is None or not trio.lowlevel.in_trio_run():
        raise RuntimeError(f"{who} must be started in trio, inside `async with actor_system()`")
    if family.closed:
        raise RuntimeError(f"{who} cannot be started: {family.parent or 'the actor system'} is ending")
    return family


class TrioActor(pykka.Actor):
    """An actor that runs as a trio task; `address` is its public key if it can be addressed from outside."""

    fatal: ClassVar[bool] = False
    inbox_messages_max: ClassVar[int] = INBOX_MESSAGES_MAX
    stop_s: ClassVar[float] = STOP_S
    logs_failures: ClassVar[bool] = False
    """Whether its `on_child_end` logs why a child failed; then the child logs only faults of the program."""

    address: PublicKey | None = None
    nursery: trio.Nursery
    """Runs tasks that live as long as the actor; it exists from `on_start` on."""
    actor_inbox: TrioInbox

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._home = _family_here(type(self).__name__)
        super().__init__(*args, **kwargs)
        self.actor_inbox.messages_max = self.inbox_messages_max
        self._scope = trio.CancelScope(shield=True)  # only its family cancels it, in the order of stopping
        self._ended = trio.Event()
        self._stop_asked: Envelope[Any] | None = None

    @classmethod
    def launch(cls, *args: Any, **kwargs: Any) -> Self:
        """Start the actor and return the object, not a reference, for an owner that calls it in the same loop."""
        started = cls.start(*args, **kwargs)._actor_weakref()
        assert started is not None, "its family holds it"
        return started

    def __str__(self) -> str:
        name = self.address.hex() if self.address else self.actor_urn.removeprefix("urn:uuid:")
        return f"{type(self).__name__} {name[:12]}"

    def __repr__(self) -> str:
        state = "ended" if self._ended.is_set() else "stopping" if self.actor_stopped.is_set() else "running"
        return f"<{self}: {state}, {len(self.actor_inbox)} messages wait>"

    def on_child_end(self, child: pykka.ActorRef[Any], failure: Exception | None) -> None:
        """Handle the end of an actor that this one started; `failure` is None if it was stopped."""

    # -- the hooks that pykka calls on a type of actor ----------------------------------------------------

    @staticmethod
    def _create_actor_inbox() -> TrioInbox:
        return TrioInbox()

    @staticmethod
    def _create_future() -> pykka.Future[Any]:
        return TrioFuture()

    def _start_actor_loop(self) -> None:
        self._home.actors.append(self)
        self._home.nursery.start_soon(self._run, name=str(self))

    # -- the life of the task -----------------------------------------------------------------------------

    async def _run(self) -> None:
        failure: Exception | None = None
        try:
            with self._scope:
                await self._live()
        except (KeyboardInterrupt, trio.Cancelled):  # meant for whoever runs the actor
            raise
        except BaseException as error:  # the one place where a bug in an actor is caught
            failure = as_failure(error)
        finally:
            self._end(failure)
        if failure is not None and self.fatal:
            raise ActorFailed(f"{self} failed: {type(failure).__name__}: {failure}") from failure

    async def _live(self) -> None:
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            children = _Family(nursery, self)
            _family.set(children)
            try:
                self.on_start()
                await self._receive()
                await children.stop(self.stop_s)
            finally:
                await children.cancel()
            nursery.cancel_scope.cancel()

    async def _receive(self) -> None:
        inbox = self.actor_inbox
        while True:
            await inbox.wait()
            for _ in range(BURST_MESSAGES_MAX):
                if inbox.empty():
                    break
                envelope = inbox.get()
                if isinstance(envelope.message, messages._ActorStop):
                    self._stop_asked = envelope
                    self.actor_stopped.set()
                    return
                await self._handle(envelope)

    async def _handle(self, envelope: Envelope[Any]) -> None:
        try:
            response = self._handle_receive(envelope.message)
            if isinstance(response, CoroutineType):
                response = await response
        except Exception:
            if envelope.reply_to is None:
                raise
            envelope.reply_to.set_exception()
        except BaseException:
            answer_dead(envelope, f"{self} ended while it handled the message")
            raise
        else:
            answer(envelope, response)

    def _handle_receive(self, message: Any) -> Any:
        if isinstance(message, ChildEnded):
            return self.on_child_end(message.child, message.failure)
        return super()._handle_receive(message)

    async def _cancel(self) -> None:
        self._scope.cancel()
        with trio.CancelScope(shield=True):
            await self._ended.wait()

    @property
    def _is_logged_by_parent(self) -> bool:
        return self._home.parent is not None and self._home.parent.logs_failures

    def _end(self, failure: Exception | None) -> None:
        """Run the last hook, then wake the tasks that wait for the end; synchronous, so that nothing runs in
        between."""
        self.actor_stopped.set()
        pykka.ActorRegistry.unregister(self.actor_ref)
        self.actor_inbox.close()
        try:
            if failure is None:
                self.on_stop()
            else:
                known = isinstance(failure, RouterError)  # a sentence for the operator; the rest is a fault
                if not self.fatal and not (known and self._is_logged_by_parent):  # a fatal one's is raised, and logged
                    log.error("%s failed%s", self, f": {failure}" if known else "", exc_info=None if known else failure)
                self.on_failure(type(failure), failure, failure.__traceback__)
        except Exception:
            log.exception("%s failed while it ended", self)
        finally:
            self._ended.set()
            if self._stop_asked is not None:
                answer(self._stop_asked, None)
            self._home.leave(self, failure)


def as_failure(error: BaseException, *quits: type[BaseException]) -> Exception:
    """Return the failure behind `error`: of a group, which a nursery makes, the first exception, since the others
    follow from it; `ActorQuit` for `sys.exit()` and any other exception that is no `Exception`, also within a group.
    Raise `error` again if it is not the actor's own: a cancellation, or a Ctrl-C unless `quits` names it."""
    ours = tuple(kind for kind in (KeyboardInterrupt, trio.Cancelled) if kind not in quits)
    leaves = list(_leaves(error))
    if any(isinstance(one, ours) for one in leaves):
        raise error
    if asked := [one for one in leaves if not isinstance(one, Exception)]:
        return _quit(asked[0], error)
    first, *later = leaves
    assert isinstance(first, Exception)
    for one in later:
        first.add_note(f"after it: {cause_of(one)}")
    return first


def _quit(asked: BaseException, cause: BaseException) -> ActorQuit:
    failure = ActorQuit(f"it asked for the end of the process: {cause_of(asked)}")
    failure.__cause__ = cause
    return failure


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


@asynccontextmanager
async def actor_system(stop_s: float = STOP_S) -> AsyncIterator[trio.Nursery]:
    """Run the actors that are started inside. Leaving stops them, last started first; an exception cancels them."""
    async with trio.open_nursery() as nursery:
        family = _Family(nursery, None)
        before = _family.set(family)
        try:
            yield nursery
            await family.stop(stop_s)
        finally:
            _family.reset(before)
            await family.cancel()
        nursery.cancel_scope.cancel()
