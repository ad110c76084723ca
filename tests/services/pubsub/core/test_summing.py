"""Many topics are compared by one question: what differs is fetched, silent topics are asked for together, and services
that do not know the question, or lie, cost nobody a message. Routers are dictionaries."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rigs.comparing_nodes import BEGIN_S, MONO_S, message

from router.core.wire.crypto import MessageId, PublicKey
from router.core.wire.reasons import Reason
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.comparison.comparing import Comparing
from services.pubsub.core.comparison.held import Held
from services.pubsub.core.comparison.id_set import key_of
from services.pubsub.core.comparison.summing import DIFFERENT, LATER, SAME, Summing
from services.pubsub.core.known import Known, Neighbour, Topic
from services.pubsub.core.messages import SUMS_MAX, AskSums, Compare, Sum, TellSums, decode_message
from services.pubsub.reasons import LIMIT, MEET_FIRST

ID = MessageId(bytes(32))


def groups(count: int) -> list[PublicKey]:
    return [PublicKey(sha256(b"group %d" % number).digest()) for number in range(count)]


def tag_of(group: PublicKey) -> bytes:
    return group[:16]


class Node:
    """A core: the comparing part of its service, and what its router holds of each group. `is_old`: its service refuses
    questions about sums; `is_mute`: it does not answer at all."""

    def __init__(self, number: int, wanted: list[PublicKey], held: dict[PublicKey, list[int]]) -> None:
        self.me = Neighbour(PublicKey(bytes((number, 1)) * 16), PublicKey(bytes((number, 2)) * 16))
        self.known = Known(self.me.service)
        self.known.router = self.me.router
        self.kept: dict[bytes, bytes] = {}
        self.part = Comparing(c.Setup("pubsub", self.me.service, None, self.kept, Random(number)), self.known)
        self.wanted = wanted
        self.held = {group: dict(map(message, held.get(group, ()))) for group in wanted}
        self.is_old = self.is_mute = False
        self.said, self.told = Counter[type](), Counter[PublicKey]()
        self.looked_up = 0
        self.refused: list[Reason | str] = []
        self.wake_s = 0.0


class Pair:
    """Two nodes that share all groups, and the messages between them, one after the other."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes, self.now_s, self._todo = nodes, 0.0, list[tuple[Node, Any]]()
        for node, other in (nodes, nodes[::-1]):
            node.known.topics |= {group: Topic(group, node.known.back) for group in node.wanted}
            node.known.share(other.me.router, {group: tag_of(group) for group in node.wanted})
            self.hear(node, c.Started(node.me.router))
            for group in node.wanted:
                self.hear(node, o.Wanted(group, True))
        for node, other in (nodes, nodes[::-1]):
            self.hear(node, o.Linked(other.me.router, other.me.service))
            for topic in node.known.topics.values():
                topic.show((other.me,), (other.me,), ())
            self.hear(node, c.Tick())
        self.run()

    def other(self, node: Node) -> Node:
        return self.nodes[1] if node is self.nodes[0] else self.nodes[0]

    def now(self) -> c.Now:
        return c.Now(BEGIN_S + self.now_s, MONO_S + self.now_s)

    def hear(self, node: Node, heard: c.Heard) -> None:
        self._todo += ((node, deed) for deed in node.part.hear(heard, self.now()))

    def run(self) -> None:
        while self._todo:
            self._carry_out(*self._todo.pop(0))

    def pass_s(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while (wakes := [one for one in self.nodes if one.wake_s]) and min(one.wake_s for one in wakes) < end_s:
            node = min(wakes, key=lambda one: one.wake_s)
            self.now_s, node.wake_s = max(self.now_s, node.wake_s), 0.0
            self.hear(node, c.Tick())
            self.run()
        self.now_s = end_s

    def take(self, node: Node, group: PublicKey, number: int) -> None:
        """Let a message come into a node's router, and its service hear of it."""
        id, minute = message(number)
        if id not in node.held[group]:
            node.held[group][id] = minute
            self.hear(node, c.Message(id, b"", group=group, wire=bytes(id)))
            self.run()

    def _carry_out(self, node: Node, deed: c.Deed) -> None:
        other = self.other(node)
        match deed:
            case o.ListHeld(group, after):
                node.looked_up += 1
                rows = list(node.held[group].items())[after:]
                keys = b"".join(key_of(minute, id) for id, minute in rows)
                self.hear(node, o.HeldPage(group, keys, after + len(rows), after=after))
            case c.Send(body=body, tag=tag):
                said = decode_message(body)
                node.said[type(said)] += 1
                if other.is_old and isinstance(said, AskSums):
                    self.hear(node, c.HopOutcome(tag, ID, other.me.router, "refused", Reason.UNSUPPORTED))
                elif not other.is_mute:
                    self.read(other, said)
            case o.PullFrom(router, group, id):
                self.hear(node, o.PulledFrom(router, group, id, "asked"))
                node.held[group][id] = other.held[group][id]
                self.hear(node, c.Message(id, b"", group=group, wire=bytes(id)))
            case c.Pull(group, id):
                self.hear(node, c.Pulled(group, id, group + id))
            case c.Forward(wire, to, tag):
                group, id = PublicKey(wire[:32]), MessageId(wire[32:])
                other.held[group].setdefault(id, node.held[group][id])
                self.hear(node, c.HopOutcome(tag, id, to, "acked"))
                self.hear(other, c.Message(id, b"", group=group, wire=bytes(id)))
            case o.CaughtUp(group):
                node.told[group] += 1
            case c.Put(key, value):
                node.kept.pop(key, None)
                node.kept |= {} if value is None else {key: value}
            case c.Refuse(reason):
                node.refused.append(reason)
            case c.Wake(at_s):
                node.wake_s = at_s - BEGIN_S

    def read(self, node: Node, said: Any, source: PublicKey | None = None) -> None:
        """Let a message come from the other node, of its service or of another source there."""
        other = self.other(node).me
        came = c.Message(ID, b"", source or other.service, via=other.router)
        self._todo += ((node, deed) for deed in node.part.read(came, said, self.now()))


def pair(count: int, mine: dict[int, list[int]], theirs: dict[int, list[int]], **how: bool) -> Pair:
    """Return two nodes that share so many groups and hold these messages of some of them. `how`: the second one's."""
    wanted = groups(count)
    one, two = (
        Node(number, wanted, {wanted[at]: ids for at, ids in held.items()}) for number, held in ((1, mine), (2, theirs))
    )
    for name, value in how.items():
        setattr(two, name, value)
    return Pair(one, two)


def test_two_cores_ask_once_for_all_topics_and_compare_those_that_differ() -> None:
    found = pair(200, {3: [1, 2], 5: [7], 9: [8]}, {3: [2, 3], 9: [8], 11: [4]})
    found.pass_s(60)
    one, two = found.nodes
    assert one.held == two.held and len(one.held[one.wanted[3]]) == 3
    questions = sum(node.said[AskSums] for node in found.nodes)
    assert 0 < questions <= 6 and sum(node.said[Compare] for node in found.nodes) <= 12
    assert all(node.told.keys() == set(node.wanted) for node in found.nodes), "each app is told that it is caught up"
    assert not one.refused and not two.refused


def test_what_is_answered_of_a_topic_that_was_left_meanwhile_does_not_count() -> None:
    """It may be wanted again by then, and lack what came in between."""
    found = pair(5, {}, {}, is_mute=True)
    found.pass_s(5)
    one, two = found.nodes
    summing, router = one.part._together.summing, two.me.router
    asked = summing._partners[router].open
    assert asked is not None and asked.groups.keys() == set(one.wanted)
    gone, *others = one.wanted
    summing.left(gone)
    assert summing.takes(router, gone) and not summing.takes(router, others[0]), "it can be asked for anew"
    said = TellSums(asked.number, bytes((SAME,)) * 5)
    outcome = summing.answered(router, two.me.service, said, found.now())
    assert outcome is not None and set(outcome.same) == set(others) and not outcome.different


def test_silent_topics_are_asked_for_together_every_few_hours() -> None:
    found = pair(100, {}, {})
    found.pass_s(600)
    before = [node.said.copy() for node in found.nodes]
    found.pass_s(24 * 3600)
    for node, earlier in zip(found.nodes, before, strict=True):
        assert 4 <= (node.said - earlier)[AskSums] <= 9 and not (node.said - earlier)[Compare]


def test_a_message_wakes_its_topic_alone() -> None:
    found = pair(50, {}, {})
    found.pass_s(600)
    one, two = found.nodes
    before = two.said[AskSums] + two.said[Compare]
    found.take(two, two.wanted[7], 1)
    found.pass_s(600)
    assert one.held == two.held
    assert 0 < two.said[AskSums] + two.said[Compare] - before <= 4


def test_what_a_router_told_before_a_message_came_does_not_count() -> None:
    found = pair(20, {}, {})
    found.pass_s(600)
    one, two = found.nodes
    held = two.part._held
    group = two.wanted[0]
    assert held.is_known(group, found.now())
    found.take(two, group, 1)
    assert not held.is_known(group, found.now())
    rows = tuple(Sum(tag_of(each), held.sum_of(each, 0) or b"") for each in two.wanted[:3])
    deeds = two.part.read(c.Message(ID, b"", one.me.service, via=one.me.router), AskSums(9, 0, rows), found.now())
    [answer] = [decode_message(deed.body) for deed in deeds if isinstance(deed, c.Send)]
    assert answer == TellSums(9, bytes((LATER, SAME, SAME)))
    assert [deed.group for deed in deeds if isinstance(deed, o.ListHeld)] == [group], "it is looked up for the next one"


def test_a_service_that_knows_no_sums_is_asked_topic_by_topic() -> None:
    found = pair(30, {3: [1]}, {4: [2]}, is_old=True)
    found.pass_s(120)
    one, two = found.nodes
    assert one.held == two.held and one.said[AskSums] == 1 and one.said[Compare] >= 30
    assert one.told.keys() == set(one.wanted)


def test_a_question_that_is_refused_for_now_is_asked_again() -> None:
    """The other node has not heard the end of the meeting yet."""
    found = pair(30, {3: [1]}, {4: [2]}, is_mute=True)
    one, two = found.nodes
    found.pass_s(4)
    two.is_mute = False
    found.hear(one, c.HopOutcome(f"sums {two.me.router.hex()}", ID, two.me.router, "refused", MEET_FIRST))
    found.run()
    found.pass_s(60)
    assert one.held == two.held and one.told.keys() == set(one.wanted)
    assert one.said[AskSums] == 2 and one.said[Compare] <= 4


def test_a_topic_that_the_other_does_not_know_is_compared_singly_in_the_end() -> None:
    found = pair(10, {0: [1]}, {0: [2]})
    found.pass_s(60)
    one, two = found.nodes
    two.known.share(one.me.router, {group: tag_of(group) for group in one.wanted[1:]})
    two.known.share(one.me.router, {group: tag_of(group) for group in one.wanted[1:]})
    found.hear(one, o.Linked(two.me.router, None))
    found.run()
    found.pass_s(40)
    before = one.said.copy()
    found.hear(one, o.Linked(two.me.router, two.me.service))
    found.run()
    found.pass_s(120)
    assert 20 <= (one.said - before)[AskSums] <= 22 and (one.said - before)[Compare] >= 1


def test_a_router_that_does_not_answer_is_asked_again_and_loses_nothing() -> None:
    found = pair(30, {3: [1]}, {4: [2]}, is_mute=True)
    found.pass_s(10)
    one, two = found.nodes
    assert one.said[AskSums] == 1 and two.me.router not in one.known.fell_silent
    found.pass_s(15)
    assert two.me.router in one.known.fell_silent, "whether it is there is asked by the rings"
    two.is_mute = False
    found.pass_s(120)
    assert one.held == two.held and one.told.keys() == set(one.wanted)


def test_a_link_that_is_lost_meanwhile_leaves_no_topic_behind() -> None:
    found = pair(30, {3: [1]}, {4: [2]}, is_mute=True)
    found.pass_s(5)
    one, two = found.nodes
    found.hear(one, o.Linked(two.me.router, None))
    found.run()
    found.pass_s(40)
    two.is_mute = False
    found.hear(one, o.Linked(two.me.router, two.me.service))
    found.run()
    found.pass_s(120)
    assert one.held == two.held and one.told.keys() == set(one.wanted)


def test_answer_that_does_not_arrive_concerns_no_question() -> None:
    """Its tag names no router: the service failed on that."""
    found = pair(30, {}, {})
    one, two = found.nodes
    found.hear(one, c.HopOutcome("sums ", ID, two.me.router, "expired", Reason.EXPIRY_PASSED))
    found.run()
    found.pass_s(60)
    assert one.told.keys() == set(one.wanted), "all were compared"


def test_answers_to_no_question_and_too_many_questions_are_refused() -> None:
    found = pair(5, {}, {})
    found.pass_s(60)
    one, two = found.nodes
    for said in (TellSums(1, bytes(5)), TellSums(99, bytes(1))):
        found.read(one, said)
    found.run()
    assert one.refused == [MEET_FIRST] * 2
    rows = tuple(Sum(bytes(16), bytes(16)) for _ in range(SUMS_MAX))
    for _ in range(100):
        found.read(one, AskSums(1, 0, rows))
    found.run()
    assert one.refused.count(LIMIT) > 20, "each counts as a frame of as many ranges"
    stranger = c.Message(ID, b"", two.me.service, via=PublicKey(bytes((9, 9)) * 16))
    assert one.part.read(stranger, AskSums(1, 0, rows), found.now())[0] == c.Refuse(MEET_FIRST)


@pytest.mark.parametrize("reason", (MEET_FIRST, Reason.UNSUPPORTED, Reason.EXPIRY_PASSED))
def test_an_answer_that_was_not_taken_leads_to_nothing(reason: Reason) -> None:
    found = pair(30, {3: [1]}, {4: [2]})
    found.pass_s(60)
    one, two = found.nodes
    [answer] = [
        deed
        for deed in one.part.read(
            c.Message(ID, b"", two.me.service, via=two.me.router),
            AskSums(9, 0, (Sum(tag_of(one.wanted[0]), bytes(16)),)),
            found.now(),
        )
        if isinstance(deed, c.Send)
    ]
    before = [node.said.copy() for node in found.nodes]
    found.hear(one, c.HopOutcome(answer.tag, ID, two.me.router, "refused", reason))
    found.run()
    assert [node.said for node in found.nodes] == before


def test_an_answer_of_another_source_behind_the_router_does_not_count() -> None:
    """Questions are numbered one after the other, so whoever reaches this node through that router could say that both
    hold the same."""
    found = pair(30, {3: [1]}, {4: [2]}, is_mute=True)
    found.pass_s(5)
    one, two = found.nodes
    found.read(one, TellSums(one.said[AskSums], bytes(30)), PublicKey(bytes((9, 9)) * 16))
    found.run()
    assert one.refused == [MEET_FIRST] and not one.told
    two.is_mute = False
    found.pass_s(120)
    assert one.held == two.held and one.told.keys() == set(one.wanted)


def test_a_topic_that_is_left_meanwhile_is_not_reported() -> None:
    found = pair(10, {}, {}, is_mute=True)
    found.pass_s(5)
    one = found.nodes[0]
    gone = one.wanted[0]
    one.known.end(gone)
    found.hear(one, o.Wanted(gone, False))
    found.run()
    number = one.said[AskSums]
    found.read(one, TellSums(number, bytes(10)))
    found.run()
    assert one.told.keys() == set(one.wanted) - {gone}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5))), min_size=4, max_size=12))
