"""`router dmq doctor`: the faults of a DMQ node and its surroundings, each with its remedy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import trio

from router.cli.ask import ask
from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import say, say_json
from router.cli.services import ask_service, written_settings
from router.client.errors import ClientError
from services.dmq.client.connection import DmqError, HandshakeRefused, connect
from services.dmq.command_options import (
    chain_of,
    genesis_option,
    home_network_option,
    home_socket_option,
    read_file,
    revision_option,
)
from services.dmq.core.diagnosis import Facts, Finding, findings
from services.dmq.core.networks import Terms, name_of, network_of
from services.dmq.core.revision import Revision
from services.dmq.core.stake import STAKE_BYTES_MAX
from services.dmq.node_commands import name_option
from services.dmq.settings import Settings

MAINNET = "mainnet"
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
    socket: Path | None, stake: Path | None, name: str, revision: Revision, network: Terms | None, genesis: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Check a node: clock, socket, network, genesis, stake, certificates, consumers.

    It may be any DMQ node; of one that does not run in this home, its clock and consumers are not checked. Exit code 1
    if something is wrong.
    """
    status = _status(name)
    if network is None:
        network = _network_of_home(name, status)
    if socket is None:
        socket = _socket_of_home(name)
    silence, refusal, messages = trio.run(_asked, socket, network.magic, revision)
    facts = Facts(
        str(socket), _mode(socket), silence, refusal, messages, status, _clock(),
        None if stake is None else read_file(stake, STAKE_BYTES_MAX), 0.0 if stake is None else stake.stat().st_mtime,
        name_of(network.magic),
    )  # fmt: skip
    found = findings(facts, revision, chain_of(network, genesis), time.time())
    if as_json:
        say_json([one._asdict() for one in found])
    else:
        for one in found:
            _show(one)
    if any(one.ok is False for one in found):
        raise SystemExit(Exit.FAILED)


def _show(finding: Finding) -> None:
    say(f"{_MARKS[finding.ok]:<5}  {finding.check:<12}  {finding.found}")
    if finding.remedy:
        say(f"{'':<21}{finding.remedy}")


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except OSError:
        return None


def _status(name: str) -> Any:
    """Return the state of the home's DMQ service; None if none runs."""
    if not invocation().chosen_home.holds_node:
        return None
    try:
        return ask_service(invocation().home, name, "status")
    except (ClientError, Failure):
        return None


def _network_of_home(name: str, status: Any) -> Terms:
    """Return the network of the home's DMQ service: as it runs, else as it is configured; without one, mainnet."""
    if status is not None:
        return network_of(str(status["magic"]))
    try:
        return network_of(str(written_settings(invocation().chosen_home, name).get("network", MAINNET)))
    except ValueError:  # `config check` says what is wrong with it
        return network_of(MAINNET)


def _socket_of_home(name: str) -> Path:
    """Return the socket of the home's DMQ service, as it is configured."""
    home = invocation().chosen_home
    if not home.holds_node:
        said = f"there is no node in the home {home.path}, so its socket is not known"
        raise Failure(Exit.USAGE, f"{said}; name the node's socket with --socket, or its home with --home")
    url = str(written_settings(home, name).get("local_socket", Settings().local_socket))
    if not url.startswith("unix:"):
        raise Failure(Exit.USAGE, f"local_socket of the service {name} is {url!r}, no socket; name it with --socket")
    return home.path / url.removeprefix("unix:").partition("?")[0]


def _clock() -> Any:
    if not invocation().chosen_home.holds_node:
        return None
    try:
        return ask(invocation().home, "clock")
    except (ClientError, Failure):
        return None


async def _asked(path: Path, magic: int, revision: Revision) -> tuple[str, str, tuple[bytes, ...]]:
    """Return why the node cannot be asked, why it refuses us, and the messages that it gives within a time."""
    messages: list[bytes] = []
    try:
        with trio.move_on_after(ASKED_S):
            async with connect(path, magic, revision) as node:
                for _ in range(REPLIES_MAX):
                    reply = await node.request(blocking=False)
                    messages += reply.messages
                    if not reply.has_more:
                        break
    except HandshakeRefused as error:
        return "", str(error), ()
    except DmqError as error:
        return str(error), "", tuple(messages)
    return "", "", tuple(messages)
