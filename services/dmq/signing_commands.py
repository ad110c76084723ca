"""`router dmq keygen` and `sign`: the keys of a test pool, and messages that it signs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from secrets import token_bytes

import click
from click.core import ParameterSource

from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import facts, note, say, say_json
from router.cli.spans import WholeSeconds
from router.core.wire.codec import Malformed
from services.dmq import key_files
from services.dmq.command_options import (
    chain_of,
    genesis_option,
    network_option,
    outside_period,
    read_file,
    revision_option,
)
from services.dmq.core.messages.authentication import Topic
from services.dmq.core.messages.envelope import BadEnvelope, read_certificate_file
from services.dmq.core.messages.pool_keys import CERTIFICATE, BadKeys, PoolKeys, generate
from services.dmq.core.messages.signed_message import SEEDS
from services.dmq.core.networks import Terms, name_of
from services.dmq.core.protocols.revision import Revision

TTL_S = 1740
"""A minute less than the most that nodes accept, to allow for clocks that differ."""


@click.command(cls=Command)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--kes-period",
    type=click.IntRange(0, 1 << 32),
    metavar="N",
    help="The first KES period of the certificate. Default: that of the clock.",
)
@click.option(
    "--issue-number",
    type=click.IntRange(0, 1 << 32),
    default=0,
    show_default=True,
    metavar="N",
    help="The issue number of the certificate; a higher one replaces lower ones.",
)
@network_option
@genesis_option
@json_option
def keygen(
    directory: Path, kes_period: int | None, issue_number: int, network: Terms, genesis: Path | None, as_json: bool
) -> None:
    """Make the keys of a test pool in DIR.

    The files are as those of cardano-cli, with a stake file that knows the pool.
    They are for trying a node out: no chain knows the pool.
    """
    period = chain_of(network, genesis).kes_period_at(time.time()) if kes_period is None else kes_period
    files = generate(token_bytes(32), token_bytes(32), period, issue_number)
    try:
        key_files.write(directory, files)
    except BadKeys as error:
        raise Failure(Exit.FAILED, str(error)) from None
    pool = read_certificate_file(files[CERTIFICATE]).pool
    if as_json:
        say_json({"pool": pool, "kes_period": period, "issue_number": issue_number, "files": sorted(files)})
        return
    facts((("pool", pool.text), ("KES period", period), ("directory", directory), ("files", " ".join(sorted(files)))))


@click.command(cls=Command)
@click.argument("body", metavar="BODY|-")
@click.option(
    "--keys",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Holds kes.skey and opcert.cert, as cardano-cli or `router dmq keygen` wrote them.",
)
@click.option(
    "--ttl",
    type=WholeSeconds(0, (1 << 16) - 1),
    default=TTL_S,
    show_default=True,
    metavar="S",
    help="How long the message lives, in seconds, or 25m; nodes take less than 1,800 s.",
)
@click.option("--kes-period", type=click.IntRange(0, 1 << 32), metavar="N", help="Default: that of the clock.")
@revision_option
@network_option
@genesis_option
@json_option
@click.pass_context
def sign(
    ctx: click.Context,
    body: str,
    keys: Path,
    ttl: int,
    kes_period: int | None,
    revision: Revision,
    network: Terms,
    genesis: Path | None,
    as_json: bool,
) -> None:
    """Sign a message and print it in hex. - takes the body from standard input, as it is."""
    now = time.time()
    period = chain_of(network, genesis).kes_period_at(now) if kes_period is None else kes_period
    content = read_file(Path(body), SEEDS.most) if body == "-" else os.fsencode(body)
    try:
        draft = _read_keys(keys).draft(content, period, expires_at=int(now) + ttl, ttl_s=ttl)
        message = revision.encoding.read(revision.encoding.write(draft))
    except BadKeys as error:
        is_given = ctx.get_parameter_source("network") is not ParameterSource.DEFAULT
        counted_for = None if kes_period is not None or genesis is not None else name_of(network.magic)
        raise Failure(Exit.USAGE, f"{keys}: {outside_period(str(error), counted_for, is_given)}") from None
    except Malformed as error:
        raise Failure(Exit.USAGE, f"this makes no message of {revision.name}: {error}; change the body") from None
    if ttl >= Topic().ttl_max_s:
        note(f"nodes refuse a message that lives for {ttl} s: choose less than {Topic().ttl_max_s:g} s")
    if not as_json:
        say(message.wire.hex())
        return
    found = {"id": message.id, "pool": message.certificate.pool, "size": len(message.wire), "kes_period": period}
    say_json({**found, "expires_at": int(now) + ttl, "message": message.wire})


def _read_keys(directory: Path) -> PoolKeys:
    try:
        return key_files.read(directory)
    except (BadKeys, BadEnvelope) as error:
        raise Failure(Exit.USAGE, str(error)) from None
