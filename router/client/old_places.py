"""What older versions kept of an app in four places, taken over into its state once, in one transaction.

    apps/NAME.seq      sequence numbers: lines of a group's key and a number
    apps/NAME.prekeys  the secrets of prekeys, 32 bytes each, the oldest first
    apps/NAME.failed   failed attempts: lines of an id and a count
    a journal          SQLite: handled ids, and heads of groups

The files are kept beside until the app has stopped in order once, so that the older version can still be started after
a crash. What was taken over is named in the table `taken`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from router.client.errors import JournalError
from router.core.wire.crypto import ID_BYTES, KEY_BYTES, digest
from router.core.wire.lifetime import expiry_min
from router.disk import private_file
from router.disk.state.app_rows import AppBatch, AppRows, Until
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError

TAKEN, APPS_ROW = "taken", b"apps"
KINDS = ("seq", "prekeys", "failed")
FILE_BYTES_MAX = 16 << 20
ROW_BYTES = 256
"""A generous size of one handled id in a state, with its share of half-empty pages."""
_SQLITE = b"SQLite format 3\0"

T = TypeVar("T")


class OldAppFiles:
    """The files of an older version beside the state of the app `name`, in `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._paths = {kind: folder / f"{name}.{kind}" for kind in KINDS}

    def __repr__(self) -> str:
        return f"<old files {self._paths['seq'].stem}.* in {self._folder}>"

    def take_over(self, rows: AppRows) -> AppBatch:
        """Return what they hold, unless the rows say that it was taken over. Raise `StateError` for a damaged one."""
        batch = AppBatch()
        if rows.get(TAKEN, APPS_ROW) is None:
            with private_file.alone(self._folder):
                self._read("seq", "sequence numbers begin again at 0", lambda data: _take_numbers(batch, data))
                made_s = _modified_s(self._paths["prekeys"])
                lost = "a new prekey is made: what was sealed to earlier ones cannot be opened any more"
                self._read("prekeys", lost, lambda data: _take_prekeys(batch, data, made_s))
                self._read("failed", "attempts are counted anew", lambda data: _take_attempts(batch, data))
            batch.put(TAKEN, APPS_ROW, b"1")
        return batch

    def _read(self, kind: str, lost: str, take: Callable[[bytes], None]) -> None:
        path = self._paths[kind]
        try:
            take(private_file.read(path, FILE_BYTES_MAX))
        except FileNotFoundError:
            return
        except private_file.Exposed as exposed:
            said = f"{path} can be read or changed by others (mode {exposed.mode:03o})"
            raise StateError(f"{said}; run: chmod 600 {path}") from None
        except ValueError:
            raise StateError(f"{path} is damaged; move it away, and {lost}") from None

    def remove(self) -> None:
        """Remove the files, which were taken over; the secrets of prekeys are overwritten. Raise `OSError`."""
        for kind, path in self._paths.items():
            if not os.path.lexists(path):
                continue
            if kind == "prekeys":
                private_file.erase(path)
            else:
                path.unlink()


def _take_numbers(batch: AppBatch, data: bytes) -> None:
    for line in data.decode("ascii").splitlines():
        group, number = line.split()
        batch.numbers[_exactly(bytes.fromhex(group), KEY_BYTES)] = int(number)


def _take_prekeys(batch: AppBatch, data: bytes, made_s: int) -> None:
    if len(data) % KEY_BYTES:
        raise ValueError("a secret is cut short")
    for number, at in enumerate(range(0, len(data), KEY_BYTES)):
        batch.put("prekeys", number.to_bytes(8, "big"), prekey_row(data[at : at + KEY_BYTES], made_s), secret=True)


def _take_attempts(batch: AppBatch, data: bytes) -> None:
    for order, line in enumerate(data.decode("ascii").splitlines()):
        id, count = line.split()
        batch.put("failed", _exactly(bytes.fromhex(id), ID_BYTES), attempts_row(order, int(count)))


def prekey_row(seed: bytes, made_s: int) -> bytes:
    """Return a row of the table `prekeys`: the Unix second at which the prekey was made, and its secret."""
    return made_s.to_bytes(8, "big") + _exactly(seed, KEY_BYTES)


def attempts_row(order: int, count: int) -> bytes:
    """Return a row of the table `failed`: the place among all in which it failed last, and how often it failed."""
    return order.to_bytes(8, "big") + count.to_bytes(4, "big")


def _exactly(value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise ValueError(f"{len(value)} bytes, not {size}")
    return value


def _modified_s(path: Path) -> int:
    try:
        return int(path.stat().st_mtime)
    except OSError:
        return 0


# -- the journal of an older version ---------------------------------------------------------------------------------


def is_sqlite(head: bytes) -> bool:
    """Whether a file that begins so is a journal of an older version."""
    return head.startswith(_SQLITE)


def take_over_journal(state: AppState, path: Path, id: bytes, now_min: int) -> bytes:
    """Take an older version's journal over under the id `id`, and return that; if it was taken over, the id of then.
    Raise `JournalError`, `StateError`."""
    name = b"journal/" + digest(os.fsencode(path.resolve()))
    if known := state.get(TAKEN, name):
        return known
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)) as database:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("BEGIN IMMEDIATE")
            batch = _journal_batch(database, id)
            batch.put(TAKEN, name, id)
            [count] = database.execute("SELECT count(*) FROM handled").fetchone()
            state.grow(count * ROW_BYTES)
            state.commit(batch, now_min)
            database.execute("ROLLBACK")
    except sqlite3.Error as error:
        if "locked" in str(error):
            said = f"the journal {path} is in use by another process"
            raise JournalError(f"{said}; stop that one first") from None
        advice = "see to its disk, or move a damaged file away"
        raise JournalError(f"the journal {path} cannot be taken over: {error}; {advice}") from None
    return id


def _journal_batch(database: sqlite3.Connection, id: bytes) -> AppBatch:
    def handled() -> Iterator[Until]:
        for one, until_s in database.execute("SELECT id, until_s FROM handled ORDER BY id"):
            yield id + one, expiry_min(until_s)

    heads: dict[bytes, list[Until]] = {}
    for group, one, until_min in database.execute("SELECT grp, id, until_min FROM heads ORDER BY grp, n"):
        heads.setdefault(id + group, []).append((one, until_min))
    return AppBatch(heads={**heads}, handled_before=handled)
