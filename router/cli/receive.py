"""`router sub` and `router recv`: print messages, one a line, each before it is settled."""

from __future__ import annotations

import base64
import json
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import click
import trio

from router.cli import given_link, loop
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure, Interrupted
from router.cli.kept_keys import check_name
from router.cli.output import for_this_home, note, one_line, say, say_json, short_text, while_read
from router.cli.spans import Seconds
from router.cli.streams import standard_output
from router.cli.when import SECOND_NS, When, instant
from router.client.bell import Bell
from router.client.errors import ClientError
from router.client.history import HistoryPlace, history
from router.client.loops import Messages
from router.client.node import Node, connect
from router.client.received import Received
from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.text import counted, key_text
from router.settings import core_dumps

log = logging.getLogger(__name__)

_COME = "messages come here, Ctrl-C ends"
_NAMED_MAX = 4  # missing messages that a note names
_PRINTED_MAX = 100_000  # newest earlier messages that are remembered, because they may come again

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass
class ReceiveOptions:
    """The options of receiving, and the count of messages received."""

    count: int | None
    timeout_s: float | None
    as_name: str | None
    journal: str | None
    as_json: bool
    queue: bool
    is_causal: bool = False
    is_raw: bool = False
    came: int = 0
    turned: Bell = field(default_factory=Bell)
    """Rung when the node goes away, and when it is back."""

    @property
    def so_far(self) -> str:
        return "" if self.count is None else f"; {self.came} of {counted(self.count, 'message')} came"

    def connect(self) -> Node:
        return connect(
            home=invocation().home,
            as_name=self.as_name,
            journal=self.journal,
            on_problem=note,
            on_away=self._away_or_back,
            when_down="queue" if self.queue else "raise",
        )

    def _away_or_back(self, text: str) -> None:
        note(text)
        self.turned.ring()


_COUNT = click.option("--count", type=click.IntRange(1), metavar="N", help="End after N messages.")
_TIMEOUT = click.option(
    "--timeout",
    type=Seconds(0, min_open=True),
    metavar="S",
    help="End S seconds after messages can come, with exit code 5.",
)
_QUEUE = click.option("--queue", is_flag=True, help="If the node does not run, wait for it instead of failing.")
_AS = click.option(
    "--as",
    "as_name",
    metavar="NAME",
    help="Sign on with the kept key NAME; messages for it wait while it is away.",
)
_JOURNAL = click.option(
    "--journal",
    type=click.Path(dir_okay=False),
    metavar="PATH",
    help="Record in PATH which messages were printed; after a crash at most the last one is printed again.",
)


def _options(command: Function) -> Function:
    for option in (json_option, _JOURNAL, _AS, _QUEUE, _TIMEOUT, _COUNT):
        command = option(command)
    return command


def _listening(
    count: int | None, timeout: float | None, as_name: str | None, journal: str | None, as_json: bool, queue: bool
) -> ReceiveOptions:
    standard_output("name a file, or /dev/null")
    check_name(invocation().home, as_name)
    core_dumps.hide_memory()  # it holds a key for as long as it runs
    return ReceiveOptions(count, timeout, as_name, journal, as_json, queue)


@click.command(cls=Command)
@click.argument("group")
@click.option(
    "--raw",
    is_flag=True,
    help="Print bodies as received, without decrypting them: into a file or pipe as they are, a line feed after each.",
)
@click.option(
    "--causal", is_flag=True, help="Print each message after those that its sender had read; wait for them up to 30 s."
)
@click.option("--since", type=When(), help="Print first what came from then on: a time, or how long ago (2d).")
@_options
def sub(group: str, raw: bool, causal: bool, since: float | None, **given: Any) -> None:
    """Join a GROUP (its name, its key, or its link) and print its messages, one a line, until Ctrl-C.

    A message is settled after its line is printed; one that was printed but not settled comes again. If the node stops,
    this command waits for it; one that does not run yet is waited for with --queue, which does not count for --timeout.
    Ctrl-C ends it with exit code 0, or 130 before --count messages have come.

    With --causal an answer is never printed before the question. Where a message has not come in time, a note on
    standard error, or "missing" with --json, says what the next line should have followed. --journal and --as keep the
    order over restarts.

    With --since it begins with those that this node holds from earlier, in the order in which they came. The node asks
    its neighbours for those it lacks, and this command says when it has caught up; that needs the pub/sub service.
    """
    if raw and causal:
        raise click.UsageError("--causal needs sealed bodies, which say what they follow; leave out --raw")
    given_link.warn_of_secret(group, given_link.KEEP_GROUP)
    since_s = None if since is None else instant(since, time.time_ns()) // SECOND_NS
    loop.run(_until_signal, _subscribe, group, raw, since_s, replace(_listening(**given), is_causal=causal, is_raw=raw))


@click.command(cls=Command)
@_options
def recv(**given: Any) -> None:
    """Print what is sent to your address, one message a line, until Ctrl-C.

    With --as NAME it is the address of that kept key; otherwise a temporary one, which ends with this command. With
    --queue it also waits for a node that does not run yet, which does not count for --timeout.
    """
    loop.run(_until_signal, _receive, _listening(**given))


async def _subscribe(name: str, raw: bool, since_s: int | None, listening: ReceiveOptions) -> None:
    async with listening.connect() as node, while_read(), trio.open_nursery() as nursery:
        group = await node.join(name, raw=raw, order="causal" if listening.is_causal else "arrival")
        log.info("joined %s", key_text("group", group.key))
        whose = f"{listening.as_name} has joined" if listening.as_name else "joined"
        copied = await _copied(node)
        note(f"{whose} {group.name or short_text('group', group.key)}; {copied or f'its {_COME}'}")
        nursery.start_soon(_say_when_copied, node, listening, copied)
        earlier = None if since_s is None else Earlier(node, group.key, since_s, listening)
        nursery.start_soon(_say_when_caught_up, node, group.key, earlier, nursery.cancel_scope)
        await _print_all(group.messages(), listening, earlier)
        nursery.cancel_scope.cancel()


