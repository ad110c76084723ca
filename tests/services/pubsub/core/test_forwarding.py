"""Forwarding: copies, their replacements, this node's own messages; and whole networks compared with flooding."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.topic_network import GROUP, TopicNetwork, key_of, message_of, ring, topic

from router.core.wire.crypto import PublicKey
from services.pubsub.core.known import Topic
from services.pubsub.core.sending.forwarding import (
    Announce,
    Deed,
    EndCause,
    FetchBytes,
    Forget,
    Forwarding,
    ForwardingLimits,
    GaveUp,
    Origin,
    Remember,
    SendCopy,
    Silent,
)
from services.pubsub.core.sending.untaken import Own, UntakenLimits

ID, OTHER = message_of(1), message_of(2)
HERE = Origin(until_s=1_000.0)
WHOLE = topic((11, 12), (21, 22), (31, 32, 33))


def made(view: Topic | None = None, **limits: Any) -> Forwarding:
    topics = {GROUP: WHOLE if view is None else view}
    return Forwarding(topics, Random(1), ForwardingLimits(**limits))


def brought_by(number: int) -> Origin:
    return Origin(key_of(number), is_member=True)


def to(deeds: Sequence[Deed]) -> list[int]:
    """Return the routers that copies go to."""
    return [int.from_bytes(one.to, "big") for one in deeds if isinstance(one, SendCopy)]


def kinds(deeds: Sequence[Deed]) -> list[type[Deed]]:
    return [type(one) for one in deeds]


def test_copies_go_out_at_once_and_nothing_is_due_once_all_are_taken() -> None:
    node = made()
    deeds = node.received(ID, GROUP, b"wire", brought_by(11), 0.0)
    assert to(deeds)[0] == 21 and len(deeds) == 3 and node.due_s == 3.0
    assert all(one.wire == b"wire" and not one.again for one in deeds if isinstance(one, SendCopy))
    assert [node.taken(ID, key_of(one), 0.1) for one in to(deeds)] == [[], [], []]
    assert node.pending == 0 and node.due_s == float("inf") and (node.copies, node.copies_again) == (3, 0)


def test_what_is_of_no_topic_here_is_not_forwarded() -> None:
    assert made().received(ID, PublicKey(bytes(32)), b"wire", HERE, 0.0) == []


def test_the_same_message_again_starts_nothing() -> None:
    node = made()
    node.received(ID, GROUP, b"wire", brought_by(99), 0.0)
    assert node.received(ID, GROUP, b"wire", brought_by(98), 0.1) == []


def test_a_copy_not_taken_in_time_goes_to_the_next_of_its_side() -> None:
    node = made()
    first = node.received(ID, GROUP, b"wire", brought_by(99), 0.0)
    for one in to(first)[1:]:
        node.taken(ID, key_of(one), 1.0)
    assert node.tick(2.9, 0) == []
    assert node.tick(3.0, 0) == [Silent(key_of(11)), SendCopy(ID, GROUP, b"wire", key_of(12), again=True)]
    assert node.taken(ID, key_of(11), 3.5) == [] and node.pending == 0, "what the first takes late ends it, too"


def test_a_side_that_is_used_up_goes_on_over_the_whole_view() -> None:
    node = made(topic((11, 12), (21,), (31,)))
    node.received(ID, GROUP, b"wire", brought_by(99), 0.0)
    for one in (21, 31):
        node.taken(ID, key_of(one), 0.0)
    assert to(node.tick(3.0, 0)) == [12]
    assert node.tick(6.0, 0) == [Silent(key_of(12))] and node.pending == 0, "two have it, and nobody is left"


def test_a_router_that_took_something_meanwhile_is_slow_but_not_silent() -> None:
    node = made(topic((11, 12), (21, 22), (31, 32)))
    assert to(node.received(ID, GROUP, b"wire", brought_by(99), 0.0))[:2] == [11, 21]
    node.taken(OTHER, key_of(11), 1.0)
    deeds = node.tick(3.0, 0)
    assert Silent(key_of(11)) not in deeds and Silent(key_of(21)) in deeds
    assert to(deeds)[:2] == [12, 22]


def test_a_refused_copy_goes_on_at_once() -> None:
    node = made()
    node.received(ID, GROUP, b"wire", brought_by(99), 0.0)
    assert to(node.refused(ID, key_of(11), 0.1)) == [12]
    assert node.refused(ID, key_of(11), 0.2) == [], "it went on already"
    assert to(node.refused(ID, key_of(12), 0.2))[0] in (31, 32, 33, 22)


def test_nobody_takes_a_message_of_others() -> None:
    node = made(topic((11,), (21,)))
    node.received(ID, GROUP, b"wire", brought_by(99), 0.0)
    assert [one for one in node.tick(3.0, 0) if isinstance(one, GaveUp)] == [
        GaveUp(ID, GROUP, EndCause.NOBODY_TOOK_IT, 2)
    ]
    assert node.pending == 0


# -- published here ---------------------------------------------------------------------------------------------------


def test_what_is_published_here_is_remembered_until_a_neighbour_has_it() -> None:
    node = made()
    deeds = node.received(ID, GROUP, b"wire", HERE, 0.0)
    assert deeds[0] == Remember(ID, Own(GROUP, 1_000.0)) and to(deeds)[:2] == [11, 21] and node.untaken == 1
    assert node.taken(ID, key_of(21), 0.1) == [Forget(ID)] and node.untaken == 0
    assert node.taken(ID, key_of(11), 0.2) == []


def test_it_goes_on_until_one_takes_it() -> None:
    node = made(topic((11,), (21,)))
    node.received(ID, GROUP, b"wire", HERE, 0.0)
    assert to(node.tick(3.0, 0)) == [] and node.due_s == 4.0 and node.pending == 0
    assert node.tick(4.0, 0) == [FetchBytes(ID, GROUP)] and node.due_s == float("inf")
    assert to(node.fetched(ID, b"wire", 4.1)) == [11, 21]
    assert node.tick(7.1, 0)[:2] == [Silent(key_of(11)), Silent(key_of(21))]
    assert node.tick(8.1, 0) == [FetchBytes(ID, GROUP)]
    node.fetched(ID, b"wire", 8.2)
    assert node.taken(ID, key_of(11), 8.3) == [Forget(ID)]


def test_what_one_took_late_is_not_tried_again() -> None:
    node = made(topic((11,), (21,)))
    node.received(ID, GROUP, b"wire", HERE, 0.0)
    node.tick(3.0, 0)
    assert node.taken(ID, key_of(11), 3.5) == [Forget(ID)]
    assert node.due_s == float("inf") and node.untaken == 0


def test_without_neighbours_it_waits_for_the_first() -> None:
    view = topic()
    node = made(view)
    assert node.received(ID, GROUP, b"wire", HERE, 0.0) == [Remember(ID, Own(GROUP, 1_000.0))]
    for at in range(1, 100):
        assert node.due_s == at and node.tick(at, 0) == []
    view.show(WHOLE.after, (), ())
    assert node.tick(100.0, 0) == [FetchBytes(ID, GROUP)]
    assert to(node.fetched(ID, b"wire", 100.1)) == [11, 12]


def test_after_a_restart_what_was_remembered_is_tried_again() -> None:
    node = made()
    node.restore([(ID, Own(GROUP, 1_000.0)), (OTHER, Own(GROUP, 5.0))], 10.0)
    assert node.tick(11.0, 500.0) == [
        Forget(OTHER), GaveUp(OTHER, GROUP, EndCause.EXPIRED, is_own=True), FetchBytes(ID, GROUP),
    ]  # fmt: skip
    assert node.fetched(OTHER, b"wire", 12.0) == []
    assert node.fetched(ID, None, 12.0) == [Forget(ID), GaveUp(ID, GROUP, EndCause.GONE, is_own=True)]


def test_a_message_with_no_end_is_forwarded_and_not_kept() -> None:
    node = made()
    assert kinds(node.received(ID, GROUP, b"wire", Origin(), 0.0)) == [SendCopy, SendCopy, SendCopy]


def test_what_a_topic_that_was_left_had_under_way_is_forgotten() -> None:
    node = made()
    node.received(ID, GROUP, b"wire", HERE, 0.0)
    gave_up = GaveUp(ID, GROUP, EndCause.LEFT, is_own=True)
    assert node.left(GROUP) == [Forget(ID), gave_up] and node.pending == 0 and node.due_s == float("inf")


# -- large messages (R-C34) -------------------------------------------------------------------------------------------


def test_of_a_large_message_random_links_get_the_id() -> None:
    node = made(large_bytes=10)
    deeds = node.received(ID, GROUP, b"0123456789", brought_by(11), 0.0)
    assert to(deeds) == [21] and kinds(deeds) == [SendCopy, Announce, Announce] and node.announced == 2
    assert kinds(made(large_bytes=11).received(ID, GROUP, b"0123456789", brought_by(11), 0.0)) == [
        SendCopy,
        SendCopy,
        SendCopy,
    ]


def test_without_a_neighbour_on_the_ring_a_large_message_goes_as_it_is() -> None:
    node = made(topic((), (), (31, 32, 33)), large_bytes=1)
    assert kinds(node.received(ID, GROUP, b"wire", HERE, 0.0)) == [Remember, SendCopy, SendCopy, SendCopy]


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"pending_max": 2}, {"pending_bytes_max": 8}])
def test_beyond_its_limits_it_follows_the_oldest_no_more(limits: dict[str, int]) -> None:
    node = made(WHOLE, **limits)
    for number in (1, 2):
        assert kinds(node.received(message_of(number), GROUP, b"wire", brought_by(99), 0.0)) == [
            SendCopy,
            SendCopy,
            SendCopy,
        ]
    deeds = node.received(message_of(3), GROUP, b"wire", brought_by(99), 0.0)
    assert deeds[0] == GaveUp(message_of(1), GROUP, EndCause.NO_ROOM, 3) and node.pending == 2


def test_what_this_node_published_is_tried_again_if_it_is_followed_no_more() -> None:
    node = made(pending_max=1)
    node.received(ID, GROUP, b"wire", HERE, 0.0)
    assert kinds(node.received(OTHER, GROUP, b"wire", HERE, 0.0)) == [Remember, SendCopy, SendCopy, SendCopy]
    assert node.tick(1.0, 0) == [FetchBytes(ID, GROUP)]


def test_beyond_what_is_kept_a_message_is_forwarded_like_those_of_others() -> None:
    node = made(untaken=UntakenLimits(own_max=1))
    node.received(ID, GROUP, b"wire", HERE, 0.0)
    deeds = node.received(OTHER, GROUP, b"wire", HERE, 0.0)
    assert deeds[0] == GaveUp(OTHER, GROUP, EndCause.NO_ROOM, is_own=True) and len(to(deeds)) == 3 and node.untaken == 1


def test_what_waits_is_tried_a_few_at_a_time() -> None:
    node = made(untaken=UntakenLimits(own_at_once=2))
    node.restore([(message_of(one), Own(GROUP, 1e9)) for one in range(5)], 0.0)
    assert node.tick(1.0, 0) == [FetchBytes(message_of(0), GROUP), FetchBytes(message_of(1), GROUP)]
    node.fetched(message_of(0), b"wire", 1.1)
    node.taken(message_of(0), key_of(11), 1.2)
    assert node.due_s == 1.2, "whoever takes one takes more"
    assert node.tick(1.2, 0) == [FetchBytes(message_of(2), GROUP), FetchBytes(message_of(3), GROUP)]


# -- networks ---------------------------------------------------------------------------------------------------------


def flooded(edges: Sequence[Sequence[int]], origin: int, dead: set[int]) -> set[int]:
    """Return the nodes that flooding reaches."""
    found, front = {origin}, [origin]
    while front:
        front = [other for one in front for other in edges[one] if other not in dead and other not in found]
        found.update(front)
        front = list(dict.fromkeys(front))
    return found


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Return the neighbours of each node of a connected graph."""
    count = draw(st.integers(2, 24))
    edges: list[set[int]] = [set() for _ in range(count)]
    pairs = [(one, draw(st.integers(0, one - 1))) for one in range(1, count)]
    pairs += draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=count))
    for one, other in pairs:
        if one != other:
            edges[one].add(other)
            edges[other].add(one)
    return [sorted(one) for one in edges]


