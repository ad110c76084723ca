"""`router dmq bench`: what a DMQ node costs on this machine, beside bare verification of the same messages."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.status import Status

from router.bench.goal import Goal, show, table
from router.bench.report import write_part
from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.rig.ending import Scenario, play
from router.rig.process import RigFailed
from router.rig.socket_room import socket_room
from services.dmq.bench.network import NETWORK_SCENARIOS, NetworkBench
from services.dmq.bench.scenarios import SCENARIOS, Bench

Of = TypeVar("Of")
MESSAGES, NETWORK_MESSAGES, ROUND = 3200, 300, 1550

PART, NETWORK_PART = "The DMQ node", "The DMQ between nodes"
DIGITS = 3


@click.command(cls=Command)
@click.option(
    "--only",
    "names",
    multiple=True,
    type=click.Choice([*SCENARIOS, *NETWORK_SCENARIOS]),
    metavar="NAME",
    help=f"Measure only this ({', '.join(SCENARIOS)}; with --network {', '.join(NETWORK_SCENARIOS)}). Repeatable.",
)
@click.option("--network", is_flag=True, help="Measure a round of messages at ten nodes, and at three routers.")
@click.option(
    "--messages",
    type=click.IntRange(16, 3200),
    help=f"Messages of a run. Default: {MESSAGES}; with --network {NETWORK_MESSAGES}, and {ROUND} is a whole round.",
)
@click.option("--live", type=click.IntRange(16), default=45_000, show_default=True, help="Live messages for memory.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result to FILE as Markdown, in its part.",
)
@json_option
def bench(
    names: tuple[str, ...], network: bool, messages: int | None, live: int, report: Path | None, as_json: bool
) -> None:
    """Measure what a DMQ node costs on real sockets and a real disk, with its log; takes minutes.

    Ratios are of CPU time, to bare PyNaCl verification of both signatures of the same messages in the same run. Your
    own node is not touched: the bench starts nodes of its own in a temporary directory.

    With --network, a round is handed in at one of ten nodes that dial each other, once more a minute after another one
    of the same pools, once more with three bad ones among them, and at one of three routers that a group joins.
    """
    if wrong := set(names) - (NETWORK_SCENARIOS if network else SCENARIOS).keys():
        said = "without --network" if network else "with --network"
        raise Failure(Exit.USAGE, f"{', '.join(sorted(wrong))} is measured {said}; see `router dmq bench --help`")
    console = Console(stderr=True, quiet=not sys.stderr.isatty())
    measured: Iterator[list[Goal]]
    found: list[Goal] = []
    try:
        with (
            tempfile.TemporaryDirectory(prefix="dmq-bench-", dir=socket_room()) as base,
            console.status("signing messages") as status,
        ):
            if network:
                count = messages or NETWORK_MESSAGES
                made = NetworkBench(Path(base), count)
                measured = _measured(NETWORK_SCENARIOS, names, made, status)
            else:
                count = messages or MESSAGES
                measured = _measured(SCENARIOS, names, Bench(Path(base), count, live), status)
            for some in measured:
                found += some
    except* RigFailed as group:
        raise Failure(Exit.FAILED, "; ".join(map(str, group.exceptions))) from None
    if report and network:
        write_part(report, NETWORK_PART, "router dmq bench --network --report", _network_lines(found, count))
    elif report:
        write_part(report, PART, "router dmq bench --report", _lines(found, count))
    show(found, DIGITS, as_json=as_json)


def _measured(
    scenarios: Mapping[str, Scenario[Of, list[Goal]]], names: Sequence[str], made: Of, status: Status
) -> Iterator[list[Goal]]:
    """Yield the figures of these scenarios, of all without a name."""
    for name in names or scenarios:
        status.update(f"measuring: {name}")
        yield play(scenarios[name], made)


def _network_lines(found: list[Goal], messages: int) -> list[str]:
    return [
        f"A round has {messages:,} messages, each of a pool of its own, of 1,150 to 2,637 bytes; all nodes and "
        "consumers share the machine. Bytes are counted at the nodes' connections and at the routers' links, with all "
        "protocols.",
        "",
        *table(found, DIGITS),
    ]


def _lines(found: list[Goal], messages: int) -> list[str]:
    return [
        f"Ratios are of CPU time: bare PyNaCl verification of both signatures of a message, by what a node takes for "
        f"it in all its processes, synced and with its log, while a consumer reads; the middle of three runs of "
        f"{messages:,} messages of 1,150 bytes.",
        "",
        *table(found, DIGITS),
    ]
