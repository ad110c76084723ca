"""`router capd conform`: check that a Nexa node keeps to the protocol as it is deployed."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from secrets import token_bytes

import click
import trio

from router.cli import loop
from router.cli.command import Command, json_option
from router.cli.conformance import check_names, show_all
from router.cli.exits import Exit, Failure
from router.cli.spans import Seconds
from services.capd.conform.probe import ANSWER_S, Probe
from services.capd.core.nexa.addresses import is_loopback
from services.capd.core.nexa.envelope import MAGICS, PORTS
from services.capd.nexa_client import NotReached, dialled
from services.capd.settings import PLACE


@click.command(cls=Command)
@click.argument("place", metavar="HOST:PORT")
@click.option(
    "--network",
    type=click.Choice(list(MAGICS)),
    help="The network of the node. Default: that whose port it is, else regtest.",
)
@click.option("--only", multiple=True, metavar="CHECK", help="Make only this check; may be repeated.")
@click.option(
    "--harmful/--harmless",
    default=None,
    help="Make also the checks that cost points, and the one that gets this machine banned. Default: of a node on this "
    "machine, all but that one.",
)
@click.option(
    "--timeout",
    type=Seconds(0, min_open=True),
    default=ANSWER_S,
    show_default=True,
    metavar="S",
    help="How long the node may take to answer, or to close a connection.",
)
@json_option
def conform(
    place: str, network: str | None, only: tuple[str, ...], harmful: bool | None, timeout: float, as_json: bool
) -> None:
    """Check that the Nexa node at HOST:PORT keeps to the protocol as it is deployed.

    A line a check: check, state, sent, expected, got, ok, parted by tabs. Exit code 1 if one is not met. Some checks
    bring messages, which nodes pass on to others: their work is done here, and they fade in minutes.
    """
    if not re.fullmatch(PLACE, place):
        raise Failure(Exit.USAGE, f"{place!r} is no place of a node; write HOST:PORT, as 127.0.0.1:18444")
    port = int(place.rpartition(":")[2])
    host = place.rpartition(":")[0].strip("[]")
    is_harmful = is_loopback(host) or host == "localhost" if harmful is None else harmful

    @asynccontextmanager
    async def connects() -> AsyncIterator[trio.abc.Stream]:
        try:
            async with dialled(place) as stream:
                yield stream
        except NotReached as error:
            raise Failure(Exit.NO_NODE, str(error)) from None

    probe = Probe(
        connects,
        network or PORTS.get(port, "regtest"),
        int(time.time()),
        token_bytes(16),
        only=only,
        is_harmful=is_harmful,
        is_banning=harmful is True,
        answer_s=timeout,
    )
    check_names(only, probe.names)
    if loop.run(partial(show_all, probe.outcomes(), as_json=as_json)):
        raise SystemExit(Exit.FAILED)
