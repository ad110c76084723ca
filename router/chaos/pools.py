"""What the pools of a node, CAPD and DMQ, accepted and still hold, as values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from router.chaos.ledger import NodeRestore
from router.core.wire.text import counted


class PoolOffer(NamedTuple):
    """A message that a service has accepted, so that it is on its disk, between `asked_s` and `at_s`; it must be held
    until `until_s` (Unix seconds)."""

    service: str
    id: str
    asked_s: float
    at_s: float
    until_s: float


def missing(
    offers: Iterable[PoolOffer], held: Mapping[str, Collection[str]], restores: Sequence[NodeRestore], now_s: float
) -> list[str]:
    """Return a sentence for each service that does not hold what it accepted. It need not hold what its time has ended,
    nor what it accepted after a snapshot of its node and before the disk was lost. `held`: the ids that each holds."""
    lost: dict[str, list[str]] = {}
    for one in offers:
        is_excused = any(restore.saved_s <= one.at_s and one.asked_s <= restore.lost_s for restore in restores)
        if one.id not in held.get(one.service, ()) and now_s < one.until_s and not is_excused:
            lost.setdefault(one.service, []).append(one.id)
    return [
        f"{service} no longer holds {counted(len(ids), 'message')} that it accepted, first {ids[0]}"
        for service, ids in lost.items()
    ]
