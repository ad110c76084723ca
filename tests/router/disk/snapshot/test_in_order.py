"""Jobs of threads give their results in the order in which they were begun, and no more than a few wait."""

from __future__ import annotations

import threading

import pytest

from router.disk.snapshot.in_order import InOrder


def test_results_come_in_order_and_few_jobs_are_ahead() -> None:
    found, begun = list[int](), list[int]()

    def job(number: int) -> int:
        begun.append(number)
        return number

    with InOrder[int](3, 4) as threads:
        for number in range(50):
            found.extend(threads.add(job, number))
            assert len(begun) <= len(found) + 5
        found.extend(threads.rest())
    assert found == sorted(begun) == [*range(50)]


def test_one_job_runs_in_the_thread_of_its_caller() -> None:
    with InOrder[int](3, 4) as threads:
        assert [*threads.add(threading.get_ident)] == [threading.get_ident()]


def test_an_error_comes_in_the_place_of_its_result() -> None:
    with InOrder[int](2, 2) as threads:
        found = [*threads.add(int, "1"), *threads.add(int, "2"), *threads.add(int, "x")]
        with pytest.raises(ValueError, match="'x'"):
            found.extend(threads.rest())
    assert found == [1, 2]
