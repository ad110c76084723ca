"""`router dmq bench`: what a DMQ node costs on this machine, beside bare verification of the same messages."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
import trio
from rich.console import Console

from router.bench.goal import Goal, show, table
from router.bench.report import write_part
from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.rig.process import RigFailed
from services.dmq.bench.scenarios import SCENARIOS, Bench

PART = "The DMQ node"
DIGITS = 3


@click.command(cls=Command)
@click.option(
    "--only",
    "names",
    multiple=True,
    type=click.Choice(list(SCENARIOS)),
    metavar="NAME",
    help=f"Measure only this ({', '.join(SCENARIOS)}). Repeatable.",
)
@click.option("--messages", type=click.IntRange(16, 3200), default=3200, show_default=True, help="Messages of a run.")
@click.option("--live", type=click.IntRange(16), default=45_000, show_default=True, help="Live messages for memory.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result to FILE as Markdown, in its part.",
)
@json_option
def bench(names: tuple[str, ...], messages: int, live: int, report: Path | None, as_json: bool) -> None:
    """Measure what a DMQ node costs on real sockets and a real disk, with its log; takes minutes.

    Ratios are of CPU time, to bare PyNaCl verification of both signatures of the same messages in the same run. Your
    own node is not touched: the bench starts nodes of its own in a temporary directory.
    """
    found: list[Goal] = []
    console = Console(stderr=True, quiet=not sys.stderr.isatty())
    try:
        with tempfile.TemporaryDirectory(prefix="dmq-bench-") as base, console.status("signing messages") as status:
            made = Bench(Path(base), messages, live)
            for name in names or SCENARIOS:
                status.update(f"measuring: {name}")
                found += trio.run(SCENARIOS[name], made)
    except* RigFailed as group:
        raise Failure(Exit.FAILED, "; ".join(map(str, group.exceptions))) from None
    if report:
        write_part(report, PART, "router dmq bench --report", _lines(found, messages))
    show(found, DIGITS, as_json=as_json)


def _lines(found: list[Goal], messages: int) -> list[str]:
    return [
        f"Ratios are of CPU time: bare PyNaCl verification of both signatures of a message, by what a node takes for "
        f"it in all its processes, synced and with its log, while a consumer reads; the middle of three runs of "
        f"{messages:,} messages of 1,150 bytes.",
        "",
        *table(found, DIGITS),
    ]
