"""One snapshot that the running node makes by itself, in a process of its own:
`python -m router.node.snapshot_process HOME KEY DIRECTORY KEEP PASSPHRASE_FILE`; no passphrase file: it stays plain.

It prints one line of JSON, `SnapshotDone` or `SnapshotFailed`. When the node ends, so does this process, and leaves
nothing behind.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from secrets import token_bytes
from types import FrameType
from typing import NoReturn

from msgspec import Struct, json

from router.actors.process import STOP_SIGNALS, end_with_parent
from router.disk.snapshot import directory as snapshots
from router.disk.snapshot import take
from router.disk.snapshot.form import SnapshotReader, SnapshotWriter, seal_key
from router.disk.snapshot.in_order import CALM, keep_large_blocks
from router.disk.snapshot.series import next_name, of_home
from router.disk.snapshot.steady_writer import SteadyWriter
from router.disk.snapshot.terms import SALT_BYTES, Cost, SnapshotFault, usual_cost
from router.settings import core_dumps
from router.settings.own_successions import former_keys


class SnapshotDone(Struct, frozen=True, tag="done"):
    """A snapshot is whole and has been read: its name, Unix time and size, how long commits waited for it, how many
    snapshots of this home the directory has now, and which databases were damaged."""

    name: str
    at_s: int
    bytes: int
    held_s: float
    kept: int
    damaged: list[str]


class SnapshotFailed(Struct, frozen=True, tag="failed"):
    """There is no snapshot; why, and what to do."""

    problem: str


def make(
    home: Path,
    router: bytes,
    directory: Path,
    keep: int,
    seal: tuple[bytes, Cost] | None,
    on_copied: Callable[[], object] = int,
) -> SnapshotDone:
    """Write a snapshot, read it back, and then remove the oldest ones, so that `keep` stay. `on_copied` is called
    when the node's commits go on. Raise `SnapshotFault`, or `OSError` of the disk; older ones are all there then."""
    snapshots.check_directory(directory, home)
    formers, tag, key = former_keys(home / "keys"), snapshots.home_tag(home), seal_key(*seal) if seal else None
    with take.staged(home) as copies:
        on_copied()
        snapshots.remove_drafts(directory, router, formers, tag)
        try:
            name = next_name(router, snapshots.look(directory, router, formers), copies.at_s, tag)
        except ValueError as error:
            raise SnapshotFault(f"{error} out of {directory}") from None
        with snapshots.whole_file(directory / name) as out:
            with closing(SteadyWriter(out)) as steady:
                manifest = take.write(home, copies, SnapshotWriter(steady.write, key))
                steady.finish()
            os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # what is read next is what the disk has
            out.seek(0)
            _read_back(SnapshotReader(out, lambda: seal[0] if seal else b""), directory)
    snapshots.remove_expired(directory, router, keep, formers, tag)
    size, kept = (directory / name).stat().st_size, len(of_home(snapshots.look(directory, router, formers), tag))
    return SnapshotDone(name, copies.at_s, size, copies.held_s, kept, manifest.damaged)


def _read_back(reader: SnapshotReader, directory: Path) -> None:
    try:
        reader.read(lambda _: lambda _: None)
    except SnapshotFault:
        raise SnapshotFault(f"what was written to {directory} is read back otherwise: see to that disk") from None


def _result(home: Path, router: bytes, directory: Path, keep: int, file: str) -> SnapshotDone | SnapshotFailed:
    try:
        seal = (snapshots.read_passphrase(Path(file)), usual_cost(token_bytes(SALT_BYTES))) if file else None
        return make(home, router, directory, keep, seal, partial(os.nice, CALM))
    except SnapshotFault as error:
        return SnapshotFailed(str(error))
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return SnapshotFailed(f"{error.strerror or error}{where}; mend that, or choose another directory")


def _end(number: int, _: FrameType | None) -> NoReturn:
    """End, and let what was begun be removed; a second signal does not disturb that."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> None:
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    for number in STOP_SIGNALS:  # of a terminal or a service manager: the node handles them, and closes the pipe
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    core_dumps.hide_memory()
    keep_large_blocks()
    end_with_parent()
    home, router, directory, keep, file = sys.argv[1:]
    sys.stdout.buffer.write(json.encode(_result(Path(home), bytes.fromhex(router), Path(directory), int(keep), file)))


if __name__ == "__main__":
    main()
