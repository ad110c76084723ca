"""Reads on their way through verification to a decision: one at a time, and all of one link together."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from .intake import Arrived, Refusal, Row
from .links import Link


@dataclass(slots=True)
class Job:
    """One read on its way through verification.

    `fresh` need their signature checked; `copies` are copies of messages in flight; `known` were accepted before.
    `positions` holds start, end and signer_at of every fresh row, for the verifiers.
    """

    link: Link
    arrived: Arrived
    fresh: list[Row]
    positions: array[int]
    copies: list[Row] = field(default_factory=list)
    known: list[Row] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    valid: bytes = b""


@dataclass(slots=True)
class Batch:
    """All that one link brought in this cycle, and what becomes of it."""

    link: Link
    jobs: list[Job]
    refusals: list[Refusal] = field(default_factory=list)
    known: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.refusals += [refusal for job in self.jobs for refusal in job.refusals]
