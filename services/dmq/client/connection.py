"""One connection of a client to a DMQ node: hand messages in, ask for messages, ask which versions the node speaks.

    async with connect(path, magic) as node:
        answer = await node.submit(wire)
        reply = await node.request(blocking=True)

One question at a time: a client that submits while a blocking request waits needs a second connection, as mithril's
clients do.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import trio
from msgspec import Struct

from router.core.link.machine import Agency, RemoteProtocolError
from services.dmq.core.protocols import handshake, notification, submission
from services.dmq.core.protocols.client_session import Heard, Session
from services.dmq.core.protocols.revision import REVISIONS, Revision

READ_BYTES = 1 << 16
DEPLOYED = next(iter(REVISIONS.values()))


class DmqError(Exception):
    """A node cannot be asked; the text says which node, what happened, and what to do."""


class Unreachable(DmqError):
    """No node listens on the socket."""


class HandshakeRefused(DmqError):
    """The node does not speak our version, or is of another network."""


class OtherNetwork(HandshakeRefused):
    """The node is of another network."""


class NoPlace(HandshakeRefused):
    """The node has as many clients as it takes; `cause`: in its own words."""

    def __init__(self, said: str, cause: str) -> None:
        super().__init__(said)
        self.cause = cause


class Broken(DmqError):
    """The node closed the connection, or sent bytes that the protocol does not allow."""


class Silent(DmqError):
    """The node did not answer in time."""


class ClientLimits(Struct, frozen=True):
    """The limits of each part, in seconds. A blocking request has no limit here, as in the protocol."""

    connect_s: float = 10.0
    handshake_s: float = 10.0
    answer_s: float = 60.0


class Reply(NamedTuple):
    """Messages as encoded for consumers. `has_more`: whether asking again without blocking may bring more.

    `ended`: the node has ended the protocol (MsgServerDone of seed 001)."""

    messages: tuple[bytes, ...]
    has_more: bool = False
    ended: bool = False


Answer = submission.MsgAcceptMessage | submission.MsgRejectMessage


class Connection:
    """A client's end after the handshake; made by `connect`."""

    def __init__(self, stream: trio.SocketStream, path: Path, revision: Revision, limits: ClientLimits) -> None:
        self._stream = stream
        self._path = path
        self._revision = revision
        self._limits = limits
        self._session = Session(Agency.INITIATOR, revision)
        self._begun: set[int] = set()

    def __repr__(self) -> str:
        return f"<Connection to {self._path}: {self._session!r}>"

    async def submit(self, wire: bytes) -> Answer:
        """Hand a message in, and return whether the node has taken it."""
        answer: Answer = await self._ask(submission.NUMBER, submission.MsgSubmitMessage(wire), self._limits.answer_s)
        return answer

    async def request(self, *, blocking: bool, acknowledged: tuple[bytes, ...] = ()) -> Reply:
        """Ask for messages; a blocking request waits until there is one.

        In `cip-29ffe0e` there is one request, and the node chooses. `acknowledged` is used by `overview-2025-04` only.
        """
        question: notification.Message
        if notification.MsgNextMessages in self._revision.notification.table[notification.St.IDLE].on:
            question = notification.MsgNextMessages()
        elif blocking:
            question = notification.MsgRequestMessagesBlocking(acknowledged)
        else:
            question = notification.MsgRequestMessagesNonBlocking(acknowledged)
        limit_s = inf if blocking else self._limits.answer_s
        return _reply(await self._ask(notification.NUMBER, question, limit_s))

    async def finish(self) -> None:
        """End the protocols that were begun, as signers do before they close."""
        for number in sorted(self._begun):
            if not self._session.ends and self._session.is_our_turn(number):
                self._session.say(number, _last_word(number, self._revision))
        self._begun.clear()
        await self._write()

    async def shake_hands(self, magic: int, *, query: bool = False) -> handshake.Answer:
        """Do the handshake, and return the node's answer, which may be a refusal."""
        answer: handshake.Answer = await self._ask(
            handshake.NUMBER, handshake.propose(magic, query=query), self._limits.handshake_s
        )
        return answer

    async def _ask(self, number: int, question: Any, limit_s: float) -> Any:
        if number != handshake.NUMBER:
            self._begun.add(number)
        try:
            with trio.fail_after(limit_s):
                self._session.say(number, question)
                await self._write()
                return await self._answer(number, type(question).__name__)
        except trio.TooSlowError:
            text = f"the node at {self._path} did not answer {type(question).__name__} within {limit_s:g} s"
            raise Silent(f"{text}; see its log, or try again") from None
        except RemoteProtocolError as error:
            text = f"the node at {self._path} does not speak {self._revision.name}: {error.text}"
            raise Broken(f"{text}; name its revision, or report this to its authors") from None

    async def _answer(self, number: int, question: str) -> Any:
        while True:
            for heard in await self._hear(question):
                if heard.number == number:
                    return heard.message

    async def _hear(self, question: str) -> list[Heard]:
        with trio.move_on_at(self._session.deadline_s()) as overdue:
            data = await self._read(question)
        if overdue.cancelled_caught:
            raise Broken(f"the node at {self._path} stopped in the middle of an answer to {question}; see its log")
        return self._session.hear(data, trio.current_time())

    async def _read(self, question: str) -> bytes:
        try:
            data = await self._stream.receive_some(READ_BYTES)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            text = f"the node at {self._path} closed the connection instead of answering {question}"
            raise Broken(f"{text}; `router dmq status` or its log says why")
        return bytes(data)

    async def _write(self) -> None:
        """Write queued bytes; if the node has gone, reading its answer will show it."""
        try:
            while data := self._session.take(int(trio.current_time() * 1e6)):
                await self._stream.send_all(data)
        except trio.BrokenResourceError:
            return


