"""The leaves of sets of ids: some in memory, all further ones in the service's scratch on disk (R-C35)."""

from __future__ import annotations

from collections.abc import Iterable

from router.service.contract import Scratch

SLOT_BYTES = 4096
"""The place of a leaf on disk: a page."""
IN_MEMORY_MAX = 64
"""Leaves in memory: 6,000 ids, so that a node with few messages writes nothing."""

Place = bytes | int
"""A leaf in memory; or its slot on disk, multiplied by `SLOT_BYTES`, and its length, which is less."""


class LeafRoom:
    """Room for leaves of less than `SLOT_BYTES` bytes, of several sets. `scratch`: where leaves beyond `in_memory_max`
    are written, opened at once, so that a node's descriptors do not depend on its ids; None, or if it has no room:
    they stay in memory."""

    def __init__(self, scratch: Scratch | None = None, in_memory_max: int = IN_MEMORY_MAX) -> None:
        self._scratch, self._in_memory_max = scratch, in_memory_max
        if scratch is not None:
            scratch.write(0, b"")  # opens its file
        self._in_memory = 0
        self._slots = 0  # ever used
        self._free: list[int] = []
        self._read: tuple[int, bytes] = -1, b""  # the slot read or written last, and its leaf

    def __repr__(self) -> str:
        return f"<{self._in_memory} leaves in memory, {self.on_disk} on disk>"

    @property
    def on_disk(self) -> int:
        """Return how many leaves are on disk."""
        return self._slots - len(self._free)

    def get(self, place: Place) -> bytes:
        """Return the leaf at a place. Raise OSError if the disk does not give it back."""
        if isinstance(place, bytes):
            return place
        assert self._scratch is not None
        slot, size = divmod(place, SLOT_BYTES)
        if self._read[0] != slot:
            self._read = slot, self._scratch.read(slot * SLOT_BYTES, size)
        return self._read[1]

    def put(self, leaf: bytes, before: Place | None = None) -> Place:
        """Keep a leaf, in place of the one at `before` if there is one; return its place."""
        if isinstance(before, bytes) or (before is None and self._in_memory < self._in_memory_max):
            self._in_memory += before is None
            return leaf
        slot = self._free_slot() if before is None else before // SLOT_BYTES
        if self._scratch is not None and self._scratch.write(slot * SLOT_BYTES, leaf):
            self._read = slot, leaf
            return slot * SLOT_BYTES + len(leaf)
        self._give_up(slot)
        self._in_memory += 1
        return leaf

    def drop(self, places: Iterable[Place]) -> None:
        """Forget the leaves at these places."""
        for place in places:
            if isinstance(place, bytes):
                self._in_memory -= 1
            else:
                self._give_up(place // SLOT_BYTES)

    def _free_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._slots += 1
        return self._slots - 1

    def _give_up(self, slot: int) -> None:
        self._free.append(slot)
        if self._read[0] == slot:
            self._read = -1, b""


def size_of(place: Place) -> int:
    """Return how many bytes the leaf at a place has."""
    return len(place) if isinstance(place, bytes) else place % SLOT_BYTES
