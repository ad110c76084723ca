"""Dialling: one connection per remote, with back-off and jitter; uplinks always, others when something waits."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from router import transport
from router.core.crypto import PublicKey, SigningKey
from router.core.rights import Directory, Neighbour
from router.core.text import key_text, short
from router.transport import ConnectFailed, Stream

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Seconds, and how many dials may be under way at once; further ones wait."""

    dial_timeout_s: float = 10.0
    backoff_s_min: float = 0.5
    backoff_s_max: float = 60.0
    dials_max: int = 64


class Pool:
    """Keeps one dialling task per key. `run(stream, expect)` serves a connection until it ends, and says whether the
    other end would not have us: a sentence, or "".

    `waiting(key)` asks the message router whether something is owed to the key; `draw()` gives a number in [0, 1) for
    the jitter.
    """

    def __init__(
        self, key: SigningKey, directory: Directory, limits: PoolLimits, nursery: trio.Nursery,
        run: Callable[[Stream, PublicKey], Awaitable[str]], waiting: Callable[[bytes], Awaitable[bool]],
        draw: Callable[[], float],
    ) -> None:  # fmt: skip
        self._key = key
        self._directory = directory
        self._limits = limits
        self._nursery = nursery
        self._run = run
        self._waiting = waiting
        self._draw = draw
        self._dials: dict[bytes, trio.CancelScope] = {}
        self._room = trio.Semaphore(limits.dials_max)
        self.problems: dict[bytes, str] = {}  # of the last attempt, for `router peers`

    def __repr__(self) -> str:
        return f"<pool: {len(self._dials)} keys being dialled or connected>"

    def dial_uplinks(self) -> None:
        """At the start, and when the configuration has changed."""
        for key, scope in self._dials.items():
            if key not in self._directory.neighbours:
                scope.cancel()
        for key in self._directory.uplinks:
            self.want(key)

    def want(self, key: bytes) -> None:
        """Something waits for this key: dial it, unless that is under way or nobody knows where."""
        neighbour = self._directory.neighbours.get(key)
        if neighbour is not None and neighbour.urls and not neighbour.blocked and key not in self._dials:
            self._dials[key] = trio.CancelScope()
            self._nursery.start_soon(self._keep, neighbour)

    async def _keep(self, neighbour: Neighbour) -> None:
        try:
            with self._dials[neighbour.key]:
                await self._dial_until_done(neighbour)
        finally:
            del self._dials[neighbour.key]

    async def _dial_until_done(self, neighbour: Neighbour) -> None:
        failures = 0
        while True:
            stream = await self._dial(neighbour)
            if stream is not None:
                began = trio.current_time()
                self._note(neighbour, await self._run(stream, PublicKey(neighbour.key)))
                if trio.current_time() - began > self._limits.backoff_s_max:
                    failures = 0
            failures = min(failures + 1, 32)
            if not neighbour.uplink and not await self._waiting(neighbour.key):
                return
            await trio.sleep(self._pause_s(failures))

    def _pause_s(self, failures: int) -> float:
        """Twice as long each time, and somewhere in the upper half of that, so that a crowd does not return at once."""
        longest: float = min(self._limits.backoff_s_max, self._limits.backoff_s_min * 2 ** (failures - 1))
        return longest * (0.5 + self._draw() / 2)

    async def _dial(self, neighbour: Neighbour) -> Stream | None:
        for url in neighbour.urls:
            try:
                async with self._room:
                    key = PublicKey(neighbour.key)
                    return await transport.dial(url, self._key, key, timeout_s=self._limits.dial_timeout_s)
            except ConnectFailed as error:
                self._note(neighbour, error.text)
        return None

    def _note(self, neighbour: Neighbour, problem: str) -> None:
        """Why the last attempt failed, said once; "" if it did not."""
        if problem and self.problems.get(neighbour.key) != problem:
            log.warning("%s: %s", neighbour.name or short(key_text("addr", neighbour.key)), problem)
        self.problems[neighbour.key] = problem
