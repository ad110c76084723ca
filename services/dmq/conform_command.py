"""`router dmq conform`: whether a node, or a client, keeps to CIP-137 as it is deployed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_bytes
from typing import Any

import click
import trio

from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import note, say, say_json
from services.dmq import key_files
from services.dmq.client.connection import Unreachable
from services.dmq.command_options import Network, chain_of, genesis_option, network_option, revision_option
from services.dmq.conform.probe import Probe, ProbeLimits
from services.dmq.core.chain_time import ChainTime
from services.dmq.core.conformance import Outcome
from services.dmq.core.conformance_checks import Trial
from services.dmq.core.envelope import BadEnvelope
from services.dmq.core.pool_keys import CERTIFICATE, KES_SECRET, BadKeys, PoolKeys, generate, read_keys
from services.dmq.core.revision import Revision
from services.dmq.core.trial_messages import Signer

SCHEME = "unix://"
_OK = {True: "ok", False: "WRONG", None: "left out"}


@click.command(cls=Command)
@click.argument("url", metavar="unix://PATH")
@click.option(
    "--keys",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keys of a pool that has stake for the node: one message is handed in, and looked for at consumers.",
)
@click.option("--kes-period", type=click.IntRange(0, 1 << 32), metavar="N", help="Default: that of the clock.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=ProbeLimits().answer_s,
    show_default=True,
    metavar="S",
    help="How long the node may take to answer, or to close a connection.",
)
@click.option(
    "--silence",
    type=click.FloatRange(0),
    default=ProbeLimits().silence_s,
    show_default=True,
    metavar="S",
    help="How long to listen where the node must say nothing.",
)
@click.option("--only", multiple=True, metavar="CHECK", help="Make only this check; may be repeated.")
@revision_option
@network_option
@genesis_option
@json_option
def conform(
    url: str, keys: Path | None, kes_period: int | None, timeout: float, silence: float, only: tuple[str, ...],
    revision: Revision, network: Network, genesis: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Check that a node keeps to CIP-137, as it is deployed.

    A line a check: check, state, sent, expected, got, ok, parted by tabs. Exit code 1 if one is not met. Without --keys
    nothing is handed in that a node would take, and what needs it is left out.
    """
    chain = chain_of(network, genesis)
    signer = None if keys is None else _signer(_read_keys(keys), chain, kes_period)
    trial = Trial(revision, network.magic, _stranger(chain, kes_period), signer)
    probe = Probe(_path(url), trial, ProbeLimits(timeout, silence), only)
    try:
        wrong = trio.run(_show_all, probe.outcomes(), as_json)
    except Unreachable as error:
        raise Failure(Exit.NO_NODE, str(error)) from None
    if wrong:
        raise SystemExit(Exit.FAILED)


def _path(url: str) -> Path:
    if not url.startswith(SCHEME) or url == SCHEME:
        raise click.UsageError(f"{url!r} is no URL of a node's socket; write {SCHEME}PATH")
    return Path(url.removeprefix(SCHEME))


def _read_keys(directory: Path) -> PoolKeys:
    try:
        return key_files.read(directory)
    except (BadKeys, BadEnvelope) as error:
        raise Failure(Exit.USAGE, str(error)) from None


def _stranger(chain: ChainTime, kes_period: int | None) -> Signer:
    """Return a pool that no node knows."""
    period = chain.kes_period_at(time.time()) if kes_period is None else kes_period
    files = generate(token_bytes(32), token_bytes(32), period)
    return _signer(read_keys(files[KES_SECRET], files[CERTIFICATE]), chain, period)


def _signer(keys: PoolKeys, chain: ChainTime, kes_period: int | None) -> Signer:
    now = time.time()
    signer = Signer(keys, chain.kes_period_at(now) if kes_period is None else kes_period, int(now))
    try:
        signer.draft()
    except BadKeys as error:
        raise Failure(Exit.USAGE, str(error)) from None
    return signer


async def _show_all(outcomes: AsyncIterator[Outcome], as_json: bool) -> int:
    """Print each outcome as it comes, and return how many are wrong."""
    found = []
    async for outcome in outcomes:
        _show(outcome, as_json)
        found.append(outcome.ok)
    wrong, left_out = found.count(False), found.count(None)
    note(f"{len(found)} checks: {found.count(True)} ok, {wrong} wrong, {left_out} left out")
    return wrong


def _show(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        say_json(outcome._asdict())
        return
    cells: list[Any] = [*outcome[:-1], _OK[outcome.ok]]
    say("\t".join(cells))
