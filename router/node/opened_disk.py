"""The store and the event log of a home, opened together and compared."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from msgspec import Struct

from router.core.log.events import decode_events
from router.core.routing.recovered import Belief, Recovered
from router.core.wire.codec import Malformed
from router.core.wire.crypto import SigningKey
from router.core.wire.now import Now
from router.disk import life_file
from router.disk.log.eventlog import Segments
from router.disk.log.logbook import Logbook
from router.disk.store.commit_thread import CommitThread
from router.disk.store.store import Store
from router.disk.store.terms import Beginning
from router.node import wall_clock
from router.node.limits import log_limits, store_limits
from router.settings import last_start, own_successions
from router.settings.config import Config
from router.settings.home import Home

log = logging.getLogger(__name__)

VALUES = 1_000
"""Number of transactions that are read at once, to compare their events with the log."""

STORE_IS_GONE = (
    "the store in %s is new and empty, but the log beside it counts %d events: what was in custody here is gone, and "
    "so are queues and subscriptions. If that was not meant, stop the node, move both away and restore store/ and log/ "
    "from a copy of one moment; to begin afresh without this warning, move log/ away as well"
)
STORE_IS_MISSED = (
    "the store in %s is new and empty, but this home's node has run before: what was in custody here is gone, and so "
    "are queues, subscriptions and the log of the last run. If that was not meant, stop the node and restore store/ "
    "and log/ from a copy of one moment; after a restore of keys and settings alone it is as it should be"
)
STORE_IS_OLDER = (
    "the store in %s is older than the log beside it, which counts %d events: the store gives the numbers from %d on "
    "to others. What came into custody here in between may be gone, and what was delivered may be delivered again. The "
    "log goes on from its own end, and names the gap. If that was not meant, stop the node now and restore store/ and "
    "log/ from a copy of one moment; what is accepted until then is lost with it"
)
LOG_IS_SHORT = (
    "the log in %s lacks %d events after the first %d, which the store beside it has handed over: what became of those "
    "messages can no longer be told, and the log will name the gap. If you have them, stop the node and restore the "
    "segments of log/"
)


class OpenedDisk(Struct, frozen=True):
    """The store, the log, and what was recovered from the store."""

    store: Store
    logbook: Logbook
    recovered: Recovered

    def clock(self) -> Belief | None:
        """Return the last judgement of the clock, or that by the newest event; None if there is neither."""
        newest_ns = self.logbook.newest_ns()
        first = Belief(newest_ns, newest_ns, wall_clock.ClockState.BELIEVED.value) if newest_ns else None
        return self.recovered.clock or first


@contextmanager
def open_disk(home: Home, config: Config, key: SigningKey, now: Now) -> Iterator[OpenedDisk]:
    """Open both, and warn the operator if one of them lacks what the other has seen."""
    with (
        closing(CommitThread()) as commits,
        closing(Store(home.store_path, store_limits(config), secrets.token_bytes(16), commits)) as store,
    ):
        chain = own_successions.load(home.key_path.parent, key.public)
        segments = Segments(home.log_path, key, log_limits(config), chain)
        sealed = segments.last_sealed()  # without its store a log goes on after a gap, which it records
        beginning = Beginning(secrets.token_bytes(8), now.wall_ns // 1000, sealed + 2 if sealed else 1)
        recovered = store.recover(bytes(key.public), beginning)
        if sealed and recovered.epoch == beginning.epoch:
            log.warning(STORE_IS_GONE, home.store_path, sealed)
        elif recovered.epoch == beginning.epoch and last_start.is_kept(home.path):
            log.warning(STORE_IS_MISSED, home.store_path)
        elif repeated := _first_repeated(store, segments, sealed):
            log.warning(STORE_IS_OLDER, home.store_path, sealed, repeated)
            recovered.next_arrival = store.renumber(repeated, beginning)
        elif (lacking := _first_unsealed(store, sealed) - sealed - 1) > 1:  # 1: the gap after a store that is gone
            log.warning(LOG_IS_SHORT, home.log_path, lacking, sealed)
        if _is_restored_since(home, store):
            recovered = store.recover(bytes(key.public), beginning)
        with closing(Logbook(segments, store, config.log.keep_s, config.log.keep_bytes)) as logbook:
            yield OpenedDisk(store, logbook, recovered)


def _is_restored_since(home: Home, store: Store) -> bool:
    """Whether the home was restored since its store was used last; then the store has begun a new life."""
    restored = life_file.read(home.path)
    if restored is None or restored.life <= store.life.number:
        return False
    store.begin_life(restored)
    return True


def _first_unsealed(store: Store, sealed: int) -> int:
    """Return the sequence number of the first event that only the store holds, after those in segments; numbers that
    were skipped where a life began are in neither."""
    values = store.log_values(sealed, 1)
    found, life = values[0][0] if values else store.next_seq, store.life
    return min(found, sealed + 1) if found == life.first_seq and sealed >= life.after_seq else found


def _first_repeated(store: Store, segments: Segments, sealed: int) -> int:
    """Return the first sequence number that segments hold and the store gives to another event, or will give; 0 if
    there is none.

    A store may hold events that segments hold too. They are others if another run of the node wrote them."""
    held = list(_held(store, sealed))
    runs = segments.runs(held[0][0], held[-1][0]) if held else {}
    for seq, boot in held:
        first, last = runs.get(boot, (0, -1))
        if not first <= seq <= last and any(first <= seq <= last for first, last in runs.values()):
            return seq
    return store.next_seq if store.next_seq <= sealed else 0


def _held(store: Store, sealed: int) -> Iterator[tuple[int, str]]:
    """Yield the first sequence number of each transaction that the store holds and segments cover, and its boot id."""
    after = 0
    while values := [one for one in store.log_values(after, VALUES) if one[0] <= sealed]:
        for seq, value in values:
            with suppress(Malformed):  # it becomes a gap
                yield seq, decode_events(value).boot.hex()
        after = values[-1][0]
