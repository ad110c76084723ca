"""`router audit-export`: event logs that can be given away, without a key or a message in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from router.cli.command import Command, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import facts, note, say, say_json
from router.cli.signals import removing

if TYPE_CHECKING:
    from router.audit.pseudonyms import Pseudonyms


@click.command("audit-export", cls=Command)
@click.argument("paths", nargs=-1, metavar="PATH…", type=click.Path(exists=True, path_type=Path))
@click.option("--out", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="New or empty.")
@click.option(
    "--secret", required=True, metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
    help="What names are made with; made if missing. Exports with one secret can be joined.",
)  # fmt: skip
@click.option("--whose", metavar="HEX", help="Only print the name that this key or message has in such an export.")
@json_option
def audit_export(paths: tuple[Path, ...], out: Path | None, secret: Path, whose: str | None, as_json: bool) -> None:
    """Write the logs of PATH… to DIR with every key and message id under another name.

    The figures of `router audit DIR` are those of the logs. Nobody without the secret can tell whose names these are.
    """
    from router.audit.database import AuditFailed
    from router.audit.export import ExportError, secret_from
    from router.audit.listing import NothingToRead
    from router.audit.pseudonyms import Pseudonyms

    if whose is None and (not paths or out is None):
        said = "name the logs (a node's home or log directory), and with --out where the export goes"
        raise click.UsageError(said)
    try:
        names = Pseudonyms(secret_from(secret, made=_tell_of_new_secret))
        if whose is not None:
            _name(names, whose, as_json)
        elif out is not None:
            _export(paths, out, names, as_json)
    except (AuditFailed, ExportError, NothingToRead) as error:
        raise Failure(Exit.FAILED, str(error)) from None


def _tell_of_new_secret(path: Path) -> None:
    note(f"there was no secret in {path}: made a new one, whose names no earlier export has")


def _name(names: Pseudonyms, whose: str, as_json: bool) -> None:
    raw = whose.strip().lower()
    if not re.fullmatch("[0-9a-f]{64}", raw):
        raise Failure(Exit.USAGE, f"{whose!r} is not a key or an id: 64 hex digits, as `--json` prints them")
    found = {"key": names.key(raw), "id": names.id(raw)}
    if as_json:
        say_json(found)
    else:
        facts([("as a key", found["key"]), ("as a message", found["id"])])


def _export(paths: tuple[Path, ...], out: Path, names: Pseudonyms, as_json: bool) -> None:
    from router.audit.engine import evidence_of
    from router.audit.export import export
    from router.audit.tail import logs_of
    from router.cli.ask import ask

    with removing(), logs_of(paths, ask) as listing:
        evidence, _ = evidence_of(listing)
        for problem in evidence.problems:
            note(str(problem))
        said = export(evidence.files, out, names)
    if as_json:
        say_json({"out": str(out), **said._asdict()})
        return
    left = f"; {said.left_out} files that cannot be believed were left out" if said.left_out else ""
    say(f"{said.events} events in {said.segments} segments of {said.routers} routers in {out}{left}")
