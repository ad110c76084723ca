"""Numbers of messages grouped by a key, found by the key or by the number."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class NumbersBy(Generic[Key]):
    """An index with several numbers to a key, and one key to a number."""

    def __init__(self) -> None:
        self._numbers: dict[Key, set[int]] = {}
        self._keys: dict[int, Key] = {}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._numbers)

    def __contains__(self, key: Key) -> bool:
        return key in self._numbers

    def __repr__(self) -> str:
        return f"<NumbersBy: {len(self._keys)} numbers of {len(self._numbers)} keys>"

    def add(self, key: Key, number: int) -> None:
        """Put a number under a key."""
        self._numbers.setdefault(key, set()).add(number)
        self._keys[number] = key

    def pop(self, key: Key) -> set[int]:
        """Remove a key, and return its numbers."""
        numbers = self._numbers.pop(key, set())
        for number in numbers:
            del self._keys[number]
        return numbers

    def discard(self, number: int) -> None:
        """Remove a number, if it is under a key."""
        key = self._keys.pop(number, None)
        if key is None:
            return
        self._numbers[key].discard(number)
        if not self._numbers[key]:
            del self._numbers[key]
