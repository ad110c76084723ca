"""The store's file: opened at a fitting size, and what is said of one that cannot be used."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from errno import ENOSPC
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import cbor2
import lmdb

from router.disk.store_terms import StoreError, StoreLimits

DAMAGED = lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError, lmdb.InvalidError, lmdb.BadTxnError
UNREADABLE = cbor2.CBORError, struct.error  # what becomes of reading a row that is none of ours
START_AFRESH = (
    "move store/ and log/ away together and start: the node keeps its address and begins empty, and what it held is in "
    "the folders you moved"
)

Given = ParamSpec("Given")
Found = TypeVar("Found")


class Placed(Protocol):
    """A store, which knows where its file is."""

    path: Path


Kind = TypeVar("Kind", bound=Placed)


def open_file(path: Path, limits: StoreLimits, names: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """The LMDB environment in the folder `path`, made if it is not there, and its databases by name."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        environment = lmdb.open(
            str(path), map_size=_map_bytes(path, limits), max_dbs=len(names), lock=False, sync=limits.synced,
            metasync=limits.synced, mode=0o600,
        )  # fmt: skip
        _make_readable(environment, path)
        return environment, {name: environment.open_db(name.encode()) for name in names}
    except (lmdb.Error, OSError) as error:
        raise unusable(path, "cannot be opened", error) from None


def unusable(path: Path, what: str, error: Exception) -> StoreError:
    """The sentence for the operator: what could not be done, why, and what to do."""
    if isinstance(error, lmdb.DiskError) or getattr(error, "errno", 0) == ENOSPC:
        cause, remedy = "its disk is full", "make room and start again: nothing that was settled is lost"
    elif isinstance(error, (ValueError, *DAMAGED, *UNREADABLE)):
        cause, remedy = "it is damaged", f"see to its disk, then {START_AFRESH}"
    else:
        cause, remedy = "its disk or its file fails", f"see to its disk; if the file is damaged, {START_AFRESH}"
    return StoreError(f"the store in {path} {what}: {cause} ({' '.join(str(error).split())}). To go on, {remedy}")


def in_words(
    method: Callable[Concatenate[Kind, Given], Found],
) -> Callable[Concatenate[Kind, Given], Found]:
    """What is found wrong while the node runs, in a read or a write, ends it with a `StoreError`."""

    @wraps(method)
    def attempt(store: Kind, /, *args: Given.args, **more: Given.kwargs) -> Found:
        try:
            return method(store, *args, **more)
        except (lmdb.Error, *UNREADABLE) as error:
            raise unusable(store.path, "failed", error) from error

    return attempt


def _map_bytes(path: Path, limits: StoreLimits) -> int:
    data = path / "data.mdb"
    used = data.stat().st_size if data.exists() else 0
    wanted, most = max(limits.map_bytes_initial, used + (16 << 20)), limits.map_bytes_max
    return max(used, min(wanted, most)) if most else wanted


def _make_readable(environment: Any, path: Path) -> None:
    """A file that was cut short gets empty pages, which are an error to read; beyond its end would be a bus error."""
    data = path / "data.mdb"
    needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if data.stat().st_size < needed:
        os.truncate(data, needed)
