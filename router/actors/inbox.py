"""An actor's inbox, and futures that trio can await.

Both work from every thread: only `_post` crosses into trio, and only it uses trio's token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, TypeVar

import pykka
import trio
from msgspec import Struct
from pykka import messages
from pykka._envelope import Envelope

T = TypeVar("T")

INBOX_MESSAGES_MAX = 100_000


class InboxFull(Exception):
    """The inbox is full: the message was not taken, and its sender must decide what to do with it."""


class WouldBlock(RuntimeError):
    """A blocking `ask`, `stop` or `get` was called inside trio, where it would block the loop that it waits for."""


class ChildEnded(Struct, frozen=True):
    """The message to the actor that started `child`; `failure` is None when the child was stopped."""

    child: pykka.ActorRef[Any]
    failure: Exception | None


_CONTROL = frozenset(
    (messages._ActorStop, messages.ProxyCall, messages.ProxyGetAttr, messages.ProxySetAttr, ChildEnded)
)


def _post(token: trio.lowlevel.TrioToken, callback: Callable[[], object]) -> None:
    """Run `callback` in the trio run of `token`, from any thread. It must not raise, which would end the run."""
    if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is token:
        callback()
        return
    with suppress(trio.RunFinishedError):  # no task is left to be woken
        token.run_sync_soon(callback, idempotent=True)


class TrioFuture(pykka.ThreadingFuture[T]):
    """A future to `await` in trio, or to `get()` in any other thread."""

    _done: trio.Event | None = None
    _token: trio.lowlevel.TrioToken

    def set(self, value: Any = None) -> None:
        super().set(value)
        self._wake()

    def set_exception(self, exc_info: Any = None) -> None:
        super().set_exception(exc_info)
        self._wake()

    def _wake(self) -> None:
        if (done := self._done) is not None:
            _post(self._token, done.set)

    def get(self, *, timeout: float | None = None) -> Any:
        if self._result is None and self._get_hook is None and trio.lowlevel.in_trio_run():
            raise WouldBlock("this would block the trio loop: use `await ref.ask(message, block=False)`")
        return super().get(timeout=timeout)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        if self._get_hook is not None:  # from map(), join(), stop(): pykka computes it inside get()
            computed: T = await trio.to_thread.run_sync(self.get, abandon_on_cancel=True)
            return computed
        if self._done is None:
            self._token = trio.lowlevel.current_trio_token()
            self._done = trio.Event()  # before the check below: another thread may set at any moment
        if self._result is None:
            await self._done.wait()
        else:
            await trio.lowlevel.checkpoint()
        result: T = self.get()
        return result


class TrioInbox:
    """A first-in, first-out queue for every thread. When it holds `messages_max`, a tell raises `InboxFull`.

    Asks, stops and proxy calls are always taken, because a caller waits for each.
    """

    def __init__(self) -> None:
        self.messages_max = INBOX_MESSAGES_MAX
        self._envelopes: deque[Envelope[Any]] = deque()
        self._token = trio.lowlevel.current_trio_token()
        self._sleeper: trio.Event | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._envelopes)

    def put(self, envelope: Envelope[Any], /) -> None:
        if len(self._envelopes) >= self.messages_max and _is_plain(envelope):
            raise InboxFull(f"{len(self._envelopes)} messages wait, which is the limit: the actor is too slow")
        self._envelopes.append(envelope)
        if self._sleeper is not None:
            _post(self._token, self._wake)
        if self._closed:  # it was closed after the sender checked that the actor lives
            self.close()

    def get(self) -> Envelope[Any]:
        return self._envelopes.popleft()

    def empty(self) -> bool:
        return not self._envelopes

    async def wait(self) -> None:
        """Wait until a message is there; always a checkpoint."""
        self._sleeper = sleeper = trio.Event()  # before the check below: another thread may put at any moment
        if self._envelopes:
            await trio.lowlevel.checkpoint()
        else:
            await sleeper.wait()
        self._sleeper = None

    def _wake(self) -> None:
        if self._sleeper is not None:
            self._sleeper.set()
            self._sleeper = None

    def close(self) -> None:
        """Answer all waiting asks and stops; later ones are answered at once."""
        self._closed = True
        with suppress(IndexError):  # two threads may be emptying it
            while True:
                envelope = self._envelopes.popleft()
                if isinstance(envelope.message, messages._ActorStop):
                    answer(envelope, None)
                else:
                    answer_dead(envelope, "the actor stopped before it handled the message")


def _is_plain(envelope: Envelope[Any]) -> bool:
    return envelope.reply_to is None and type(envelope.message) not in _CONTROL


def answer(envelope: Envelope[Any], value: object) -> None:
    """Give `value` to the asker; do nothing if the message was a tell."""
    if envelope.reply_to is not None:
        envelope.reply_to.set(value)


def answer_dead(envelope: Envelope[Any], text: str) -> None:
    """Raise `ActorDeadError(text)` in the asker; do nothing if the message was a tell."""
    if envelope.reply_to is not None:
        envelope.reply_to.set_exception((pykka.ActorDeadError, pykka.ActorDeadError(text), None))
