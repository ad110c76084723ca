"""Standing queries against a plain loop over all of them, for each way in which they are looked up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.wire.crypto import PublicKey
from services.capd.core import watches as w
from services.capd.core.pattern import Pattern
from services.capd.core.watches import StandingQuery, Watches

ASKERS = [PublicKey(bytes([number]) * 32) for number in range(4)]
BYTES = st.sampled_from([0, 1, 0x7F, 0xFF])
MASKS = st.lists(st.sampled_from([0, 0x7F, 0xFF]), min_size=0, max_size=9).map(bytes)


@st.composite
def watches(draw: st.DrawFn) -> StandingQuery:
    mask = draw(MASKS)
    value = bytes(draw(st.lists(BYTES, min_size=len(mask), max_size=len(mask))))
    return StandingQuery(draw(st.sampled_from(ASKERS)), Pattern.of(value, mask))


@pytest.mark.parametrize("masks_max", [0, 2, 32])
@given(st.lists(watches(), max_size=30), st.data())
def test_askers_are_those_with_a_query_that_matches(
    masks_max: int, asked: list[StandingQuery], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(w, "MASKS_MAX", masks_max)
        standing = Watches()
        for number, one in enumerate(asked):
            standing.put(one, number)
        gone = data.draw(st.sets(st.sampled_from(asked))) if asked else set()
        for one in gone:
            assert standing.remove(one) and not standing.remove(one)
        left = [one for one in dict.fromkeys(asked) if one not in gone]
        assert len(standing) == len(left)
        message = data.draw(st.lists(BYTES, max_size=18).map(bytes))
        told = list(standing.askers(message))
        assert len(told) == len(set(told))
        assert set(told) == {one.asker for one in left if one.pattern.matches(message)}
        assert {one.asker for one in standing.expire(len(asked))} == {one.asker for one in left}
        assert not len(standing) and not list(standing.askers(message))
