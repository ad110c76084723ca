"""A node that has just started catches up at once: it looks up what it holds before it meets anybody, compares with
nodes that were there meanwhile, and begins again with another one if that is cut off. Routers are dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import pytest
from rigs.comparing_nodes import BEGIN_S, GROUP, MONO_S, OTHER, Node, T, World, message

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.comparison.held import Held
from services.pubsub.core.comparison.id_set import IdSet, key_of
from services.pubsub.core.comparison.negentropy import IdRange, ask
from services.pubsub.core.comparison.plan import CompareLimits
from services.pubsub.core.known import Topic
from services.pubsub.core.messages import AskSums, Compare, Compared, decode_message
from services.pubsub.reasons import LIMIT

NOW = c.Now(BEGIN_S, MONO_S)


def wanting(*groups: PublicKey) -> Node:
    """Return a node that has started, wants these groups, and has met nobody."""
    node = Node(1)
    node.known.topics |= {group: Topic(group, node.known.back) for group in groups}
    assert not listed(node.part.hear(c.Started(node.me.router), NOW))
    assert not [deed for group in groups for deed in listed(node.part.hear(o.Wanted(group, True), NOW))]
    return node


def listed(deeds: Iterable[c.Deed]) -> list[tuple[PublicKey, int]]:
    return [(one.group, one.after) for one in deeds if isinstance(one, o.ListHeld)]


def sent_to(deeds: Iterable[c.Deed]) -> list[PublicKey]:
    return [one.via for one in deeds if isinstance(one, c.Send) and one.via is not None]


def ring(node: Node, *others: Node) -> None:
    """Let the node meet others, which are then its neighbours on the ring."""
    for one in others:
        node.known.share(one.me.router, {GROUP: T})
    topic = node.known.topics[GROUP]
    topic.show((), (), (*topic.others, *(one.me for one in others)))


def test_what_is_held_is_known_when_the_first_neighbour_is_met() -> None:
    """A history of 100,000 takes seconds to look up, so that begins with the connection and not with the meeting."""
    node, other = wanting(GROUP), Node(2)
    assert listed(node.part.hear(o.Linked(other.me.router, other.me.service), NOW)) == [(GROUP, 0)]
    assert not listed(node.part.hear(c.Tick(), NOW))
    keys = b"".join(key_of(minute, id) for id, minute in map(message, range(3)))
    assert listed(node.part.hear(o.HeldPage(GROUP, keys, 7, True), NOW)) == [(GROUP, 7)]
    assert not sent_to(node.part.hear(o.HeldPage(GROUP, upto=7, after=7), NOW))
    ring(node, other)
    deeds = node.part.hear(c.Tick(), NOW)
    assert sent_to(deeds) == [other.me.router] and not listed(deeds)


def test_few_topics_are_looked_up_at_a_time_before_they_are_compared() -> None:
    groups = [PublicKey(bytes((at,)) * 32) for at in range(100, 120)]
    node, other = wanting(*groups), Node(2)
    deeds = node.part.hear(o.Linked(other.me.router, other.me.service), NOW)
    assert listed(deeds) == [(group, 0) for group in groups[:8]]
    assert listed(node.part.hear(o.HeldPage(groups[3]), NOW)) == [(groups[8], 0)]


def test_it_compares_with_two_neighbours_and_not_with_its_leaf() -> None:
    """Its leaf has missed what the node has missed, and the first neighbour may have come back just now, too."""
    node, leaf, first, second, third = wanting(GROUP), *(Node(number) for number in range(2, 6))
    node.known.share(leaf.me.router, {GROUP: T})
    node.part.hear(o.Linked(leaf.me.router, leaf.me.service), NOW)
    node.part.hear(o.HeldPage(GROUP), NOW)
    for other, is_asked in ((first, True), (second, True), (third, False)):
        ring(node, other)
        assert (other.me.router in sent_to(node.part.hear(c.Tick(), NOW))) is is_asked


def test_with_several_partners_the_neighbour_on_the_ring_comes_first() -> None:
    node, leaf, other = wanting(GROUP), Node(2), Node(3)
    for one in (leaf, other):
        node.part.hear(o.Linked(one.me.router, one.me.service), NOW)
    node.part.hear(o.HeldPage(GROUP), NOW)
    node.known.share(leaf.me.router, {GROUP: T})
    ring(node, other)
    later = c.Now(BEGIN_S + 1, MONO_S + 1)
    assert listed(node.part.hear(c.Tick(), later)) == [(GROUP, 0)]
    assert sent_to(node.part.hear(o.HeldPage(GROUP), later)) == [other.me.router]


@pytest.mark.parametrize(
    ("equal", "heard_s", "lost", "is_compared"),
    [
        (True, None, True, False),
        (True, -400.0, True, False),
        (True, -200.0, True, True),
        (True, 1.0, True, True),
        (False, None, True, True),
        (True, None, False, True),
    ],
)
def test_a_topic_that_has_rested_is_not_compared_with_a_neighbour_that_is_back(
    equal: bool, heard_s: float | None, lost: bool, is_compared: bool
) -> None:
    """`heard_s`: when its last message came, from when the neighbour was lost, which had not answered (`lost`) or had
    not taken something. A node may share thousands of topics with a neighbour that is slow for a moment."""
    node, other = wanting(GROUP), Node(2)
    ring(node, other)
    topic, plan = node.known.topics[GROUP], node.part._plans[GROUP]
    node.part.hear(c.Tick(), NOW)
    plan.named.clear()
    plan.next_s, plan.is_equal = MONO_S + 10_000, equal
    plan.heard_s = -inf if heard_s is None else MONO_S + heard_s
    node.part._plans.changed(GROUP)
    topic.show((), (), ())
    if lost:
        node.known.lost_s[other.me.router] = MONO_S
    topic.show((), (), (other.me,))
    node.part._look_back(c.Now(BEGIN_S + 10, MONO_S + 10))
    assert (other.me.router in plan.named) is is_compared
    assert not node.known.lost_s


@pytest.mark.parametrize("fetched", [0, 10])
def test_a_comparison_that_is_cut_off_begins_again_with_another_neighbour(fetched: int) -> None:
    """That is not in five minutes, and what came before the cut counts as well. The first neighbour does not answer, or
    it lists more than it sends."""
    left, right, third = (Node(number) for number in range(1, 4))
    world = World(left, right, third)
    world.pass_s(10)
    ids = [message(number) for number in range(40)]
    third.hold(*ids)
    right.hold(*ids[:fetched])
    keys = b"".join(key_of(minute, id) for id, minute in ids)
    right.page = lambda after: (  # type: ignore[method-assign]
        o.HeldPage(GROUP, keys, 40, after=after)
        if fetched
        else o.HeldPage(GROUP, after=after, error="it is overloaded")
    )
    world.hear(left, o.Dropped(right.me.router, GROUP, 1))
    world.run()
    assert len(left.held) == fetched
    world.link(left, right, False)
    world.run()
    world.pass_s(3)
    assert len(left.held) == 40
    assert left.told[-1] == o.CaughtUp(GROUP, int(BEGIN_S + 11), 0, 40)


def test_the_own_router_is_asked_again_when_it_does_not_answer() -> None:
    node, other = wanting(GROUP), Node(2)
    ring(node, other)
    assert listed(node.part.hear(o.Linked(other.me.router, other.me.service), NOW)) == [(GROUP, 0)]
    deeds = node.part.hear(o.HeldPage(GROUP, error="it is overloaded"), NOW)
    assert not listed(deeds) and c.Wake(BEGIN_S + 1) in deeds
    later = c.Now(BEGIN_S + 1, MONO_S + 1)
    assert listed(node.part.hear(c.Tick(), later)) == [(GROUP, 0)]
    assert sent_to(node.part.hear(o.HeldPage(GROUP), later)) == [other.me.router]


def test_an_answer_to_a_question_before_the_topic_was_left_is_not_counted() -> None:
    held, (id, minute) = Held(), message(1)
    key = key_of(minute, id)
    assert listed(held.refresh(GROUP)) == [(GROUP, 0)]
    assert listed(held.heard(o.HeldPage(GROUP, key, 9, True), NOW)) == [(GROUP, 9)]
    held.left(GROUP)
    assert listed(held.refresh(GROUP)) == [(GROUP, 0)]
    assert held.heard(o.HeldPage(GROUP, upto=9, after=9), NOW) == [] and not held.is_fresh(GROUP, NOW)
    held.heard(o.HeldPage(GROUP, key, 9), NOW)
    assert held.is_fresh(GROUP, NOW) and not held.is_fresh(OTHER, NOW) and held.count == 1


def test_questions_about_a_topic_that_is_left_keep_no_places() -> None:
    """They waited for ever for its messages to be known; after 16 of them nothing that this neighbour asked while
    messages were being looked up was answered."""
    node, other, limits = wanting(GROUP, OTHER), Node(2), CompareLimits()
    for _ in range(2):
        node.known.topics |= {GROUP: Topic(GROUP, node.known.back), OTHER: Topic(OTHER, node.known.back)}
        node.part.hear(o.Wanted(GROUP, True), NOW)
        node.known.share(other.me.router, {GROUP: T, OTHER: bytes(16)})
        answers = [refused(node, other, T) for _ in range(limits.waiting_of_router_max + 1)]
        assert answers == [False] * limits.waiting_of_router_max + [True]
        assert refused(node, other, bytes(16)), "all that one neighbour may have wait"
        del node.known.topics[GROUP]
        node.part.hear(o.Wanted(GROUP, False), NOW)
    assert not refused(node, other, bytes(16))


def refused(node: Node, other: Node, t: bytes) -> bool:
    """Whether a question of the other node about a topic whose messages are being looked up is refused."""
    said = Compare(t, 0, 1, ask(IdRange(IdSet())), 0)
    came = c.Message(MessageId(bytes(32)), b"", other.me.service, via=other.me.router)
    return [one.reason for one in node.part.read(came, said, NOW) if isinstance(one, c.Refuse)] == [LIMIT]


def test_a_neighbour_that_answers_nothing_leaves_room_for_comparisons_with_others() -> None:
    """It took all places for 20 s each, one after the other for each topic that it shares."""
    groups = [PublicKey(bytes((at,)) * 32) for at in range(100, 140)]
    node, silent, other = wanting(*groups, GROUP), Node(2), Node(3)
    node.known.share(silent.me.router, {group: bytes((at,)) * 16 for at, group in enumerate(groups)})
    node.known.share(other.me.router, {GROUP: T})
    sent, now = list[PublicKey](), NOW
    events: list[c.Heard] = [o.Linked(one.me.router, one.me.service) for one in (silent, other)]
    for second in range(60):
        now = c.Now(BEGIN_S + second, MONO_S + second)
        for heard in (*events, c.Tick()):
            deeds = without_sums(node, node.part.hear(heard, now), now)
            while pages := [o.HeldPage(group, upto=1, after=after) for group, after in listed(deeds)]:
                sent += sent_to(deeds)
                deeds = [deed for page in pages for deed in without_sums(node, node.part.hear(page, now), now)]
            sent += sent_to(deeds)
        events = []
        if second == 2:
            assert other.me.router in sent and sent.count(silent.me.router) == CompareLimits().of_router_max
    assert sent.count(silent.me.router) <= CompareLimits().of_router_max + 3, "one at a time, until it answers"


def test_topics_without_a_partner_are_not_looked_at_each_second() -> None:
    """A node at rest with thousands of them spent a twentieth of its time on that."""
    node, other = wanting(GROUP, OTHER), Node(2)
    [wake] = node.part.hear(c.Tick(), NOW)
    assert wake == c.Wake(BEGIN_S + CompareLimits().again_s)
    now = c.Now(BEGIN_S + 2, MONO_S + 2)
    node.part.hear(o.Linked(other.me.router, other.me.service), now)
    node.part.hear(o.HeldPage(GROUP), now)
    node.known.share(other.me.router, {GROUP: T})
    assert node.known.newly_shared == {GROUP}
    assert sent_to(node.part.hear(c.Tick(), now)) == [other.me.router], "as soon as it has one"
    assert not node.known.newly_shared


def test_a_comparison_begins_when_another_one_ends() -> None:
    """Those that waited for a place with the neighbour were looked at once a second, so that four a second went."""
    groups = [PublicKey(bytes((at,)) * 32) for at in range(100, 140)]
    node, other = wanting(*groups), Node(2)
    node.known.share(other.me.router, {group: bytes((at,)) * 16 for at, group in enumerate(groups)})
    assert not _frames(node, node.part.hear(o.Linked(other.me.router, other.me.service), NOW), NOW)
    now = c.Now(BEGIN_S + 1, MONO_S + 1)
    sent = _frames(node, node.part.hear(c.Tick(), now), now)
    assert len(sent) == CompareLimits().of_router_max
    for count in range(len(groups)):
        assert sent, f"{count} of {len(groups)} were compared at once"
        said = sent.pop(0)
        came = c.Message(MessageId(bytes(32)), b"", other.me.service, via=other.me.router)
        sent += _frames(node, node.part.read(came, Compared(said.t, said.lo, said.hi, b"\x61"), now), now)


def without_sums(node: Node, deeds: Iterable[c.Deed], now: c.Now) -> list[c.Deed]:
    """Return these deeds, and what follows if the other service does not know questions about sums."""
    found = list[c.Deed]()
    for deed in deeds:
        if isinstance(deed, c.Send) and isinstance(decode_message(deed.body), AskSums) and deed.via is not None:
            refused = c.HopOutcome(deed.tag, MessageId(bytes(32)), deed.via, "refused", Reason.UNSUPPORTED)
            found += without_sums(node, node.part.hear(refused, now), now)
        else:
            found.append(deed)
    return found


def _frames(node: Node, deeds: Iterable[c.Deed], now: c.Now) -> list[Compare]:
    """Return the frames of these deeds, and of those that follow when the messages held here are known."""
    found = list[Compare]()
    for deed in without_sums(node, deeds, now):
        if isinstance(deed, c.Send):
            said = decode_message(deed.body)
            assert isinstance(said, Compare)
            found.append(said)
        elif isinstance(deed, o.ListHeld):
            found += _frames(node, node.part.hear(o.HeldPage(deed.group, upto=1, after=deed.after), now), now)
    return found
