"""Repair: which routers are asked for which ids, when and how often; and that invented ids cost others nothing."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from rigs.topic_network import GROUP, TopicNetwork, key_of, message_of, ring, topic

from router.core.wire.crypto import MessageId, PublicKey
from services.pubsub.core.known import Topic
from services.pubsub.core.sending.repair import (
    AskForMessage,
    Named,
    Repair,
    Repaired,
    RepairLimits,
    SkipCause,
    Unanswered,
)

ID, OTHER = message_of(1), message_of(2)
SEEN, HAVE = Named.SEEN, Named.HAVE
BY, ANOTHER = key_of(11), key_of(12)
VIEW = topic((11, 12), (21,), (31, 32))
ELSEWHERE = PublicKey(b"\x08" * 32)


def made(view: Topic = VIEW, **limits: Any) -> Repair:
    return Repair({GROUP: view, ELSEWHERE: view}, Random(1), RepairLimits(**limits))


def test_what_a_message_names_is_asked_for_after_a_delay_of_who_brought_it() -> None:
    node = made()
    node.named([ID], GROUP, BY, SEEN, 0.0)
    assert node.due_s == 2.0 and node.tick(1.9) == []
    assert node.tick(2.0) == [AskForMessage(BY, GROUP, ID)] and node.due_s == 7.0
    assert node.arrived(ID, BY, 2.1) == [Repaired(ID, GROUP, 1, BY)]
    assert len(node) == 0 and node.due_s == float("inf")


def test_what_comes_by_itself_is_not_asked_for() -> None:
    node = made()
    node.named([ID], GROUP, BY, SEEN, 0.0)
    assert node.arrived(ID, ANOTHER, 1.0) == [] and node.tick(2.0) == [] and node.knows(ID)


def test_what_is_known_is_not_missing() -> None:
    node = made()
    node.arrived(ID, BY, 0.0)
    node.named([ID], GROUP, BY, SEEN, 0.0)
    assert len(node) == 0


def test_what_is_announced_is_asked_for_after_a_second() -> None:
    node = made()
    node.named([ID], GROUP, BY, HAVE, 0.0)
    assert node.due_s == 1.0 and node.tick(1.0) == [AskForMessage(BY, GROUP, ID)]


def test_two_others_are_asked_after_the_one_that_named_it_and_then_it_is_given_up() -> None:
    node = made()
    node.named([ID], GROUP, BY, SEEN, 0.0)
    asked = [one.router for at in (2.0, 7.0, 12.0) for one in node.tick(at) if isinstance(one, AskForMessage)]
    assert asked[0] == BY and len(set(asked)) == 3 and set(asked[1:]) <= {key_of(one) for one in (12, 21, 31, 32)}
    assert node.tick(17.0) == [Unanswered(ID, GROUP, 3)] and len(node) == 0


def test_all_that_named_it_come_before_others() -> None:
    node = made()
    for one in (41, 42, 43, 44):
        node.named([ID], GROUP, key_of(one), SEEN, 0.0)
    asked = [one.router for at in (2.0, 7.0, 12.0) for one in node.tick(at) if isinstance(one, AskForMessage)]
    assert asked == [key_of(one) for one in (41, 42, 43)]


def test_the_only_one_that_announced_it_is_asked_again() -> None:
    node = made(topic((11,), (11,)))
    node.named([ID], GROUP, BY, HAVE, 0.0)
    assert [node.tick(at) for at in (1.0, 6.0, 11.0)] == [[AskForMessage(BY, GROUP, ID)]] * 3
    assert node.tick(16.0) == [Unanswered(ID, GROUP, 3)]


def test_the_only_one_that_named_it_is_asked_once() -> None:
    node = made(topic((11,), (11,)))
    node.named([ID], GROUP, BY, SEEN, 0.0)
    assert node.tick(2.0) == [AskForMessage(BY, GROUP, ID)] and node.tick(7.0) == [Unanswered(ID, GROUP, 1)]


def test_what_the_router_knows_is_not_asked_for_again() -> None:
    node = made()
    node.named([ID], GROUP, BY, SEEN, 0.0)
    node.tick(2.0)
    assert node.known_here(ID, 2.1) == [] and len(node) == 0
    node.named([ID], GROUP, BY, SEEN, 3.0)
    assert len(node) == 0


def test_if_one_is_away_another_is_asked_at_once() -> None:
    node = made()
    node.named([ID], GROUP, BY, SEEN, 0.0)
    node.tick(2.0)
    [asked] = node.not_asked(ID, 2.1)
    assert isinstance(asked, AskForMessage) and asked.router != BY


def test_if_the_router_asks_for_too_much_the_same_is_asked_later() -> None:
    node = made()
    node.named([ID], GROUP, BY, SEEN, 0.0)
    node.tick(2.0)
    assert node.postponed(ID, 2.1) == [] and node.due_s == 3.1
    assert node.tick(3.1) == [AskForMessage(BY, GROUP, ID)]


def test_given_up_it_is_asked_for_again_only_when_it_is_named_again_and_three_times_in_all() -> None:
    node = made(topic((11,), (11,)))
    for begin_s in (0.0, 100.0, 200.0):
        node.named([ID], GROUP, BY, SEEN, begin_s)
        assert node.tick(begin_s + 2) == [AskForMessage(BY, GROUP, ID)]
        assert node.tick(begin_s + 7) == [Unanswered(ID, GROUP, 1)] and node.due_s == float("inf")
    node.named([ID], GROUP, BY, SEEN, 300.0)
    assert len(node) == 0 and node.left_out == {(SkipCause.GIVEN_UP, GROUP): 1}


def test_what_a_topic_that_was_left_lacks_is_forgotten() -> None:
    node = made()
    node.named([ID], GROUP, BY, SEEN, 0.0)
    node.tick(2.0)
    assert node.left(GROUP, 3.0) == [] and len(node) == 0 and node.tick(100.0) == []


# -- limits -----------------------------------------------------------------------------------------------------------


def many(first: int, count: int) -> list[MessageId]:
    return [message_of(one) for one in range(first, first + count)]


def test_at_most_sixteen_questions_are_open_and_sixty_four_while_catching_up() -> None:
    node = made()
    node.named(many(0, 40), GROUP, BY, SEEN, 0.0)
    node.named(many(100, 40), ELSEWHERE, BY, SEEN, 0.0)
    asked = node.tick(2.0)
    assert len(asked) == 16
    node.is_catching_up = True
    more = node.arrived(message_of(0), BY, 2.1)
    assert more[0] == Repaired(message_of(0), GROUP, 1, BY) and len(more) == 1 + 64 - 15 and node.open == 64


def test_one_source_has_at_most_half_of_the_questions() -> None:
    node = made()
    node.named(many(0, 40), GROUP, BY, SEEN, 0.0)
    assert len(node.tick(2.0)) == 8
    node.named([ID2 := message_of(999)], ELSEWHERE, BY, SEEN, 2.0)
    assert node.tick(4.0) == [AskForMessage(BY, ELSEWHERE, ID2)]


def test_ten_thousand_ids_that_one_router_announces_are_bounded_and_counted() -> None:
    node = made()
    node.named(many(0, 10_000), GROUP, BY, HAVE, 0.0)
    assert len(node) == 64 and node.left_out == {(SkipCause.SOURCE, BY): 9_936}
    asks = 0
    for at in range(200):
        deeds = node.tick(float(at))
        asks += sum(isinstance(one, AskForMessage) for one in deeds)
    assert asks <= 3 * 64 and len(node) == 0
    node.named([message_of(20_000)], GROUP, ANOTHER, HAVE, 200.0)
    assert node.tick(201.0) == [AskForMessage(ANOTHER, GROUP, message_of(20_000))], "others are not charged"


def test_a_source_whose_ids_come_is_never_left_out() -> None:
    node = made()
    for at in range(1_000):
        id = message_of(at)
        node.named([id], GROUP, BY, SEEN, float(at))
        node.tick(at + 2.0)
        node.arrived(id, BY, at + 2.1)
    assert not node.left_out


def test_a_source_that_invented_ids_is_asked_for_one_every_ten_seconds() -> None:
    node = made(source_burst=2)
    node.named(many(0, 3), GROUP, BY, HAVE, 0.0)
    assert len(node) == 2
    for at in range(30):
        node.tick(float(at))
    node.named(many(10, 9), GROUP, BY, HAVE, 30.0)
    assert len(node) == 2 and node.left_out == {(SkipCause.SOURCE, BY): 8}


def test_more_than_is_remembered_as_missing_is_counted() -> None:
    node = made(missing_max=3)
    node.named(many(0, 5), GROUP, BY, SEEN, 0.0)
    assert len(node) == 3 and node.left_out == {(SkipCause.NO_ROOM, GROUP): 2}


def test_sources_without_end_are_bounded() -> None:
    node = made(sources_max=4, source_burst=1)
    for one in range(100):
        node.named(many(10 * one, 5), GROUP, key_of(one), HAVE, 0.0)
    assert len(node.left_out) <= 6 and sum(node.left_out.values()) == 400


def test_known_ids_take_half_a_mebibyte_at_most() -> None:
    """As measured with a quarter of them."""
    most = RepairLimits().known_max // 4
    node = made(known_max=most)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for first in range(0, most * 3 // 2, 64):
            node.published([MessageId(b"\xff" * 28 + one.to_bytes(4, "big")) for one in range(first, first + 64)])
            assert tracemalloc.get_traced_memory()[0] - before < 1 << 17
    finally:
        tracemalloc.stop()
    assert most > 4_000


@given(st.lists(st.tuples(st.sampled_from("nhatkpz"), st.integers(0, 30), st.integers(0, 5)), max_size=200))
@settings(deadline=None)
def test_whatever_happens_its_books_agree(steps: list[tuple[str, int, int]]) -> None:
    node = made(missing_max=20, open_max=4, source_burst=10)
    now_s, asked = 0.0, 0
    for what, number, by in steps:
        id, router, deeds = message_of(number), key_of(by), []
        if what in "nh":
            node.named([id], GROUP if by % 2 else ELSEWHERE, router, SEEN if what == "n" else HAVE, now_s)
        elif what == "a":
            deeds = node.arrived(id, router, now_s)
        elif what == "k":
            deeds = node.known_here(id, now_s)
        elif what == "p":
            deeds = node.not_asked(id, now_s)
        elif what == "z":
            deeds = node.postponed(id, now_s)
        else:
            now_s += by
            deeds = node.tick(now_s)
        asked += sum(isinstance(one, AskForMessage) for one in deeds)
        assert len(node) <= 20 and node.open <= 4
    for _ in range(400):
        now_s += 5
        node.tick(now_s)
    assert len(node) == 0 and node.open == 0 and node.due_s == float("inf")


# -- networks ---------------------------------------------------------------------------------------------------------


def test_what_is_lost_on_links_comes_with_the_messages_that_name_it() -> None:
    count, chance = 100, Random(13)
    network = TopicNetwork(ring(count, chance), 13, loss=0.2)
    ids = many(1, 9)
    for at, id in enumerate(ids):
        network.publish(at, id, tuple(ids[max(0, at - 8) : at]))
        network.run()
    assert network.reached(ids[0]) == set(range(count)) and network.asked > 0
    assert len(network.reached(ids[6])) >= 0.9999 * count
