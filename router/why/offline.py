"""The fate of a message on a node that does not run, read from its log and store under the home's lock.

If the store is missing or cannot be read, the log's closed segments are judged without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from router.cli.ask import ask
from router.cli.exits import Exit, Failure
from router.cli.services import name_with_role
from router.cli.signals import removing
from router.client.running_or_stopped import asked_or_read
from router.core.service.roles import Role
from router.core.why.fate import Carrier, Prospect, fate, time_text
from router.core.why.id_prefix import IdPrefix, parse_prefix
from router.core.wire.now import Now
from router.core.wire.text import key_text
from router.disk.limits import LogLimits, StoreLimits
from router.disk.log.eventlog import ForeignLog, Segments
from router.disk.log.file import LogNotWritten
from router.disk.log.logbook import Logbook
from router.disk.log.search import CANDIDATES_MAX, FoundEvents, LogSnapshot, Search, offered, unaccepted
from router.disk.room import DATA
from router.disk.store.file import owner
from router.disk.store.records import Records
from router.disk.store.store import Store
from router.disk.store.terms import StoreError
from router.settings import config, keyring, own_successions
from router.settings.config_services import key_name
from router.settings.home import Home
from router.why.answers import not_believed, not_one, one
from router.why.questions import DAMAGED
from router.why.sealed import sealed_json
from router.why.steps import MISREAD
from router.why.waiting import with_waiting

ProspectOf = Callable[[str, int, int], Prospect]


def why(home: Home, typed: str) -> dict[str, Any]:
    """Return the answer that the running node would give, or the node's own answer if it runs by now; with
    `store_problem` if only the log was judged. Raise `HomeBusy` if a process that cannot be asked holds the home.
    `typed`: the beginning of the id."""
    ttl_s_max = config.load(home.config_path)[0].limits.ttl_s_max
    return asked_or_read(home, partial(ask, home, "why", typed), partial(_read, home, typed, ttl_s_max))


def _read(home: Home, typed: str, ttl_s_max: int) -> dict[str, Any]:
    home.check_format()  # the states of services are opened to write
    now = Now(time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    try:
        return _by_both(home, typed, now, ttl_s_max)
    except StoreError as error:
        return _by_log(home, typed, now, ttl_s_max, _cause(home, error))


def _by_both(home: Home, typed: str, now: Now, ttl_s_max: int) -> dict[str, Any]:
    """Judge by store and log. Raise `StoreError` if the store cannot be read."""
    _check_store(home)
    with (
        closing(Store(home.store_path, StoreLimits(), bytes(16))) as store,
        _segments(home) as segments,
        closing(Logbook(segments, store, 0, 0)) as logbook,
    ):
        next_seq = store.records.load()
        logbook.catch_up(now)
        log = replace(logbook.log(), next_seq=next_seq)
        answer = _answer(home, log, typed, partial(_prospect, store), now, ttl_s_max, store.records)
        if answer.get("kind") != "unicast":
            return answer
        return answer | sealed_json(store.message(bytes.fromhex(answer["message"])))


def _check_store(home: Home) -> None:
    """Raise `StoreError` if there is no store, or if it does not hold this node's queues."""
    file = home.store_path / DATA
    try:
        size = file.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{file} is not there") from None
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror}") from None
    if not size:
        raise StoreError(f"{file} cannot be read: it is empty, of 0 bytes")
    key = owner(home.store_path)
    if key is None:
        raise StoreError(f"{file} is new: no node has written to it")
    if key != keyring.load(home, keyring.NODE).public:
        raise StoreError(f"{file} belongs to another router, {key_text('addr', key)}")


def _cause(home: Home, error: StoreError) -> str:
    """Return which file is damaged and how, without the remedy for starting the node."""
    said = str(error).partition(". To go on, ")[0]
    about = f"the store in {home.store_path} "
    return f"{home.store_path / DATA} {said.removeprefix(about)}" if said.startswith(about) else said


