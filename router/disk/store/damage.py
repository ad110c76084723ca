"""Damage found by reads of the store: each message of each queue once, until it is taken."""

from __future__ import annotations

from router.core.routing.owed import Damaged
from router.core.routing.parcel import Parcel, unbroken
from router.disk.store.rows import QueueRow

Runs = list[tuple[int, int]]
FOUND_MAX = 2_000  # queued parcels; reading stops there, and goes on when they have left the queues


class Damage:
    """The damage that one cycle's reads found; a read stops when it is full."""

    def __init__(self) -> None:
        self._found: dict[tuple[bytes, int], Damaged] = {}

    def __repr__(self) -> str:
        return f"<damage in {len(self._found)} queued parcels>"

    @property
    def is_full(self) -> bool:
        return len(self._found) >= FOUND_MAX

    def take(self) -> list[Damaged]:
        found, self._found = list(self._found.values()), {}
        return found

    def note_row(self, recipient: bytes, first: int, row: QueueRow) -> None:
        """Record that nothing of a queued parcel can be read."""
        self._note(recipient, first, row, row.owed(), row.left, None)

    def spare(self, recipient: bytes, row: QueueRow, runs: Runs, parcel: Parcel, damaged: Runs) -> Runs:
        """Return the undamaged part of `runs`, and record the rest."""
        if not damaged:
            return runs
        wrong = {index for run in damaged for index in range(*run)}
        wanted = [index for run in runs for index in range(*run)]
        lost = unbroken(index for index in wanted if index in wrong)
        if not lost:
            return runs
        self._note(recipient, parcel.first, row, lost, sum(parcel.size(*run) for run in lost), parcel)
        return unbroken(index for index in wanted if index not in wrong)

    def _note(self, recipient: bytes, first: int, row: QueueRow, runs: Runs, size: int, parcel: Parcel | None) -> None:
        one = Damaged(recipient, first, tuple(runs), size, row.signer_tag, row.neighbour_tag, parcel)
        self._found.setdefault((recipient, first), one)
