"""What older versions kept of an app in four places, taken over into its state once, in one transaction.

    apps/NAME.seq      sequence numbers: lines of a group's key and a number
    apps/NAME.prekeys  the secrets of prekeys, 32 bytes each, the oldest first
    apps/NAME.failed   failed attempts: lines of an id and a count
    a journal          SQLite: handled ids, and heads of groups

The files are kept beside until the app has stopped in order once, so that the older version can still be started after
a crash. The table `taken` says what was taken over: if a file differs, the older version has run again meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from router.client.errors import JournalError
from router.core.wire.crypto import ID_BYTES, KEY_BYTES, digest
from router.core.wire.lifetime import expiry_min
from router.disk import private_file
from router.disk.state.app_rows import AppBatch, AppRows, Until
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError

if TYPE_CHECKING:
    import sqlite3

TAKEN, APPS_ROW = "taken", b"apps"
KINDS = ("seq", "prekeys", "failed")
GIVEN_OUT_S = 86_400
"""How long a prekey is given out, as `PrekeyLimits.renew_min` has it."""
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
        """Return what they hold, unless the rows say that it was taken over. If the older version was started again
        since, no number is used twice. Raise `StateError` for a damaged file."""
        batch = AppBatch()
        if not any(os.path.lexists(path) for path in self._paths.values()):
            return batch
        with private_file.alone(self._folder):
            found = {kind: self._read(path) for kind, path in self._paths.items()}
            mark = digest(b"".join(digest(data) for data in found.values()))
            if rows.get(TAKEN, APPS_ROW) == mark:
                return batch
            for kind, (take, lost) in _TAKES.items():
                try:
                    take(batch, rows, found[kind], _modified_s(self._paths[kind]))
                except ValueError:
                    raise StateError(f"{self._paths[kind]} is damaged; move it away, and {lost}") from None
        batch.put(TAKEN, APPS_ROW, mark)
        return batch

    def _read(self, path: Path) -> bytes:
        try:
            return private_file.read(path, FILE_BYTES_MAX)
        except FileNotFoundError:
            return b""
        except private_file.Exposed as exposed:
            said = f"{path} can be read or changed by others (mode {exposed.mode:03o})"
            raise StateError(f"{said}; run: chmod 600 {path}") from None

    def remove(self) -> None:
        """Remove the files, which were taken over; the secrets of prekeys are overwritten. Raise `OSError`."""
        for kind, path in self._paths.items():
            if not os.path.lexists(path):
                continue
            if kind == "prekeys":
                private_file.erase(path)
            else:
                path.unlink()


def _take_numbers(batch: AppBatch, rows: AppRows, data: bytes, made_s: int) -> None:
    for line in data.decode("ascii").splitlines():
        text, number = line.split()
        group = _exactly(bytes.fromhex(text), KEY_BYTES)
        batch.numbers[group] = max(int(number), rows.number(group))


def _take_prekeys(batch: AppBatch, rows: AppRows, data: bytes, made_s: int) -> None:
    if len(data) % KEY_BYTES:
        raise ValueError("a secret is cut short")
    known = rows.rows("prekeys")
    seeds = {row[-KEY_BYTES:] for _, row in known}
    number = 1 + int.from_bytes(known[-1][0], "big") if known else 0
    for at in range(0, len(data), KEY_BYTES):
        if (seed := data[at : at + KEY_BYTES]) not in seeds:
            batch.put("prekeys", number.to_bytes(8, "big"), prekey_row(seed, made_s), secret=True)
            number += 1


def _take_attempts(batch: AppBatch, rows: AppRows, data: bytes, made_s: int) -> None:
    for order, line in enumerate(data.decode("ascii").splitlines()):
        id, count = line.split()
        batch.put("failed", _exactly(bytes.fromhex(id), ID_BYTES), attempts_row(order, int(count)))


_TAKES: dict[str, tuple[Callable[[AppBatch, AppRows, bytes, int], None], str]] = {
    "seq": (_take_numbers, "sequence numbers begin again at 0"),
    "prekeys": (_take_prekeys, "a new prekey is made: what was sealed to earlier ones cannot be opened any more"),
    "failed": (_take_attempts, "attempts are counted anew"),
}


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
    """Return when a file was changed last, at most a day ago: its prekeys, which had no end, are given out no more, and
    open for a week what is under way to them."""
    try:
        modified_s = int(path.stat().st_mtime)
    except OSError:
        modified_s = 0
    return max(modified_s, int(time.time()) - GIVEN_OUT_S)


# -- the journal of an older version ---------------------------------------------------------------------------------


def is_sqlite(head: bytes) -> bool:
    """Whether a file that begins so is a journal of an older version."""
    return head.startswith(_SQLITE)


def take_over_journal(state: AppState, path: Path, id: bytes, now_min: int) -> bytes:
    """Take an older version's journal over under the id `id`, and return that; if it was taken over, the id of then.
    Raise `JournalError`, `StateError`."""
    name = b"journal/" + digest(os.fsencode(path.resolve()))
    known = state.get(TAKEN, name)
    id, upto = (known[:-8], int.from_bytes(known[-8:], "big")) if known else (id, -1)
    sqlite3 = _load_sqlite()
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)) as database:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("BEGIN IMMEDIATE")
            last, count = database.execute("SELECT coalesce(max(n), 0), count(*) FROM handled").fetchone()
            if last > upto:  # not at all yet, or the older version was started again since
                batch = _journal_batch(database, id, upto)
                batch.put(TAKEN, name, id + last.to_bytes(8, "big"))
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


def _load_sqlite() -> Any:
    """Return the module, which takes 0.9 MB that hardly any process needs."""
    import sqlite3

    return sqlite3


def _journal_batch(database: sqlite3.Connection, id: bytes, upto: int) -> AppBatch:
    def handled() -> Iterator[Until]:
        for one, until_s in database.execute("SELECT id, until_s FROM handled WHERE n > ? ORDER BY id", (upto,)):
            yield id + one, expiry_min(until_s)

    heads: dict[bytes, list[Until]] = {}
    for group, one, until_min in database.execute("SELECT grp, id, until_min FROM heads ORDER BY grp, n"):
        heads.setdefault(id + group, []).append((one, until_min))
    return AppBatch(heads={**heads}, handled_before=handled)
