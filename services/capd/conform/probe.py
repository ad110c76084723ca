"""Run the checks against a node, each over a connection of its own, so that none depends on another."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import trio

from router.cli.conformance import CheckResult
from router.core.wire.codec import Malformed
from services.capd.core.nexa.commands import GetInfo, PoolLines
from services.capd.core.nexa.conformance import CLOSED, CONNECTED, OPEN, SILENT, Check, described, in_words
from services.capd.core.nexa.conformance_checks import Trial, checks
from services.capd.core.nexa.envelope import Packet, Unpacker
from services.capd.core.nexa.greeting import EXTVERSION
from services.capd.core.nexa.packets import (
    PAYLOADS,
    SMALL_BYTES_MAX,
    ExtVersion,
    Ping,
    Pong,
    Verack,
    packet_of,
    read_packet,
)

READ_BYTES = 1 << 16
MARK = 0x6D61_726B
"""The number of the ping behind each check: its answer shows that everything before it was handled."""
ANSWER_S = 10.0


class Connects(Protocol):
    """Opens a connection to the node."""

    def __call__(self) -> AbstractAsyncContextManager[trio.abc.Stream]: ...


class Ended(Exception):
    """Raised if the node has closed the connection."""


class Late(Exception):
    """Raised if the node has not answered in time."""


class Listener:
    """Reads a node's packets, and answers its pings."""

    def __init__(self, stream: trio.abc.Stream, magic: bytes) -> None:
        self._stream = stream
        self._magic = magic
        self._unpacker = Unpacker(magic, {**PAYLOADS, "reject": SMALL_BYTES_MAX}.get)
        self._packets: deque[Packet] = deque()

    async def send(self, data: bytes) -> None:
        """Send bytes; if the node has gone, reading shows it."""
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def next(self, within_s: float) -> Packet:
        """Return the next packet; raise `Ended` or `Late`."""
        with trio.move_on_after(within_s):
            while True:
                while self._packets:
                    packet = self._packets.popleft()
                    if packet.command != "ping":
                        return packet
                    await self.send(packet._replace(command="pong").encoded(self._magic))
                await self._read()
        raise Late

    async def _read(self) -> None:
        try:
            data = await self._stream.receive_some(READ_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            data = b""
        if not data:
            raise Ended
        self._packets += self._unpacker.feed(bytes(data))


class Probe:
    """Checks the node to which `connects` leads. `only`: the names of the checks to make, all if it is empty;
    `is_harmful`: whether to make those that cost points, and `is_banning`, that which costs a ban."""

    def __init__(
        self,
        connects: Connects,
        network: str,
        now_s: int,
        seed: bytes,
        *,
        only: Collection[str] = (),
        is_harmful: bool = True,
        is_banning: bool = True,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._connects = connects
        self._trial = Trial(network, now_s, 3.0, seed)
        self._only = only
        self._is_harmful, self._is_banning = is_harmful, is_banning
        self._answer_s = answer_s

    def __repr__(self) -> str:
        return f"<Probe of a node of {self._trial.network}>"

    @property
    def names(self) -> set[str]:
        """The names of all checks."""
        return {check.name for check in checks(self._trial)}

    async def outcomes(self) -> AsyncIterator[CheckResult]:
        """Yield the outcome of each check."""
        await self._learn_line()
        for check in checks(self._trial):
            if self._only and check.name not in self._only:
                continue
            if check.is_banning and not self._is_banning:
                got, ok = "left out: it gets this machine banned for hours (--harmful)", None
            elif check.is_harmful and not self._is_harmful:
                got, ok = "left out: it would cost points or a ban (--harmful)", None
            else:
                got, ok = await self._judged(check)
            yield CheckResult(check.name, check.begin, check.sent, check.expectation, got, ok)

    async def _learn_line(self) -> None:
        """Raise the priority of the checks' messages above the node's present relay line."""
        async with self._connects() as stream:
            node = Listener(stream, self._trial.magic)
            try:
                await self._greet(node)
                await node.send(self._trial.wire(GetInfo()))
                while True:
                    packet = await node.next(self._answer_s)
                    if packet.command == "capdinfo" and isinstance(info := read_packet(packet), PoolLines):
                        break
            except (Ended, Late, Malformed):
                return  # the checks will report the cause
            if info.relay < 1e6:
                self._trial = Trial(
                    self._trial.network, self._trial.now_s, max(3.0, 1.2 * info.relay), self._trial.seed
                )

    async def _judged(self, check: Check) -> tuple[str, bool | None]:
        got: list[str] = []
        async with self._connects() as stream:
            node = Listener(stream, self._trial.magic)
            try:
                if check.begin != CONNECTED:
                    await self._greet(node)
                await self._listen(node, check, got)
            except Ended:
                got.append(CLOSED)
            except Late:
                got.append(SILENT)
            except Malformed as error:
                got.append(f"no packet: {error}")
        if check.is_own and not check.answers & {one.split()[0] for one in got}:
            return "left out: the node does not know this command of ours", None
        return in_words(got) if got else OPEN, check.is_met(got)

    async def _listen(self, node: Listener, check: Check, got: list[str]) -> None:
        """Send a check's data and a ping; add what comes to `got` until the ping is answered and nothing expected is
        missing; then until another ping is answered, since announcements come after the answers."""
        await node.send(check.data + self._trial.wire(Ping(MARK)))
        await self._hear(node, check, got, MARK, len(check.expected))
        await node.send(self._trial.wire(Ping(MARK + 1)))
        await self._hear(node, check, got, MARK + 1, 0)

    async def _hear(self, node: Listener, check: Check, got: list[str], mark: int, least: int) -> None:
        is_answered = False
        while not is_answered or len(got) < least:
            packet = await node.next(self._answer_s)
            if packet.command == "pong" and read_packet(packet) == Pong(mark):
                is_answered = True
            else:
                got += described(packet, check)

    async def _greet(self, node: Listener) -> None:
        trial = self._trial
        await node.send(trial.wire(trial.greeting))
        for wanted, answer in (("extversion", ExtVersion(EXTVERSION)), ("verack", Verack())):
            while (await node.next(self._answer_s)).command != wanted:
                pass
            await node.send(packet_of(answer).encoded(trial.magic))
