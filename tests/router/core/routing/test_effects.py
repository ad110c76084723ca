"""Which decisions wait for others."""

from __future__ import annotations

import pytest

from router.core.routing.effects import ROWS_ALONE, Changes, DialNeighbour, Finished, Pending

OVER = [(first, 0) for first in range(ROWS_ALONE)]
"""Rows of parcels that nobody is owed any more."""


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        (Changes(), True),
        (Changes(defer=OVER[1:]), True),
        (Changes(defer=OVER), False),
        (Changes(defer=[(1, 0), (2, 1_900_000_000)]), False),
        (Changes(defer=[(1, 0)], finished=[Finished(bytes(32), 1, 0, 1, 9)]), False),
        (Changes(defer=[(1, 0)], away=[(bytes(32), 0)]), False),
    ],
)
def test_rows_of_ended_parcels_wait_for_other_changes(changes: Changes, waits: bool) -> None:
    """They are found again by the next look at deadlines, so that a quiet node need not write each second."""
    pending = Pending()
    pending.changes = changes
    pending.effects.append(DialNeighbour(bytes(32)))
    decision = pending.take()
    assert decision.changes == (Changes() if waits else changes)
    assert decision.effects == [DialNeighbour(bytes(32))] and not pending