@given(graphs(), st.data())
def test_on_any_graph_with_a_fan_out_of_its_degree_it_reaches_whom_flooding_reaches(
    edges: list[list[int]], data: st.DataObject
) -> None:
    dead = data.draw(st.sets(st.integers(1, len(edges) - 1), max_size=len(edges) // 2))
    fanout = max(map(len, edges)) + 1
    network = TopicNetwork([topic(others=one) for one in edges], 1, limits=ForwardingLimits(fanout), dead=dead)
    network.publish(0, ID)
    network.run()
    assert network.reached(ID) == flooded(edges, 0, dead)
    assert network.sent[ID] <= sum(map(len, edges))


@given(st.integers(2, 60), st.integers(0, 1 << 20), st.data())
def test_on_a_ring_every_live_node_is_reached_in_at_most_fanout_copies_a_node(
    count: int, seed: int, data: st.DataObject
) -> None:
    """Any nodes may die, as long as on each side of a node one of its ten is alive, so that the ring of live nodes is
    whole."""
    views = ring(count, Random(seed))
    dead = data.draw(st.sets(st.integers(1, count - 1), max_size=min(count - 1, 9)))
    network = TopicNetwork(views, seed, dead=dead)
    network.publish(0, ID)
    network.run()
    alive = set(range(count)) - dead
    assert network.reached(ID) == alive
    to_alive = sum(network.copies[one, ID] for one in alive)
    assert to_alive <= 3 * len(alive) + (10 * len(dead) if dead else 0)
    assert all(one.pending == 0 for at, one in enumerate(network.forwardings) if at in alive)


def test_on_a_ring_of_a_thousand_nobody_is_left_out_and_a_node_gets_three_copies() -> None:
    count = 1_000
    network = TopicNetwork(ring(count, Random(5)), 5)
    network.publish(0, ID)
    network.run()
    assert network.reached(ID) == set(range(count))
    assert sum(network.copies.values()) / count <= 3.0 and network.last_s < 1.0


def test_half_of_a_ring_is_dead_and_every_other_one_is_reached() -> None:
    count, chance = 400, Random(7)
    dead = set(chance.sample(range(1, count), count // 2))
    network = TopicNetwork(ring(count, chance), 7, dead=dead)
    network.publish(0, ID)
    network.run()
    assert network.reached(ID) == set(range(count)) - dead


def test_of_a_large_message_a_node_gets_fewer_copies() -> None:
    count = 300
    network = TopicNetwork(ring(count, Random(3)), 3, limits=ForwardingLimits(large_bytes=4))
    network.publish(0, ID)
    network.run()
    assert network.reached(ID) == set(range(count))
    assert sum(network.copies.values()) / count <= 2.1 and network.asked > 0


def test_routers_that_take_custody_and_forward_nothing_are_gone_around() -> None:
    """Some nodes miss the first message; the ids in the next ones bring it to them."""
    count, chance = 200, Random(11)
    droppers = set(chance.sample(range(1, count), count // 10))
    network = TopicNetwork(ring(count, chance), 11, droppers=droppers)
    honest = set(range(count)) - droppers
    ids = [message_of(one) for one in range(1, 4)]
    for at, id in enumerate(ids):
        network.publish(0, id, tuple(ids[:at]))
        network.run()
    assert len(network.reached(ids[0]) & honest) >= 0.9995 * len(honest)
