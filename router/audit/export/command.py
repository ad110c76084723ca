"""`router audit-export`: event logs that can be given away, without a key or a message in them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from router.cli.command import Command, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import facts, note, say, say_json
from router.cli.signals import removing
from router.core.wire.text import BadText, counted, parse_key

if TYPE_CHECKING:
    from router.audit.export.logs import Exported

PROBLEMS_MAX = 20


@click.command("audit-export", cls=Command)
@click.argument("paths", nargs=-1, metavar="PATH…", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory to write to, new or empty.",
)
@click.option(
    "--secret",
    required=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The secret that new names are made from; created if missing. Exports of one secret can be audited together.",
)
@click.option("--whose", metavar="KEY", help="Only print the new name of this key or message.")
@json_option
def audit_export(paths: tuple[Path, ...], out: Path | None, secret: Path, whose: str | None, as_json: bool) -> None:
    """Copy the event logs of PATH… to DIR with all keys and message ids replaced.

    `router audit DIR` gives the same figures and verdict as for the original logs; a damaged file is replaced by one
    that is found damaged in the same way. Export the logs of neighbours together: otherwise DIR lacks what they
    recorded of each other's messages. Without the secret nobody can find out the original keys.
    """
    from router.audit.database import AuditFailed
    from router.audit.export.lines import ExportError
    from router.audit.export.logs import existing_secret, place_of
    from router.audit.listing import NothingToRead

    if whose is None and (not paths or out is None):
        said = "name the logs (a node's home or log directory), and with --out where the export goes"
        raise click.UsageError(said)
    try:
        if whose is not None:
            _name(_raw_key(whose), secret, as_json)
        elif out is not None:
            existing_secret(secret)  # A problem with it, or with the place, is reported before all logs are read.
            place_of(out)
            _tell(_exported(paths, out, secret), out, as_json)
    except (AuditFailed, ExportError, NothingToRead) as error:
        raise Failure(Exit.FAILED, str(error)) from None


def _raw_key(text: str) -> bytes:
    """Parse a key or an id in any form, or a name that the chosen home knows. Raise `BadText` or `UnknownName`."""
    try:
        return parse_key(text)
    except BadText:
        home = invocation().chosen_home
        if not home.holds_node:
            raise
    from router.settings import keyring
    from router.settings.names import Names

    group = keyring.groups(home).get(text)
    return Names.of(home).address(text) if group is None else group.group


def _name(raw: bytes, secret: Path, as_json: bool) -> None:
    from router.audit.export.logs import existing_secret
    from router.audit.export.pseudonyms import Pseudonyms

    known = existing_secret(secret)
    if known is None:
        raise Failure(Exit.FAILED, f"there is no secret in {secret}; name the one that the export was made with")
    names = Pseudonyms(known)
    found = {"key": names.key(raw.hex()), "id": names.id(raw.hex())}
    if as_json:
        say_json(found)
    else:
        facts([("as a key", found["key"]), ("as a message", found["id"])])


def _exported(paths: tuple[Path, ...], out: Path, secret: Path) -> Exported:
    from router.audit.engine import evidence_of
    from router.audit.export.logs import export, secret_from
    from router.audit.export.pseudonyms import Pseudonyms
    from router.audit.tail import logs_of
    from router.cli.ask import ask

    def names() -> Pseudonyms:
        return Pseudonyms(secret_from(secret, made=_tell_of_new_secret))

    with removing(), logs_of(paths, ask) as listing, _progress() as report:
        evidence, found = evidence_of(listing, report)
        for problem in evidence.problems[:PROBLEMS_MAX]:
            note(listing.told(str(problem)))
        if (more := len(evidence.problems) - PROBLEMS_MAX) > 0:
            note(f"and {counted(more, 'more problem')}: `router audit` of the same paths lists the rest")
        return export(evidence, found, out, names, report)


def _tell_of_new_secret(path: Path) -> None:
    note(f"there was no secret in {path}: made a new one, so names differ from those of earlier exports")


def _tell(said: Exported, out: Path, as_json: bool) -> None:
    if said.left_out:
        told = f"for each, {out} has a substitute that an audit does not believe either"
        note(f"files that cannot be believed: {said.left_out}; {told}")
    if as_json:
        say_json({"out": str(out), **said._asdict()})
    else:
        segments, routers = counted(said.segments, "segment"), counted(said.routers, "router")
        say(f"{counted(said.events, 'event')} in {segments} of {routers} in {out}")


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """Show the present step on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    looks = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    progress = Progress(*looks, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    with progress:
        task = progress.add_task("", total=1.0)
        yield lambda what, part: progress.update(task, description=what, completed=part)
