"""Rate limits: what is saved up, what is charged beyond it, and a share for each key."""

from __future__ import annotations

from router.core.link.allowance import Allowance, Shares


def test_an_allowance_saves_up_its_burst_and_no_more() -> None:
    allowance = Allowance(per_s=2, burst=3)
    assert [allowance.take(1, 0.0) for _ in range(4)] == [True, True, True, False]
    assert [allowance.take(1, 0.5), allowance.take(1, 0.5)] == [True, False]
    assert [allowance.take(3, 100.0), allowance.take(1, 100.0)] == [True, False]


def test_what_is_charged_beyond_an_allowance_is_made_up_for_first() -> None:
    allowance = Allowance(per_s=1, burst=1)
    allowance.charge(3, 0.0)
    assert [allowance.take(1, 2.0), allowance.take(1, 3.0)] == [False, True]


def test_each_key_has_a_share_of_its_own() -> None:
    shares = Shares[str](1, 1, 8)
    assert [shares.take("a", 1, 0.0), shares.take("a", 1, 0.0), shares.take("b", 1, 0.0)] == [True, False, True]


def test_of_too_many_keys_that_which_was_used_longest_ago_is_forgotten() -> None:
    shares = Shares[str](1, 1, 2)
    assert shares.take("a", 1, 0.0)
    assert shares.take("b", 1, 0.0)
    assert not shares.take("a", 1, 0.0)  # which makes it the later one
    assert shares.take("c", 1, 0.0)
    assert len(shares) == 2
    assert not shares.take("a", 1, 0.0)
    assert shares.take("b", 1, 0.0)  # forgotten, so full again
