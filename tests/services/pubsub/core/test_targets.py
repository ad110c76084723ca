"""The routers that a message is sent to: by value for each rule of R-C33, and by properties of every view."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from rigs.topic_network import key_of, topic

from services.pubsub.core.known import Topic
from services.pubsub.core.sending.targets import Toward, replacement, targets

AFTER, BEFORE, ANYBODY = Toward.AFTER, Toward.BEFORE, Toward.ANYBODY
WHOLE = topic((11, 12, 13), (21, 22, 23), (31, 32, 33))


def chosen(
    view: Topic, sender: int | None = None, fanout: int = 3, *, is_member: bool = True
) -> list[tuple[int, Toward]]:
    by = None if sender is None else key_of(sender)
    found = targets(view, by, fanout, Random(1), is_member=is_member and sender is not None)
    return [(int.from_bytes(one.to.router, "big"), one.toward) for one in found]


def kinds(found: list[tuple[int, Toward]]) -> tuple[list[tuple[int, Toward]], int]:
    """Return the copies along the ring, and the number of random ones."""
    return [one for one in found if one[1] is not ANYBODY], sum(one[1] is ANYBODY for one in found)


def test_what_is_published_here_goes_to_both_sides_and_to_one_at_random() -> None:
    assert kinds(chosen(WHOLE)) == ([(11, AFTER), (21, BEFORE)], 1)
    assert kinds(chosen(WHOLE, fanout=5)) == ([(11, AFTER), (21, BEFORE)], 3)
    assert chosen(WHOLE, fanout=2) == [(11, AFTER), (21, BEFORE)]


def test_from_the_first_on_one_side_to_the_first_on_the_other_and_two_at_random() -> None:
    assert kinds(chosen(WHOLE, 11)) == ([(21, BEFORE)], 2)
    assert kinds(chosen(WHOLE, 21)) == ([(11, AFTER)], 2)


def test_a_side_is_skipped_only_if_its_first_neighbour_is_the_sender() -> None:
    assert kinds(chosen(WHOLE, 12)) == ([(11, AFTER), (21, BEFORE)], 1)
    assert kinds(chosen(WHOLE, 31)) == ([(11, AFTER), (21, BEFORE)], 1)
    assert kinds(chosen(WHOLE, 99)) == ([(11, AFTER), (21, BEFORE)], 1)


def test_a_sender_that_is_no_member_of_the_ring_counts_as_from_anywhere_else() -> None:
    lan = topic((11, 12), (21, 22), (31, 32))
    assert kinds(chosen(lan, 11, is_member=False)) == ([(12, AFTER), (21, BEFORE)], 1)


def test_nothing_goes_back_to_the_sender_or_twice_to_one() -> None:
    two = topic((1,), (1,))
    assert chosen(two, 1) == []
    assert chosen(two) == [(1, AFTER)]
    three = topic((1, 2), (2, 1))
    assert chosen(three, 1) == [(2, BEFORE)]
    assert chosen(three) == [(1, AFTER), (2, BEFORE)]
    assert chosen(topic()) == []


def test_where_few_are_in_the_view_at_random_those_of_the_ring_take_their_places() -> None:
    assert sorted(chosen(topic((11, 12), (21, 22), ()), fanout=4))[:2] == [(11, AFTER), (12, ANYBODY)]


def test_random_links_go_to_all_in_turn() -> None:
    chance, hits = Random(3), dict.fromkeys((31, 32, 33), 0)
    for _ in range(3_000):
        hits[int.from_bytes(targets(WHOLE, None, 3, chance, is_member=False)[2].to.router, "big")] += 1
    assert all(900 < one < 1_100 for one in hits.values())


def instead(view: Topic, toward: Toward, taken: set[int], sender: int | None = None) -> int | None:
    by = None if sender is None else key_of(sender)
    found = replacement(view, toward, by, {by, *map(key_of, taken)}, Random(1), is_member=sender is not None)
    return None if found is None else int.from_bytes(found.router, "big")


def test_in_place_of_one_on_a_side_comes_the_next_there_then_any_of_the_view() -> None:
    assert instead(WHOLE, AFTER, {11}) == 12
    assert instead(WHOLE, AFTER, {11, 12}) == 13
    assert instead(WHOLE, AFTER, {11, 12, 13}) in (31, 32, 33)
    assert instead(WHOLE, AFTER, {11, 12, 13, 31, 32, 33}) in (21, 22, 23)
    assert instead(WHOLE, AFTER, {11, 12, 13, 21, 22, 23, 31, 32, 33}) is None


def test_in_place_of_one_at_random_comes_another_over_the_whole_view() -> None:
    assert instead(WHOLE, ANYBODY, {31}) in (32, 33)
    assert instead(WHOLE, ANYBODY, {31, 32, 33}) in (11, 12, 13, 21, 22, 23)


def test_where_the_first_live_neighbour_of_a_side_proves_to_be_the_sender_one_at_random_gets_the_copy() -> None:
    assert instead(WHOLE, AFTER, {11}, sender=12) in (31, 32, 33)
    assert instead(WHOLE, BEFORE, {21}, sender=12) == 22


numbers = st.lists(st.integers(1, 60), unique=True, max_size=10)


@given(numbers, numbers, numbers, st.one_of(st.none(), st.integers(1, 60)), st.integers(2, 6), st.booleans())
def test_of_every_view(
    after: list[int], before: list[int], others: list[int], sender: int | None, fanout: int, is_member: bool
) -> None:
    view = topic(after, before, [one for one in others if one not in (*after, *before)])
    found = chosen(view, sender, fanout, is_member=is_member)
    to = [one for one, _ in found]
    everybody = {*after, *before, *others} - {sender}
    assert len(set(to)) == len(to) == min(fanout, len(everybody)) and sender not in to
    for side in (after, before):
        first = next((one for one in side if one != sender), None)
        assert first is None or first in to or (side[0] == sender and is_member)