def _by_log(home: Home, typed: str, now: Now, ttl_s_max: int, problem: str) -> dict[str, Any]:
    with _segments(home) as segments:
        if not segments.last_sealed():
            raise Failure(Exit.FAILED, _nothing(home, problem, segments.spoilt()))
        end_ns = segments.newest_ns()
        log = LogSnapshot(segments.kept(), [], segments.pruned_seq, spoilt=segments.spoilt())
        answer = _answer(home, log, typed, lambda *_: Prospect(is_owed=None, log_end_ns=end_ns), now, ttl_s_max)
    said = f"{problem}; the log was read without it, and ends {time_text(end_ns)}"
    if "error" in answer:
        return {**answer, "error": f"{answer['error']}; {said}: newer messages were not looked for"}
    return {**answer, "store_problem": f"{said}: what is newer, or still queued, cannot be told"}


@contextmanager
def _segments(home: Home) -> Iterator[Segments]:
    """Open the log's closed segments through links in another folder. `Segments` deletes what a crash left
    half-written, which the store can restore; a damaged or missing store cannot."""
    with removing(), TemporaryDirectory() as view:
        for path in home.log_path.iterdir() if home.log_path.exists() else ():
            (Path(view) / path.name).symlink_to(path)
        try:
            key = keyring.load(home, keyring.NODE)
            chain = own_successions.load(home.key_path.parent, key.public)
            segments = Segments(Path(view), key, LogLimits(), chain)
        except ForeignLog as error:
            raise Failure(Exit.FAILED, str(error).replace(view, str(home.log_path))) from None
        except LogNotWritten as error:
            said = str(error.__cause__).replace(view, str(home.log_path))
            remedy = "mend its disk, or run this as the user it belongs to"
            raise Failure(Exit.FAILED, f"the event log in {home.log_path} cannot be read: {said}; {remedy}") from None
        yield segments


def _nothing(home: Home, problem: str, spoilt: list[Path]) -> str:
    if spoilt:
        [said] = not_believed([(0, str(home.log_path / one.name)) for one in spoilt])
        return f"nothing can be told: {problem}, and {said}"
    if (home.store_path / DATA).exists():
        return f"nothing can be told: {problem}, and the log in {home.log_path} has no closed segment"
    said = f"the node in {home.path} has no store, and its log no closed segment"
    return f"{said}: it has never run, or they were taken away"


def _answer(
    home: Home,
    log: LogSnapshot,
    typed: str,
    prospect_of: ProspectOf,
    now: Now,
    ttl_s_max: int,
    records: Records | None = None,
) -> dict[str, Any]:
    """Answer from the log. Closed segments are read in place, where missing indexes are made. `records`: the store's,
    if it can be read."""
    sealed = [replace(one, path=home.log_path / one.path.name) for one in log.sealed]
    log = replace(log, sealed=sealed, spoilt=[home.log_path / one.name for one in log.spoilt])
    try:
        prefix = parse_prefix(typed)
        found = with_waiting(_find(home, log, prefix, records), home, prefix)
        if found.trace is None:
            return not_one(typed, found)
        return one(found, found.trace, fate(found.trace, prospect_of, now.wall_ns, ttl_s_max, _carrier(home)), {})
    except (OSError, *MISREAD) as error:
        return {"error": f"{DAMAGED}: {error}"}


def _find(home: Home, log: LogSnapshot, prefix: IdPrefix, records: Records | None) -> FoundEvents:
    found = Search(log).find(prefix)
    wanted = unaccepted(found, prefix)
    if records is None or wanted is None:
        return found
    router = own_successions.first_key(home.key_path.parent, keyring.load(home, keyring.NODE).public)
    rows = records.accepted(wanted, router, CANDIDATES_MAX + 1)
    return Search(log).find_held(rows[0]) if len(rows) == 1 else offered(found, rows)


def _carrier(home: Home) -> Carrier | None:
    """Return the service that carries groups to other nodes; None if this home has no key of one."""
    key = keyring.addresses(home).get(key_name(name_with_role(home, Role.OVERLAY)))
    return None if key is None else Carrier(key.hex())


def _prospect(store: Store, recipient: str, first: int, index: int) -> Prospect:
    key = store.records.newest(bytes.fromhex(recipient))
    return Prospect(is_owed=store.owes(key, first, index), is_running=False)
