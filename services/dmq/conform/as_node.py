"""Play a node to signers and consumers, and judge their messages: their turn, their encoding, their signatures.

Each answer is valid, but differs each time: a signer gets accept and every reject in turn, a consumer one message or
two, each in SDUs of a few bytes, which a client has to reassemble.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import trio

from router.cli.conformance import CheckResult
from router.core.link.machine import Agency, Machine, RemoteProtocolError
from router.core.wire.codec import Malformed
from router.service.doors import socket_file
from services.dmq.core.conformance.client_checks import Trial
from services.dmq.core.conformance.judging import NOT_AS_WRITTEN, described, pieces, said
from services.dmq.core.messages.authentication import Topic
from services.dmq.core.messages.trial_messages import BODY
from services.dmq.core.messages.verdict import ACCEPT, Judge
from services.dmq.core.protocols import handshake, notification, submission
from services.dmq.core.protocols.submission import MsgAcceptMessage, MsgRejectMessage, RejectKind
from services.dmq.core.stake.chain_time import ChainTime

from .listener import Ended, Listener, Said

LIMITS = {
    handshake.NUMBER: handshake.MESSAGE_BYTES_MAX,
    submission.NUMBER: submission.ITEM_BYTES_MAX,
    notification.NUMBER: notification.REQUEST_BYTES_MAX,
}
PIECE_BYTES = 100
ANSWERS: tuple[submission.Message, ...] = (
    MsgAcceptMessage(),
    MsgRejectMessage(RejectKind.ALREADY_RECEIVED),
    MsgRejectMessage(RejectKind.TTL_TOO_LARGE),
    MsgRejectMessage(RejectKind.INVALID, "a reason in words"),
    MsgRejectMessage(RejectKind.OTHER, "another reason"),
)
_TABLES = {handshake.NUMBER: handshake.TABLE, submission.NUMBER: submission.TABLE}


class ListensAlready(Exception):
    """The socket cannot be opened; the text says why and what to do."""


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[trio.socket.SocketType]:
    """Listen on a path that is free, or where one that was killed has left its socket, while the block runs; raise
    `ListensAlready`."""
    try:
        file = socket_file(Path(), str(path))
        raw = await file.open()
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        raise ListensAlready(f"cannot listen on {path}: {cause}; name a path that is free") from None
    try:
        with trio.socket.from_stdlib_socket(raw) as listener:
            yield listener
    finally:
        file.remove()


class AsNode:
    """A node that holds nothing and judges its clients."""

    def __init__(self, trial: Trial, chain: ChainTime) -> None:
        self._trial = trial
        self._judge = Judge(trial.revision, Topic(chain=chain))
        self._answers = cycle(ANSWERS)
        self._lengths = cycle((1, 2))

    def __repr__(self) -> str:
        return f"<AsNode of {self._trial.revision.name}>"

    async def outcomes(self, listener: trio.socket.SocketType, connections: int) -> AsyncIterator[CheckResult]:
        """Serve that many connections, one after another, and yield the findings in each."""
        for _ in range(connections):
            async for outcome in self._of_the_next(listener):
                yield outcome

    async def _of_the_next(self, listener: trio.socket.SocketType) -> AsyncIterator[CheckResult]:
        """Serve the next client, and yield the findings."""
        peer, _ = await listener.accept()
        async with trio.SocketStream(peer) as stream:
            talk = _Talk(self._trial, Listener(stream, Agency.INITIATOR, LIMITS))
            async for outcome in self._judged(talk):
                yield outcome

    async def _judged(self, talk: _Talk) -> AsyncIterator[CheckResult]:
        """Yield the outcome of each message of a client, and of its end; stop at the first that is wrong."""
        while True:
            state = talk.states
            try:
                heard = await talk.listener.next()
            except Ended:
                ok = talk.is_at_rest
                yield CheckResult("end", state, "-", "closed when an answer is not awaited", "closed", ok)
                return
            name, expected, got, ok = self._verdict(talk, heard)
            answer = self._answer_to(talk.last) if ok else None
            sent = "-" if answer is None else type(answer).__name__
            yield CheckResult(name, state, sent, expected, got, ok)
            if not ok:
                return
            if answer is not None:
                await talk.say(heard.number, answer)

    def _verdict(self, talk: _Talk, heard: Said) -> tuple[str, str, str, bool]:
        """Return the name of a check, the expected and the actual message, and whether that is right."""
        fault = heard.fault or talk.step(heard)
        if fault:
            return "turn", "a message whose turn it is", fault, False
        words = described(heard.number, heard.wire, self._trial.revision)
        if words.endswith(NOT_AS_WRITTEN):
            return "form", "the form in which mithril and dmq-node write it", words, False
        match talk.last:
            case handshake.MsgProposeVersions() as offer:
                answer = handshake.answer(offer, self._trial.magic)
                ok = isinstance(answer, handshake.MsgAcceptVersion)
                got = words if ok else f"{words}, to be answered {type(answer).__name__}: {answer}"
                return "propose", f"version 4097, magic {self._trial.magic}", got, ok
            case submission.MsgSubmitMessage(wire):
                verdict = self._judge.judge(wire, time.time())
                return "message", "a message that a node takes", verdict.sentence, verdict.verdict == ACCEPT
        return "request" if heard.number == notification.NUMBER else "done", "any message in its turn", words, True

    def _answer_to(self, message: Any) -> Any:
        match message:
            case handshake.MsgProposeVersions():
                return handshake.answer(message, self._trial.magic)
            case submission.MsgSubmitMessage():
                return next(self._answers)
            case notification.MsgRequestMessagesBlocking() if self._is_overview:
                return notification.MsgReplyMessages(self._messages())
            case notification.MsgRequestMessagesBlocking():
                return notification.MsgReplyMessagesBlocking(self._messages())
            case notification.MsgRequestMessagesNonBlocking() if self._is_overview:
                return notification.MsgReplyMessages(())
            case notification.MsgRequestMessagesNonBlocking():
                return notification.MsgReplyMessagesNonBlocking((), False)
            case notification.MsgNextMessages():
                return notification.MsgHasMessages(self._messages())
        return None

    @property
    def _is_overview(self) -> bool:
        return self._trial.revision.notification.name == "overview-2025-04"

    def _messages(self) -> tuple[bytes, ...]:
        return tuple(self._new_messages(next(self._lengths)))

    def _new_messages(self, count: int) -> Iterator[bytes]:
        encoding = self._trial.revision.encoding
        for number in range(count):
            body = BODY + f"{time.time_ns()}-{number}".encode()
            yield encoding.notified(encoding.read(self._trial.stranger.message(self._trial.revision, body)))


class _Talk:
    """One client's connection: its messages, and the state of each protocol."""

    def __init__(self, trial: Trial, listener: Listener) -> None:
        self.listener = listener
        self.last: Any = None
        self._revision = trial.revision
        self._tables = {**_TABLES, notification.NUMBER: trial.revision.notification.table}
        self._machines = {number: self._machine(number) for number in self._tables}

    @property
    def states(self) -> str:
        """Return the state of the handshake, or once it is done, the states of submission and notification."""
        names = {number: str(one.state.value) for number, one in self._machines.items()}
        hello = names.pop(handshake.NUMBER)
        return "/".join(names.values()) if self._machines[handshake.NUMBER].done else hello

    @property
    def is_at_rest(self) -> bool:
        """Whether no answer of the node is outstanding."""
        return all(one.agency is not Agency.RESPONDER for one in self._machines.values())

    def step(self, heard: Said) -> str:
        """Take a message of the client; return why it is out of turn, or no message at all."""
        if heard.number != handshake.NUMBER and not self._machines[handshake.NUMBER].done:
            return f"protocol {heard.number} before the handshake"
        try:
            self.last = self._decoded(heard)
            self._machines[heard.number].step(Agency.INITIATOR, self.last)
        except Malformed as error:
            return f"wrong bytes: {error}"
        except RemoteProtocolError as error:
            return error.text
        self._begin_again(heard.number)
        return ""

    async def say(self, number: int, message: Any) -> None:
        """Answer in SDUs of a few bytes; if the client has gone, the next read will show it."""
        self._machines[number].step(Agency.RESPONDER, message)
        wire = self._encoded(number, message)
        try:
            await self.listener.stream.send_all(said(number, *pieces(wire, PIECE_BYTES), by=Agency.RESPONDER))
        except trio.BrokenResourceError:
            return

    def _begin_again(self, number: int) -> None:
        if number != handshake.NUMBER and self._machines[number].done:
            self._machines[number] = self._machine(number)

    def _machine(self, number: int) -> Machine:
        return Machine(self._tables[number], we=Agency.RESPONDER)

    def _decoded(self, heard: Said) -> Any:
        if heard.number == handshake.NUMBER:
            return handshake.decode_message(heard.wire)
        if heard.number == submission.NUMBER:
            return submission.decode_message(heard.wire)
        return self._revision.notification.decode(heard.wire)

    def _encoded(self, number: int, message: Any) -> bytes:
        if number == handshake.NUMBER:
            return handshake.encode_message(message)
        if number == submission.NUMBER:
            return submission.encode_message(message)
        return self._revision.notification.encode(message)
