"""Places under keys, found from either side."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class PlacesBy(Generic[Key]):
    """Several places to a key, one key to a place."""

    def __init__(self) -> None:
        self._places: dict[Key, set[int]] = {}
        self._keys: dict[int, Key] = {}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._places)

    def __repr__(self) -> str:
        return f"<PlacesBy: {len(self._keys)} places of {len(self._places)} keys>"

    def add(self, key: Key, place: int) -> None:
        """Put a place under a key."""
        self._places.setdefault(key, set()).add(place)
        self._keys[place] = key

    def pop(self, key: Key) -> set[int]:
        """Take out a key, and return its places."""
        places = self._places.pop(key, set())
        for place in places:
            del self._keys[place]
        return places

    def discard(self, place: int) -> None:
        """Take out a place, if it is under a key."""
        key = self._keys.pop(place, None)
        if key is None:
            return
        self._places[key].discard(place)
        if not self._places[key]:
            del self._places[key]
