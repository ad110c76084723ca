"""What became of a message on a node that does not run: its log and its store are read under the home's lock."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from router.cli.exits import Exit, Failure
from router.core.effects import Now
from router.core.fate import Prospect, fate
from router.core.id_prefix import IdPrefix
from router.disk.eventlog import Limits, Segments
from router.disk.log_search import Found, Search
from router.disk.logbook import Logbook
from router.disk.store import Store
from router.disk.store_file import DATA
from router.disk.store_terms import StoreLimits
from router.fate_answers import not_one, one
from router.settings import config, keyring
from router.settings.home import Home


def why(home: Home, prefix: IdPrefix) -> dict[str, Any]:
    """The same answer as a running node's; `HomeBusy` if one has begun to run."""
    settings = config.load(home.config_path)[0]
    if not (home.store_path / DATA).exists():
        raise Failure(Exit.FAILED, f"the node in {home.path} has never run: its log is empty")
    now = Now(time.time_ns(), time.monotonic_ns())
    with home.lock():
        store = Store(home.store_path, StoreLimits(), bytes(16))
        try:
            segments = Segments(home.log_path, keyring.load(home, keyring.NODE), Limits())
            logbook = Logbook(segments, store, 0, 0)
            try:
                logbook.catch_up(now)
                found = Search(logbook.log()).find(prefix)
            finally:
                logbook.close()
            return _answer(prefix, found, partial(_prospect, store), now, settings.limits.ttl_s_max)
        finally:
            store.close()


def _answer(prefix: IdPrefix, found: Found, prospect_of: partial[Prospect], now: Now, ttl_s_max: int) -> dict[str, Any]:
    if found.trace is None:
        return not_one(prefix, found)
    return one(found, found.trace, fate(found.trace, prospect_of, now.wall_ns, ttl_s_max), {})


def _prospect(store: Store, recipient: str, first: int, index: int) -> Prospect:
    return Prospect(is_owed=store.owes(bytes.fromhex(recipient), first, index), is_running=False)
