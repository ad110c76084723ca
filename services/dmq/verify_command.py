"""`router dmq verify`: a node's verdict on messages, without a node."""

from __future__ import annotations

import time
from pathlib import Path

import click
from msgspec.structs import asdict, replace

from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import say, say_json
from services.dmq.command_options import (
    chain_of,
    genesis_option,
    messages_of,
    network_option,
    read_file,
    revision_option,
)
from services.dmq.core.messages.authentication import Topic
from services.dmq.core.messages.verdict import ACCEPT, Judge, Verdict
from services.dmq.core.networks import Terms
from services.dmq.core.protocols.revision import Revision
from services.dmq.core.stake.distribution import STAKE_BYTES_MAX, BadStake, StakeSet, read_stake


@click.command(cls=Command)
@click.argument("messages", nargs=-1, required=True, metavar="HEX|FILE…")
@revision_option
@click.option("--at", type=float, metavar="UNIX", help="When the messages arrive, in Unix seconds. Default: now.")
@click.option(
    "--pools",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A stake snapshot of cardano-cli. Without it, every pool may speak.",
)
@click.option(
    "--max-kes-evolutions",
    type=click.IntRange(1, 64),
    metavar="N",
    help="In how many KES periods a certificate holds. Default: the network's.",
)
@network_option
@genesis_option
@json_option
def verify(
    messages: tuple[str, ...],
    revision: Revision,
    at: float | None,
    pools: Path | None,
    max_kes_evolutions: int | None,
    network: Terms,
    genesis: Path | None,
    as_json: bool,
) -> None:
    """Show a node's verdict on messages.

    A line each: id, revision, verdict, reason, pool, sentence. A file holds one message as bytes, or one a line in hex.
    The issue numbers of certificates are remembered from one message to the next. There is no mempool here: no message
    is a duplicate, and none comes too early. Exit code 4 if one is rejected.
    """
    chain = chain_of(network, genesis)
    if max_kes_evolutions is not None:
        chain = replace(chain, kes_evolutions_max=max_kes_evolutions)
    judge = Judge(revision, Topic(chain=chain), None if pools is None else _stake(pools))
    refused = 0
    for given in messages_of(messages):
        verdict = judge.judge(given.wire, time.time() if at is None else at)
        if verdict.id is None:
            verdict = replace(verdict, sentence=given.about(verdict.sentence))
        refused += verdict.verdict != ACCEPT
        _show(verdict, as_json)
    if refused:
        raise SystemExit(Exit.REFUSED)


def _stake(path: Path) -> StakeSet:
    try:
        return read_stake(read_file(path, STAKE_BYTES_MAX), 0.0)
    except BadStake as error:
        raise Failure(Exit.USAGE, f"{path}: {error}") from None


def _show(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        found = asdict(verdict)
        say_json({key: found[key] for key in ("id", "revision", "verdict", "reason", "pool", "sentence")})
        return
    own_id = verdict.id.hex() if verdict.id is not None else "-"
    pool = verdict.pool.text if verdict.pool is not None else "-"
    say(f"{own_id} {verdict.revision} {verdict.verdict} {verdict.reason or '-'} {pool} {verdict.sentence}")
