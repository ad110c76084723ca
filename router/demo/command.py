"""`router demo`: play the story in a temporary directory, and say whether everything arrived, once."""

from __future__ import annotations

import shutil
import signal
import tempfile
from dataclasses import asdict
from pathlib import Path

import click
import trio

from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure, innermost
from router.cli.output import columns, note, say, say_json, size_text
from router.demo.cast import DemoFailed
from router.demo.counts import Counts
from router.demo.story import perform
from router.demo.telling import Telling

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ALL_IS_WELL = "Everything that was acknowledged has arrived, once."


@click.command(cls=Command)
@click.option(
    "--messages", default=1000, show_default=True, type=click.IntRange(10, 100_000),
    help="How many are published while an edge is away.",
)  # fmt: skip
@click.option("--keep", is_flag=True, help="Keep the homes, books and logs of the nodes, and print where they are.")
@json_option
def demo(messages: int, keep: bool, as_json: bool) -> None:
    """A core and two edges on this machine: nodes are killed while messages go through, and what arrives is counted.

    Nothing of your own node is touched. Exit code 0: everything that was acknowledged has arrived, once.
    """
    base = Path(tempfile.mkdtemp(prefix="router-demo-"))
    telling = Telling(for_json=as_json)
    try:
        with telling.watching():
            counts = trio.run(_perform, base, messages, telling)
    except (DemoFailed, ExceptionGroup) as error:
        found = innermost(error)
        if not isinstance(found, DemoFailed):
            raise
        raise Failure(Exit.FAILED, f"the demo failed: {found}{'' if keep else _ADVICE}") from None
    finally:
        if keep:
            note(f"everything is in {base}")
        else:
            shutil.rmtree(base, ignore_errors=True)
    failures = counts.failures()
    if as_json:
        say_json({**asdict(counts), "failures": failures, "ok": not failures})
    else:
        _print(counts)
    if failures:
        raise Failure(Exit.FAILED, f"the demo failed: {'; '.join(failures)}{'' if keep else _ADVICE}")
    if not as_json:
        say(f"{ALL_IS_WELL} ({counts.seconds:.0f} s)")


_ADVICE = "\nrun it again with --keep to look at homes and logs"


async def _perform(base: Path, messages: int, telling: Telling) -> Counts:
    """Ctrl-C, SIGTERM and a closed terminal end it; nobody is left behind."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch_signals, nursery.cancel_scope)
        counts = await perform(base, messages, telling)
        nursery.cancel_scope.cancel()
        return counts
    raise click.Abort


async def _watch_signals(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(*SIGNALS) as signals:
        async for _ in signals:
            scope.cancel()
            return


def _print(counts: Counts) -> None:
    rows = [
        (one.where, counts.published, counts.acknowledged, one.received, one.lost, one.doubled, one.out_of_order)
        for one in counts.heard
    ]
    say()
    columns(("APP ON", "PUBLISHED", "ACKNOWLEDGED", "RECEIVED", "LOST", "DOUBLED", "OUT OF ORDER"), rows, "")
    say()
    disk, left = counts.disk, sum(counts.waiting.values())
    again = sum(one.again for one in counts.heard)
    say(f"Handed over again and recognised by the app: {again}. Left in queues: {left}.")
    say(f"The core's disk ({size_text(disk.bytes)}) holds the group's address {disk.keys:,} times, its words {disk.words} times.")
