"""Dial a router that is known by several addresses: staggered, the one that answered last first (RFC 8305).

An attempt is a whole dial, up to the proof of the other end's key, so that an address which takes connections and says
nothing holds up no other one. The first that succeeds wins, and the others are closed at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from typing import NamedTuple

import trio

from router.core.wire.crypto import PublicKey, SigningKey
from router.core.wire.reasons import Reason
from router.transport import contract as transport
from router.transport.contract import ConnectFailed, Stream

STAGGER_S = 0.25
"""The time after which the next address is dialled as well, as RFC 8305 recommends; at once if one fails."""
DOUBTED_STAGGER_S = 1.0
"""The time before the next of the addresses that only advertisements, hints or datagrams name: they may be a victim's,
and most answer sooner."""
AT_ONCE_MAX = 4
"""Most addresses of one router that are dialled at the same time."""
OF_URL_MAX = 16
"""Most addresses of one URL that are dialled: an advertised name may lead to thousands, none of them a router's."""


class DialTarget(NamedTuple):
    """A configured or learned URL, and one of the addresses that it names; the address is "" until it is looked up."""

    url: str
    address: str = ""


class Answer(NamedTuple):
    """The stream to the address that answered, and why others did not."""

    stream: Stream
    problems: tuple[ConnectFailed, ...]


Attempt = Callable[[DialTarget], Awaitable[Stream]]
"""Dials an address. Raises `ConnectFailed`."""
Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses that a URL names. Raises `ConnectFailed`."""


class Approach:
    """How one router is dialled, time after time."""

    def __init__(self) -> None:
        self._last: DialTarget | None = None  # the one that answered

    def __repr__(self) -> str:
        return f"<approach: {self._last.address if self._last is not None else 'nothing has answered'}>"

    @property
    def last_url(self) -> str:
        """Return the URL that answered last, "" if none has."""
        return self._last.url if self._last is not None else ""

    async def dial(
        self, urls: Sequence[str], resolve: Resolve, attempt: Attempt, *, doubted: Container[str] = ()
    ) -> Answer:
        """Return the first stream to any address of these URLs; raise `ConnectFailed` with all causes if there is
        none. Before an address of a URL in `doubted` is dialled, the others have more time to answer."""
        race = _Race(urls, resolve, attempt, self._last, doubted)
        stream = await race.run()
        if race.winner is not None:
            self._last = race.winner
        if stream is None:
            raise _all_failed(race.problems)
        return Answer(stream, tuple(race.problems))


class _Race:
    """One dial: the candidates that were not tried yet, in order, and the attempts under way."""

    def __init__(
        self,
        urls: Sequence[str],
        resolve: Resolve,
        attempt: Attempt,
        last: DialTarget | None,
        doubted: Container[str],
    ) -> None:
        self.problems: list[ConnectFailed] = []
        self.winner: DialTarget | None = None
        self._stream: Stream | None = None
        self._resolve = resolve
        self._attempt = attempt
        self._last = last
        self._doubted = doubted
        self._left = deque(map(DialTarget, sorted(urls, key=lambda url: last is None or url != last.url)))
        self._under_way = 0
        self._news = trio.Event()

    async def run(self) -> Stream | None:
        try:
            async with trio.open_nursery() as nursery:
                while self.winner is None and (self._left or self._under_way):
                    self._news = trio.Event()
                    if self._left and self._under_way < AT_ONCE_MAX:
                        self._under_way += 1
                        nursery.start_soon(self._try, self._left.popleft())
                    await self._wait()
                nursery.cancel_scope.cancel()
        except BaseException:
            if self._stream is not None:
                await _cut(self._stream)
            raise
        return self._stream

    async def _wait(self) -> None:
        """Wait until an attempt ends, or it is time for the next one."""
        pause_s = float("inf")
        if self._left and self._under_way < AT_ONCE_MAX:
            pause_s = DOUBTED_STAGGER_S if self._left[0].url in self._doubted else STAGGER_S
        with trio.move_on_after(pause_s):
            await self._news.wait()

    @trio.lowlevel.enable_ki_protection  # a task of an app's, too: Ctrl-C waits for its main task
    async def _try(self, one: DialTarget) -> None:
        try:
            if one.address:
                await self._dial(one)
            else:
                self._left.extendleft(reversed(await self._look_up(one.url)))
        except ConnectFailed as error:
            self.problems.append(error)
        finally:
            self._under_way -= 1
            self._news.set()

    async def _look_up(self, url: str) -> list[DialTarget]:
        found = [DialTarget(url, address) for address in await self._resolve(url)]
        return sorted(found, key=lambda one: one != self._last)[:OF_URL_MAX]

    async def _dial(self, one: DialTarget) -> None:
        stream = await self._attempt(one)
        if self.winner is None:
            self.winner, self._stream = one, stream
        else:
            await _cut(stream)


async def _cut(stream: Stream) -> None:
    """Close a stream without waiting."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await stream.aclose()


def _all_failed(problems: Sequence[ConnectFailed]) -> ConnectFailed:
    if not problems:
        return ConnectFailed(Reason.CONNECT_FAILED, "no address is known")
    has_answered = any(one.has_answered for one in problems)
    other = next((one.answered_by for one in problems if one.answered_by is not None), None)
    return ConnectFailed(problems[0].reason, problems_text(problems), has_answered=has_answered, answered_by=other)


def problems_text(problems: Iterable[ConnectFailed]) -> str:
    """Return what failed at the addresses of one router, each cause once."""
    return "; ".join(dict.fromkeys(one.text for one in problems))


async def dial(approach: Approach, url: str, key: SigningKey, expect: PublicKey | None, *, timeout_s: float) -> Stream:
    """Dial one URL with the transport of its scheme, at each address that it names. Raises `ConnectFailed`."""

    async def resolve(url: str) -> Sequence[str]:
        return await transport.resolve(url, timeout_s=timeout_s)

    async def attempt(one: DialTarget) -> Stream:
        return await transport.dial(one.address, key, expect, timeout_s=timeout_s)

    return (await approach.dial((url,), resolve, attempt)).stream
