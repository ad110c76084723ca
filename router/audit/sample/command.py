"""`router audit-sample`: event logs of a made-up fleet, and the expected findings of an audit."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from router.audit.sample.sample import MESSAGES_MAX, NODES_MAX, TRUTH, SampleFailed, write_sample
from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import say, say_json, size_text
from router.cli.signals import removing


@click.command("audit-sample", cls=Command)
@click.option(
    "--nodes", default=10, type=click.IntRange(1, NODES_MAX), show_default=True, help="The number of routers."
)
@click.option(
    "--messages",
    default=100_000,
    type=click.IntRange(1, MESSAGES_MAX),
    show_default=True,
    help="The number of messages that apps publish.",
)
@click.option(
    "--seed", default=1, type=click.IntRange(0), show_default=True, help="The seed; the same one gives the same bytes."
)
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory to write to, new or empty.",
)
@json_option
def audit_sample(nodes: int, messages: int, seed: int, out: Path, as_json: bool) -> None:
    """Write the event logs of an invented fleet, to try or to measure the audit.

    The logs are in DIR/NODE/log, and the numbers that `router audit DIR` must find in DIR/truth.json.
    """
    if out.exists() and any(out.iterdir()):
        raise Failure(Exit.USAGE, f"{out} is not empty; name a directory that is, or that is not there yet")
    columns = *Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn()
    with removing(), Progress(*columns, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("messages", total=messages)
        try:
            written = write_sample(
                out, nodes, messages, seed, progress=lambda published: progress.update(task, completed=published)
            )
        except SampleFailed as error:
            raise Failure(Exit.FAILED, str(error)) from None
    if as_json:
        say_json({"out": str(out), "seed": seed, **asdict(written)})
        return
    say(f"{written.nodes} logs of {messages} messages in {out}: {written.segments} segments, {written.lines} lines")
    say(f"for {written.events} events, {size_text(written.bytes)}. What an audit must find: {out / TRUTH}")
