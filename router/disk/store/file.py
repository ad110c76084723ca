"""The store's file: opened at a fitting size; and the errors for a file that cannot be used."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import cbor2
import lmdb

from router.core.wire.text import key_text
from router.disk.limits import StoreLimits
from router.disk.room import DATA, LOCK, allot_lock_file, check_data_file, lack_of_room
from router.disk.store.rows import READABLE, VERSION, read_subscription
from router.disk.store.terms import StoreError

DAMAGED = lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError, lmdb.InvalidError, lmdb.BadTxnError
UNREADABLE = cbor2.CBORError, struct.error, SystemError  # of a foreign row; the last one of the binding, for a page
BLOCK_BYTES = 512  # the unit of st_blocks
START_AFRESH = (
    "move store/ and log/ away together and start: the node keeps its address and begins empty, and what it held is in "
    "the folders you moved"
)

Given = ParamSpec("Given")
Found = TypeVar("Found")


class Placed(Protocol):
    """An object that knows the folder of its store."""

    path: Path


Kind = TypeVar("Kind", bound=Placed)


def open_file(path: Path, limits: StoreLimits, names: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Return the LMDB environment in the folder `path`, which is made if it is missing, and its databases by name."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_data_file(path)
        allot_lock_file(path)
        environment = lmdb.open(
            str(path),
            map_size=_map_bytes(path, limits),
            max_dbs=len(names),
            sync=limits.synced,
            metasync=limits.synced,
            mode=0o600,
        )
        _make_readable(environment, path)
        return environment, {name: environment.open_db(name.encode()) for name in names}
    except (lmdb.Error, OSError) as error:
        raise unusable(path, "cannot be opened", error) from None


def unusable(path: Path, what: str, error: Exception) -> StoreError:
    """Return an error for the operator that says what failed, why, and what to do."""
    if full := lack_of_room(path, error):
        cause, remedy = full[0], f"{full[1]} and start again: nothing that was settled is lost"
    elif "Permission denied" in str(error):
        cause = "its files are closed to this user"
        remedy = "start as the user they belong to; if a command of another user made them, give them back by chown"
    elif isinstance(error, struct.error) and "format requires" in str(error):
        cause, remedy = "a time does not fit into it", "set this machine's clock, which is wrong, and start again"
    elif isinstance(error, (ValueError, *DAMAGED, *UNREADABLE)):
        cause, remedy = "it is damaged", f"see to its disk, then {START_AFRESH}"
    else:
        cause, remedy = "its disk or its file fails", f"see to its disk; if the file is damaged, {START_AFRESH}"
    return StoreError(f"the store in {path} {what}: {cause} ({' '.join(str(error).split())}). To go on, {remedy}")


def epoch_of(path: Path, meta: Sequence[Any], router_key: bytes) -> bytes:
    """Return the store's epoch; raise `StoreError` if its format or its router is another."""
    version, owner, *rest = meta
    _check_version(path, version)
    if owner != router_key:
        said = f"the store belongs to the router {key_text('addr', owner)}, this node is {key_text('addr', router_key)}"
        raise StoreError(f"{said}: restore keys/node.key of that router, or {START_AFRESH}")
    [epoch] = rest
    return bytes(epoch)


def check_format(path: Path, *, is_open: bool = False) -> None:
    """Raise `StoreError` if the store in the folder `path` has a format that this program does not read. `is_open`:
    a node may have it open.

    It only reads, so that a store of a newer program is left as it is; other faults are found when it is opened.
    """
    try:
        if not (path / DATA).exists() or not (path / DATA).stat().st_size:
            return
        with reading(path, "meta", is_open=is_open) as meta:
            said = meta.get(b"store")
            version = cbor2.loads(said)[0] if said else VERSION
    except (lmdb.Error, OSError, ValueError, TypeError, LookupError, *UNREADABLE):
        return
    _check_version(path, version)


def _check_version(path: Path, version: object) -> None:
    if version not in READABLE:
        raise StoreError(
            f"the store in {path} has format {version}, this program reads format {VERSION}: run the "
            f"version that wrote it, or {START_AFRESH}"
        )


def owner(path: Path) -> bytes | None:
    """Return the key of the router whose store is in the folder `path`, None if there is no store yet."""
    try:
        if not (path / DATA).exists() or not (path / DATA).stat().st_size:
            return None
        with reading(path, "meta") as meta:
            said = meta.get(b"store")
            return bytes(cbor2.loads(said)[1]) if said else None
    except lmdb.NotFoundError:
        return None
    except (lmdb.Error, OSError, ValueError, *UNREADABLE) as error:
        raise unusable(path, "cannot be opened", error) from None


