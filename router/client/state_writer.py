"""Write what an app's parts decide to its state: all that waits in one commit, so that one sync is enough for many.

A loop does not wait for the disk: it gathers what is to be written, and goes on. What is gathered while one commit runs
goes into the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import trio

from router.client.bell import Bell
from router.client.errors import JournalError
from router.client.interrupts import uninterrupted
from router.core.wire.lifetime import expiry_min
from router.disk.state.app_rows import AppBatch, Until
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError


def nothing() -> None:
    """Do nothing once rows are on disk."""


@uninterrupted
class StateWriter:
    """The writer of one app's state. `on_failed` is called when what was gathered could not be written: `check` raises
    why, and what is gathered later is tried together with it."""

    def __init__(self, state: AppState, wall_s: Callable[[], float], on_failed: Callable[[], object] = nothing) -> None:
        self.state = state
        self.written = 0
        """How many gathered batches are on disk."""
        self._wall_s = wall_s
        self._on_failed = on_failed
        self._batch = AppBatch()
        self._then: list[Callable[[], None]] = []
        self._heads: dict[bytes, Callable[[], Sequence[Until]]] = {}
        self._added = 0
        self._is_writing = False
        self._failed: JournalError | None = None
        self._work = Bell()
        self._lot = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<writer of {self.state!r}: {self.written} batches written, {len(self._then)} wait>"

    @property
    def now_min(self) -> int:
        """Return the present minute, before which nothing is needed any more."""
        return expiry_min(self._wall_s())

    def gather(self, batch: AppBatch, then: Callable[[], None] = nothing) -> None:
        """Add the batch to the next commit of `run`; `then` is called when it is on disk."""
        self._batch.take(batch)
        self._added += 1
        self._then.append(then)
        self._work.ring()

    def keep_heads(self, place: bytes, heads: Callable[[], Sequence[Until]]) -> None:
        """Write the result of `heads` at the next commit; see `AppBatch.heads`."""
        self._heads[place] = heads

    async def write(self, batch: AppBatch) -> None:
        """Return when the batch is on disk. Many tasks may wait at once; they share commits. Raise `JournalError`."""
        self.gather(batch)
        mine = self._added
        while self.written < mine:
            if self._is_writing:
                await self._lot.park()
            else:
                await self._write_what_waits()

    async def run(self) -> None:
        """Write what is gathered, all that waits in one commit, until cancelled."""
        while True:
            await self._work.wait()
            try:
                await self.flush()
            except JournalError as error:
                self._failed = error
                self._on_failed()

    async def flush(self) -> None:
        """Return when all that is gathered is on disk. Raise `JournalError`."""
        while self._then or self._is_writing:
            if self._is_writing:
                await self._lot.park()
            else:
                await self._write_what_waits()

    def check(self) -> None:
        """Raise, once, the error that kept `run` from writing; what is gathered later makes it try again."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def take(self) -> tuple[AppBatch, list[Callable[[], None]]]:
        """Return what waits for the next commit, and what is called when it is on disk; it waits no longer."""
        batch, self._batch = self._batch, AppBatch()
        then, self._then = self._then, []
        changed, self._heads = self._heads, {}
        batch.heads.update({place: heads() for place, heads in changed.items()})
        return batch, then

    async def _write_what_waits(self) -> None:
        batch, then = self.take()
        self._is_writing = True
        try:
            await trio.to_thread.run_sync(self.state.commit, batch, self.now_min)
        except BaseException as error:
            batch.take(self._batch)
            self._batch = batch
            self._then[:0] = then
            if isinstance(error, StateError):
                raise JournalError(str(error)) from None
            raise
        else:
            self.written += len(then)
            for act in then:
                act()
        finally:
            self._is_writing = False
            self._lot.unpark_all()


def leave_states(states: Iterable[AppState]) -> None:
    """Leave the disk; files of an older version, which are taken over by now, go with the first stop in order."""
    for state in states:
        with suppress(OSError):  # what cannot be removed now stays beside, and is not read again
            state.remove_old()
        state.close()
