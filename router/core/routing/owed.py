"""What the store reads of the queues for the deciding core: to hand over, to look at, to give up."""

from __future__ import annotations

from typing import NamedTuple

from .parcel import Parcel


class Owed(NamedTuple):
    """Messages start..stop-1 of a parcel, read from a recipient's queue."""

    parcel: Parcel
    start: int
    stop: int


class Due(NamedTuple):
    """A parcel of which something has come to its deadline, with what each recipient is still owed of it.

    No parcel: it is no longer there, and only its row among the deadlines is left.
    """

    parcel: Parcel | None
    first: int
    owed: tuple[tuple[bytes, tuple[tuple[int, int], ...]], ...]


class Damaged(NamedTuple):
    """Runs of messages, together `size` bytes, owed to `recipient` whose bytes are not what was once written.

    No parcel: not even its row can be read, and all that is known stands here.
    """

    recipient: bytes
    first: int
    runs: tuple[tuple[int, int], ...]
    size: int
    signer_tag: bytes
    neighbour_tag: bytes
    parcel: Parcel | None
