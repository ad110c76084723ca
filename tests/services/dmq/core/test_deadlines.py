"""The schedule of deadlines against a dict of them, for any changes in any order."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from services.dmq.core.deadlines import STALE_SHARE, Deadlines

OWNERS = st.sampled_from("abcde")
TIMES = st.one_of(st.integers(0, 20).map(float), st.just(inf))


@given(st.lists(st.one_of(st.tuples(OWNERS, TIMES), st.integers(0, 20).map(float)), max_size=60))
def test_it_is_a_dict_of_deadlines_whose_first_is_known(steps: list[tuple[str, float] | float]) -> None:
    schedule, plain = Deadlines[str](), dict[str, float]()
    for step in steps:
        if isinstance(step, tuple):
            schedule.set(*step)
            plain[step[0]] = step[1]
        else:
            due = schedule.due(step)
            assert sorted(due) == sorted(owner for owner, at_s in plain.items() if at_s <= step)
            assert [plain[owner] for owner in due] == sorted(plain[owner] for owner in due)
            for owner in due:
                del plain[owner]
        assert schedule.next_s == min(plain.values(), default=inf)


def test_what_has_changed_is_dropped() -> None:
    schedule = Deadlines[str]()
    for turn in range(1000):
        schedule.set("a", float(1000 - turn))
        schedule.set("b", float(turn))
    assert len(schedule._heap) <= STALE_SHARE * 3 + 1
    assert schedule.due(1.0) == ["a"] and schedule.next_s == 999.0
    assert repr(schedule) == "<Deadlines of 1>"
