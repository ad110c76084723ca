"""A process that holds what others wait for is ended only when it does nothing."""

from __future__ import annotations

from router.disk.snapshot.hold_limit import CPU_S_MIN, LOOKS, TIMES_MAX, WorkSeen


def test_work_is_seen_by_cpu_time_and_adds_up_over_many_looks() -> None:
    seen = WorkSeen(5.0)
    looks = [seen.look(5.0 + CPU_S_MIN * parts / 4) for parts in (0, 1, 2, 3, 5, 6, 8, 10)]
    assert looks == [False, False, False, False, True, False, False, True]


def test_a_process_that_does_nothing_is_not_seen_to_work() -> None:
    seen = WorkSeen(1.0)
    assert seen.look(2.0)
    assert not any(seen.look(2.0 + CPU_S_MIN / 2) for _ in range(100))


def test_a_process_that_only_uses_cpu_time_is_seen_to_work_for_ten_times_the_limit() -> None:
    seen, most = WorkSeen(0.0), TIMES_MAX * LOOKS
    for first in (0, 1000):
        assert [seen.look(float(first + at)) for at in range(1, most + 2)] == [True] * most + [False]
        seen.went_on()
