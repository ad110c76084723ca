"""`router capd bench`: what a CAPD pool costs on this machine, each figure beside its yardstick and its goal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import trio
from rich.console import Console

from router.bench.report import write_part
from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import columns, say_json
from router.rig.process import RigFailed
from services.capd.bench.goal import Goal
from services.capd.bench.scenarios import SCENARIOS, Bench

PART = "The CAPD pool"
MESSAGES, MESSAGES_MIN = 1_000_000, 10_000


@click.command(cls=Command)
@click.option(
    "--only", "names", multiple=True, type=click.Choice(list(SCENARIOS)), metavar="ROW",
    help=f"Measure only this ({', '.join(SCENARIOS)}). Repeatable.",
)  # fmt: skip
@click.option(
    "--messages", type=click.IntRange(MESSAGES_MIN), default=MESSAGES, show_default=True, metavar="N",
    help="Messages of a large pool; the goals are meant for the default.",
)  # fmt: skip
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
                found += trio.run(SCENARIOS[name], made)
    except* RigFailed as group:
        raise Failure(Exit.FAILED, "; ".join(map(str, group.exceptions))) from None
    if report:
        write_part(report, PART, "router capd bench --report", _lines(found))
    if as_json:
        say_json([_row(one) for one in found])
    else:
        columns(("FIGURE", "MEASURED", "GOAL", "MET"), [_cells(one) for one in found], "")


def _row(one: Goal) -> dict[str, Any]:
    return {"title": one.title, "value": one.value, "goal": one.bound, "met": one.met, "remark": one.remark}


def _cells(one: Goal) -> tuple[str, str, str, str]:
    met = "" if one.met is None else "yes" if one.met else "no"
    return one.title, f"{one.value:.2f}" + (f" ({one.remark})" if one.remark else ""), one.bound, met


def _lines(found: list[Goal]) -> list[str]:
    return [
        "Ratios are of CPU time in one process, both sides in turns, the fastest round of several of each; several "
        "processes and latencies are measured by the clock.", "",
        "| figure | measured | goal | met |", "|---|---|---|---|",
        *(f"| {' | '.join(_cells(one))} |" for one in found),
    ]  # fmt: skip