@asynccontextmanager
async def connect(
    path: Path | str, magic: int, revision: Revision = DEPLOYED, limits: ClientLimits | None = None
) -> AsyncIterator[Connection]:
    """Connect to the node that listens on `path`, of the network with that magic; raise `DmqError`."""
    async with _connected(Path(path), revision, limits or ClientLimits()) as connection:
        answer = await connection.shake_hands(magic)
        if not isinstance(answer, handshake.MsgAcceptVersion):
            raise _refused(f"the node at {path} refused: {_refusal(answer)}", answer)
        yield connection


async def query(path: Path | str, magic: int, limits: ClientLimits | None = None) -> Mapping[int, bytes]:
    """Return the versions that the node speaks with clients, each with its data as encoded; raise `DmqError`."""
    async with _connected(Path(path), DEPLOYED, limits or ClientLimits()) as connection:
        answer = await connection.shake_hands(magic, query=True)
    if not isinstance(answer, handshake.MsgQueryReply):
        raise HandshakeRefused(f"the node at {path} did not answer the query: {_refusal(answer)}")
    return answer.versions


@asynccontextmanager
async def _connected(path: Path, revision: Revision, limits: ClientLimits) -> AsyncIterator[Connection]:
    try:
        with trio.fail_after(limits.connect_s):
            stream = await trio.open_unix_socket(path)
    except trio.TooSlowError:
        raise Unreachable(f"the node at {path} takes no connection; it may have too many") from None
    except OSError as error:
        cause = error.strerror or "the path is too long for a socket"
        if error.errno == errno.ECONNREFUSED and not path.is_socket():
            cause = "it is no socket"
        remedy = "start the node, or name its socket with --socket"
        if error.errno == errno.ENOENT:
            remedy += "; one that runs makes a socket again within seconds that somebody removed"
        raise Unreachable(f"no node listens on {path}: {cause}; {remedy}") from None
    async with stream:
        yield Connection(stream, path, revision, limits)


def _reply(message: Any) -> Reply:
    match message:
        case notification.MsgReplyMessagesNonBlocking(messages, has_more):
            return Reply(messages, has_more)
        case notification.MsgReplyMessages(messages) | notification.MsgHasMessages(messages):
            return Reply(messages, bool(messages))
        case notification.MsgReplyMessagesBlocking(messages):
            return Reply(messages)
        case notification.MsgServerDone():
            return Reply((), ended=True)
    assert isinstance(message, notification.MsgNoMessages), message
    return Reply(())


def _last_word(number: int, revision: Revision) -> Any:
    if number == submission.NUMBER:
        return submission.MsgDone()
    allowed = revision.notification.table[notification.St.IDLE].on
    done = notification.MsgDone if notification.MsgDone in allowed else notification.MsgClientDone
    return done()


def _refused(said: str, answer: handshake.Answer) -> HandshakeRefused:
    match answer:
        case handshake.MsgRefuse(handshake.Refused(_, text)):
            return NoPlace(said, text) if text.startswith(handshake.NO_PLACE) else OtherNetwork(said)
    return HandshakeRefused(said)


def _refusal(answer: handshake.Answer) -> str:
    """Return the node's words instead of an accepted version, and the remedy."""
    match answer:
        case handshake.MsgRefuse(handshake.VersionMismatch(versions)):
            known = ", ".join(map(str, versions)) or "none"
            return f"it speaks the versions {known} with clients, not {handshake.CLIENT_VERSION}; name a DMQ node"
        case handshake.MsgRefuse(handshake.Refused(_, text)) if text.startswith(handshake.NO_PLACE):
            return f"{text}; try again when one has gone, or have that setting of the node raised"
        case handshake.MsgRefuse(handshake.Refused(_, text) | handshake.HandshakeDecodeError(_, text)):
            return f"{text}; name its network with --network"
    return f"{type(answer).__name__} is no answer to this; name a DMQ node"
