"""A home that a command makes for a node, and removes again if that node cannot start."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from router.settings.home import Home, HomeError


@contextmanager
def removed_on_error(home: Home, on_removed: Callable[[], None]) -> Iterator[None]:
    """Remove what the block made of the home if it raises an error, and call `on_removed`; do nothing if there was a
    node before, or another process runs one by now. Files that lay there before stay, and the directory if it was
    there."""
    if home.holds_node:
        yield
        return
    before, missing = _content(home.path), [one for one in (home.path, *home.path.parents) if not one.exists()]
    try:
        yield
    except Exception:
        with suppress(HomeError), home.lock():
            for path in _content(home.path) - before:
                _remove(path)
            on_removed()
        for path in missing:
            with suppress(OSError):  # it holds something else by now, and stays
                path.rmdir()
        raise


def _content(directory: Path) -> set[Path]:
    try:
        return set(directory.iterdir())
    except OSError:
        return set()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
