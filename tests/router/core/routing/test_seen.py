"""Recent ids, and copies that share the outcome of the first."""

from __future__ import annotations

from router.core.routing.seen import CopyState, Seen
from router.core.wire.reasons import Reason

A, B = b"a" * 32, b"b" * 32


def test_an_accepted_id_is_remembered_and_a_refused_one_is_not() -> None:
    seen = Seen(100)
    assert [seen.begin(A), seen.begin(B)] == [CopyState.FIRST] * 2
    seen.accept(A)
    seen.refuse(B, Reason.BAD_SIGNATURE, "")
    assert A in seen and B not in seen
    assert seen.begin(A) is CopyState.ACCEPTED
    assert seen.begin(B) is CopyState.FIRST, "it may come again and is judged afresh"
    assert repr(seen) == "<1 recent ids, 1 in flight>"


def test_the_oldest_id_goes_first() -> None:
    seen = Seen(4)
    ids = [bytes((n,)) * 32 for n in range(6)]
    for one in ids:
        seen.accept(one)
    assert [one in seen for one in ids] == [False] * 2 + [True] * 4


def test_even_a_memory_of_nothing_works() -> None:
    seen = Seen(0)
    assert seen.begin(A) is CopyState.FIRST
    seen.accept(A)
    assert repr(seen) == "<1 recent ids, 0 in flight>"


def test_copies_share_a_refusal_and_then_nothing_is_left() -> None:
    seen = Seen(100)
    assert [seen.begin(A) for _ in range(3)] == [CopyState.FIRST, CopyState.LATER, CopyState.LATER]
    seen.refuse(A, Reason.QUEUE_FULL_NODE, "later")
    assert seen.begin(A) is CopyState.LATER, "a third copy, while the others wait"
    assert [seen.resolve(A) for _ in range(3)] == [(Reason.QUEUE_FULL_NODE, "later")] * 3
    assert not seen._in_flight and not seen._verdicts
    assert seen.begin(A) is CopyState.FIRST


def test_copies_share_an_acceptance() -> None:
    seen = Seen(100)
    assert [seen.begin(A), seen.begin(A)] == [CopyState.FIRST, CopyState.LATER]
    seen.accept(A)
    assert seen.resolve(A) is None and not seen._in_flight
