"""The store's file: opened at a fitting size, and what is said of one that cannot be used."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import lmdb

from router.disk.store_terms import StoreError, StoreLimits

Given = ParamSpec("Given")
Found = TypeVar("Found")


class Placed(Protocol):
    """A store, which knows where its file is."""

    _path: Path


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
        raise unusable(path, f"cannot be opened: {error}") from None


def unusable(path: Path, why: str) -> StoreError:
    return StoreError(
        f"the store in {path} {why}. If its file is damaged, move the folder away and start again: the node then "
        "begins with an empty store, and what it held is in the folder you moved"
    )


def in_words(
    method: Callable[Concatenate[Kind, Given], Found],
) -> Callable[Concatenate[Kind, Given], Found]:
    """What LMDB finds wrong while the node runs ends it with a `StoreError`."""

    @wraps(method)
    def attempt(store: Kind, /, *args: Given.args, **more: Given.kwargs) -> Found:
        try:
            return method(store, *args, **more)
        except lmdb.Error as error:
            raise unusable(store._path, f"failed: {error}") from error

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
