"""Random copies are left out where they are no news, and sent again when something goes wrong."""

from __future__ import annotations

from random import Random
from typing import Any

from rigs.topic_network import GROUP, key_of, message_of, neighbours, topic

from services.pubsub.core.known import Topic
from services.pubsub.core.sending.forwarding import Deed, Forwarding, ForwardingLimits, Origin, SendCopy
from services.pubsub.core.sending.random_copies import Came, RandomCopies, RandomCopiesLimits, came_by

AROUND = topic((11, 12, 31), (21, 22, 32))
ORDER = neighbours(31, 32, 12, 22)


def made(**limits: Any) -> RandomCopies:
    return RandomCopies(Random(1), RandomCopiesLimits(**{"probe": 0.0, **limits}))


def chosen(copies: RandomCopies, sender: int | None = 21, count: int = 2, view: Topic = AROUND) -> list[int]:
    by = None if sender is None else key_of(sender)
    if not copies.is_measured(view):
        return [int.from_bytes(one.router, "big") for one in ORDER[:count]]
    found = copies.choose(view, came_by(view, by, is_member=True), by, ORDER, count)
    return [int.from_bytes(one.router, "big") for one in found]


def end(copies: RandomCopies, to: int, times: int = 1, *, was_known: bool, sender: int | None = 21) -> None:
    by = None if sender is None else key_of(sender)
    for _ in range(times):
        copies.ended(AROUND, came_by(AROUND, by, is_member=True), by, key_of(to), was_known=was_known)


def test_a_message_comes_from_here_along_the_ring_or_at_random() -> None:
    assert came_by(AROUND, None, is_member=True) is Came.HERE
    assert came_by(AROUND, key_of(11), is_member=False) is Came.HERE, "from a client or LAN neighbour"
    assert came_by(AROUND, key_of(21), is_member=True) is Came.ALONG_THE_RING
    assert came_by(AROUND, key_of(12), is_member=True) is Came.AT_RANDOM


def test_all_copies_are_sent_until_one_is_no_news() -> None:
    copies = made()
    end(copies, 31, was_known=False)
    assert not copies.is_measured(AROUND)
    end(copies, 31, was_known=True)
    assert copies.is_measured(AROUND) and chosen(copies) == [31, 32]


def test_a_router_to_which_copies_are_no_news_gives_way_to_others() -> None:
    copies = made()
    end(copies, 31, 3, was_known=True)  # 0.7, 0.49, 0.34
    assert chosen(copies) == [32, 12] and chosen(copies, 11) == [31, 32], "those that another brings may be news"
    end(copies, 31, was_known=False)
    assert chosen(copies) == [31, 32]


def test_where_no_copy_is_news_only_few_are_sent() -> None:
    copies, probing = made(), made(probe=0.5)
    for one in (copies, probing):
        for to in (31, 32) * 10:
            end(one, to, was_known=True)
    assert chosen(copies) == [], "also routers that were not tried yet"
    assert chosen(copies, 12) == [31, 32], "what comes another way counts by itself"
    sent = sum(len(chosen(probing)) for _ in range(200))
    assert 150 < sent < 250


def test_what_is_published_here_goes_to_more_in_place_of_what_others_leave_out() -> None:
    copies = made(more_here=2)
    assert chosen(copies, None, 1) == [31]
    end(copies, 12, was_known=True)
    assert chosen(copies, None, 1) == [31, 32, 12] and chosen(copies, None, 0) == []


def test_another_first_neighbour_of_the_ring_begins_anew() -> None:
    copies = made()
    end(copies, 31, 9, was_known=True)
    assert copies.is_measured(topic((11,), (21,))), "those farther away do not matter"
    assert not copies.is_measured(topic((12,), (21,))) and not copies.is_measured(AROUND)


def test_in_a_topic_with_members_beside_both_sides_all_random_copies_are_sent() -> None:
    copies, large = made(), topic((11,), (21,), (31, 32))
    copies.ended(large, Came.AT_RANDOM, key_of(12), key_of(31), was_known=True)
    assert not copies.is_measured(large)
    end(copies, 31, was_known=True)
    assert copies.is_measured(AROUND) and not copies.is_measured(large)


def test_what_is_remembered_has_bounds() -> None:
    copies = made(pairs_max=2, topics_max=1)
    end(copies, 31, was_known=True)
    end(copies, 32, was_known=True)
    end(copies, 12, was_known=True)
    share = copies.share(GROUP, Came.ALONG_THE_RING, key_of(21), key_of(31))
    assert share == copies.share(GROUP, Came.ALONG_THE_RING, key_of(21), key_of(99)), "it was forgotten"
    other = Topic(key_of(7))
    copies.ended(other, Came.HERE, None, key_of(31), was_known=True)
    assert copies.is_measured(other) and not copies.is_measured(AROUND)


# -- in forwarding ----------------------------------------------------------------------------------------------------


def to(deeds: list[Deed]) -> list[int]:
    return [int.from_bytes(one.to, "big") for one in deeds if isinstance(one, SendCopy)]


def learned(**limits: Any) -> Forwarding:
    """Return a node whose random copies of what came along the ring were known at the other end, ten messages long."""
    node = Forwarding({GROUP: AROUND}, Random(1), ForwardingLimits(random=RandomCopiesLimits(probe=0.0), **limits))
    for number in range(10):
        for one in to(node.received(message_of(number), GROUP, b"wire", Origin(key_of(21), is_member=True), number)):
            node.taken(message_of(number), key_of(one), number, was_known=True)
    return node


def test_copies_along_the_ring_are_always_sent() -> None:
    node = learned()
    assert to(node.received(message_of(99), GROUP, b"wire", Origin(key_of(21), is_member=True), 20.0)) == [11]
    assert node.left_out >= 2


def test_if_a_copy_is_not_taken_those_that_were_left_out_follow_and_all_are_sent_of_the_next_message() -> None:
    node = learned()
    node.received(message_of(99), GROUP, b"wire", Origin(key_of(21), is_member=True), 20.0)
    more = to(node.refused(message_of(99), key_of(11), 20.1))
    assert len(more) == 3 and 12 in more, "the next on that side, and two at random"
    assert len(to(node.received(message_of(98), GROUP, b"wire", Origin(key_of(21), is_member=True), 21.0))) == 3


def test_the_ids_of_large_messages_go_to_all() -> None:
    node = learned(large_bytes=1_024)
    assert len(node.received(message_of(99), GROUP, bytes(1_024), Origin(key_of(21), is_member=True), 20.0)) == 3
