"""An app's durable state: all that it has to remember, in one place, so that what one decision writes commits together.

    state = AppState(path)                 # nothing is read before the first use; AppState.memory() is on no disk
    batch = AppBatch()
    batch.handled.append((journal + id, until_min))              # a message that was handled
    batch.put("prekeys", b"\\0\\0\\0\\1", seed, secret=True)      # any row of any table; a secret one is sealed
    batch.remove("prekeys", b"\\0\\0\\0\\0")
    batch.forgets = True                   # what was secret and is no longer kept cannot be read any more
    state.commit(batch, now_min)           # all of it, or nothing; on disk when this returns

    state.get("prekeys", b"\\0\\0\\0\\1")    # and rows(table, prefix), known(keys), heads(place), number(group)
    state.change(decide, now_min)          # decide(rows) reads, and returns the batch, in one transaction

An app with a name, or a key of its own, has it in `apps/NAME.state/` of the home, where LMDB keeps it; several
processes of one name may use it at once. cddl/app-state.cddl has its form. A commit may run in a thread; a loop does
not wait for the disk: `router.client.state_writer.StateWriter` gathers batches, and one sync writes all of them.

    handled  journal(8) id(32)             -> minute(4)
    ends     minute(4) journal(8) id(32)   -> nothing: the handled ids in the order in which they are forgotten
    heads    journal(8) group(32)          -> id(32) minute(4), of each head, the oldest first
    numbers  group(32)                     -> the next sequence number(8) that is not reserved
    rows     table "/" key                 -> value
    secrets  table "/" key                 -> nonce(24) and the sealed value; no row is in both tables
    meta     name                          -> version, id(8) of the key to secrets
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from router.disk.state.app_rows import TABLES, AppBatch, AppRows, DiskRows, MemoryRows, Until
from router.disk.state.environment import SHARED, Environment, StateForm
from router.disk.state.handled_log import HandledLog
from router.disk.state.secrets import KeyReplaced, Secrets

IDS_MAX = 10_000_000
LOGS = "logs"
"""The table of the last record of each log that is in the state."""
OPEN_PRUNE_MAX = 10_000
"""How many handled ids that are not needed any more leave when the state is opened; the others leave with commits."""
FORM = StateForm(
    TABLES,
    1,
    "to begin anew, stop the app and move it away: its sequence numbers begin again at 0, what was sealed to its "
    "prekeys cannot be opened, and messages may be shown again",
    "and start the app again: nothing that was settled is lost",
)

T = TypeVar("T")

Decide = Callable[[AppRows], AppBatch]


class OldPlaces(Protocol):
    """The files in which an older version has kept what an app remembers."""

    def take_over(self, rows: AppRows) -> AppBatch:
        """Return what they hold, unless the rows say that it was taken over."""

    def remove(self) -> None:
        """Remove those that were taken over; secrets are overwritten. Raise `OSError`."""


class AppState:
    """The state of one app in the folder `path`; None: in memory. What `old` places hold is taken over at the first
    use. At most `ids_max` handled ids are remembered.

    All methods but `close` raise `StateError` if the disk fails them."""

    def __init__(self, path: Path | None, old: OldPlaces | None = None, ids_max: int = IDS_MAX) -> None:
        self.path = path
        self._old = old
        self._ids_max = ids_max
        self._lock = threading.RLock()
        self._memory = MemoryRows()
        self._environment: Environment | None = None
        self._secrets: Secrets | None = None
        self._log: HandledLog | None = None
        self._log_row = b""

    @classmethod
    def memory(cls) -> AppState:
        """Return a state that ends with the process."""
        return cls(None)

    def __repr__(self) -> str:
        return f"<state of an app, kept in {self.path or 'memory'}>"

    def open(self, now_min: int = 0) -> None:
        """Open it, unless that was done. What handled ids and heads are not needed at that minute leave."""
        if self.path is None or self._environment is not None:
            return
        with self._lock:
            if self._environment is not None:
                return
            environment = SHARED.open(self.path, FORM)
            try:
                secrets = Secrets(environment, "secrets")
                environment.write(partial(self._start, environment, secrets, now_min))
            except BaseException:
                SHARED.close(environment)
                raise
            self._environment, self._secrets = environment, secrets

    def _start(self, environment: Environment, secrets: Secrets, now_min: int, txn: Any) -> None:
        secrets.settle(txn)
        rows = DiskRows(txn, environment.db, secrets)
        if self._old is not None and (batch := self._old.take_over(rows)):
            rows.apply(batch, 0, self._ids_max)
        if now_min:
            rows.prune(now_min, OPEN_PRUNE_MAX, self._ids_max)
            rows.prune_heads(now_min, OPEN_PRUNE_MAX)

    @property
    def is_open(self) -> bool:
        """Whether its place on disk is in use by this process."""
        return self._environment is not None

    def remove_old(self) -> None:
        """Remove the files of an older version, which are kept until an app has stopped in order once. Raise
        `OSError`."""
        if self._old is not None and self.is_open:
            self._old.remove()

    def begin_log(self, descriptor: int, name: bytes) -> None:
        """From now on append handled messages to the log in this file, which only this process holds, under a name
        that stays with it."""
        with self._lock:
            row = self.get(LOGS, name)
            self._log_row, self._log = name, HandledLog(descriptor, int.from_bytes(row or b"", "big"))

    def end_log(self) -> None:
        """Take all of the log into the state, before its file is closed. Raise `StateError`."""
        with self._lock:
            try:
                if self._log is not None and not self._log.is_empty:
                    self.change(lambda rows: AppBatch())
            finally:
                self._log = None

    def close(self) -> None:
        """Leave the disk; the next use opens it again."""
        with self._lock:
            environment, self._environment = self._environment, None
            if environment is not None:
                SHARED.close(environment)

    # -- reading -------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[AppRows]:
        """Give the rows as of the last commit, all of one moment."""
        self.open()
        environment, secrets = self._environment, self._secrets
        if environment is None or secrets is None:
            yield self._memory
            return
        with environment.reading() as txn:
            yield DiskRows(txn, environment.db, secrets)

    def read(self, act: Callable[[AppRows], T]) -> T:
        """Return what `act` reads, all of one moment. It is called again if another process has replaced the key of the
        secrets meanwhile."""
        try:
            with self.reading() as rows:
                return act(rows)
        except KeyReplaced:
            with self.reading() as rows:
                return act(rows)

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value under a key of a table, None if there is none."""
        return self.read(lambda rows: rows.get(table, key))

    def rows(self, table: str, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """Return the keys of a table that begin so, each with its value, in order."""
        return self.read(lambda rows: rows.rows(table, prefix))

    def known(self, keys: Sequence[bytes]) -> Collection[bytes]:
        """Return the keys among these of messages that were handled."""
        log = self._log
        logged = {key for key in keys if key in log} if log is not None else set()
        with self.reading() as rows:
            return logged.union(rows.known(keys))

    def heads(self, place: bytes) -> list[Until]:
        """Return the heads of a group, oldest first, as they were written last."""
        if self._log is not None and (heads := self._log.waiting.heads.get(place)) is not None:
            return [*heads]
        with self.reading() as rows:
            return rows.heads(place)

    def number(self, group: bytes) -> int:
        """Return the next sequence number of a group that is not reserved."""
        with self.reading() as rows:
            return rows.number(group)

    # -- writing -------------------------------------------------------------------------------------------

    def commit(self, batch: AppBatch, now_min: int = 0) -> None:
        """Write all of it durably, or nothing. Handled ids that are not needed at that minute leave with it."""
        if batch and not (batch.is_of_handled and self._appended(batch)):
            self.change(lambda rows: batch, now_min)

    def _appended(self, batch: AppBatch) -> bool:
        """Whether the batch went to the log."""
        with self._lock:
            try:
                return self._log is not None and self._log.append(batch)
            except OSError:
                return False  # the state says what is wrong with the disk, or has room

    def change(self, decide: Decide, now_min: int = 0) -> AppBatch:
        """Write what `decide` returns, in the transaction in which it reads: no other process writes in between. It
        must not wait, and may be called again."""
        with self._lock:
            self.open()
            environment, secrets = self._environment, self._secrets
            if environment is None or secrets is None:
                batch = decide(self._memory)
                self._memory.apply(batch, now_min, self._ids_max)
                return batch
            batch, key = environment.write(partial(self._write, decide, now_min, environment, secrets))
            if self._log is not None:
                self._log.folded()
            if key:
                self._finish_forgetting(environment, secrets, key)
            return batch

    def _write(
        self, decide: Decide, now_min: int, environment: Environment, secrets: Secrets, txn: Any
    ) -> tuple[AppBatch, bytes]:
        rows = DiskRows(txn, environment.db, secrets)
        if self._log is not None and not self._log.is_empty:
            logged = AppBatch(self._log.waiting.handled, heads=self._log.waiting.heads)
            logged.put(LOGS, self._log_row, self._log.number.to_bytes(8, "big"))
            rows.apply(logged, now_min, self._ids_max)
        batch = decide(rows)
        return batch, rows.apply(batch, now_min, self._ids_max) if batch else b""

    def _finish_forgetting(self, environment: Environment, secrets: Secrets, key: bytes) -> None:
        """Raise `StateError` if the old key is still there; the next opening or forgetting tries again."""
        try:
            secrets.finish(key)
            self.remove_old()
        except OSError as error:
            raise environment.unusable("has forgotten, but its old key is still on the disk", error) from None

    def grow(self, map_bytes: int) -> None:
        """Prepare for a batch of about that size, so that it need not be written twice."""
        self.open()
        if self._environment is not None:
            self._environment.grow(map_bytes)
