"""Run the checks against a node, each over a connection of its own, so that none depends on another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from router.cli.conformance import CheckResult
from router.core.link.machine import Agency
from router.core.wire.codec import Malformed
from router.core.wire.text import counted
from services.dmq.core.conformance.client_checks import (
    Trial,
    accepted,
    checks,
    dead,
    known_message,
    propose,
    replies,
    request,
    submit,
)
from services.dmq.core.conformance.judging import CLOSED, Begin, Check, described, in_words, messages_in, said
from services.dmq.core.protocols import handshake, notification, submission
from services.dmq.core.protocols.revision import Revision

from .listener import Ended, Listener, Quiet
from .probe_connection import SILENT, Place, ProbeLimits, dialled, write

LIMITS = {
    handshake.NUMBER: handshake.MESSAGE_BYTES_MAX,
    submission.NUMBER: 2 * submission.TEXT_BYTES_MAX,
    notification.NUMBER: notification.REPLY_BYTES_MAX,
}
REPLIES_MAX = 1000
"""Most replies that a node may use to hand out all its messages."""
MEANWHILE_S = 120
"""Most seconds that all checks may take, during which messages expire."""


class _Handed(NamedTuple):
    """The messages that a node has handed out on a connection, and their faults."""

    messages: tuple[bytes, ...]
    fault: str


class Probe:
    """Checks the node that listens on `path`."""

    def __init__(self, path: Path, trial: Trial, limits: ProbeLimits | None = None, only: Collection[str] = ()) -> None:
        """`only`: the names of the checks to make; without it, all."""
        self._only = only
        self._path = path
        self._trial = trial
        self._limits = limits or ProbeLimits()

    def __repr__(self) -> str:
        return f"<Probe of {self._path}, {self._trial.revision.name}>"

    @staticmethod
    def names(trial: Trial) -> set[str]:
        """Return the names of all checks."""
        return {check.name for check in checks(trial)} | {"order", "taken", "given"}

    async def outcomes(self) -> AsyncIterator[CheckResult]:
        """Yield the outcome of each check; raise `Unreachable` if no node listens."""
        for check in checks(self._trial):
            if self._is_wanted(check.name):
                yield await self._outcome(check)
        if self._is_wanted("order"):
            yield await self._order()
        if self._trial.known is not None:
            if self._is_wanted("given"):
                yield await self._given()
            return
        for name in filter(self._is_wanted, ("taken", "given")):
            text = "left out: needs the keys of a pool with stake (--keys)"
            yield CheckResult(name, "StIdle", "a right message", "MsgAcceptMessage, and its bytes", text, None)

    def _is_wanted(self, name: str) -> bool:
        return not self._only or name in self._only

    async def _outcome(self, check: Check) -> CheckResult:
        async with self._connected() as node:
            got = await self._got(node, check)
        return CheckResult(check.name, check.state, check.sent, check.expectation, in_words(got), check.is_met(got))

    async def _got(self, node: Listener, check: Check) -> list[str]:
        """Return the node's answers to a check, in words, ending with whether it closed or stopped answering."""
        got: list[str] = []
        try:
            if check.begin is not Begin.CONNECTED and (fault := await self._agree(node)):
                return [fault]
            if check.begin is Begin.DRAINED and (fault := (await self._drained(node)).fault):
                return [fault]
            if check.quiet == "before":
                got += await self._heard_for(node, self._limits.silence_s)
            await self._send(node, check.data)
            if check.quiet == "after":
                got += await self._heard_for(node, self._limits.silence_s)
                if got == ["MsgReplyMessagesBlocking"]:  # of another signer's message, meanwhile
                    return []
            await self._listen(node, check, got)
        except Ended:
            got.append(CLOSED)
        except Quiet:
            got.append(SILENT)
        return got

    async def _listen(self, node: Listener, check: Check, got: list[str]) -> None:
        """Add the node's messages until one is wrong; if the connection should stay open, check that it does."""
        choices = {one for choice in check.expected for one in choice}
        while len(got) < len(check.expected) + (check.then == CLOSED):
            got.append(await self._next(node))
            if got[-1] not in choices:
                return
        if check.then != CLOSED and len(got) == len(check.expected):
            await self._ping(node, check, got)

    async def _ping(self, node: Listener, check: Check, got: list[str]) -> None:
        wire, rejected = dead(self._trial)
        if check.ping == submission.NUMBER:
            await self._send(node, said(submission.NUMBER, submit(wire)))
            answers: Sequence[str] = (rejected,)
        else:
            await self._send(node, said(notification.NUMBER, request(self._trial.revision)))
            answers = replies(self._trial.revision)
        if (one := await self._next(node)) not in answers:
            got.append(one)

    async def _agree(self, node: Listener) -> str:
        """Do the handshake; return its fault."""
        await self._send(node, propose(self._trial))
        try:
            answer = await self._next(node)
        except Ended:
            return "closed at the handshake"
        return "" if answer == accepted(self._trial) else answer

    async def _drained(self, node: Listener) -> _Handed:
        """Ask until the node has handed out all its messages."""
        revision = self._trial.revision
        messages: list[bytes] = []
        for _ in range(REPLIES_MAX):
            await self._send(node, said(notification.NUMBER, request(revision)))
            reply = await node.next(self._limits.answer_s)
            words = reply.fault or described(reply.number, reply.wire, revision)
            if words not in replies(revision):
                return _Handed(tuple(messages), words)
            found = messages_in(reply.number, reply.wire, revision)
            if not found:
                return _Handed(tuple(messages), "" if not has_more(reply.wire, revision) else "more of nothing")
            messages += found
        return _Handed(tuple(messages), f"more than {REPLIES_MAX} replies")

    async def _order(self) -> CheckResult:
        """Check that two consumers get the same messages, in one order, none twice, and none that has expired."""
        first = await self._all_given()
        second = await self._all_given()
        fault = first.fault or second.fault or self._fault_of(first.messages)
        fault = fault or self._difference(first.messages, second.messages)
        got = fault or f"{counted(len(first.messages), 'message')}, {len(second.messages)} of them for the second"
        return CheckResult(
            "order",
            "StIdle",
            "requests of two consumers, until nothing is left",
            "the same messages in one order, each once, none expired",
            got,
            not fault,
        )

    def _difference(self, first: tuple[bytes, ...], second: tuple[bytes, ...]) -> str:
        """Return how the second consumer was served differently; messages may have come and expired meanwhile."""
        seen = set(second)
        missing = [one for one in first if one not in seen and self._lives_on(one)]
        if missing:
            return f"{counted(len(missing), 'message')} not for the second consumer"
        both = seen.intersection(first)
        if [one for one in first if one in both] != [one for one in second if one in both]:
            return "another order for the second consumer"
        return ""

    def _lives_on(self, wire: bytes) -> bool:
        expires_at = self._trial.revision.encoding.read_notified(wire).expires_at
        return expires_at is None or expires_at > self._trial.stranger.wall_s + MEANWHILE_S

    def _fault_of(self, messages: tuple[bytes, ...]) -> str:
        if len(set(messages)) < len(messages):
            return f"{counted(len(messages) - len(set(messages)), 'message')} twice"
        for wire in messages:
            try:
                message = self._trial.revision.encoding.read_notified(wire)
            except Malformed as error:
                return f"a message that is none: {error}"
            if message.expires_at is not None and message.expires_at < self._trial.stranger.wall_s:
                return f"a message that has expired, {message.id.hex()}"
        return ""

    async def _all_given(self) -> _Handed:
        async with self._connected() as node:
            try:
                if fault := await self._agree(node):
                    return _Handed((), fault)
                return await self._drained(node)
            except Ended:
                return _Handed((), CLOSED)
            except Quiet:
                return _Handed((), SILENT)

    async def _given(self) -> CheckResult:
        """Check that a consumer gets the message that was handed in, once and unchanged."""
        assert self._trial.known is not None
        revision = self._trial.revision
        wanted = revision.encoding.notified(revision.encoding.read(known_message(self._trial, self._trial.known)))
        handed = await self._all_given()
        count = handed.messages.count(wanted)
        got = handed.fault or f"{counted(count, 'time')} among {counted(len(handed.messages), 'message')}"
        sent = "requests, until nothing is left"
        return CheckResult("given", "StIdle", sent, "the message that was taken, once, byte for byte", got, count == 1)

    async def _heard_for(self, node: Listener, seconds: float) -> list[str]:
        """Return the messages that come within a time in which there should be none."""
        try:
            one = await node.next(seconds)
        except Quiet:
            return []
        return [one.fault or described(one.number, one.wire, self._trial.revision)]

    async def _next(self, node: Listener) -> str:
        one = await node.next(self._limits.answer_s)
        return one.fault or described(one.number, one.wire, self._trial.revision)

    async def _send(self, node: Listener, data: bytes) -> None:
        await write(node, data, self._limits.answer_s)

    def _unreached(self, error: OSError) -> str:
        return f"no node listens on {self._path}: {error.strerror or error}; start it, or name its socket"

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Listener]:
        silent = f"the node at {self._path} takes no connection; it may have too many"
        place = Place(partial(trio.open_unix_socket, self._path), silent, self._unreached)
        async with dialled(place, self._limits.answer_s) as stream:
            loose = {notification.NUMBER: self._trial.revision.notification.loose}
            yield Listener(stream, Agency.RESPONDER, LIMITS, loose)


def has_more(wire: bytes, revision: Revision) -> bool:
    """Whether a reply says that there are more messages."""
    reply = revision.notification.decode(wire)
    return isinstance(reply, notification.MsgReplyMessagesNonBlocking) and reply.has_more
