"""`router dmq conform`: check that a node, or a client, keeps to CIP-137 as it is deployed."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_bytes

import click
import trio

from router.cli import loop
from router.cli.command import Command, json_option
from router.cli.conformance import check_names, show_all
from router.cli.exits import Exit, Failure
from router.cli.output import note
from router.cli.spans import Seconds
from router.core.wire.text import counted
from router.service.streams import host_port
from services.dmq import key_files
from services.dmq.client.connection import ClientLimits, DmqError, NoPlace, OtherNetwork, Unreachable, connect
from services.dmq.command_options import (
    chain_of,
    genesis_option,
    home_network_option,
    outside_period,
    revision_option,
)
from services.dmq.conform.as_node import AsNode, ListensAlready, listening
from services.dmq.conform.as_peer import AsPeer
from services.dmq.conform.node_probe import NodeProbe
from services.dmq.conform.probe import Probe
from services.dmq.conform.probe_connection import ProbeLimits
from services.dmq.core.conformance.client_checks import Trial
from services.dmq.core.conformance.node_checks import NodeTrial
from services.dmq.core.messages.envelope import BadEnvelope
from services.dmq.core.messages.pool_keys import CERTIFICATE, KES_SECRET, BadKeys, PoolKeys, generate, read_keys
from services.dmq.core.messages.trial_messages import Signer
from services.dmq.core.networks import Terms, name_of
from services.dmq.core.protocols.revision import Revision
from services.dmq.core.stake.chain_time import ChainTime
from services.dmq.home_node import HomeNode, consumer_at, service_name
from services.dmq.node_commands import name_option

Run = Callable[[], Awaitable[int]]
SCHEME, TCP = "unix://", "tcp://"


@click.command(cls=Command)
@click.argument("url", metavar="unix://PATH|tcp://HOST:PORT", required=False)
@click.option(
    "--as-node",
    metavar="PATH|tcp://HOST:PORT",
    help="Play a node that listens there, and check the signer, aggregator or other node that connects.",
)
@click.option(
    "--connections",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="With --as-node: end after N connections. A signer that opens one for each message hears all answers in 5.",
)
@click.option(
    "--keys",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keys of a pool that has stake for the node: one message is handed in, and looked for at consumers.",
)
@click.option("--kes-period", type=click.IntRange(0, 1 << 32), metavar="N", help="Default: that of the clock.")
@click.option(
    "--timeout",
    type=Seconds(0, min_open=True),
    default=ProbeLimits().answer_s,
    show_default=True,
    metavar="S",
    help="How long the node may take to answer, or to close a connection.",
)
@click.option(
    "--silence",
    type=Seconds(0),
    default=ProbeLimits().silence_s,
    show_default=True,
    metavar="S",
    help="How long to listen where the node must say nothing.",
)
@click.option("--only", multiple=True, metavar="CHECK", help="Make only this check; may be repeated.")
@name_option
@revision_option
@home_network_option
@genesis_option
@json_option
def conform(
    url: str | None,
    as_node: str | None,
    connections: int,
    keys: Path | None,
    kes_period: int | None,
    timeout: float,
    silence: float,
    only: tuple[str, ...],
    name: str | None,
    revision: Revision,
    network: Terms | None,
    genesis: Path | None,
    as_json: bool,
) -> None:
    """Check that a node, or with --as-node a client or a node, keeps to CIP-137 as it is deployed.

    A node's socket is checked as clients use it, its port as other nodes do. A line a check: check, state, sent,
    expected, got, ok, parted by tabs. Exit code 1 if one is not met. Without --keys nothing is handed in that a node
    would take. At a named consumer's socket the checks would read its messages, so name the common one.
    """
    is_given = network is not None
    if network is None:
        node = HomeNode(service_name(name))
        network, genesis = node.network(), genesis or node.genesis()
    chain = chain_of(network, genesis)
    counted_for = None if kes_period is not None or genesis is not None else name_of(network.magic)
    signer = None if keys is None else _pool(keys, chain, kes_period, counted_for, is_given)
    trial = Trial(revision, network.magic, _stranger(chain, kes_period), signer)
    if (url is None) == (as_node is None):
        raise click.UsageError(f"give either {SCHEME}PATH or {TCP}HOST:PORT, of a node, or --as-node, to play one")
    if as_node is not None and only:
        raise click.UsageError("--only chooses among the checks of a node, so it does not go with --as-node")
    with _exits():
        if as_node is not None:
            run = _played(trial, chain, as_node, connections, as_json)
        else:
            run = _probed(trial, url or "", ProbeLimits(timeout, silence), only, as_json)
        if loop.run(run):
            raise SystemExit(Exit.FAILED)


def _played(trial: Trial, chain: ChainTime, place: str, connections: int, as_json: bool) -> Run:
    """Return what plays a node at that place."""
    if not place.startswith(TCP):
        path = place.removeprefix(SCHEME)
        if "://" in path:
            raise click.UsageError(f"{place!r} names no place; write PATH or {TCP}HOST:PORT")
        return partial(_play, AsNode(trial, chain), Path(path), connections, as_json)
    between = AsPeer(NodeTrial(trial.magic, trial.stranger), chain)
    return partial(_play_peer, between, *_place(place), connections, as_json)


def _probed(trial: Trial, url: str, limits: ProbeLimits, only: tuple[str, ...], as_json: bool) -> Run:
    """Return what checks the node at that URL."""
    if not url.startswith(TCP):
        path = _path(url)
        check_names(only, Probe.names(trial))
        return partial(_probe, path, trial, limits, only, as_json=as_json)
    between, (host, port) = NodeTrial(trial.magic, trial.stranger), _place(url)
    if not host:
        raise click.UsageError(f"{url!r} names no host; write {TCP}HOST:PORT")
    probe = NodeProbe(host, port, between, limits, only)
    check_names(only, NodeProbe.names(between))
    return partial(_probe_node, probe, as_json=as_json)


@contextmanager
def _exits() -> Iterator[None]:
    """Give what prevents the checks its exit code."""
    try:
        yield
    except Unreachable as error:
        raise Failure(Exit.NO_NODE, str(error)) from None
    except (NoPlace, OtherNetwork) as error:
        raise Failure(Exit.REFUSED, str(error)) from None
    except ListensAlready as error:
        raise Failure(Exit.FAILED, str(error)) from None


def _place(url: str) -> tuple[str, int]:
    try:
        return host_port(url.removeprefix("tcp:"))
    except ValueError as error:
        fault = str(error).partition("; ")[0]
        raise click.UsageError(f"{url!r} names no place: {fault}; write {TCP}HOST:PORT") from None


def _path(url: str) -> Path:
    if not url.startswith(SCHEME) or url == SCHEME:
        raise click.UsageError(f"{url!r} is no URL of a node; write {SCHEME}PATH or {TCP}HOST:PORT")
    path = Path(url.removeprefix(SCHEME))
    if name := consumer_at(path):
        said = f"{path} is the socket of the named consumer {name}, whose messages the checks would read in its place"
        raise Failure(Exit.REFUSED, f"{said}; name the node's common socket")
    return path


def _pool(directory: Path, chain: ChainTime, kes_period: int | None, counted_for: str | None, is_given: bool) -> Signer:
    """Return the keys of the directory for the KES period; `counted_for`, `is_given`: see `outside_period`."""
    try:
        return _signer(_read_keys(directory), chain, kes_period)
    except BadKeys as error:
        raise Failure(Exit.USAGE, f"{directory}: {outside_period(str(error), counted_for, is_given)}") from None


def _read_keys(directory: Path) -> PoolKeys:
    try:
        return key_files.read(directory)
    except (BadKeys, BadEnvelope) as error:
        raise Failure(Exit.USAGE, str(error)) from None


def _stranger(chain: ChainTime, kes_period: int | None) -> Signer:
    """Return the keys of a pool that no node knows."""
    period = chain.kes_period_at(time.time()) if kes_period is None else kes_period
    files = generate(token_bytes(32), token_bytes(32), period)
    return _signer(read_keys(files[KES_SECRET], files[CERTIFICATE]), chain, period)


def _signer(keys: PoolKeys, chain: ChainTime, kes_period: int | None) -> Signer:
    now = time.time()
    signer = Signer(keys, chain.kes_period_at(now) if kes_period is None else kes_period, int(now))
    signer.draft()
    return signer


async def _play(node: AsNode, path: Path, connections: int, as_json: bool) -> int:
    """Play a node for that many connections, and return how many outcomes are wrong."""
    async with listening(path) as listener:
        more = "" if connections > 1 else ", --connections N for more"
        note(f"listening on {path}; ends after {counted(connections, 'connection')}{more}")
        return await show_all(node.outcomes(listener, connections), as_json=as_json)


async def _play_peer(node: AsPeer, host: str, port: int, connections: int, as_json: bool) -> int:
    """Play a node for that many others, and return how many outcomes are wrong."""
    try:
        [listener, *_] = await trio.open_tcp_listeners(port, host=host or None)
    except OSError as error:
        cause = error.strerror or str(error)
        remedy = "name an address of this machine, and a port that is free"
        raise ListensAlready(f"cannot listen at {host}:{port}: {cause}; {remedy}") from None
    async with listener:
        note(f"listening at {host}:{listener.socket.getsockname()[1]}; ends after {counted(connections, 'connection')}")
        return await show_all(node.outcomes(listener, connections), as_json=as_json)


async def _probe(path: Path, trial: Trial, limits: ProbeLimits, only: tuple[str, ...], *, as_json: bool) -> int:
    """Check the node, and return how many outcomes are wrong; raise `OtherNetwork` or `NoPlace` before all checks."""
    try:
        async with connect(path, trial.magic, trial.revision, ClientLimits(handshake_s=limits.answer_s)):
            pass
    except (Unreachable, NoPlace, OtherNetwork):
        raise
    except DmqError:
        pass  # the checks tell what is wrong with its handshake
    return await show_all(Probe(path, trial, limits, only).outcomes(), as_json=as_json)


async def _probe_node(probe: NodeProbe, *, as_json: bool) -> int:
    """Check how a node speaks with others, and return how many outcomes are wrong; raise `OtherNetwork` before all
    checks."""
    await probe.check_network()
    return await show_all(probe.outcomes(), as_json=as_json)
