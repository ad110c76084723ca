"""`router capd bench`: measure a CAPD pool on this machine, each figure beside its yardstick and its goal."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console

from router.bench.goal import Goal, show, table
from router.bench.report import write_part
from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.rig.ending import play
from router.rig.process import RigFailed
from services.capd.bench.scenarios import SCENARIOS, Bench

PART = "The CAPD pool"
DIGITS = 2
MESSAGES, MESSAGES_MIN = 1_000_000, 10_000


@click.command(cls=Command)
@click.option(
    "--only",
    "names",
    multiple=True,
    type=click.Choice(list(SCENARIOS)),
    metavar="ROW",
    help=f"Measure only this ({', '.join(SCENARIOS)}). Repeatable.",
)
@click.option(
    "--messages",
    type=click.IntRange(MESSAGES_MIN),
    default=MESSAGES,
    show_default=True,
    metavar="N",
    help="Messages of a large pool; the goals are meant for the default.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the result to FILE as Markdown, in its part.",
)
@json_option
def bench(names: tuple[str, ...], messages: int, report: Path | None, as_json: bool) -> None:
    """Measure a pool and its messages, each figure beside its yardstick in the same run; takes minutes.

    Ratios are of CPU time. Your own node is not touched: what needs a node starts one in a temporary directory.
    """
    found: list[Goal] = []
    console = Console(stderr=True, quiet=not sys.stderr.isatty())
    try:
        with console.status("measuring") as status:
            made = Bench(messages, status.update)
            for name in names or SCENARIOS:
                status.update(f"measuring: {name}")
                found += play(SCENARIOS[name], made)
    except* RigFailed as group:
        raise Failure(Exit.FAILED, "; ".join(map(str, group.exceptions))) from None
    if report:
        write_part(report, PART, "router capd bench --report", _lines(found))
    show(found, DIGITS, as_json=as_json)


def _lines(found: list[Goal]) -> list[str]:
    return [
        "Ratios are of CPU time in one process, both sides in turns, the fastest round of several of each; several "
        "processes and latencies are measured by the clock.",
        "",
        *table(found, DIGITS),
    ]
