"""Which keys that answered at a neighbour's addresses are dialled in its place, by value."""

from __future__ import annotations

from samples.core import ALICE, BOB, GROUP

from router.node.successor_dials import AGAIN_S, NO_SUCCESSOR_S, NO_SUCCESSORS_MAX, TRIES_MAX, Answerer, SuccessorDials

KEY = bytes(ALICE.public)
HERE, THERE = Answerer("tls://192.0.2.1:1", BOB.public), Answerer("tls://192.0.2.2:2", GROUP.public)


def test_who_answered_once_is_dialled_a_few_times_in_a_minute_and_then_rests() -> None:
    successors, end_s = SuccessorDials(), AGAIN_S * (2**TRIES_MAX - 1)
    assert successors.take(KEY, [], 0.0) is None
    assert successors.take(KEY, [HERE, THERE], 0.0) == HERE
    times = [second for second in range(1, int(end_s)) if successors.take(KEY, [], float(second)) == HERE]
    assert [0, *times] == [2**tries - 1 for tries in range(TRIES_MAX)], "each pause is twice as long"
    assert end_s > 60 and successors.may_succeed(KEY, HERE.key, end_s)
    assert successors.take(KEY, [], end_s) is None and not successors.may_succeed(KEY, HERE.key, end_s)
    assert successors.take(KEY, [HERE], end_s + NO_SUCCESSOR_S) == HERE


def test_another_one_that_answers_is_dialled_in_its_place() -> None:
    successors = SuccessorDials()
    assert successors.take(KEY, [HERE], 0.0) == HERE and successors.take(KEY, [HERE], 0.5) is None
    assert successors.take(KEY, [THERE], 0.5) == THERE and successors.take(KEY, [], 1.5) == THERE
    assert successors.take(KEY, [HERE], 1.5) == HERE, "counted anew"


def test_who_was_turned_down_is_not_dialled_for_that_neighbour_for_a_while() -> None:
    successors, other = SuccessorDials(), bytes(GROUP.public)
    assert successors.take(KEY, [HERE], 0.0) == HERE
    successors.turn_down(KEY, HERE.key, 5.0)
    assert successors.take(KEY, [], 5.0) is None and not successors.may_succeed(KEY, HERE.key, 4.0 + NO_SUCCESSOR_S)
    assert successors.may_succeed(KEY, HERE.key, 5.0 + NO_SUCCESSOR_S) and successors.may_succeed(other, HERE.key, 5.0)
    assert not successors.may_succeed(KEY, KEY, 5.0), "nobody follows itself"


def test_of_a_neighbour_that_changed_or_went_nothing_is_kept() -> None:
    successors = SuccessorDials()
    successors.take(KEY, [HERE], 0.0)
    successors.keep({bytes(BOB.public)})
    assert successors.take(KEY, [], 0.0) is None


def test_only_the_last_that_were_turned_down_are_remembered() -> None:
    successors = SuccessorDials()
    for number in range(NO_SUCCESSORS_MAX + 1):
        successors.turn_down(number.to_bytes(32, "big"), HERE.key, 0.0)
    assert successors.may_succeed(bytes(32), HERE.key, 0.0)
    assert not successors.may_succeed((1).to_bytes(32, "big"), HERE.key, 0.0)