class Earlier:
    """Prints a group's messages that the node holds from earlier, and those fetched of these since; each message
    once."""

    def __init__(self, node: Node, group: PublicKey, since_s: int, listening: ReceiveOptions) -> None:
        self._node, self._group, self._since_s, self._listening = node, group, since_s, listening
        self._place = HistoryPlace()
        self._printed: dict[MessageId, None] = {}
        self._is_free = trio.Lock()

    def is_new(self, id: MessageId) -> bool:
        """Whether a message was not printed before; it counts as printed from now on."""
        if id in self._printed:
            return False
        self._printed[id] = None
        if len(self._printed) > _PRINTED_MAX:
            del self._printed[next(iter(self._printed))]
        return True

    async def print(self) -> bool:
        """Print the messages at hand; return whether the wanted number has been printed."""
        async with self._is_free:
            async for message in history(self._node, self._group, self._since_s, self._place):
                if self.is_new(message.id) and _is_last(message, self._listening):
                    return True
        return False


async def _say_when_caught_up(
    node: Node, group: PublicKey, earlier: Earlier | None, listening: trio.CancelScope
) -> None:
    async for news in node.caught_up:
        if news.group == group:
            note(str(news))
            if earlier is not None and await earlier.print():
                listening.cancel()


async def _receive(listening: ReceiveOptions) -> None:
    async with listening.connect() as node, while_read(), trio.open_nursery() as nursery:
        note(f"listening as {key_text('addr', node.key)}")
        await node.until_up()
        if copied := await _copied(node):
            note(copied)
        nursery.start_soon(_say_when_copied, node, listening, copied)
        await _print_all(node.unicasts(), listening)
        nursery.cancel_scope.cancel()


async def _copied(node: Node) -> str | None:
    """Return why nothing comes from a node that has stopped as a copy, with the remedy; "" from any other, None from
    one that does not answer."""
    try:
        found = json.loads(await node.ask("copy")).get("copy")
    except ClientError:
        return None
    return f"nothing comes: {for_this_home(found['problem'])}" if found and found["barred"] else ""


async def _say_when_copied(node: Node, listening: ReceiveOptions, said: str | None) -> None:
    """Say when the node comes back as a stopped copy, and when it has been kept."""
    while True:
        await listening.turned.wait()
        found = await _copied(node) if node.is_up else None
        if found is not None and found != said:
            said = found
            note(said or _COME)


async def _print_all(messages: Messages, listening: ReceiveOptions, earlier: Earlier | None = None) -> None:
    """Print earlier messages, if wanted, then new ones; none of the newest earlier ones twice."""
    with trio.move_on_after(float("inf") if listening.timeout_s is None else listening.timeout_s) as scope:
        if earlier is not None and await earlier.print():
            return
        async for message in messages:
            if (earlier is None or earlier.is_new(message.id)) and _is_last(message, listening):
                await message.settle()
                return
    if scope.cancelled_caught:
        raise Failure(Exit.TIMED_OUT, f"{listening.timeout_s:g} s are over{listening.so_far}")


def _is_last(message: Received, listening: ReceiveOptions) -> bool:
    """Print a message; return whether it was the last one wanted."""
    _print(message, listening)
    listening.came += 1
    return listening.came == listening.count


async def _until_signal(listen: Callable[..., Any], *args: Any) -> None:
    """Listen until Ctrl-C or SIGTERM, which is no failure unless messages of `--count` are missing."""
    listening: ReceiveOptions = args[-1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_on_signal, nursery.cancel_scope)
        await listen(*args)
        nursery.cancel_scope.cancel()
        return
    if listening.count is not None:
        raise Interrupted(f"interrupted{listening.so_far}")


async def _cancel_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()


# -- a line --------------------------------------------------------------------------------------------------


def _print(message: Received, listening: ReceiveOptions) -> None:
    if listening.as_json:
        order = {"missing": list(message.missing), "late": message.late} if listening.is_causal else {}
        say_json(_record(message) | order)
        return
    _note_order(message)
    stdout = standard_output("name a file, or /dev/null")
    if stdout.isatty():
        say(one_line(message.body))
        return
    body = message.body if listening.is_raw else message.body.replace(b"\n", b"\\n")
    stdout.write(body + b"\n")
    stdout.flush()


def _note_order(message: Received) -> None:
    """Print on standard error where causal order could not be kept."""
    if message.missing:
        which = ", ".join(short_text("msg", id) for id in message.missing[:_NAMED_MAX])
        more = f" and {len(message.missing) - _NAMED_MAX} more" if len(message.missing) > _NAMED_MAX else ""
        note(f"the next line follows what has not been printed: {which}{more}")
    if message.late:
        note("the next line is late: it belongs before one that has been printed")


def _record(message: Received) -> dict[str, Any]:
    """Return the message with the contract's JSON keys; the body as text if it is UTF-8, else as base64."""
    where = {"group": message.group} if message.group else {"source": message.source}
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(message.body).decode()}
    return {
        "id": message.id,
        **where,
        "size": len(message.body),
        **body,
        "sealed": message.sealed,
        "sender": message.sender,
        "seq": message.seq,
        "received_at": message.received_at,
        "redelivered": message.redelivered,
    }
