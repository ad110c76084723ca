"""`router dmq submit` and `watch`: a signer and a consumer for any DMQ node."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, aclosing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import click
import trio

from router.cli import loop
from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import note, say, say_json, while_read
from router.cli.spans import Seconds
from router.core.wire.codec import Malformed
from router.core.wire.text import counted
from services.dmq.client.connection import (
    Answer,
    Connection,
    DmqError,
    HandshakeRefused,
    Silent,
    Unreachable,
    connect,
)
from services.dmq.command_options import Given, messages_of, network_option, revision_option, socket_option
from services.dmq.core.messages.signed_message import SignedMessage
from services.dmq.core.messages.verdict import ACCEPT, DECODER_FAILURE, REJECT
from services.dmq.core.networks import Terms
from services.dmq.core.protocols.revision import Revision
from services.dmq.core.protocols.submission import MsgRejectMessage, RejectKind

POLL_S = 1.0
"""Seconds before a consumer asks a node again that never blocks (seed 000)."""
_EXITS = ((Unreachable, Exit.NO_NODE), (HandshakeRefused, Exit.REFUSED), (Silent, Exit.TIMED_OUT))
_SENTENCES = {
    RejectKind.ALREADY_RECEIVED: "The node holds a message with this id already.",
    RejectKind.TTL_TOO_LARGE: "The message has expired, or lives too long.",
}


class _Outcome(NamedTuple):
    """The outcome of a message that was handed in."""

    id: bytes | None
    verdict: str
    reason: str | None
    sentence: str


@click.command(cls=Command)
@click.argument("messages", nargs=-1, required=True, metavar="HEX|FILE…")
@socket_option
@revision_option
@network_option
@json_option
def submit(messages: tuple[str, ...], socket: Path, revision: Revision, network: Terms, as_json: bool) -> None:
    """Hand messages in to a node.

    A line each: id, verdict, reason, sentence. A file holds one message as bytes, or one a line
    in hex. Exit code 4 if one is rejected.
    """
    signer = _Signer(socket, network.magic, revision)
    if _run(signer.submit_all, messages_of(messages), as_json):
        raise SystemExit(Exit.REFUSED)


@click.command(cls=Command)
@socket_option
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after N messages.")
@click.option(
    "--timeout",
    type=Seconds(0, min_open=True),
    metavar="S",
    help="End after S seconds, with exit code 5 if fewer than --count have come.",
)
@revision_option
@network_option
@json_option
def watch(
    socket: Path, count: int | None, timeout: float | None, revision: Revision, network: Terms, as_json: bool
) -> None:
    """Print the messages that a node has.

    A line each: id, pool, size, expiry, and the body in base64.
    """
    shown = _run(_watch, socket, network.magic, revision, count, timeout, as_json)
    if count is not None and shown < count:
        raise Failure(Exit.TIMED_OUT, f"{shown} of {counted(count, 'message')} came within {timeout:g} s")


def _run(function: Any, *arguments: Any) -> Any:
    try:
        return loop.run(function, *arguments)
    except* DmqError as group:
        error = group.exceptions[0]
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        code = next((code for kind, code in _EXITS if isinstance(error, kind)), Exit.FAILED)
        raise Failure(code, str(error)) from None


class _Signer:
    """Hands messages in over one connection, or over one for each if a reject ends it (F5)."""

    def __init__(self, socket: Path, magic: int, revision: Revision) -> None:
        self._socket = socket
        self._magic = magic
        self._revision = revision

    async def submit_all(self, messages: Iterator[Given], as_json: bool) -> int:
        """Hand all messages in, and return how many were rejected."""
        rejected = 0
        async with AsyncExitStack() as stack:
            node: Connection | None = None
            for given in messages:
                wire, outcome = given.wire, self._fault(given)
                if outcome is None:
                    if node is None or self._revision.ends_early:
                        await stack.aclose()
                        node = await stack.enter_async_context(connect(self._socket, self._magic, self._revision))
                    outcome = self._outcome(wire, await node.submit(wire))
                rejected += outcome.verdict != ACCEPT
                _show_outcome(outcome, as_json)
            if node is not None:
                await node.finish()
        return rejected

    def _fault(self, given: Given) -> _Outcome | None:
        """Return why these bytes are not handed in: a node would close the connection."""
        try:
            self._revision.encoding.read(given.wire)
        except Malformed as error:
            text = given.about(f"This is no message of {self._revision.name}, so it was not handed in: {error}.")
            return _Outcome(None, REJECT, DECODER_FAILURE, text)
        return None

    def _outcome(self, wire: bytes, answer: Answer) -> _Outcome:
        own_id = self._revision.encoding.read(wire).id
        if isinstance(answer, MsgRejectMessage):
            sentence = answer.text or _SENTENCES.get(answer.kind, "The node gave no reason.")
            return _Outcome(own_id, REJECT, self._reason(answer.kind), sentence)
        return _Outcome(own_id, ACCEPT, None, "The node has taken it.")

    def _reason(self, kind: RejectKind) -> str:
        if kind is RejectKind.TTL_TOO_LARGE and self._revision.encoding.name.startswith("dmq"):
            return "expired"
        return {0: "invalid", 1: "alreadyReceived", 2: "ttlTooLarge", 3: "other"}[kind.value]


def _show_outcome(outcome: _Outcome, as_json: bool) -> None:
    if as_json:
        say_json(outcome._asdict())
        return
    own_id = "-" if outcome.id is None else outcome.id.hex()
    say(f"{own_id} {outcome.verdict} {outcome.reason or '-'} {outcome.sentence}")


async def _watch(
    socket: Path, magic: int, revision: Revision, count: int | None, timeout_s: float | None, as_json: bool
) -> int:
    """Print messages until `count` have come or the time is over; return how many there were."""
    shown = 0
    with trio.move_on_after(timeout_s if timeout_s is not None else float("inf")):
        async with connect(socket, magic, revision) as node, while_read(), aclosing(_messages(node)) as messages:
            async for wire, is_last in messages:
                shown += _show_message(wire, revision, as_json)
                if shown == count:
                    await _stop(node, has_read_all=is_last)
                    break
    return shown


async def _messages(node: Connection) -> AsyncGenerator[tuple[bytes, bool], None]:
    """Yield the node's messages, each with whether it is the last of its reply; ask for more when all of a reply have
    been used."""
    while True:
        reply = await node.request(blocking=True)
        if reply.ended:
            return
        for left, wire in zip(range(len(reply.messages) - 1, -1, -1), reply.messages, strict=True):
            yield wire, not left
        if not reply.messages:
            await trio.sleep(POLL_S)


async def _stop(node: Connection, *, has_read_all: bool) -> None:
    """End in order, so that a named consumer does not count as broken off: acknowledge the last reply, if all of it was
    used, by one more request; what is given for that one, or else the last reply, stays unread."""
    with suppress(DmqError):  # all that was wanted has been printed, whatever becomes of the connection
        if has_read_all:
            await node.request(blocking=False)
        await node.finish()


def _show_message(wire: bytes, revision: Revision, as_json: bool) -> bool:
    """Print a message, or a note that the bytes are none; return whether they are one."""
    try:
        message = revision.encoding.read_notified(wire)
    except Malformed as error:
        note(f"the node gave {len(wire)} bytes that are no message of {revision.name}: {error}")
        return False
    found = _facts(message)
    if as_json:
        say_json(found)
        return True
    expires_at = "-" if message.expires_at is None else message.expires_at
    pool = message.certificate.pool.text
    say(f"{message.id.hex()} {pool} {found['size']} {expires_at} {found['body_base64']}")
    return True


def _facts(message: SignedMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "pool": message.certificate.pool,
        "size": len(message.wire),
        "expires_at": message.expires_at,
        "body_base64": b64encode(message.body).decode(),
    }
