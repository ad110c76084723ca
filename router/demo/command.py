"""`router demo`: play the story in a temporary directory, and report whether each message arrived exactly once."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import trio
from msgspec.structs import asdict

from router.audit.terminal import latency_text
from router.audit.terminal import show as show_audit
from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure, innermost
from router.cli.output import columns, facts, note, say, say_json, size_text
from router.cli.signals import handling
from router.demo import meet as meeting
from router.demo import overlay as families
from router.demo.counts import DemoCounts
from router.demo.meeting import SceneCounts, outcome, show
from router.demo.narrator import Telling
from router.demo.scenario import perform
from router.rig.ending import until_signalled
from router.rig.process import RigFailed

Played = TypeVar("Played")

GONE = "The homes are removed now; `router demo --keep` keeps them, to look at logs, stores and configurations."


@click.command(cls=Command)
@click.option(
    "--messages",
    default=1000,
    show_default=True,
    type=click.IntRange(10, 100_000),
    metavar="N",
    help="Messages to publish while edge B is away.",
)
@click.option("--meet", is_flag=True, help="Let nodes that know nothing of each other meet, instead.")
@click.option(
    "--overlay",
    is_flag=True,
    help="Let two cores that never heard of each other carry a group, through kills and a long absence, instead.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Keep the nodes' homes, the apps' records and the nodes' output, and print where they are.",
)
@json_option
def demo(messages: int, meet: bool, overlay: bool, keep: bool, as_json: bool) -> None:
    """Kill and restart a core and two edges on this machine while messages go through, and count what arrives.

    Your own node is not touched. Exit code 0: every acknowledged message arrived exactly once.
    """
    if meet and overlay:
        raise click.UsageError("--meet and --overlay are two stories; play one after the other")
    with _directory(keep) as base:
        if meet or overlay:
            _play_scenes(base, Telling(for_json=as_json), overlay=overlay, as_json=as_json)
            return
        counts = _play(perform, base, messages, Telling(for_json=as_json))
        failures = counts.failures()
        if as_json:
            say_json(_json(counts, failures))
        else:
            _print(counts)
            _print_asked(counts)
            say("What became of everything: $ router audit core a b\n")
            show_audit(counts.audit)
        if failures:
            raise Failure(Exit.FAILED, f"the demo failed: {'; '.join(failures)}")
        if not as_json:
            say("\nEverything that was acknowledged has arrived, once.")
            say(GONE if not keep else "")


@contextmanager
def _directory(keep: bool) -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="router-demo-"))
    try:
        with handling(signal.default_int_handler):
            yield base
    finally:
        if keep:
            note(f"kept in {base}; `router --home {base}/core serve` starts a node again")
        else:
            with handling(signal.SIG_IGN):
                shutil.rmtree(base, ignore_errors=True)


def _play_scenes(base: Path, telling: Telling, *, overlay: bool, as_json: bool) -> None:
    """Play the scenes of `--meet` or `--overlay`, and print their counts; raise `Failure` if one is wrong."""
    scenes: list[SceneCounts] = _play(families.perform if overlay else meeting.perform, base, telling)
    found = outcome(scenes)
    if as_json:
        say_json(found | {"scenes": [asdict(one) for one in scenes]})
    else:
        show(scenes, "scene" if overlay else "met")
    if failures := found["failures"]:
        raise Failure(Exit.FAILED, f"the demo failed: {'; '.join(failures)}")
    if not as_json:
        say(f"\n{families.ENDING if overlay else meeting.ENDING}")


def _play(perform: Callable[..., Awaitable[Played]], *given: Any) -> Played:
    """Play a story with these arguments, the last of which is its narrator."""
    try:
        with given[-1].watching():
            return trio.run(until_signalled, perform, *given)
    except Exception as error:
        found = innermost(error)
        if not isinstance(found, RigFailed):
            raise found from None
        raise Failure(Exit.FAILED, f"the demo failed: {found}\n`router demo --keep` keeps homes and logs") from None


def _json(counts: DemoCounts, failures: list[str]) -> dict[str, object]:
    return {
        "ok": not failures,
        "failures": failures,
        "published": counts.published,
        "acknowledged": counts.acknowledged,
        "lost": sum(one.lost for one in counts.heard),
        "doubled": sum(one.doubled for one in counts.heard),
        "out_of_order": sum(one.out_of_order for one in counts.heard),
        "apps": [asdict(one) for one in counts.heard],
        "acknowledged_without_core": counts.alone,
        "waited_for_b": counts.waited,
        "queued": counts.queued,
        "core_away_s": counts.core_away_s,
        "latency_ms": counts.latency_ms,
        "why": [asdict(one) for one in counts.asked],
        "audit": counts.audit,
        "core_disk": asdict(counts.disk),
        "tracebacks": counts.tracebacks,
        "seconds": counts.seconds,
    }


def _print_asked(counts: DemoCounts) -> None:
    began, ended = (time.strftime("%H:%M:%S", time.gmtime(at_s)) for at_s in counts.core_away_s)
    why = {"delayed": f", because the next router, the core, was away from {began} to {ended} UTC"}
    for one in counts.asked:
        say(f"A message that was {one.about}{why.get(one.about, '')}: $ {one.command}\n")
        say(one.text)


def _print(counts: DemoCounts) -> None:
    rows = [
        (one.where, counts.acknowledged, one.received, one.lost, one.doubled, one.out_of_order) for one in counts.heard
    ]
    say()
    columns(("APP ON", "ACKNOWLEDGED", "RECEIVED", "LOST", "DOUBLED", "OUT OF ORDER"), rows, "")
    say()
    disk = counts.disk
    facts(
        [
            ("published", counts.published),
            ("handed over again, known by id", sum(one.again for one in counts.heard)),
            ("left in queues", sum(counts.queued.values())),
            ("words found on the core's disk", disk.words),
            ("searched there", f"{size_text(disk.bytes)}, which name the group {disk.keys} times"),
            ("latency while all were up", latency_text(counts.latency_ms["all_up"])),
            ("since, most of it kept", latency_text(counts.latency_ms["kept"])),
            ("seconds", counts.seconds),
        ]
    )
    say()
