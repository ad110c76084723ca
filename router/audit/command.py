"""`router audit`: the delivery audit of event logs."""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from router.cli.command import ARGUMENTS, Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import say_json, size_text
from router.cli.signals import removing
from router.cli.when import NS_MAX, When, instant
from spark_analytics.judgement.slo import Slo, parse_slo

if TYPE_CHECKING:
    from router.audit.engine import AuditSpan
    from router.audit.filing import Filing
    from router.settings.home import Home
    from spark_analytics.judgement.comparison import Head

AUDITOR = "auditor"
"""The kept key that signs audits, if no other is named."""
_SIZE = {
    "": 1,
    "B": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "KI": 2**10,
    "MI": 2**20,
    "GI": 2**30,
    "TI": 2**40,
}


class Size(click.ParamType[Any]):
    """A number of bytes: `2GB`, `512MiB`."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,9})\s*([KMGT]I?)?B?", value.upper())
        if not found:
            self.fail(f"{value!r} is no size: write 2GB or 512MiB")
        return int(found[1]) * _SIZE[found[2] or ""]


class ServiceLevel(click.ParamType[Any]):
    """A share in percent and a time: `99.9:5s`."""

    name = "SHARE:TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Slo:
        if isinstance(value, Slo):
            return value
        try:
            return parse_slo(str(value))
        except ValueError as error:
            self.fail(str(error))


@click.command(cls=Command)
@click.argument("paths", nargs=-1, required=True, metavar="PATH…", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write every table as Parquet, the summary and an HTML page to this directory, replacing an earlier audit.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Where to compute: this process, or Spark.",
)
@click.option(
    "--since",
    type=When(),
    help="Only messages accepted at or after WHEN: 2026-03-12T17:30 (UTC), or 2d for two days ago.",
)
@click.option("--until", type=When(), help="Only messages accepted before WHEN.")
@click.option("--as-of", type=When(), help="Judge the messages as of WHEN.  [default: now]")
@click.option(
    "--slo",
    type=ServiceLevel(),
    default="99.9:5s",
    show_default=True,
    help="The service level that slo_hour measures: which share must arrive at its hop within which time.",
)
@click.option("--memory", type=Size(), default="2GB", show_default=True, help="The memory to use; more goes to disk.")
@click.option(
    "--compare",
    "compare",
    multiple=True,
    metavar="SUMMARY",
    type=click.Path(exists=True, path_type=Path),
    help="Compare with the logs that another audit judged, by its summary.json; may be repeated.",
)
@click.option(
    "--sign",
    is_flag=True,
    help="Sign the files of --out with a kept key of this home, made if missing; `router audit-verify` checks them.",
)
@click.option("--as", "as_name", metavar="NAME", help=f"The kept key that signs.  [default: {AUDITOR}]")
@click.option("--strict", is_flag=True, help="End with exit code 1 if the verdict is bad or nothing could be judged.")
@json_option
def audit(
    paths: tuple[Path, ...],
    out: Path | None,
    engine: str,
    since: float | None,
    until: float | None,
    as_of: float | None,
    slo: Slo,
    memory: int,
    compare: tuple[Path, ...],
    sign: bool,
    as_name: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Account for every message in event logs, with proof.

    A PATH is a log file, a directory that is searched for event logs, or the home of a node, whose newest events count
    even if they are not in the log yet. Give the logs of several routers to follow messages from one to the next.
    """
    from router.audit.database import AuditFailed
    from router.audit.listing import NothingToRead, read_heads
    from router.audit.terminal import show
    from spark_analytics.judgement.comparison import NotASummary

    _check_options(memory, out, sign, as_name)
    span = partial(_span, since, until, as_of, slo)
    asked = span()
    if asked.since_ns >= asked.until_ns:
        raise click.UsageError("--since must lie before --until")
    try:
        elsewhere = tuple(head for path in compare for head in read_heads(path))
        summary = _audited(paths, span, memory, out, engine, elsewhere, _filing(as_name or AUDITOR if sign else None))
    except (AuditFailed, NothingToRead, NotASummary) as error:
        raise Failure(Exit.FAILED, str(error)) from None
    say_json(summary) if as_json else show(summary)
    if strict:
        _check_verdict(summary, is_limited=since is not None or until is not None, as_json=as_json)


