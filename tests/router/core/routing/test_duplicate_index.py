"""The limit of a message's expiry, which depends on how full the index is."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.routing.duplicate_index import APPS, HOLDER_BYTES, STRANGERS_HOLDER, Index
from router.core.routing.limits import IndexLimits
from router.core.wire.lifetime import EPOCH_S
from router.core.wire.reasons import Reason

NOW_S = EPOCH_S + 6000
LIMITS = IndexLimits(entries_max=100, lifetime_s_max=6000, strangers_percent=0)
ANN, BOB, CEM = (bytes((n,)) * HOLDER_BYTES for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("entries", "horizon_s"), [(0, 6000), (50, 6000), (51, 5880), (75, 3000), (99, 120), (100, 0), (130, 0)]
)
def test_from_half_full_on_lives_are_shorter(entries: int, horizon_s: int) -> None:
    index = Index(LIMITS, entries)
    assert (index.horizon_s(APPS), index.room(APPS)) == (horizon_s, 100 - entries)
    assert repr(index) == f"<index: {entries} of at most 100 ids, 0 holders but apps>"


def test_why_an_expiry_is_refused() -> None:
    index = Index(LIMITS, 75)
    assert index.out_of_time(APPS, 100, NOW_S) == (Reason.EXPIRY_PASSED, "")
    assert index.out_of_time(APPS, 101, NOW_S) is index.out_of_time(APPS, 151, NOW_S) is None
    later = Reason.INDEX_FULL, "for now a message may expire at most 3000 s ahead"
    assert index.out_of_time(APPS, 152, NOW_S) == index.out_of_time(APPS, 201, NOW_S) == later
    too_far = Reason.EXPIRY_TOO_FAR, "a message may expire at most 6000 s ahead"
    assert index.out_of_time(APPS, 202, NOW_S) == too_far, "more than was ever allowed"
    index.add(APPS, 25)
    assert index.out_of_time(APPS, 101, NOW_S) is None, "what is full refuses it later, when duplicates are known"
    assert index.out_of_time(APPS, 102, NOW_S) == (
        Reason.INDEX_FULL, "for now a message may expire at most 0 s ahead",
    )  # fmt: skip
    assert index.out_of_time(APPS, 202, NOW_S) == too_far, "for good, however full"


def test_strangers_have_a_share_and_shorter_lives_and_take_nothing_from_others() -> None:
    index = Index(IndexLimits(entries_max=1000, lifetime_s_max=6000, strangers_lifetime_s_max=600))
    others = [(one, index.room(one), index.horizon_s(one)) for one in (APPS, ANN)]
    assert (index.room(STRANGERS_HOLDER), index.horizon_s(STRANGERS_HOLDER)) == (50, 600)
    index.add(STRANGERS_HOLDER, 50)
    assert (index.room(STRANGERS_HOLDER), index.horizon_s(STRANGERS_HOLDER)) == (0, 0)
    assert [(one, index.room(one), index.horizon_s(one)) for one in (APPS, ANN)] == others
    text = "a message of a key that this node does not know may expire at most 600 s ahead"
    assert index.out_of_time(STRANGERS_HOLDER, 111, NOW_S) == (
        Reason.INDEX_FULL, "for now a message may expire at most 0 s ahead",
    )  # fmt: skip
    assert index.out_of_time(STRANGERS_HOLDER, 112, NOW_S) == (Reason.EXPIRY_TOO_FAR, text)


def test_neighbours_leave_something_to_each_other_and_a_part_to_the_apps() -> None:
    """Each takes as much as it can, again and again: one gets half, and every newcomer finds room."""
    index = Index(IndexLimits(entries_max=1000, strangers_percent=0, apps_percent=20))
    for number in range(20):
        newcomer = bytes((number + 1,)) * HOLDER_BYTES
        room = index.room(newcomer)
        assert room == {0: 400, 1: 200, 2: 100}.get(number, room)
        assert room > 0 or number > 8, "far less than a thousandth is all that is left then"
        index.add(newcomer, room)
    assert index.room(APPS) >= 200
    index.add(APPS, index.room(APPS))
    assert index.entries == 1000 and index.room(ANN) <= 0 and index.horizon_s(ANN) == 0


HOLDERS = st.sampled_from([APPS, STRANGERS_HOLDER, ANN, BOB, CEM])


@given(st.lists(st.tuples(HOLDERS, st.integers(1, 400), st.booleans())))
def test_nobody_gets_more_than_the_limits_say_and_the_sums_are_the_steps(
    steps: list[tuple[bytes, int, bool]],
) -> None:
    """Ids are taken as far as there is room, and given back, in any order."""
    index, held = Index(IndexLimits(entries_max=1000)), Counter[bytes]()
    for holder, count, back in steps:
        count = -min(count, held[holder]) if back else max(0, min(count, index.room(holder)))
        index.add(holder, count)
        held[holder] += count
        assert index.entries == held.total() <= 1000
        assert {one: index.held(one) for one in held} == held
        assert index.shares == {one: ids for one, ids in held.items() if ids and one != APPS}
        of_neighbours = sum(held[one] for one in (ANN, BOB, CEM))
        assert held[STRANGERS_HOLDER] <= 50 and of_neighbours <= 750 and max(held[ANN], held[BOB], held[CEM]) <= 375
        assert index.room(STRANGERS_HOLDER) == 50 - held[STRANGERS_HOLDER], "whatever others do"
        assert index.room(APPS) + held[APPS] >= 200
