"""The node's work for others: a caller that had little lately goes before those that had much."""

from __future__ import annotations

import pytest

from services.capd.core.over_http.limits import OverHttpLimits
from services.capd.core.over_http.solver_share import ATTEMPTS_PER_MS, SolverShare, TooMuchWork
from services.capd.core.solving import attempts_for, bits_of_priority

LIMITS = OverHttpLimits()
BITS, LARGER = bits_of_priority(400.0, 9), bits_of_priority(800.0, 9)
COST_MS = int(attempts_for(BITS) / ATTEMPTS_PER_MS) + 1


def worked(share: SolverShare, caller: str, now_s: float, bits: int = BITS) -> bool:
    """Whether the work of a caller is done, which then takes what it is expected to."""
    try:
        job = share.begin(caller, bits, now_s)
    except TooMuchWork as error:
        assert error.reason == "solver-busy"
        return False
    share.end(job, job.charged_ms, now_s)
    return True


def test_caller_that_had_little_lately_goes_before_many_that_ask_for_much() -> None:
    share = SolverShare(20, LIMITS)
    greedy = [f"198.51.100.{number}" for number in range(24)]
    done = 0
    for second in range(600):
        for caller in greedy:
            while worked(share, caller, second):
                pass
        if second % 60 in (30, 40):  # once a minute, and again 10 s later if it was told so
            done += worked(share, "192.0.2.1", second)
    assert done >= 10, "it has what it asks for once a minute"


def test_what_one_alone_asks_for_is_done_as_before() -> None:
    share = SolverShare(20, LIMITS)
    done = sum(worked(share, "192.0.2.1", second / 10) for second in range(1200) for _ in range(3))
    assert done >= 0.9 * 120 * 200 // COST_MS


def test_claims_that_nobody_takes_up_leave_others_half_of_the_work() -> None:
    share, old, done = SolverShare(100, LIMITS), "192.0.2.1", 0
    while worked(share, old, 0):
        pass
    for second in range(1, 100):
        for number in range(50):  # of these nobody asks again
            worked(share, f"2001:db8:{second}:{number}::/64", second, LARGER)
        done += any(worked(share, old, second + part / 50) for part in range(50))
    assert done > 50


def test_places_are_kept_for_who_had_less() -> None:
    share, busy, honest = SolverShare(100, LIMITS), "198.51.100.1", "192.0.2.1"
    jobs = [share.begin(busy, BITS, 0) for _ in range(LIMITS.solve_queue_max)]
    with pytest.raises(TooMuchWork, match="who had least lately is next"):
        share.begin(honest, BITS, 0)
    share.end(jobs.pop(), 1, 1)
    with pytest.raises(TooMuchWork):
        share.begin(busy, BITS, 1)
    share.begin(honest, BITS, 1)


def test_claim_ends_after_a_while() -> None:
    share, busy, honest = SolverShare(100, LIMITS), "198.51.100.1", "192.0.2.1"
    jobs = [share.begin(busy, BITS, 0) for _ in range(LIMITS.solve_queue_max)]
    with pytest.raises(TooMuchWork):
        share.begin(honest, BITS, 0)
    share.end(jobs.pop(), 1, 1)
    share.begin(busy, BITS, LIMITS.solve_claim_s)


def test_share_reads_as_a_sentence() -> None:
    share = SolverShare(100, LIMITS)
    share.begin("192.0.2.1", BITS, 0)
    assert repr(share) == "<1 messages to solve, <0 claims of 1 caller>>"
