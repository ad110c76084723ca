"""The node's event log while it runs: committed values go into the open segment; sealed ones leave the store."""

from __future__ import annotations

import logging
from contextlib import suppress

import trio

from router.core.log.account import AccountCopy
from router.core.log.events import Logged, decode_events
from router.core.wire.codec import Malformed
from router.core.wire.link_items import LogHead
from router.core.wire.now import Now
from router.disk.log import account_file
from router.disk.log.alarm_lines import standing_by
from router.disk.log.eventlog import Segments
from router.disk.log.file import LogNotWritten
from router.disk.log.index import IndexedLines
from router.disk.log.sealer import Closing, Sealer
from router.disk.log.search import LogSnapshot
from router.disk.store.store import Store

log = logging.getLogger(__name__)

REPLAY_VALUES = 1_000
PRUNE_EVERY_S = 60.0
COMPRESSED_MAX = 8
"""Most segments compressed at a time, while the next one cannot be closed: under a second of a core."""


class Logbook:
    """Feeds the sealer. The store keeps every value until a segment holds it, so a failing disk loses nothing.

    `account`: what the events leave open, and the alarms that stand. A segment with an alarm is closed at once, so that
    whoever reads the log learns of it.
    """

    def __init__(self, segments: Segments, store: Store, keep_s: float, keep_bytes: int) -> None:
        self._segments = segments
        self._store = store
        self._keep_s = keep_s
        self._keep_bytes = keep_bytes
        self._sealer = Sealer(segments)
        self.account = account_file.read(
            segments.directory,
            segments.router,
            segments.last_sealed(),
            store.next_seq,
            lambda: standing_by(segments.kept()),
        )
        self._has_alarm = False
        self._has_sealed = False
        self._pruned_at_s = 0.0
        self._is_compressing = False
        self._behind = True
        self._is_writing = False
        self._sealed = 0

    def __repr__(self) -> str:
        return f"<logbook: {self._sealer!r}>"

    def head(self) -> LogHead | None:
        seq, digest = self._segments.head()
        return LogHead(seq, digest) if seq else None

    def newest_ns(self) -> int:
        """Return the wall time of the newest event, sealed or not; 0 if none can be read."""
        try:
            return max(self._segments.newest_ns(), self._store.newest_ns())
        except Malformed:  # it will be a gap
            return self._segments.newest_ns()

    def committed(self, logged: Logged, now: Now) -> None:
        """Log the events of a transaction that has been committed."""
        if self._behind:
            return  # `catch_up` will read it from the store, in order
        try:
            self._add_events(logged, now)
        except LogNotWritten as error:
            self._fail(error)

    def _add_events(self, logged: Logged, now: Now) -> None:
        self._has_alarm |= self.account.note(logged)
        self._sealer.add_events(logged, now.mono_s)

    def _fail(self, error: LogNotWritten) -> None:
        self._behind = True
        log.error("%s", error)

    def catch_up(self, now: Now) -> None:
        """Give the sealer all values that the store still holds, at the start and after the disk failed."""
        at = self._sealer.next_seq - 1
        try:
            while values := self._store.log_values(at, REPLAY_VALUES):
                for _, value in values:
                    self._add(value, now)
                at = values[-1][0]
        except LogNotWritten as error:
            self._fail(error)
        else:
            self._behind = False

    def _add(self, value: bytes, now: Now) -> None:
        """Give the sealer a value; skip one that cannot be decoded, which leaves a gap in the log."""
        try:
            logged = decode_events(value)
        except Malformed as error:
            log.error("an event value in the store cannot be read and becomes a gap in the log: %s", error)
        else:
            self._add_events(logged, now)

    def is_behind(self) -> bool:
        """Whether events wait in the store because the log could not be written."""
        return self._behind

    def behind_events(self) -> int:
        """Return how many events wait in the store for the log; numbers that a new life skipped are none."""
        life, at = self._store.life, self._sealer.next_seq
        skipped = life.first_seq - life.after_seq - 1 if at <= life.after_seq + 1 else 0
        return max(0, self._store.next_seq - at - skipped)

    def log(self) -> LogSnapshot:
        """Return the present log, for a search in a thread."""
        unsealed: list[IndexedLines] = []
        try:
            unsealed = self._sealer.unsealed()
        except LogNotWritten as error:
            self._fail(error)
        kept, spoilt = self._segments.kept(), self._segments.spoilt()
        return LogSnapshot(kept, unsealed, self._segments.pruned_seq, self._behind, spoilt, self._store.next_seq)

    def sealed_seq(self) -> int:
        """Return the last sequence number that segments hold."""
        return self._segments.last_sealed()

    def close(self) -> None:
        """Discard the open segment; the store still has its values."""
        self._sealer.close()

    def sealed(self, now: Now) -> int:
        """Return the sequence number up to which the store may delete its values, or 0; each number is returned
        once."""
        if self._behind:
            self.catch_up(now)
        sealed, self._sealed = self._sealed, 0
        return sealed

    def take_missing(self) -> int:
        """Return how many events were found missing since the last call; numbers that a new life skips are none."""
        return self._sealer.take_missing()

    def take_sealed(self) -> bool:
        """Whether a segment was closed by its size or age since the last call."""
        sealed, self._has_sealed = self._has_sealed, False
        return sealed

    def is_due(self, now: Now) -> bool:
        """Whether it is time to seal, to prune, or to compress."""
        return not self._is_writing and (self._is_full(now) or self._is_overgrown(now))

    def _is_full(self, now: Now) -> bool:
        return not self._behind and self._sealer.due(now.mono_s, early=self._has_alarm)

    def _is_overgrown(self, now: Now) -> bool:
        return self._is_compressing or now.mono_s - self._pruned_at_s > PRUNE_EVERY_S

    def is_idle(self, now: Now) -> bool:
        """Whether nothing was logged for so long that the log is to say that the node runs."""
        return not self._behind and self._sealer.is_idle(now.mono_s)

    async def tidy(self, now: Now) -> None:
        """Seal, prune and compress where it is due. A thread waits for the disk; events committed meanwhile go into
        the next segment."""
        if self._is_writing:
            return
        self._is_writing = True
        closing: Closing | None = None
        is_full = self._is_full(now)
        is_early = is_full and not self._sealer.due(now.mono_s)
        try:
            closing = self._sealer.begin_seal() if is_full else None
            self._has_alarm &= not is_full
            account = self.account.copy(account_file.RECIPIENTS_MAX) if is_full else None
            await trio.to_thread.run_sync(self._write, closing, account, now)
        except LogNotWritten as error:
            self._fail(error)
        finally:
            self._sealer.end_seal()
            self._is_writing = False
        if closing is not None and closing.is_done:
            self._sealed = closing.footer.last_seq
            self._has_sealed |= not is_early

    def _write(self, closing: Closing | None, account: AccountCopy | None, now: Now) -> None:
        if closing is not None:
            closing.write()
        if account is not None:
            with suppress(OSError):  # The next start can do without.
                account_file.write(self._segments.directory, self._segments.router, account)
        if self._is_overgrown(now):
            self._pruned_at_s = now.mono_s
            self._segments.prune(now.wall_s, self._keep_s, self._keep_bytes)
            self._compress(now)

    def _compress(self, now: Now) -> None:
        """Compress old segments, if that is set. What fails leaves them as they are, and is tried again later."""
        after_s = self._segments.limits.compress_after_s
        self._is_compressing = False
        try:
            if after_s:
                done = self._segments.compress(now.wall_s, after_s, COMPRESSED_MAX)
                self._is_compressing = done == COMPRESSED_MAX
        except OSError as error:
            said = "segments of the event log in %s are not compressed: %s; make room there, or mend the disk"
            log.warning(said, self._segments.directory, error.strerror or error)
