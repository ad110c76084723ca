"""`router backup` and `router restore`: a snapshot of the home, taken beside the running node, and put back."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_bytes
from typing import Any, BinaryIO

import click

from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.exits import Exit, Failure
from router.cli.output import note, say, say_json
from router.cli.signals import removing
from router.core.wire.text import key_text
from router.disk import private_file
from router.disk.snapshot import put_back, take
from router.disk.snapshot.form import SALT_BYTES, Manifest, SnapshotFault, SnapshotReader, SnapshotWriter, usual_cost

PASSPHRASE_BYTES_MAX = 1024

NOT_PROMISED = (
    "what the node accepted since then is not known here, and is lost unless its sender still keeps it",
    "what waits here may be delivered again, and is marked so; what other nodes bring again since then is not marked",
    "its log goes on in a new life, with numbers that were never used; what the node did since then is not in it",
    "the state of apps (apps/) is not in a snapshot: apps begin anew, and number their messages from the new life on",
)
"""What a restored home does not promise, said after each restore."""


class _Backup(CommandGroup):
    """A group whose first argument may be a file: then the snapshot is written there."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = 0
        while at < len(args) and args[at] in ("--home", "--verbose"):
            at += 2 if args[at] == "--home" else 1
        if at < len(args) and args[at] not in (*self.commands, "-h", "--help"):
            args = ["take", *args]
        return super().parse_args(ctx, args)


_passphrase = click.option(
    "--passphrase-file", type=click.Path(path_type=Path), metavar="PATH", help="Read the passphrase from this file."
)


@click.group(cls=_Backup)
def backup() -> None:
    """Write a snapshot of this home to FILE (`-`: standard output), also while the node runs.

    `router backup FILE` seals it by a passphrase, which is asked for; `router restore FILE` makes a home of it.
    """


@backup.command("take", cls=Command)
@click.argument("file")
@_passphrase
@click.option("--plain", is_flag=True, help="Do not seal it; it holds secret keys.")
def take_one(file: str, passphrase_file: Path | None, plain: bool) -> None:
    """Write a snapshot to FILE: what `router backup FILE` does."""
    home = invocation().home.path
    if plain and passphrase_file:
        raise click.UsageError("--plain seals nothing, so it takes no passphrase")
    if file == "-" and sys.stdout.isatty():
        raise click.UsageError("a snapshot is no text for a terminal: name a file, or pipe it")
    seal = None if plain else (_ask_passphrase(passphrase_file, is_new=True), usual_cost(token_bytes(SALT_BYTES)))
    said = f"no snapshot of {home} was taken"
    with removing(), _faults(said), take.staged(home) as copies, _written(file) as out:
        manifest = take.write(home, copies, SnapshotWriter(out.write, seal))
    size = sum(one.size for one in manifest.parts)
    note(f"{len(manifest.parts)} files, {size:,} bytes; the node waited {copies.held_s:.2f} s for it")
    for path in manifest.damaged:
        note(f"{path} is damaged and is in the snapshot as it was found: see to the disk")
    if plain:
        note("it is not sealed, and holds secret keys: keep it as you keep those")


@backup.command(cls=Command)
@click.argument("file")
@_passphrase
def verify(file: str, passphrase_file: Path | None) -> None:
    """Read a snapshot to its end, and say whether it is whole."""
    manifest = _read(file, passphrase_file)
    say(f"{file} is whole: {_described(manifest)}")


@backup.command("list", cls=Command)
@click.argument("file")
@_passphrase
@json_option
def list_parts(file: str, passphrase_file: Path | None, as_json: bool) -> None:
    """List the files in a snapshot, after reading it to its end."""
    manifest = _read(file, passphrase_file)
    if as_json:
        parts = [{"path": one.path, "bytes": one.size, "blake3": one.digest.hex()} for one in manifest.parts]
        say_json({"at": manifest.at_s, "parts": parts, "damaged": manifest.damaged})
        return
    for one in manifest.parts:
        say(f"{one.size:>14,}  {one.path}")
    note(_described(manifest))


