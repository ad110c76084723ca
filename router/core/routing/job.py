"""Reads on their way through verification (`Job`) to a decision, there grouped by link (`LinkJobs`)."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from heapq import merge
from operator import attrgetter
from typing import Any

from msgspec import Struct, field

from router.core.neighbours.directory import Standing
from router.core.wire.message import MULTICAST, UNICAST
from router.core.wire.reasons import Reason

from .intake import Arrived, ArrivedMessage, Refusal
from .links import Link

KNOWN_BYTES_MAX = 4096
"""Most bytes of a read of known messages that is not decided at once: until then they take room of other reads."""


class Job(Struct):
    """One read on its way through verification.

    `fresh` need their signature checked; `copies` are copies of messages in flight; `known` were accepted before.
    `vouched` were accepted before too, and a local service sends them on: as their ids are known, their bytes were
    checked then (R-C29). `positions` holds start, end and signer_at of every fresh row, for the verifiers. `overtaken`
    are refused unless the index on disk has them as accepted; `carried` likewise, for messages carried by others.
    `requests`: those of the fresh that are for this router itself and carry nothing.
    """

    link: Link
    arrived: Arrived
    fresh: list[ArrivedMessage]
    positions: array[int]
    copies: list[ArrivedMessage] = field(default_factory=list)
    known: list[ArrivedMessage] = field(default_factory=list)
    vouched: list[ArrivedMessage] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    overtaken: list[tuple[ArrivedMessage, Refusal]] = field(default_factory=list)
    carried: list[tuple[ArrivedMessage, Refusal]] = field(default_factory=list)
    requests: list[ArrivedMessage] = field(default_factory=list)
    valid: bytes = b""

    @property
    def is_known(self) -> bool:
        """Whether all that it brings is known multicasts, of which a router wants to hear no sooner than of others."""
        if self.link.standing is Standing.LOCAL or self.arrived.size > KNOWN_BYTES_MAX:
            return False
        others = self.fresh or self.copies or self.vouched or self.refusals or self.overtaken or self.carried
        return not others and all(row.head.kind == MULTICAST for row in self.known)

    @property
    def request_bytes(self) -> int:
        """Return how many bytes its requests to this router have."""
        return sum([row.end - row.start for row in self.requests])

    def cut(self, k: int) -> Job:
        """Keep the messages before number `k`, whose signatures have been checked, and return the others as a read."""
        arrived, at = self.arrived.cut(k), bisect_left(self.fresh, k, key=attrgetter("k"))
        rest = Job(self.link, arrived, self.fresh[at:], self.positions[3 * at :], valid=self.valid[at:])
        self.fresh, self.positions, self.valid = self.fresh[:at], self.positions[: 3 * at], self.valid[:at]
        for name in ("copies", "known", "vouched", "requests"):
            self._cut_list(name, rest, k, attrgetter("k"))
        for name in ("overtaken", "carried"):
            self._cut_list(name, rest, k, lambda one: one[0].k)
        rest.refusals = [one for one in self.refusals if one[0] >= k]
        self.refusals = [one for one in self.refusals if one[0] < k]
        return rest

    def _cut_list(self, name: str, rest: Job, k: int, number_of: Callable[[Any], int]) -> None:
        rows = getattr(self, name)
        at = bisect_left(rows, k, key=number_of)
        setattr(self, name, rows[:at])
        setattr(rest, name, rows[at:])

    def to_look_up(self) -> list[tuple[int, bytes]]:
        """Return (expiry minute, id) of all rows to look up in the index on disk."""
        rows = self.fresh
        if self.overtaken or self.carried:
            rows = [*rows, *(row for row, _ in self.overtaken), *(row for row, _ in self.carried)]
        return [(row.head.expiry_min, row.id) for row in rows]

    def verdicts(self) -> Iterable[tuple[int, ArrivedMessage, int]]:
        """Return the fresh and vouched rows in the order of their arrival: position among the fresh (-1: none), row,
        and whether (1 or 0) its signature is right."""
        fresh = zip(range(len(self.fresh)), self.fresh, self.valid, strict=True)
        if not self.vouched:
            return fresh
        return merge(fresh, ((-1, row, 1) for row in self.vouched), key=lambda one: one[1].k)

    def carries(self, at: int) -> bool:
        """Whether the fresh row at this position is a carrier, and what it carries is the next."""
        return 0 <= at < len(self.fresh) - 1 and self.fresh[at + 1].k == self.fresh[at].k

    def look_up(self, on_disk: Collection[bytes]) -> None:
        """Resolve `overtaken`: a message accepted before is a duplicate, any other is refused."""
        for row, refusal in self.overtaken:
            if row.id in on_disk:
                self.known.append(row)
            else:
                self.refusals.append(refusal)


class LinkJobs(Struct):
    """All jobs of one link in this cycle, with their verdicts; `forged` counts false signatures."""

    link: Link
    jobs: list[Job]
    refusals: list[Refusal] = field(default_factory=list)
    known: list[ArrivedMessage] = field(default_factory=list)
    forged: int = 0

    def __post_init__(self) -> None:
        self.refusals += [refusal for job in self.jobs for refusal in job.refusals]

    def known_told(self) -> list[Refusal]:
        """Return what is said of the multicasts that were known here, if the other end wants to hear it; of a carried
        one nothing, as the number is its carrier's.

        Strangers do not hear it: they would learn what this router holds."""
        if not self.link.hears_known or self.link.standing is Standing.STRANGER:
            return []
        rows = (*self.known, *(row for job in self.jobs for row in job.known))
        found = {row.k for row in rows if row.head.kind == MULTICAST}
        carriers = {row.k for job in self.jobs for row in job.arrived.rows if row.head.kind == UNICAST} if found else ()
        return [(k, Reason.DUPLICATE, "") for k in found.difference(carriers)]
