"""Work in a thread beside the caller's, in order and with a bounded number of items under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from queue import Full, Queue
from typing import Any, Generic, TypeVar

ITEMS_MAX = 16
_LOOK_S = 0.5

T = TypeVar("T")


class Beside(Generic[T]):
    """Calls `work` with each item in a thread of its own. An error of `work` is raised by a later call here."""

    def __init__(self, work: Callable[[T], Any]) -> None:
        self._work = work
        self._items: Queue[tuple[T] | None] = Queue(ITEMS_MAX)
        self._error: BaseException | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="beside", daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Hand over an item; wait while too many are under way."""
        self._put((item,))

    def finish(self) -> None:
        """Return when all items are done."""
        self._put(None)
        self._thread.join()
        self._check()

    def close(self) -> None:
        """Begin with no further item; do not wait for the one that is being worked on."""
        self._is_closed = True
        with suppress(Full):  # then it takes one of those, and sees it
            self._items.put_nowait(None)

    def _put(self, item: tuple[T] | None) -> None:
        while True:
            self._check()
            try:
                self._items.put(item, timeout=_LOOK_S)
            except Full:
                continue
            return

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (item := self._items.get()) is not None and not self._is_closed:
            try:
                self._work(item[0])
            except BaseException as error:
                self._error = error
                return


def read_ahead(items: Iterator[T]) -> Generator[T]:
    """Yield the items, which a thread produces some ahead; an error of theirs is raised at its place."""
    ready: Queue[tuple[T] | BaseException | None] = Queue(ITEMS_MAX)
    is_over = threading.Event()

    def hand_over(found: tuple[T] | BaseException | None) -> None:
        while not is_over.is_set():
            try:
                ready.put(found, timeout=_LOOK_S)
            except Full:
                continue
            return

    def produce() -> None:
        try:
            for one in items:
                hand_over((one,))
                if is_over.is_set():
                    return
            hand_over(None)
        except BaseException as error:
            hand_over(error)

    threading.Thread(target=produce, name="read ahead", daemon=True).start()
    try:
        while (found := ready.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found[0]
    finally:
        is_over.set()
