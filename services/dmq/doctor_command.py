"""`router dmq doctor`: the faults of a DMQ node and its surroundings, each with its remedy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import trio

from router.cli import loop
from router.cli.ask import ask
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import for_this_home, say, say_json
from router.client.errors import ClientError
from router.service.door_sharing import SHARED_BOUNDS
from services.dmq.client.connection import DmqError, HandshakeRefused, NoPlace, connect
from services.dmq.command_options import (
    chain_of,
    genesis_option,
    home_network_option,
    home_socket_option,
    read_file,
    revision_option,
)
from services.dmq.core.diagnosis import Facts, Finding, findings
from services.dmq.core.networks import Terms, name_of
from services.dmq.core.protocols.revision import Revision
from services.dmq.core.stake.distribution import STAKE_BYTES_MAX
from services.dmq.home_node import HomeNode, service_name
from services.dmq.node_commands import name_option

REPLIES_MAX = 1000
ASKED_S = 30.0
"""Most seconds for which the node is asked for messages."""
_MARKS = {True: "ok", False: "WRONG", None: "-"}


@click.command(cls=Command)
@home_socket_option
@click.option(
    "--stake",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A stake snapshot to be judged. Default: what the node of this home has.",
)
@name_option
@revision_option
@home_network_option
@genesis_option
@json_option
def doctor(
    socket: Path | None,
    stake: Path | None,
    name: str | None,
    revision: Revision,
    network: Terms | None,
    genesis: Path | None,
    as_json: bool,
) -> None:
    """Check a node: settings, clock, socket, network, genesis, stake, certificates, consumers.

    It may be any DMQ node; of one that does not run in this home, its settings, clock and consumers are not checked.
    Exit code 1 if something is wrong, 2 if `router.toml` is, and the node does not run.
    """
    node = HomeNode(service_name(name))
    if network is None:
        network, genesis = node.network(), genesis or node.genesis()
    if socket is None:
        socket = node.socket()
    facts = _facts(node, socket, stake, network, revision)
    found = findings(facts, revision, chain_of(network, genesis), time.time())
    if as_json:
        say_json([one._asdict() for one in found])
    else:
        for one in found:
            _show(one)
    if any(one.ok is False for one in found):
        raise SystemExit(Exit.FAILED)


def _facts(node: HomeNode, socket: Path, stake: Path | None, network: Terms, revision: Revision) -> Facts:
    asked = loop.run(_asked, socket, network.magic, revision)
    return Facts(
        str(socket),
        _mode(socket),
        asked.silence,
        asked.refusal,
        asked.messages,
        node.status,
        _clock(),
        None if stake is None else read_file(stake, STAKE_BYTES_MAX),
        0.0 if stake is None else stake.stat().st_mtime,
        name_of(network.magic),
        node.away,
        node.start,
        asked.fullness,
        node.problems,
        SHARED_BOUNDS.soft,
        SHARED_BOUNDS.most,
    )


def _show(finding: Finding) -> None:
    say(f"{_MARKS[finding.ok]:<5}  {finding.check:<12}  {finding.found}")
    if finding.remedy:
        say(for_this_home(f"{'':<21}{finding.remedy}"))


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except OSError:
        return None


def _clock() -> Any:
    if not invocation().chosen_home.holds_node:
        return None
    try:
        return ask(invocation().home, "clock")
    except (ClientError, Failure):
        return None


class _Asked(NamedTuple):
    """What a client got, as in `Facts`."""

    messages: tuple[bytes, ...] = ()
    silence: str = ""
    refusal: str = ""
    fullness: str = ""


async def _asked(path: Path, magic: int, revision: Revision) -> _Asked:
    """Return the messages that the node gives within a time, or why it gives none."""
    messages: list[bytes] = []
    try:
        with trio.move_on_after(ASKED_S):
            async with connect(path, magic, revision) as node:
                for _ in range(REPLIES_MAX):
                    reply = await node.request(blocking=False)
                    messages += reply.messages
                    if not reply.has_more:
                        break
    except NoPlace as error:
        return _Asked(fullness=error.cause)
    except HandshakeRefused as error:
        return _Asked(refusal=str(error))
    except DmqError as error:
        return _Asked(tuple(messages), silence=str(error))
    return _Asked(tuple(messages))
