"""`router pub` and `router send`: hand in messages, and print the id of each once it is in custody."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import click
import trio

from router.cli import given_link, loop
from router.cli.ask import whole_answer
from router.cli.body_text import readable
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.input import bodies
from router.cli.kept_keys import check_name
from router.cli.output import note
from router.cli.publish_report import PublishCounts, hear_uplinks
from router.cli.services import keeps_for_others, name_with_role
from router.cli.spans import Seconds, WholeMinutes, WholeSeconds
from router.client.group import Group
from router.client.node import Node, connect
from router.client.outcomes import Outcomes
from router.core.service.roles import Role
from router.core.wire.crypto import PublicKey
from router.core.wire.lifetime import UINT32_MAX
from router.core.wire.text import span_text
from router.settings import config, core_dumps, keyring
from router.settings.config_services import key_name
from router.settings.names import Names

Function = TypeVar("Function", bound=Callable[..., Any])
HandIn = Callable[..., Awaitable[Any]]
IN_FLIGHT = 1000
WAIT_S = 30.0
ANSWER_S = 1.0
SERVICE = "service-"
IS_ROUTER = (
    "%s is a neighbour's router, and routers take no messages themselves; send to the address of an app or service of "
    "that node: `router keys` there lists them"
)


@dataclass(frozen=True)
class Posting:
    """The options of sending. `whole`: standard input is one message."""

    bodies: tuple[str, ...]
    ttl_s: int
    expiry_min: int
    as_name: str | None
    queue: bool
    wait_s: float | None
    as_json: bool
    files: tuple[str, ...]
    names: Names
    uplinks: frozenset[PublicKey]
    raw: bool = False
    plain: bool = False

    @property
    def asks_outcomes(self) -> bool:
        """Whether outcomes are needed: to wait for them, or to see whether anybody listens behind an uplink."""
        return self.wait_s is not None or bool(self.uplinks)

    def each(self) -> AbstractAsyncContextManager[AsyncGenerator[bytes, None]]:
        return aclosing(bodies(self.bodies, self.files, whole=self.raw))

    def connect(self) -> Node:
        return connect(
            home=invocation().home,
            as_name=self.as_name,
            when_down="queue" if self.queue else "raise",
            outcomes=self.asks_outcomes,
            on_away=note if self.queue else None,
        )


_TTL = click.option(
    "--ttl",
    type=WholeSeconds(0, UINT32_MAX),
    metavar="S",
    help="How many seconds, or 12h, 5d, each router keeps a message for recipients that are away; 0: not at all.",
)
_EXPIRY = click.option(
    "--expiry",
    type=WholeMinutes(1),
    metavar="MIN",
    help="Minutes, or 12h, 5d, until a message expires everywhere.",
)
_AS = click.option("--as", "as_name", metavar="NAME", help="Sign on with the kept key NAME.")
_QUEUE = click.option("--queue", is_flag=True, help="If the node does not run, wait for it instead of failing.")
_WAIT = click.option("--wait", is_flag=True, help="Wait for each recipient's outcome and print it.")
_TIMEOUT = click.option(
    "--timeout", type=Seconds(0), metavar="S", help=f"How many seconds --wait waits.  [default: {WAIT_S:g}]"
)


_FILE = click.option(
    "--file",
    "files",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    multiple=True,
    metavar="PATH",
    help="Send the file as one message; - is standard input. Repeatable.",
)


def _options(command: Function) -> Function:
    for option in (json_option, _TIMEOUT, _WAIT, _QUEUE, _AS, _EXPIRY, _TTL, _FILE):
        command = option(command)
    return command


def _ttl_s(given: int | None, settings: config.Config) -> int:
    """Return the ttl that is given, or the usual one; say if this node keeps no message for as long."""
    if given is None:
        return settings.defaults.ttl_s
    if given > (most_s := settings.limits.ttl_s_max):
        note(f"--ttl counts as {span_text(most_s)}, the most that this node keeps a message: limits.ttl_s_max")
    return given


def _posting(
    bodies: tuple[str, ...],
    ttl: int | None,
    expiry: int | None,
    as_name: str | None,
    queue: bool,
    wait: bool,
    timeout: float | None,
    as_json: bool,
    files: tuple[str, ...],
    raw: bool = False,
    plain: bool = False,
) -> Posting:
    if files and bodies:
        raise click.UsageError("--file PATH takes the place of BODY; give one of them.")
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is how long --wait waits; give --wait too.")
    home = invocation().home
    settings = config.load(home.config_path)[0]
    uplinks = frozenset(one.address for one in settings.peers if one.uplink and not one.blocked)
    wait_s = (WAIT_S if timeout is None else timeout) if wait else None
    names = Names(home, settings)
    core_dumps.hide_memory()  # it holds a key for as long as it runs
    if wait or uplinks:
        names.read_keys()
    return Posting(
        bodies,
        _ttl_s(ttl, settings),
        settings.defaults.expiry_min if expiry is None else expiry,
        as_name,
        queue,
        wait_s,
        as_json,
        files,
        names,
        uplinks,
        raw,
        plain,
    )


@click.command(cls=Command)
@click.argument("group")
@click.argument("bodies", metavar="[BODY]...|-", nargs=-1)
@click.option("--raw", is_flag=True, help="Send bodies without encrypting them; all of standard input is one message.")
@_options
def pub(group: str, **given: Any) -> None:
    """Publish messages to a GROUP: its name, its key, or its link.

    Each BODY is a message. Without BODY, or with -, each line of standard input is one. Prints each message's id when
    the router has it in custody, that is on its disk. Exit code 4: some were refused.
    """
    posting = _posting(**given)
    given_link.warn_of_secret(group, given_link.KEEP_GROUP)
    check_name(invocation().home, posting.as_name)
    loop.run(_publish, group, posting)


@click.command(cls=Command)
@click.argument("address")
@click.argument("bodies", metavar="[BODY]...|-", nargs=-1)
@click.option("--plain", is_flag=True, help="Send bodies in the open, which nodes on the way can read.")
@_options
def send(address: str, **given: Any) -> None:
    """Send messages to the ADDRESS of an app or service: addr1… text, hex, or a name that the home knows.

    The home knows kept keys, services (service-NAME) and neighbours by name. Routers themselves take no messages.
    Bodies are sealed to the recipient's prekey, which is asked for the first time; if none comes within 30 s, nothing
    is sent. Services want messages in the open.
    Each BODY is a message. Without BODY, or with -, each line of standard input is one. Prints each message's id when
    the router has it in custody, that is on its disk. Exit code 4: some were refused.
    """
    posting = _posting(**given)
    home = invocation().home
    settings = config.load(home.config_path)[0]
    to = posting.names.address(address)
    if to == keyring.load(home, keyring.NODE).public:
        raise Failure(Exit.USAGE, "this is the node's own address; messages go to apps, services and other nodes' apps")
    if any(one.address == to and one.is_router for one in settings.peers):
        raise Failure(Exit.USAGE, IS_ROUTER % address)
    check_name(home, posting.as_name)
    posting.names.read_keys()
    loop.run(_send, to, posting, address if any(one.address == to for one in settings.peers) else "")


def _tally(posting: Posting) -> PublishCounts:
    home = invocation().home
    passes_on = key_name(name_with_role(home, Role.OVERLAY))
    return PublishCounts(posting.as_json, posting.names, passes_on, is_kept_for_others=keeps_for_others(home))


async def _publish(name: str, posting: Posting) -> None:
    tally = _tally(posting)
    async with posting.connect() as node, tally.counting():
        group = node.group(name, raw=posting.raw)
        publish = partial(group.publish, ttl_s=posting.ttl_s, expiry_min=posting.expiry_min)
        if posting.wait_s is None:
            first = await _stream(group, publish, posting, tally)
            if first is not None:
                await hear_uplinks(first, posting.uplinks, tally)
        else:
            await _one_by_one(publish, posting, tally)
    tally.nothing_read()
    tally.finish()


async def _send(to: PublicKey, posting: Posting, neighbour: str) -> None:
    """Send to an address. `neighbour`: what was given for it if the configuration names it; else ""."""
    tally = _tally(posting)
    name = posting.names.of_address(to.hex())
    async with posting.connect() as node, tally.counting():
        if neighbour and node.is_up and await _is_linked_router(node, to):
            raise Failure(Exit.USAGE, IS_ROUTER % neighbour)
        send = partial(node.send, to, ttl_s=posting.ttl_s, expiry_min=posting.expiry_min, plain=posting.plain)
        last = await _one_by_one(send, posting, tally)
        if last is not None:
            await hear_uplinks(last, posting.uplinks, tally)
        if posting.as_name is None and name.startswith(SERVICE):
            await _show_answers(node, to, name, tally.messages)
    tally.nothing_read()
    tally.finish()


async def _is_linked_router(node: Node, key: PublicKey) -> bool:
    """Whether a neighbour is connected to the node now as a router, and not as an app."""
    rows = await whole_answer(node, "peers")
    return any(one["address"] == key.hex() and one.get("app") is False for one in rows)


async def _show_answers(node: Node, service: PublicKey, name: str, count: int) -> None:
    """Print the answers to this command's temporary key that a service of this node sends within `ANSWER_S`."""
    with trio.move_on_after(ANSWER_S):
        async for message in node.unicasts():
            if message.source == service and count > 0:
                note(f"{name} answers: {readable(message.body)}")
                count -= 1
            if count <= 0:
                await message.settle()
                break