def _check_options(memory: int, out: Path | None, sign: bool, as_name: str | None) -> None:
    """Raise `UsageError` at options that do not go together."""
    from router.audit.database import MEMORY_BYTES_MIN

    if memory < MEMORY_BYTES_MIN:
        raise click.UsageError(f"--memory {size_text(memory)} is too little: at least {MEMORY_BYTES_MIN // 10**6}MB")
    if sign and out is None:
        raise click.UsageError("--sign signs the files of an audit: give --out DIR as well")
    if as_name is not None and not sign:
        raise click.UsageError("--as names the key that signs: give --sign as well")


def _filing(name: str | None) -> Filing:
    """Return what the audit says of its making, with the key of that name, which is made if it is missing."""
    from router.audit.filing import Filing
    from router.cli.output import note
    from router.cli.version import versions
    from router.core.wire.text import key_text
    from router.settings import keyring

    known = versions()
    arguments: Any = click.get_current_context().find_root().meta.get(ARGUMENTS, ())
    about = {"command": shlex.join(["router", *arguments]), "router": known["router"], "python": known["python"]}
    if name is None:
        return Filing(about)
    keyring.checked(name)
    home = invocation().home_to_write
    is_kept = name in keyring.names(home)
    key = keyring.load_or_create(home, name)
    if not is_kept:
        said = f'there was no key "{name}" in {home.path}: made one, {key_text("addr", key.public)}'
        note(f"{said}; whoever is to verify what it signs has to know this address")
    return Filing({**about, "signed_by": key.public.hex()}, key)


def _span(since: float | None, until: float | None, as_of: float | None, slo: Slo) -> AuditSpan:
    """Return the time span of the audit; what is relative in it counts from the time of this call."""
    from router.audit.engine import AuditSpan

    now = instant(as_of, time.time_ns())
    return AuditSpan(now, instant(since, now, 0), instant(until, now, NS_MAX), slo)


def _check_verdict(summary: dict[str, Any], *, is_limited: bool, as_json: bool) -> None:
    """Raise `Failure` if the verdict is bad or nothing could be judged. `is_limited`: only messages of a certain time
    were asked for."""
    if summary["verdict"] == "bad":
        raise Failure(Exit.FAILED, "" if as_json else "the verdict is bad")
    if not any(log["last"] for log in summary["logs"]):
        raise Failure(Exit.FAILED, "no log could be judged: none of the files holds one that can be believed")
    if is_limited and not summary["owed"]:
        raise Failure(Exit.FAILED, "nothing could be judged: no message of the time asked for is in these logs")


def own_home() -> Home | None:
    """Return the home whose names for keys are shown, if it holds a node. The default one need not be found: a service
    account may have no home directory, or one that it cannot read."""
    from router.settings.default_home import VARIABLE
    from router.settings.home import HomeError

    given = invocation()
    try:
        return given.chosen_home if given.chosen_home.holds_node else None
    except HomeError:
        if given.home_option or os.environ.get(VARIABLE):
            raise
        return None


@removing()
def _audited(
    paths: tuple[Path, ...],
    span: Callable[[], AuditSpan],
    memory: int,
    out: Path | None,
    engine: str,
    elsewhere: tuple[Head, ...],
    filing: Filing,
) -> dict[str, Any]:
    """Return the engine's summary, showing progress on the terminal. `span` is called after a running node has given
    its newest events, so that its end is later than all of them."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from router.audit import engine as local
    from router.audit import spark
    from router.audit.tail import logs_of
    from router.cli.ask import ask

    looks = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    progress = Progress(*looks, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    with logs_of(paths, ask, own_home()) as listing, progress:
        task = progress.add_task("", total=1.0)
        listing.elsewhere, listing.filing = elsewhere, filing
        audit = spark.audit if engine == "spark" else local.audit
        return audit(
            listing,
            span(),
            memory_bytes=memory,
            out=out,
            report=lambda what, part: progress.update(task, description=what, completed=part),
        )