@click.command(cls=Command)
@click.argument("file")
@_passphrase
@click.option("--yes", is_flag=True, help="Say that the node it was taken of never runs again; do not ask.")
def restore(file: str, passphrase_file: Path | None, yes: bool) -> None:
    """Make a home of the snapshot in FILE (`-`: standard input), where there is none.

    The node that it was taken of must not run any more: two nodes with one key take each other's messages. That is
    asked first. What was accepted since the snapshot is not known to the new home, and what was delivered since may be
    delivered again."""
    home = invocation().chosen_home.path
    said = f"{file} was not restored, and nothing of it is left"
    with removing(), _faults(said):
        put_back.check_free(home)
        if not yes:
            _ask_gone()
        with _opened(file) as content:
            manifest = put_back.restore(
                SnapshotReader(content, lambda: _ask_passphrase(passphrase_file)), home, time.time_ns()
            )
    say(f"made {home} from {file}: {_described(manifest)}")
    for promise in NOT_PROMISED:
        note(promise)
    for path in manifest.damaged:
        note(f"{path} was damaged when the snapshot was taken: `router serve` says what to do if it cannot be used")


def _read(file: str, passphrase_file: Path | None) -> Manifest:
    with _faults(f"{file} cannot be used"), _opened(file) as content:
        return SnapshotReader(content, lambda: _ask_passphrase(passphrase_file)).read(lambda _: lambda _: None)


def _described(manifest: Manifest) -> str:
    taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.at_s))
    whose = f" of {key_text('addr', manifest.router)}" if manifest.router else ""
    return f"{len(manifest.parts)} files{whose}, as it was on {taken}"


@contextmanager
def _faults(what: str) -> Iterator[None]:
    """Raise `Failure` in place of a fault or an error of the disk."""
    try:
        yield
    except SnapshotFault as error:
        raise Failure(Exit.FAILED, f"{what}: {error}") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise Failure(Exit.FAILED, f"{what}: {error.strerror}{where}; mend that, or choose another place") from None


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with Path(file).open("rb") as content:
        yield content


@contextmanager
def _written(file: str) -> Iterator[BinaryIO]:
    """Give the file to write to, which gets its name when it is whole; an older one of that name is replaced."""
    if file == "-":
        yield sys.stdout.buffer
        return
    path = Path(file)
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, private_file.FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    private_file.sync_directory(path.parent)


def _ask_gone() -> None:
    if not sys.stdin.isatty():
        said = "this asks first whether the node that it was taken of is gone, and standard input is no terminal"
        raise Failure(Exit.USAGE, f"{said}: give --yes if that one never runs again")
    if not click.confirm("Will the node that it was taken of, and any other copy of it, never run again?", err=True):
        raise Failure(Exit.FAILED, "nothing was restored: two nodes with one key would take each other's messages")


def _ask_passphrase(file: Path | None, *, is_new: bool = False) -> bytes:
    if file is None:
        if not sys.stdin.isatty():
            remedy = "give --passphrase-file PATH" + (", or --plain" if is_new else "")
            raise Failure(Exit.USAGE, f"the passphrase cannot be asked for without a terminal: {remedy}")
        found: Any = click.prompt("Passphrase", hide_input=True, confirmation_prompt=is_new, err=True)
        return str(found).encode()
    try:
        said = private_file.read(file, PASSPHRASE_BYTES_MAX).rstrip(b"\r\n")
    except private_file.Exposed as error:
        raise Failure(Exit.USAGE, f"{error}: chmod 600 {file}") from None
    except OSError as error:
        raise Failure(Exit.USAGE, f"the passphrase in {file} cannot be read: {error.strerror}") from None
    if not said or len(said) > PASSPHRASE_BYTES_MAX:
        raise Failure(Exit.USAGE, f"{file} has to hold a passphrase of 1 to {PASSPHRASE_BYTES_MAX} bytes")
    return said
