"""Which keys that answered at a neighbour's addresses are dialled in its place, by value."""

from __future__ import annotations

from samples.core import ALICE, BOB, GROUP

from router.node.followers import AGAIN_S, NO_FOLLOWER_S, NO_FOLLOWERS_MAX, TRIES_MAX, Answerer, Followers

KEY = bytes(ALICE.public)
HERE, THERE = Answerer("tls://192.0.2.1:1", BOB.public), Answerer("tls://192.0.2.2:2", GROUP.public)


def test_who_answered_once_is_dialled_a_few_times_in_a_minute_and_then_rests() -> None:
    followers, end_s = Followers(), AGAIN_S * (2**TRIES_MAX - 1)
    assert followers.take(KEY, [], 0.0) is None
    assert followers.take(KEY, [HERE, THERE], 0.0) == HERE
    times = [second for second in range(1, int(end_s)) if followers.take(KEY, [], float(second)) == HERE]
    assert [0, *times] == [2**tries - 1 for tries in range(TRIES_MAX)], "each pause is twice as long"
    assert end_s > 60 and followers.may_follow(KEY, HERE.key, end_s)
    assert followers.take(KEY, [], end_s) is None and not followers.may_follow(KEY, HERE.key, end_s)
    assert followers.take(KEY, [HERE], end_s + NO_FOLLOWER_S) == HERE


def test_another_one_that_answers_is_dialled_in_its_place() -> None:
    followers = Followers()
    assert followers.take(KEY, [HERE], 0.0) == HERE and followers.take(KEY, [HERE], 0.5) is None
    assert followers.take(KEY, [THERE], 0.5) == THERE and followers.take(KEY, [], 1.5) == THERE
    assert followers.take(KEY, [HERE], 1.5) == HERE, "counted anew"


def test_who_was_turned_down_is_not_dialled_for_that_neighbour_for_a_while() -> None:
    followers, other = Followers(), bytes(GROUP.public)
    assert followers.take(KEY, [HERE], 0.0) == HERE
    followers.turn_down(KEY, HERE.key, 5.0)
    assert followers.take(KEY, [], 5.0) is None and not followers.may_follow(KEY, HERE.key, 4.0 + NO_FOLLOWER_S)
    assert followers.may_follow(KEY, HERE.key, 5.0 + NO_FOLLOWER_S) and followers.may_follow(other, HERE.key, 5.0)
    assert not followers.may_follow(KEY, KEY, 5.0), "nobody follows itself"


def test_of_a_neighbour_that_changed_or_went_nothing_is_kept() -> None:
    followers = Followers()
    followers.take(KEY, [HERE], 0.0)
    followers.keep({bytes(BOB.public)})
    assert followers.take(KEY, [], 0.0) is None


def test_only_the_last_that_were_turned_down_are_remembered() -> None:
    followers = Followers()
    for number in range(NO_FOLLOWERS_MAX + 1):
        followers.turn_down(number.to_bytes(32, "big"), HERE.key, 0.0)
    assert followers.may_follow(bytes(32), HERE.key, 0.0)
    assert not followers.may_follow((1).to_bytes(32, "big"), HERE.key, 0.0)
