"""`router chaos`: a fleet on this machine under faults from a seed, and whether anything was lost."""

from __future__ import annotations

import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import trio
from msgspec.structs import asdict

from router.chaos.round import ChaosResult, RoundPlan, play_round
from router.chaos.schedule import Schedule, chosen, make_schedule
from router.chaos.shape import NODES_MAX, NODES_MIN, fleet_shape
from router.chaos.shrinking import shrinking
from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import say, say_json
from router.cli.signals import handling
from router.cli.spans import Minutes, Seconds
from router.core.wire.text import counted
from router.demo.narrator import Telling
from router.rig.ending import until_signalled

SECONDS_MIN, MINUTES_MAX = 5.0, 24 * 60.0
SHRINK_ROUNDS = 8
"""Further rounds that are played at most, if one fails, to find fewer faults that fail as well."""


class _Numbers(click.ParamType[Any]):
    """Numbers of faults: `3,17`; `none` for a run without faults."""

    name = "N,N…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if not isinstance(value, str):
            return tuple(value)
        try:
            return () if value == "none" else tuple(int(one) for one in value.split(","))
        except ValueError:
            self.fail(f"{value!r} names no faults: write their numbers, as 3,17, or none")


@click.command(cls=Command)
@click.option(
    "--minutes",
    type=Minutes(0, MINUTES_MAX),
    metavar="M",
    help="How long apps publish and faults come, in minutes.  [default: 1]",
)
@click.option(
    "--seconds",
    type=Seconds(0, 60 * MINUTES_MAX),
    metavar="S",
    help="How long apps publish and faults come, in seconds.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Play the faults of an earlier run again.")
@click.option("--only", type=_Numbers(), help="Play only these faults of the seed, by their numbers; or none.")
@click.option(
    "--nodes", type=click.IntRange(NODES_MIN, NODES_MAX), default=5, show_default=True, help="Nodes in the fleet."
)
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 100),
    default=5.0,
    show_default=True,
    metavar="N",
    help="Messages that each app publishes in a second.",
)
@click.option(
    "--pools/--no-pools",
    default=True,
    show_default=True,
    help="Let one core hold the pools of CAPD and DMQ as well, and look whether they keep what they accept.",
)
@click.option(
    "--shrink-rounds",
    type=click.IntRange(0, 1000),
    default=SHRINK_ROUNDS,
    show_default=True,
    metavar="N",
    help="Rounds to play at most after one that fails, to find fewer faults that fail as well.",
)
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep homes, logs, ledgers and output of each round in a new directory DIR.",
)
@json_option
def chaos(
    minutes: float | None,
    seconds: float | None,
    seed: int | None,
    only: tuple[int, ...] | None,
    nodes: int,
    rate: float,
    pools: bool,
    shrink_rounds: int,
    keep: Path | None,
    as_json: bool,
) -> None:
    """Kill, freeze, cut, fill and skew a fleet of nodes on this machine while apps talk, and count what arrives.

    Your own node is not touched, and no rights are needed. A ledger of the apps and the audit of the nodes' logs must
    agree that nothing accepted was lost. Exit code 0: they do; 1: they do not, or something was.
    """
    length_s = _length_s(minutes, seconds)
    seed = secrets.randbits(32) if seed is None else seed
    plan = RoundPlan(fleet_shape(nodes), length_s, rate, pools)
    schedule = _schedule(seed, plan, only)
    replay = f"router chaos --seconds {length_s:g} --nodes {nodes} --rate {rate:g} --seed {seed}"
    replay += "" if pools else " --no-pools"
    telling = Telling(for_json=as_json)
    with _directory(keep) as base, telling.watching():
        rounds = _Rounds(base, plan, telling)
        found = rounds.play(schedule)
        smallest = _shrunk(rounds, schedule, shrink_rounds) if found.failures and only is None else schedule
    if as_json:
        say_json(_json(found, seed, nodes, schedule, smallest))
    else:
        _print(found, schedule, smallest)
    if found.failures:
        which = f" --only {','.join(str(one.number) for one in smallest) or 'none'}" if smallest != schedule else ""
        raise Failure(Exit.FAILED, f"{_bad(found)}\n`{replay}{which}` plays it again; add --keep DIR to look at it")
    if not as_json:
        say(f"{_good(found)} `{replay}` plays the same faults again.")


