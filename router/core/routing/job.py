"""Reads on their way through verification to a decision: one at a time, and all of one link together."""

from __future__ import annotations

from array import array
from collections.abc import Collection
from dataclasses import dataclass, field

from .intake import Arrived, Refusal, Row
from .links import Link


@dataclass(slots=True)
class Job:
    """One read on its way through verification.

    `fresh` need their signature checked; `copies` are copies of messages in flight; `known` were accepted before.
    `positions` holds start, end and signer_at of every fresh row, for the verifiers. `overtaken` would be refused,
    unless the index on disk knows that they were accepted; `carried`: the same of messages that others carry.
    """

    link: Link
    arrived: Arrived
    fresh: list[Row]
    positions: array[int]
    copies: list[Row] = field(default_factory=list)
    known: list[Row] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    overtaken: list[tuple[Row, Refusal]] = field(default_factory=list)
    carried: list[tuple[Row, Refusal]] = field(default_factory=list)
    valid: bytes = b""

    def to_look_up(self) -> list[tuple[int, bytes]]:
        """(expiry minute, id) of all that the index on disk is asked for."""
        rows = [*self.fresh, *(row for row, _ in self.overtaken), *(row for row, _ in self.carried)]
        return [(row.expiry_min, row.id) for row in rows]

    def look_up(self, on_disk: Collection[bytes]) -> None:
        """Whom its time or its readers have overtaken is a duplicate if it is known, else refused."""
        for row, refusal in self.overtaken:
            if row.id in on_disk:
                self.known.append(row)
            else:
                self.refusals.append(refusal)


@dataclass(slots=True)
class Batch:
    """All that one link brought in this cycle, and what becomes of it; `forged` counts false signatures."""

    link: Link
    jobs: list[Job]
    refusals: list[Refusal] = field(default_factory=list)
    known: list[Row] = field(default_factory=list)
    forged: int = 0

    def __post_init__(self) -> None:
        self.refusals += [refusal for job in self.jobs for refusal in job.refusals]