def test_sums_are_the_same_exactly_where_both_hold_the_same_messages(held: list[tuple[set[int], set[int]]]) -> None:
    mine = {at: sorted(one) for at, (one, _) in enumerate(held)}
    theirs = {at: sorted(two) for at, (_, two) in enumerate(held)}
    found = pair(len(held), mine, theirs, is_mute=True)
    found.pass_s(5)
    one, two = found.nodes
    rows = tuple(Sum(tag_of(each), one.part._held.sum_of(each, 0) or b"") for each in one.wanted)
    deeds = two.part.read(c.Message(ID, b"", one.me.service, via=one.me.router), AskSums(9, 0, rows), found.now())
    [answer] = [decode_message(deed.body) for deed in deeds if isinstance(deed, c.Send)]
    assert isinstance(answer, TellSums)
    assert list(answer.found) == [SAME if one == two else DIFFERENT for one, two in held]


@pytest.mark.parametrize("count", (3, 4))
def test_few_topics_are_compared_one_by_one(count: int) -> None:
    found = pair(count, {0: [1]}, {1: [2]})
    found.pass_s(60)
    one, two = found.nodes
    assert one.held == two.held and bool(one.said[AskSums]) is (count == 4)


def test_topics_that_are_still_being_looked_up_cost_nothing_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of them were looked at five times a second."""
    topics = groups(400)
    me, other = (PublicKey(bytes((number,)) * 32) for number in (1, 2))
    known, held = Known(me), Held()
    known.topics |= {group: Topic(group) for group in topics}
    known.share(other, {group: tag_of(group) for group in topics})
    summing = Summing(known, held, 2)
    looked = list[PublicKey]()
    is_known = Held.is_known

    def counted(one: Held, group: PublicKey, now: c.Now) -> bool:
        looked.append(group)
        return is_known(one, group, now)

    monkeypatch.setattr(Held, "is_known", counted)
    for group in topics:
        summing.put(other, other, group, MONO_S)
    for look in range(10):
        assert not list(summing.go_on(c.Now(BEGIN_S, MONO_S + 0.2 * look)))
    assert len(looked) < 2 * len(topics) and {*looked} == {*topics}
    for group in reversed(topics):
        held.refresh(group)
        held.heard(o.HeldPage(group, upto=1, after=0), c.Now(BEGIN_S, MONO_S))
    [asked] = summing.go_on(c.Now(BEGIN_S, MONO_S + 2.4))
    assert isinstance(asked, c.Send) and len(looked) < 5 * len(topics)
    said = decode_message(asked.body)
    assert isinstance(said, AskSums) and len(said.sums) == len(topics)


def test_it_reads_like_a_sentence() -> None:
    found = pair(10, {}, {}, is_mute=True)
    found.pass_s(4)
    summing = found.nodes[0].part._together.summing
    assert repr(summing) == "<0 topics are to be summed up, 1 questions were asked>"
    assert repr(found.nodes[0].part._together) == f"<comparing together: {summing!r}>"