def _length_s(minutes: float | None, seconds: float | None) -> float:
    if minutes is not None and seconds is not None:
        raise click.UsageError("--minutes and --seconds both say how long; leave one of them out")
    length_s = seconds if seconds is not None else 60 * (1.0 if minutes is None else minutes)
    if not length_s >= SECONDS_MIN:  # nan is no number
        raise click.UsageError(f"a round takes at least {SECONDS_MIN:g} seconds, not {length_s:g}")
    return length_s


def _schedule(seed: int, plan: RoundPlan, only: tuple[int, ...] | None) -> Schedule:
    """Return the faults of a seed, or those of them that were asked for by number."""
    whole = make_schedule(seed, plan.seconds, plan.shape)
    try:
        return whole if only is None else chosen(whole, only)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


class _Rounds:
    """Plays rounds, each in a directory of its own."""

    def __init__(self, base: Path, plan: RoundPlan, telling: Telling) -> None:
        self._base = base
        self._plan = plan
        self._telling = telling
        self.count = 0

    def play(self, schedule: Schedule) -> ChaosResult:
        """Play one round. Raise `click.Abort` if a signal ends it."""
        self.count += 1
        base = self._base / f"round-{self.count}"
        base.mkdir(mode=0o700)
        (base / "schedule.txt").write_text("".join(f"{one}\n" for one in schedule))
        began = time.monotonic()

        def progress(text: str) -> None:
            self._telling.progress(f"round {self.count}, {time.monotonic() - began:.0f} s: {text}")

        return trio.run(until_signalled, play_round, base, self._plan, schedule, progress)


def _shrunk(rounds: _Rounds, schedule: Schedule, rounds_max: int) -> Schedule:
    """Return the smallest part of a failing schedule that was found to fail in at most `rounds_max` rounds."""
    smallest, trial = schedule, shrinking(schedule)
    try:
        candidate = next(trial)
        for _ in range(rounds_max):
            has_failed = bool(rounds.play(candidate).failures)
            if has_failed:
                smallest = candidate
            candidate = trial.send(has_failed)
    except StopIteration:
        pass
    return smallest


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """Yield the directory of all rounds: a new one that is kept, or a temporary one that is removed at the end."""
    if keep is not None:
        if keep.exists() and any(keep.iterdir()):
            raise click.UsageError(f"{keep} is not empty; name a new directory")
        keep.mkdir(parents=True, exist_ok=True)
    base = keep.absolute() if keep is not None else Path(tempfile.mkdtemp(prefix="router-chaos-"))
    try:
        yield base
    finally:
        if keep is None:
            with handling(signal.SIG_IGN):
                shutil.rmtree(base, ignore_errors=True)


def _good(found: ChaosResult) -> str:
    one = found.judged
    ended = f", but for {one.expired:,} whose time was over" if one.expired else ""
    excused = f" and {one.excused:,} that went with a disk that was lost" if one.excused else ""
    return (
        f"Good: {counted(one.accepted, 'message')} accepted, and each of {one.owed:,} deliveries came{ended}{excused}, "
        f"once and in order, through {counted(found.faults, 'fault')} in {found.seconds:.0f} s; the audit agrees."
    )


def _bad(found: ChaosResult) -> str:
    more = f"; and {len(found.failures) - 1} more" if len(found.failures) > 1 else ""
    first = found.failures[0].strip().rstrip(".")
    return f"Bad, after {counted(found.faults, 'fault')} in {found.seconds:.0f} s: {first}{more}."


def _print(found: ChaosResult, schedule: Schedule, smallest: Schedule) -> None:
    """Print the failures, and the faults that suffice for them; nothing if all is well."""
    if not found.failures:
        return
    for one in found.failures:
        say(f"- {one}")
    if smallest != schedule:
        say(
            f"\n{counted(len(smallest), 'fault')} of {len(schedule)} suffice:"
            if smallest
            else "\nNo fault is needed for it."
        )
    for fault in smallest:
        say(f"  {fault}")
    say()


def _json(found: ChaosResult, seed: int, nodes: int, schedule: Schedule, smallest: Schedule) -> dict[str, Any]:
    judged = asdict(found.judged)
    counts = {name: value for name, value in judged.items() if isinstance(value, int)}
    sentences = {name: len(value) for name, value in judged.items() if isinstance(value, list)}
    return {
        "ok": not found.failures,
        "seed": seed,
        "nodes": nodes,
        "seconds": found.seconds,
        "drained_s": found.drained_s,
        "faults": found.faults,
        "restores": found.restores,
        "offers": found.offers,
        **counts,
        **sentences,
        "failures": found.failures,
        "schedule": [asdict(one) for one in schedule],
        "shrunk": [one.number for one in smallest] if found.failures else [],
        "audit": found.audit,
    }