def give_to(path: Path, old: bytes, new: bytes) -> None:
    """Let the store in the folder `path`, which nobody has open, belong to the router `new` if it belongs to `old`, in
    one transaction; nothing if there is no store. Raise `StoreError`."""
    if owner(path) != old:
        return
    try:
        with lmdb.open(str(path), map_size=_map_bytes(path, StoreLimits()), max_dbs=1, lock=False) as environment:
            _make_readable(environment, path)
            meta = environment.open_db(b"meta", create=False)
            with environment.begin(write=True, db=meta) as txn:
                version, _, *rest = cbor2.loads(txn.get(b"store") or b"")
                txn.put(b"store", cbor2.dumps([version, new, *rest]))
    except (lmdb.Error, OSError, ValueError, *UNREADABLE) as error:
        raise unusable(path, "cannot be written", error) from None


def row_of(path: Path, name: str, key: bytes) -> bytes | None:
    """Return a row of one database of the store in the folder `path`, which nobody has open; None if there is none, or
    no store. Raise `StoreError` if it cannot be read."""
    try:
        if not (path / DATA).exists() or not (path / DATA).stat().st_size:
            return None
        with reading(path, name) as rows:
            said = rows.get(key)
            return None if said is None else bytes(said)
    except lmdb.NotFoundError:
        return None
    except (lmdb.Error, OSError, *UNREADABLE) as error:
        raise unusable(path, "cannot be opened", error) from None


def subscribers(path: Path, group: bytes) -> set[bytes]:
    """Return the keys of who has joined the group by the store in the folder `path`, which nobody has open; none if
    there is no store. Raise `StoreError` if it cannot be read."""
    try:
        if not (path / DATA).exists() or not (path / DATA).stat().st_size:
            return set()
        with reading(path, "groups") as rows:
            joined = (read_subscription(bytes(key), bytes(flags)) for key, flags in rows)
            return {one.subscriber for one in joined if one.group == group}
    except lmdb.NotFoundError:
        return set()
    except (lmdb.Error, OSError, *UNREADABLE) as error:
        raise unusable(path, "cannot be opened", error) from None


def life_number(path: Path) -> int:
    """Return the number of the life in which the store in the folder `path` was written; 0 if it was never restored, or
    is missing, or cannot be read."""
    try:
        if not (path / DATA).exists():
            return 0
        with reading(path, "meta") as meta:
            said = meta.get(b"life")
            return int(cbor2.loads(said)[0]) if said else 0
    except (lmdb.Error, OSError, ValueError, TypeError, LookupError, *UNREADABLE):
        return 0


@contextmanager
def reading(path: Path, name: str, *, is_open: bool = False) -> Iterator[Any]:
    """Give a read-only cursor over one database of the store in the folder `path`. `is_open`: a node may have it open,
    so that the pages which are read here are kept for the reader, and the file is left to it. Errors of LMDB pass:
    `NotFoundError` means that there is no database of that name."""
    check_data_file(path)
    is_shared = is_open and (path / LOCK).exists()
    with lmdb.open(str(path), max_dbs=1, lock=is_shared, readonly=True) as environment:
        if not is_shared:
            _make_readable(environment, path)
        with environment.begin() as txn:
            yield txn.cursor(environment.open_db(name.encode(), txn, create=False))


def in_words(
    method: Callable[Concatenate[Kind, Given], Found],
) -> Callable[Concatenate[Kind, Given], Found]:
    """Decorate a read or write so that LMDB's errors and unreadable rows raise a `StoreError`, which ends the node."""

    @wraps(method)
    def attempt(store: Kind, /, *args: Given.args, **more: Given.kwargs) -> Found:
        try:
            return method(store, *args, **more)
        except (lmdb.Error, *UNREADABLE) as error:
            raise unusable(store.path, "failed", error) from error

    return attempt


def _map_bytes(path: Path, limits: StoreLimits) -> int:
    data = path / DATA
    used = data.stat().st_size if data.exists() else 0
    wanted, most = max(limits.map_bytes_initial, used + (16 << 20)), limits.map_bytes_max
    return max(used, min(wanted, most)) if most else wanted


def _make_readable(environment: Any, path: Path) -> None:
    """Extend a file that was cut short by empty pages, which LMDB then reports; a read past the end would be a bus
    error.

    A good file may be short too: pages at the end that one transaction took and freed again are never written."""
    data = path / DATA
    needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if data.stat().st_size < needed:
        os.truncate(data, needed)


def used_bytes(txn: Any, databases: Iterable[Any]) -> int:
    """Return the bytes of the pages in use."""
    stats = [txn.stat(database) for database in databases]
    pages = sum(one["branch_pages"] + one["leaf_pages"] + one["overflow_pages"] for one in stats)
    return int(pages * stats[0]["psize"])


def allocated_bytes(environment: Any, path: Path) -> int:
    """Return the disk space of all pages that were ever used; less than the file's length if the file has holes."""
    pages = environment.info()["last_pgno"] + 1
    return int(min((path / DATA).stat().st_blocks * BLOCK_BYTES, pages * environment.stat()["psize"]))
