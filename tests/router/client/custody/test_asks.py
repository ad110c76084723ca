"""Questions for missing messages: the first at once, repeats after growing pauses, and never too many at a time."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from router.client.custody.asks import AskLimits, Asks
from router.core.wire.crypto import MessageId, PublicKey

GROUP, VIA = PublicKey(b"g" * 32), PublicKey(b"v" * 32)
IDS = [MessageId(number.to_bytes(32, "big")) for number in range(1000)]


def asked(asks: Asks, now_s: float) -> list[MessageId]:
    return [one.id for one in asks.take(now_s)]


def test_at_once_and_again_after_longer_pauses() -> None:
    asks, times = Asks(AskLimits()), []
    asks.want(GROUP, IDS[:1], VIA)
    now_s = 0.0
    while now_s <= 30:
        found = asks.take(now_s)
        if found:
            times.append(now_s)
            assert [one.via for one in found] == [VIA if len(times) > 1 else None], "first the own router alone"
            assert asks.was_repeated(IDS[0]) is (len(times) > 1)
        assert now_s == 0 or asks.wake_s() > now_s
        now_s = asks.wake_s() if asks.wake_s() > now_s else now_s
    assert times == [0, 1, 3, 7, 15, 23]
    asks.drop(IDS[0])
    assert asks.wake_s() == math.inf and not asks.was_repeated(IDS[0]) and asks.group_of(IDS[0]) is None


def test_one_with_many_causes_holds_up_no_other() -> None:
    asks = Asks(AskLimits(open_max=4))
    asks.want(GROUP, IDS[:256])
    assert asked(asks, 0) == IDS[:4] and asked(asks, 0.5) == []
    asks.want(GROUP, IDS[300:301])
    assert asks.wake_s() == 1
    assert asked(asks, 1) == [IDS[300], *IDS[4:7]], "the only cause of one before the fifth of another"


def test_what_is_remembered_is_bounded() -> None:
    asks = Asks(AskLimits(open_max=4, wanted_max=20))
    for at in range(0, 1000, 10):
        asks.want(GROUP, IDS[at : at + 10])
        asks.take(float(at))
        for id in IDS[max(0, at - 5) : at + 5]:
            asks.drop(id)
        assert len(asks) <= 20 and len(asks._due) + len(asks._later) <= 50 and len(asks._repeated) <= 20


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 30), st.booleans()), max_size=60))
def test_never_more_at_a_time_and_each_in_the_end(steps: list[tuple[float, int, bool]]) -> None:
    asks, now_s, times = Asks(AskLimits(open_max=3)), 0.0, list[float]()
    seen: set[MessageId] = set()
    for pause_s, which, is_wanted in steps:
        now_s += pause_s
        if is_wanted:
            asks.want(GROUP, [IDS[which]])
        else:
            asks.drop(IDS[which])
        found = asked(asks, now_s)
        times += [now_s] * len(found)
        seen |= set(found)
        assert all(asks.group_of(id) == GROUP for id in found)
        assert sum(now_s - 1 < one for one in times) <= 3
    for _ in range(31):
        now_s += 1
        seen |= set(asked(asks, now_s))
    assert all(id in seen for id in IDS[:31] if asks.group_of(id) is not None)
