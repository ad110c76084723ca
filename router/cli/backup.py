"""`router backup` and `router restore`: a snapshot of the home, taken beside the running node, and put back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from secrets import token_bytes
from typing import Any

import click
from msgspec.structs import asdict

from router.cli.command import Command, CommandGroup, invocation, json_option
from router.cli.exits import Exit, Failure, shell_word
from router.cli.output import note, say, say_json
from router.cli.progress import CountedFile, progress
from router.cli.signals import removing
from router.cli.spans import WholeSeconds
from router.cli.streams import input_at_terminal, standard_input, standard_output
from router.core.wire.text import key_text, printable, span_text
from router.disk.snapshot import put_back, take
from router.disk.snapshot.directory import check_directory, read_passphrase, whole_file
from router.disk.snapshot.form import FIRST, SnapshotReader, SnapshotWriter, seal_key
from router.disk.snapshot.in_order import keep_large_blocks
from router.disk.snapshot.manifest_ahead import manifest_ahead
from router.disk.snapshot.series import newest_beside, newest_of_each
from router.disk.snapshot.steady_writer import SteadyWriter
from router.disk.snapshot.terms import SALT_BYTES, Manifest, SnapshotFault, usual_cost
from router.settings import config as configuration
from router.settings import keyring, own_successions
from router.settings.config_backup import EVERY_S_MAX, EVERY_S_MIN, KEEP_MAX, Backup
from router.settings.config_text import ConfigError
from router.settings.home import Home

NEWEST_MAX = 4
"""How many nodes' newest snapshots an error names."""
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
    `router backup --every 1d --keep 7 DIR --passphrase-file PATH` lets the running node make them by itself.
    """


@backup.command("take", cls=Command)
@click.argument("file")
@_passphrase
@click.option("--plain", is_flag=True, help="Do not seal it; it holds secret keys.")
@click.option(
    "--every",
    "every_s",
    type=WholeSeconds(min=EVERY_S_MIN, max=EVERY_S_MAX),
    metavar="TIME",
    help="Let the running node make one each TIME (1d, 6h) in FILE, a directory: see `router backup schedule`.",
)
@click.option(
    "--keep",
    type=click.IntRange(1, KEEP_MAX),
    metavar="N",
    help="With --every: how many of these stay. [default: 7]",
)
def take_one(file: str, passphrase_file: Path | None, plain: bool, every_s: int | None, keep: int | None) -> None:
    """Write a snapshot to FILE: what `router backup FILE` does."""
    if plain and passphrase_file:
        raise click.UsageError("--plain seals nothing, so it takes no passphrase")
    if every_s is not None:
        _schedule(file, every_s, Backup().keep if keep is None else keep, passphrase_file, plain)
        return
    if keep is not None:
        raise click.UsageError("--keep belongs to --every: one snapshot removes no other")
    chosen = invocation().home_to_change  # copies are staged in it
    runs, home = bool(chosen.holder), chosen.path
    if file == "-" and standard_output("name a file").isatty():
        raise click.UsageError("a snapshot is no text for a terminal: name a file, or pipe it")
    _check_place(file)
    passphrase = None if plain else _ask_passphrase(passphrase_file, is_new=True)
    _check_whose(file, chosen, passphrase)
    said = f"no snapshot of {home} was taken"
    with _faults(said):
        seal = None if passphrase is None else seal_key(passphrase, usual_cost(token_bytes(SALT_BYTES)))
    keep_large_blocks()
    with (
        removing(),
        _faults(said),
        take.staged(home) as copies,
        _written(file) as write,
        progress(take.size_at_most(home, copies)) as on_bytes,
    ):
        manifest = take.write(home, copies, SnapshotWriter(write, seal, on_bytes=on_bytes))
    size = sum(one.size for one in manifest.parts)
    waited = f"the node waited {copies.held_s * 1e3:.0f} ms for it" if runs else "no node runs here"
    note(f"{len(manifest.parts)} files, {size:,} bytes; {waited}")
    for path in manifest.damaged:
        note(f"{path} is damaged and is in the snapshot as it was found: see to the disk")
    if plain:
        note("it is not sealed, and holds secret keys: keep it as you keep those")


@backup.command(cls=Command)
@click.option("--off", is_flag=True, help="Make no more; those that are there stay.")
@json_option
def schedule(off: bool, as_json: bool) -> None:
    """Show the snapshots that the node makes by itself, or end that.

    `router backup --every 1d --keep 7 DIR` begins it, or changes it. It stands in router.toml, section [backup].
    """
    from router.cli.ask import ask  # with all that talks to a node, which saving a home does not wait for
    from router.cli.views import backup_line
    from router.client.errors import NodeUnavailable

    home = invocation().home
    if off:
        running = _write_schedule({})
        if as_json:
            say_json({"directory": "", "running": running})
        else:
            say("no more snapshots are made by the node itself; those that are there stay")
        return
    config = configuration.load(home.config_path)[0].backup
    try:
        found = ask(home, "status")["backup"]
    except NodeUnavailable:
        found = None
    if as_json:
        say_json({**asdict(config), "node": found})
    elif found:
        say(backup_line(found))
    elif config.directory:
        said = f"every {span_text(config.every_s)} into {config.directory}, the newest {config.keep} stay"
        say(f"{said}; no node runs that makes them: `router serve`")
    else:
        say("the node makes no snapshots by itself; `router backup --every 1d --keep 7 DIR` begins it")


def _schedule(directory: str, every_s: int, keep: int, passphrase_file: Path | None, plain: bool) -> None:
    """Let the node make snapshots in the directory; a running one begins at once."""
    home = invocation().home_to_change
    if directory == "-":
        raise click.UsageError("--every writes many snapshots: name a directory")
    if not plain and passphrase_file is None:
        raise click.UsageError("the node reads the passphrase by itself: give --passphrase-file PATH, or --plain")
    where = Path(directory).absolute()
    with _faults(f"no snapshots will be made in {directory}"):
        check_directory(where, home.path)
        if passphrase_file is not None:
            read_passphrase(passphrase_file)
    values: dict[str, object] = {"directory": str(where), "every_s": every_s, "keep": keep}
    values |= {"plain": True} if passphrase_file is None else {"passphrase_file": str(passphrase_file.absolute())}
    running = _write_schedule(values)
    said = f"a snapshot is made every {span_text(every_s)} in {where}, and the newest {keep} stay"
    say(f"{said}; `router backup schedule` shows it" if running else f"{said}, once the node runs: `router serve`")
    if plain:
        note("they are not sealed, and hold secret keys: keep them as you keep those")
    elif passphrase_file is not None:
        note(f"without the passphrase in {passphrase_file} nobody opens them: keep a copy of it elsewhere")


def _write_schedule(values: dict[str, object]) -> bool:
    """Write the section of `router.toml`, and have the running node read it; return whether one runs."""
    from router.cli.ask import reload_node

    home = invocation().home_to_change
    try:
        configuration.edit_backup(home.config_path, values)
    except ConfigError as error:
        raise Failure(Exit.USAGE, str(error)) from None
    return reload_node(home)


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
        say(f"{one.size:>14,}  {printable(one.path)}")
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
    _check_no_directory(file)
    keep_large_blocks()
    with removing(), _faults(f"{file} was not restored, and nothing of it is left"):
        put_back.check_free(home)
        if newer := _newer_than(file):
            note(f"{newer} was made later by the same home: restore that one, unless you want the older state and key")
        if not yes:
            _ask_gone()
        with _opened(file) as content:
            reader = SnapshotReader(content, lambda: _ask_passphrase(passphrase_file))
            said = None if file == "-" else manifest_ahead(reader, content.fileno())
            manifest = put_back.restore(reader, home, time.time_ns(), said)
    say(f"made {home} from {file}: {_described(manifest)}")
    for promise in NOT_PROMISED:
        note(promise)
    for path in manifest.damaged:
        note(f"{path} was damaged when the snapshot was taken: `router serve` says what to do if it cannot be used")


def _read(file: str, passphrase_file: Path | None) -> Manifest:
    _check_no_directory(file)
    keep_large_blocks()
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
def _opened(file: str) -> Iterator[CountedFile]:
    if file == "-":
        with progress(0) as on_bytes:
            yield CountedFile(standard_input("name a file"), on_bytes)
        return
    with Path(file).open("rb", buffering=0) as content, progress(os.fstat(content.fileno()).st_size) as on_bytes:
        yield CountedFile(content, on_bytes)


def _check_no_directory(file: str) -> None:
    """Raise `Failure` for a directory, with the snapshots in it that may be meant: the newest of each node."""
    if file == "-" or not (path := Path(file)).is_dir():
        return
    with _faults(f"{file} is a directory, which cannot be listed"):
        found = newest_of_each(one.name for one in path.iterdir())
    names = " or ".join(shell_word(str(path / one.name)) for one in found[:NEWEST_MAX])
    more = f", or the newest of {len(found) - NEWEST_MAX} other nodes" if len(found) > NEWEST_MAX else ""
    meant = f"the newest snapshot in it is {names}{more}: name that"
    meant = meant if found else "name a snapshot; no node made any in it"
    raise Failure(Exit.USAGE, f"{file} is a directory; {meant}")


def _newer_than(file: str) -> str:
    """Return the newest snapshot of the same home in the directory of a file, "" if there is none. `OSError` passes."""
    path = Path(file)
    newest = (
        ""
        if file == "-" or not path.exists()
        else newest_beside(path.name, [one.name for one in path.parent.iterdir()])
    )
    return newest and shell_word(str(path.with_name(newest)))


def _check_place(file: str) -> None:
    """Raise `Failure` unless a snapshot can take the place of what has this name: nothing, or an older snapshot."""
    path = Path(file)
    if file == "-":
        return
    try:
        if path.is_dir():
            raise Failure(Exit.USAGE, f"{file} is a directory: name a file in it, as {path / 'home.snapshot'}")
        if not path.resolve().parent.is_dir():
            raise Failure(Exit.FAILED, f"there is no {path.resolve().parent}: connect its disk, or make that directory")
        if not path.exists():
            return
        if not path.is_file():
            said = "is a device or a pipe, whose place the snapshot would take"
            raise Failure(Exit.USAGE, f"{file} {said}: name a file, or - for standard output")
        with path.open("rb") as old:
            found = old.read(len(FIRST))
    except OSError as error:
        raise Failure(Exit.FAILED, f"{file} cannot be looked at: {error.strerror}; choose another place") from None
    if found and found != FIRST:
        raise Failure(Exit.USAGE, f"{file} is there already, and no snapshot: name another file")


def _check_whose(file: str, home: Home, passphrase: bytes | None) -> None:
    """Raise `Failure` if the snapshot in the file, whose place another one is to take, is of another node; say so if
    that cannot be told, as of one that was sealed by another passphrase."""
    path = Path(file)
    if file == "-" or not path.exists() or not path.stat().st_size or keyring.fault(home, keyring.NODE):
        return

    def given() -> bytes:
        if passphrase is None:
            raise SnapshotFault("it is sealed, and no passphrase was given")
        return passphrase

    try:
        with path.open("rb", buffering=0) as content:
            said = manifest_ahead(SnapshotReader(content, given), content.fileno())
        fault = "that node had never run" if said else "an earlier program wrote it"
    except (SnapshotFault, OSError) as error:
        said, fault = None, str(error)
    if said is None or not said.router:
        note(f"{file} is replaced, and of which node its snapshot was cannot be told: {fault}")
        return
    own = {bytes(keyring.load(home, keyring.NODE).public), *own_successions.former_keys(home.key_path.parent)}
    if said.router not in own:
        whose = key_text("addr", said.router)
        raise Failure(
            Exit.USAGE, f"{file} is a snapshot of another node, {whose}: name another file, or remove that one"
        )


@contextmanager
def _written(file: str) -> Iterator[Callable[[bytes], Any]]:
    """Give what writes to the file, which gets its name when it is whole; an older one of that name is replaced, and a
    symbolic link stays one."""
    if file == "-":
        yield standard_output("name a file").write
        return
    with whole_file(Path(file).resolve()) as out, closing(SteadyWriter(out)) as steady:
        yield steady.write
        steady.finish()


def _ask_gone() -> None:
    if not input_at_terminal():
        said = "this asks first whether the node that it was taken of is gone, and standard input is no terminal"
        raise Failure(Exit.USAGE, f"{said}: give --yes if that one never runs again")
    if not click.confirm("Will the node that it was taken of, and any other copy of it, never run again?", err=True):
        raise Failure(Exit.FAILED, "nothing was restored: two nodes with one key would take each other's messages")


def _ask_passphrase(file: Path | None, *, is_new: bool = False) -> bytes:
    if file is None:
        if not input_at_terminal():
            remedy = "give --passphrase-file PATH" + (", or --plain" if is_new else "")
            raise Failure(Exit.USAGE, f"the passphrase cannot be asked for without a terminal: {remedy}")
        found: Any = click.prompt("Passphrase", hide_input=True, confirmation_prompt=is_new, err=True)
        return str(found).encode()
    try:
        return read_passphrase(file)
    except SnapshotFault as error:
        raise Failure(Exit.USAGE, str(error)) from None
