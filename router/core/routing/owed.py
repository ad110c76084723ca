"""Contents of queues that the store reads for the deciding core: to hand over, to expire, to give up."""

from __future__ import annotations

from typing import NamedTuple

from .parcel import Parcel


class Owed(NamedTuple):
    """Messages start..stop-1 of a parcel, read from a recipient's queue."""

    parcel: Parcel
    start: int
    stop: int


class Due(NamedTuple):
    """A parcel with a message past its deadline, and for each recipient the runs of messages still owed.

    `parcel` is None if it is no longer stored, and only its row among the deadlines is left.
    """

    parcel: Parcel | None
    first: int
    owed: tuple[tuple[bytes, tuple[tuple[int, int], ...]], ...]


class Damaged(NamedTuple):
    """Runs of messages owed to `recipient`, of `size` bytes in all, whose bytes on disk have changed since they were
    written.

    `parcel` is None if not even its row can be read; then these fields are all that is known.
    """

    recipient: bytes
    first: int
    runs: tuple[tuple[int, int], ...]
    size: int
    signer_tag: bytes
    neighbour_tag: bytes
    parcel: Parcel | None