async def _stream(group: Group, publish: HandIn, posting: Posting, tally: PublishCounts) -> Outcomes | None:
    """Publish many messages at once, and print ids as custody is taken. Return the outcomes of the first message."""
    first: Outcomes | None = None
    publisher = group.publisher(
        IN_FLIGHT,
        ttl_s=posting.ttl_s,
        expiry_min=posting.expiry_min,
        on_custody=tally.taken,
        on_refused=tally.failed,
    )
    async with publisher, posting.each() as bodies:
        async for body in bodies:
            if tally.is_unheard():
                break
            if first is not None or not posting.uplinks:
                await publisher.publish(body)
                continue
            with tally.hearing():
                first = await publish(body, wait=True)
                tally.taken(first.id)
    return first


async def _one_by_one(hand_in: HandIn, posting: Posting, tally: PublishCounts) -> Outcomes | None:
    """Hand in messages one after the other. Return the outcomes of the last one, unless they were already waited
    for."""
    last: Outcomes | None = None
    async with posting.each() as bodies:
        async for body in bodies:
            if tally.is_unheard():
                break
            with tally.hearing():
                if not posting.asks_outcomes:
                    tally.taken(await hand_in(body))
                    continue
                outcomes: Outcomes = await hand_in(body, wait=True)
                if posting.wait_s is None:
                    tally.taken(outcomes.id)
                    last = outcomes
                else:
                    tally.waiting(outcomes, posting.wait_s)
                    found = await outcomes.final(posting.wait_s)
                    tally.followed(outcomes.id, found, outcomes.complete, sealed=outcomes.sealed)
    return last
