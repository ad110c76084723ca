"""The sequence numbers that an app gives its messages to each group: from 0, each once, without gaps (R-E3).
In a home that was restored they go on from a number of its new life (router/core/log/life.py).

Those of a key that is kept lie in the app's state. Numbers are reserved in blocks, so that the disk is written once in
`BLOCK` messages; a process that ends normally gives its unused ones back. After a crash the unused rest of a block is
skipped.
"""

from __future__ import annotations

from collections.abc import Callable

from router.client.errors import JournalError
from router.core.wire.crypto import PublicKey
from router.disk.state.app_rows import AppBatch, AppRows
from router.disk.state.app_state import AppState
from router.disk.state.environment import StateError

BLOCK = 256
GROUPS_MAX = 100_000


class SequenceError(JournalError):
    """Sequence numbers cannot be reserved; the text says why and what to do."""


class Sequences:
    """Sequence numbers for all groups of one app, reserved in its state. `least`: the first number that may be used; a
    restored home has one that no app of an earlier life can have reached."""

    def __init__(self, state: AppState, block: int = BLOCK, least: int = 0) -> None:
        self.state = state
        self._least = least
        self._block = block
        self._next: dict[PublicKey, int] = {}
        self._stop: dict[PublicKey, int] = {}

    def __repr__(self) -> str:
        return f"<sequence numbers of {len(self._next)} groups, kept in {self.state.path or 'memory'}>"

    def take(self, group: PublicKey) -> int:
        """Return the next number; once per block this writes to the disk."""
        number = self._next.get(group, 0)
        if number == self._stop.get(group, 0):
            number = self._reserve(group)
        self._next[group] = number + 1
        return number

    def give_back(self, group: PublicKey, number: int) -> None:
        """Return the number of a message that was never sent: if it was the last one taken, it is used next."""
        if self._next.get(group) == number + 1:
            self._next[group] = number

    def close(self, problem: Callable[[str], None]) -> None:
        """Give back the numbers that were reserved and not used. `problem` gets the reason if that fails: the numbers
        then stay unused, which loses nothing and hides no error that the app ends with."""
        if not self._next:
            return
        try:
            self.state.change(self._given_back)
        except StateError as error:
            problem(f"{error}; some sequence numbers of this app stay unused")

    def _given_back(self, rows: AppRows) -> AppBatch:
        batch = AppBatch()
        for group, number in self._next.items():
            if rows.number(group) == self._stop[group]:
                batch.numbers[group] = number
        return batch

    def _reserve(self, group: PublicKey) -> int:
        """Reserve a new block; it begins where the last one ended, unless another process took a block meanwhile."""

        def decide(rows: AppRows) -> AppBatch:
            number = rows.number(group)
            if not number and rows.groups() >= GROUPS_MAX:
                said = f"this app numbers its messages to {GROUPS_MAX} groups, which is the most"
                raise SequenceError(f"{said}; use another name for the next ones")
            return AppBatch(numbers={group: max(number, self._least) + self._block})

        try:
            self._stop[group] = self.state.change(decide).numbers[group]
        except StateError as error:
            raise SequenceError(str(error)) from None
        return self._stop[group] - self._block
