"""How far ahead a message may expire, by how full the index is."""

from __future__ import annotations

import pytest

from router.core.index import Index, IndexLimits
from router.core.lifetime import EPOCH_S
from router.core.reasons import Reason

NOW_S = EPOCH_S + 6000
LIMITS = IndexLimits(entries_max=100, lifetime_s_max=6000)


@pytest.mark.parametrize(
    ("entries", "horizon_s"), [(0, 6000), (50, 6000), (51, 5880), (75, 3000), (99, 120), (100, 0), (130, 0)]
)
def test_from_half_full_on_lives_are_shorter(entries: int, horizon_s: int) -> None:
    index = Index(LIMITS, entries)
    assert (index.horizon_s(), index.is_full) == (horizon_s, entries >= 100)
    assert repr(index) == f"<index: {entries} of at most 100 ids>"


def test_why_an_expiry_is_refused() -> None:
    index = Index(LIMITS, 75)
    assert index.out_of_time(100, NOW_S) == (Reason.EXPIRY_PASSED, "")
    assert index.out_of_time(101, NOW_S) is index.out_of_time(151, NOW_S) is None
    assert index.out_of_time(152, NOW_S) == (Reason.EXPIRY_TOO_FAR, "at most 3000 s ahead")
    index.entries = 100
    assert index.out_of_time(101, NOW_S) is None, "what is full refuses it later, when duplicates are known"
    assert index.out_of_time(102, NOW_S) == (Reason.INDEX_FULL, "")
