"""The order in which a node asks about its rings, compared with sorting all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.core.wire.crypto import PublicKey
from services.pubsub.core.rings.ask_order import AskOrder


def group(number: int) -> PublicKey:
    return PublicKey(bytes((number,)) * 32)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5) | st.none()), max_size=60))
def test_as_one_that_sorts_all_groups(steps: list[tuple[int, int | None]]) -> None:
    order, periods = AskOrder(), dict[PublicKey, int]()
    for number, period in steps:
        if period is None:
            order.remove(group(number))
            periods.pop(group(number), None)
        else:
            order.put(group(number), period)
            periods[group(number)] = period
    found = list(order)
    assert len(order) == len(periods) and set(found) == set(periods)
    assert [periods[one] for one in found] == sorted(periods.values())


def test_it_reads_like_a_sentence() -> None:
    order = AskOrder()
    for number, period in ((1, 3), (2, 3), (3, 4)):
        order.put(group(number), period)
    assert repr(order) == "<3 groups, asked about in 2 periods>"
