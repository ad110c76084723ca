"""`router bench`: the figures of this machine, beside bare signature verification in the same run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from rich.console import Console

from router.bench import first_messages, scenarios, traffic, yardstick
from router.bench import hostile as siege
from router.bench.first_messages import ROUNDS
from router.bench.goals import measured_goals
from router.bench.report import attack_cells, write_attacks, write_first_messages, write_goals
from router.bench.rig import workbench
from router.bench.scenarios import Bench, Shape
from router.bench.unicasts import ROUNDS as ROUNDS_OF_UNICASTS
from router.bench.unicasts import sealed_beside_plain
from router.bench.yardstick import Yardstick
from router.cli.command import Command, json_option
from router.cli.output import columns, facts, say, say_json
from router.cli.streams import DASH
from router.rig.process import RigFailed

HINT = "Clients sign in advance and do not verify again; memory is what the node holds itself, not the database's map."
AT_LEAST_1 = click.IntRange(1)
BACKLOG_MESSAGES = 50_000


@click.command(cls=Command)
@click.option(
    "--transport",
    "transports",
    multiple=True,
    type=click.Choice(["unix", "tls", "ws"]),
    help="The transport to measure; repeatable.  [default: unix and tls]",
)
@click.option("--messages", default=30_000, type=AT_LEAST_1, show_default=True, help="Messages in the throughput run.")
@click.option("--size", default=1024, type=click.IntRange(16, 60_000), show_default=True, help="Bytes in a body.")
@click.option("--publishers", default=1, type=AT_LEAST_1, show_default=True, help="Apps that publish.")
@click.option("--subscribers", default=1, type=AT_LEAST_1, show_default=True, help="Apps that read.")
@click.option("--duplicates", default=1, type=AT_LEAST_1, show_default=True, help="How often each message arrives.")
@click.option(
    "--stalled", default=0, type=click.IntRange(0), show_default=True, help="Additional subscribers that never read."
)
@click.option(
    "--verifiers", type=click.IntRange(0, 1024), help="Processes that check signatures; 0: the router itself."
)
@click.option("--unsynced", is_flag=True, help="Acknowledge messages before they are safe on disk.")
@click.option(
    "--services",
    is_flag=True,
    help="Measure each transport on a node without services, then with those that `router init` names for a core.",
)
@click.option(
    "--drain",
    type=click.IntRange(10),
    metavar="N",
    help="Measure instead: N messages queued for an absent subscriber, until it has come back and read them.",
)
@click.option(
    "--backlog",
    type=click.IntRange(10),
    metavar="[N]",
    is_flag=False,
    flag_value=BACKLOG_MESSAGES,
    help="Measure instead: delivery while N messages, each in its own parcel, are queued; "
    f"{BACKLOG_MESSAGES}, or 1000000 at full size.",
)
@click.option("--idle", type=AT_LEAST_1, metavar="N", help="Measure instead: the memory and CPU of N idle links.")
@click.option(
    "--goals",
    is_flag=True,
    help="Measure instead: every scenario that has a goal, and print the goal beside it; takes minutes.",
)
@click.option(
    "--hostile",
    is_flag=True,
    help="Measure instead: an honest pair while 64 strangers attack, and a flood on a LAN; takes minutes.",
)
@click.option(
    "--attack",
    "attacks",
    multiple=True,
    type=click.Choice(list(siege.KINDS)),
    metavar="KIND",
    help=f"With --hostile: only this kind of attack ({', '.join(siege.KINDS)}). Repeatable.",
)
@click.option(
    "--meet",
    type=AT_LEAST_1,
    metavar="[N]",
    is_flag=False,
    flag_value=ROUNDS,
    help="Measure instead: how soon two nodes that meet hear each other, by invitation and on a LAN, N times each; "
    f"{ROUNDS} take some minutes.",
)
@click.option(
    "--sealed",
    is_flag=True,
    help="Measure instead: unicasts of apps over TLS, sealed and in the open by turns.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --goals, --hostile or --meet: write the result to FILE as Markdown.",
)
@json_option
def bench(as_json: bool, **given: Any) -> None:
    """Measure throughput, latency, loss, duplicates, CPU and memory on real sockets and a real disk.

    Your own node is not touched: the bench starts nodes of its own in a temporary directory.
    """
    asked = _Asked(**given)
    _check(asked)
    if asked.meet:
        _meet(asked.meet, asked.report, as_json)
        return
    console = Console(stderr=True, quiet=not sys.stderr.isatty())
    try:
        with workbench() as base, console.status("") as status:
            made = _prepared(asked, base, status.update)
            rows = _measured(asked, made, status.update)
    except RigFailed as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        yard = made.yardstick
        known = {"yardstick_one_core_per_s": yard.one_core_per_s, "yardstick_two_core_per_s": yard.two_core_per_s}
        say_json([row | known for row in rows])
        return
    if asked.goals:
        _print_goals(rows)
    elif asked.hostile:
        _print_attacks(rows)
    else:
        _print(rows, made.yardstick)
    say(HINT)


class _Asked(Struct, frozen=True):
    """The options of the command: how to measure, and what in place of throughput and latency."""

    transports: tuple[str, ...]
    messages: int
    size: int
    publishers: int
    subscribers: int
    duplicates: int
    stalled: int
    verifiers: int | None
    unsynced: bool
    services: bool
    drain: int | None
    backlog: int | None
    idle: int | None
    goals: bool
    hostile: bool
    attacks: tuple[str, ...]
    meet: int | None
    sealed: bool
    report: Path | None


def _check(asked: _Asked) -> None:
    if asked.messages < asked.publishers:
        raise click.UsageError(f"{asked.messages} messages are too few for {asked.publishers} publishers")
    if asked.report and not (asked.goals or asked.hostile or asked.meet):
        raise click.UsageError("--report goes with --goals, --hostile or --meet")
    if asked.report == DASH:
        raise click.UsageError("--report changes one part of a file, and leaves the others: name it")
    if asked.attacks and not asked.hostile:
        raise click.UsageError("--attack goes with --hostile")


def _prepared(asked: _Asked, base: Path, say: Callable[[str], None]) -> Bench:
    """Return the bench with messages signed in advance and its yardstick."""
    count = max(asked.messages, asked.drain or 0)
    say(f"signing {count} messages of {asked.size} bytes in advance")
    signed = traffic.make(base / "traffic", count, asked.size)
    say("measuring bare verification on one core and on two")
    yard = yardstick.run(signed, 2.0)
    return Bench(base, yard, signed, not asked.unsynced, asked.verifiers, asked.size, services=asked.services)


def _measured(asked: _Asked, made: Bench, say: Callable[[str], None]) -> list[Any]:
    """Return a row of figures for each transport, goal or attack."""
    if asked.goals:
        rows: list[Any] = measured_goals(made, say)
        if asked.report:
            write_goals(asked.report, rows)
        return rows
    if asked.hostile:
        rows = siege.hostile(made, say, asked.attacks)
        if asked.report:
            write_attacks(asked.report, rows, siege.LINKS, siege.BYTES_PER_S * 8e-6)
        return rows
    if asked.drain:
        return [scenarios.drain(made, one, asked.drain) for one in asked.transports or ("unix",)]
    if asked.backlog:
        return [scenarios.backlog(made, one, asked.backlog, say) for one in asked.transports or ("unix",)]
    if asked.sealed:
        return [sealed_beside_plain(made, asked.messages // ROUNDS_OF_UNICASTS, say)]
    if asked.idle:
        return [scenarios.idle(made, one, asked.idle) for one in asked.transports or ("tls",)]
    shape = Shape(asked.publishers, asked.subscribers, asked.stalled, asked.duplicates, asked.messages)
    nodes = [replace(made, services=one) for one in ((False, True) if asked.services else (False,))]
    return [_one(node, one, shape, say) for one in asked.transports or ("unix", "tls") for node in nodes]


def _meet(rounds: int, report: Path | None, as_json: bool) -> None:
    console = Console(stderr=True, quiet=not sys.stderr.isatty())
    try:
        with workbench() as base, console.status("") as status:
            rows = first_messages.first_messages(base, rounds, status.update)
    except RigFailed as error:
        raise click.ClickException(str(error)) from None
    cells = [first_messages.cells(one) for one in rows]
    if report:
        write_first_messages(report, rows, cells)
    if as_json:
        say_json(rows)
    else:
        columns(("WAY TO MEET", "MEDIAN, LONGEST", "GOAL", "MET"), cells, "")


def _one(made: Bench, transport: str, shape: Shape, say: Any) -> dict[str, Any]:
    say(f"{transport}: {shape.count} messages as fast as they go")
    row = scenarios.throughput(made, transport, shape)
    say(f"{transport}: 200 messages a second, one by one")
    row |= scenarios.latency(made, transport, 3.0)
    say("the latency without waiting for the disk, and one commit")
    unsynced = replace(made, synced=False)
    row["p50_unsynced_ms"] = scenarios.latency(unsynced, transport, 2.0)["p50_ms"]
    return row | {"commit_ms": scenarios.commit_ms(made.base)}


def _print(rows: Iterable[dict[str, Any]], yard: Yardstick) -> None:
    say(
        f"Yardstick: bare PyNaCl verifies {yard.one_core_per_s:,.0f} of these messages a second on one core and "
        f"{yard.two_core_per_s:,.0f} on two ({yard.cpu_us:.1f} µs each)."
    )
    for row in rows:
        say("")
        facts([(name, _value(value)) for name, value in row.items()])


def _print_goals(rows: Iterable[dict[str, Any]]) -> None:
    columns(
        ("FIGURE", "MEASURED", "GOAL", "MET"),
        [(row["title"], row["told"], row["goal"], row["verdict"]) for row in rows],
        "",
    )


def _print_attacks(rows: Iterable[dict[str, Any]]) -> None:
    columns(
        ("ATTACK", "RATE >= 0.9", "P50 <= 2", "LOST", "MET", "FLAT OUT", "ATTACKERS' CORES"),
        [
            (one["attack"], rate, p50, lost, one["verdict"], flat, cores)
            for one in rows
            for rate, p50, lost, flat, cores in [attack_cells(one)]
        ],
        "",
    )


def _value(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.3f}"
        case _:
            return str(value)
