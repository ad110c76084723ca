"""Messages sent on after a comparison: a limited number at once, until the other router has each; a later comparison
makes up for a refusal, and a message without news does not hold up the others."""

from __future__ import annotations

from math import inf

import pytest

from router.core.wire.crypto import MessageId, SigningKey
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.comparison.fetching import Fetching, FetchLimits
from services.pubsub.core.comparison.giving import TAG, GiveLimits, Giving
from services.pubsub.core.comparison.id_set import key_of
from services.pubsub.core.comparison.negentropy import Needed

GROUP, FIRST, SECOND = (SigningKey(bytes((n,)) * 32).public for n in (1, 2, 3))
IDS = [MessageId(bytes((n,)) * 32) for n in range(5)]
KEYS = [key_of(1 << 30, id) for id in IDS]
LIMITS = GiveLimits(at_once=2, giving_s=90.0)


def at(mono_s: float) -> c.Now:
    return c.Now(1_800_000_000 + mono_s, mono_s)


def asked(giving: Giving, now: c.Now) -> list[MessageId]:
    """Return the messages that the own router is asked for, to send them on."""
    deeds = giving.give_more(now)
    assert all(isinstance(one, c.Pull) and one.group == GROUP for one in deeds)
    return [one.id for one in deeds if isinstance(one, c.Pull)]


def test_the_next_is_sent_on_when_the_other_router_has_one() -> None:
    giving = Giving(LIMITS)
    giving.give(GROUP, FIRST, KEYS[:3], at(0))
    assert asked(giving, at(0)) == IDS[:2]
    assert giving.pulled(c.Pulled(GROUP, IDS[0], b"wire")) == [c.Forward(b"wire", FIRST, TAG + FIRST.hex())]
    assert asked(giving, at(1)) == []
    giving.gave(IDS[0], FIRST, is_taken=True)
    assert asked(giving, at(1)) == [IDS[2]]
    giving.give(GROUP, FIRST, KEYS[:3], at(2))
    giving.gave(IDS[1], FIRST, is_taken=True)
    assert asked(giving, at(2)) == [], "each once"


def test_what_the_other_router_did_not_get_is_sent_on_after_a_later_comparison() -> None:
    giving = Giving(LIMITS)
    giving.give(GROUP, FIRST, KEYS[:2], at(0))
    assert asked(giving, at(0)) == IDS[:2]
    giving.gave(IDS[0], FIRST, is_taken=False)
    giving.gave(IDS[1], FIRST, is_taken=True)
    assert asked(giving, at(0)) == [], "not before it is compared again"
    giving.give(GROUP, FIRST, KEYS[:2], at(300))
    assert asked(giving, at(300)) == [IDS[0]]


def test_what_nothing_is_heard_of_makes_room_after_a_while() -> None:
    giving = Giving(LIMITS)
    assert giving.due_s == inf
    giving.give(GROUP, FIRST, KEYS[:3], at(0))
    assert asked(giving, at(0)) == IDS[:2]
    giving.gave(IDS[1], FIRST, is_taken=True)
    assert asked(giving, at(10)) == [IDS[2]] and giving.due_s == 90
    giving.tick(at(90))
    assert giving.due_s == 100
    giving.give(GROUP, FIRST, KEYS[3:4], at(90))
    assert asked(giving, at(90)) == [IDS[3]]


def test_two_routers_that_lack_one_message_both_get_it_and_it_is_read_once() -> None:
    giving = Giving(LIMITS)
    giving.give(GROUP, FIRST, KEYS[:1], at(0))
    giving.give(GROUP, SECOND, KEYS[:1], at(0))
    assert asked(giving, at(0)) == IDS[:1]
    both = [c.Forward(b"wire", to, TAG + to.hex()) for to in (FIRST, SECOND)]
    assert giving.pulled(c.Pulled(GROUP, IDS[0], b"wire")) == both
    assert giving.pulled(c.Pulled(GROUP, IDS[0], b"wire")) == []
    giving.gave(IDS[0], SECOND, is_taken=False)
    giving.give(GROUP, SECOND, KEYS[:1], at(9))
    assert asked(giving, at(9)) == IDS[:1], "while the other router has yet to take it"


def test_a_router_that_takes_nothing_keeps_its_own_places_only_and_later_one() -> None:
    """It held up what goes to all others for 22 minutes with a thousand messages that it said to lack."""
    giving, many = Giving(GiveLimits()), [key_of(1 << 30, n.to_bytes(32, "big")) for n in range(1_000)]
    giving.give(GROUP, FIRST, many, at(0))
    assert len(asked(giving, at(0))) == GiveLimits().at_once
    giving.give(GROUP, SECOND, many[:500], at(0))
    for key in many[:500]:
        giving.give_more(at(1))
        sent_to = [
            one.via for one in giving.pulled(c.Pulled(GROUP, MessageId(key[4:]), b"wire")) if isinstance(one, c.Forward)
        ]
        assert SECOND in sent_to
        giving.gave(MessageId(key[4:]), SECOND, is_taken=True)
    giving.tick(at(90))
    assert len(asked(giving, at(90))) == 1, "until it takes one"
    giving.gave(MessageId(many[64][4:]), FIRST, is_taken=True)
    assert len(asked(giving, at(91))) == GiveLimits().at_once


def test_routers_and_topics_with_nothing_to_send_on_are_not_remembered() -> None:
    """Each pair that was ever compared had a set of ids of its own, empty or not."""
    giving = Giving(LIMITS)
    giving.give(GROUP, FIRST, [], at(0))
    giving.give(GROUP, SECOND, KEYS[:1], at(0))
    assert list(giving._given) == [(SECOND, GROUP)]
    assert asked(giving, at(0)) == IDS[:1]
    giving.gave(IDS[0], SECOND, is_taken=False)
    assert not giving._given and not giving._given_in_all
    giving.give(GROUP, FIRST, [key_of(1, IDS[1])], at(0))
    giving.give(GROUP, FIRST, [], at(0))
    assert not giving._given and not giving._given_in_all, "they have expired"


def test_what_was_sent_on_is_remembered_up_to_a_number_over_all_routers() -> None:
    """It grew by 20,000 ids for each router and topic that was ever compared."""
    limits = GiveLimits(at_once=100, given_in_all_max=8)
    giving = Giving(limits)
    routers = [SigningKey(bytes((n,)) * 32).public for n in range(20, 30)]
    for router in routers:
        giving.give(GROUP, router, KEYS[:4], at(0))
    assert giving._given_in_all == 8 and list(giving._given) == [(router, GROUP) for router in routers[-2:]]
    giving.left(GROUP)
    assert not giving._given_in_all and not giving._given and asked(giving, at(0)) == []


def test_questions_are_due_in_the_order_in_which_they_were_asked() -> None:
    fetching = Fetching(FetchLimits(open_max=2, together=1, answer_s=5.0, later_s=1.0, asks_max=2))
    fetch = fetching.begin(GROUP, FIRST)
    fetch.add({id: Needed(70, 70 + n, rank=n) for n, id in enumerate(IDS[:3])})
    assert fetching.go_on(at(0)) == [], "not before it is known in which order"
    fetch.close()
    pulls = [o.PullFrom(FIRST, GROUP, id, 70, 1 + n) for n, id in enumerate(IDS[:3])]
    assert fetching.go_on(at(0)) == pulls[:2]
    fetching.pulled_from(o.PulledFrom(FIRST, GROUP, IDS[0], "known"), at(0))
    assert (fetching.due_s, fetching.arrived(IDS[0])) == (5, False)
    assert fetching.go_on(at(1)) == pulls[2:]
    fetching.pulled_from(o.PulledFrom(FIRST, GROUP, IDS[2], "later"), at(2))
    assert fetching.due_s == 3, "when the pause is over"
    fetching.tick(at(5))
    assert fetching.go_on(at(5)) == [pulls[1], pulls[2]]
    fetching.tick(at(10))
    assert (fetch.known, fetch.missing, len(fetch.waiting)) == (1, 1, 1), "one was asked for twice, the other once"


# -- fetching ---------------------------------------------------------------------------------------------------


def test_what_one_fetch_brings_another_does_not_ask_for() -> None:
    """A node that is back compares with two neighbours at once, which both list what it has missed."""
    fetching = Fetching()
    for router in (FIRST, SECOND):
        fetch = fetching.begin(GROUP, router)
        fetch.add({id: Needed(1, 1, at) for at, id in enumerate(IDS if router is SECOND else IDS[1:4])})
        fetch.close()
    assert [one.id for one in fetching.go_on(at(0)) if isinstance(one, o.PullFrom)] == IDS[1:4]
    assert [fetching.arrived(id) for id in IDS[1:4]] == [True] * 3
    [over] = fetching.take_over()
    assert (over.router, over.came, over.known) == (FIRST, 3, 0)
    assert [one.id for one in fetching.go_on(at(1)) if isinstance(one, o.PullFrom)] == [IDS[0], IDS[4]]
    assert fetching.arrived(IDS[0]) and fetching.arrived(IDS[4])
    [over] = fetching.take_over()
    assert (over.router, over.came, over.known, over.news) == (SECOND, 2, 3, 2)


def test_a_fetch_is_over_when_all_of_it_came_otherwise() -> None:
    fetching = Fetching()
    for router in (FIRST, SECOND):
        fetch = fetching.begin(GROUP, router)
        fetch.add({IDS[0]: Needed(1, 1, 0)})
        fetch.close()
    fetching.go_on(at(0))
    assert fetching.arrived(IDS[0])
    assert [(one.router, one.came, one.known) for one in fetching.take_over()] == [(FIRST, 1, 0), (SECOND, 0, 1)]


def test_a_router_that_answers_nothing_is_asked_no_more_in_all_topics_and_others_are_asked_meanwhile() -> None:
    """Each topic had a count of its own: with 512 topics it took the places of all others for most of an hour."""
    fetching, silent = Fetching(FetchLimits()), FIRST
    topics = [SigningKey(bytes((n,)) * 32).public for n in range(30, 94)]
    for at_topic, group in enumerate(topics):
        fetch = fetching.begin(group, silent)
        fetch.add({number(1_000 * (1 + at_topic) + n): Needed(70, 70, rank=n) for n in range(10)})
        fetch.close()
    fetch = fetching.begin(GROUP, SECOND)
    fetch.add({IDS[0]: Needed(70, 70, rank=0)})
    fetch.close()
    asked = [one.router for one in fetching.go_on(at(0)) if isinstance(one, o.PullFrom)]
    assert sorted(map(asked.count, (silent, SECOND))) == [1, FetchLimits().of_router_max]
    assert fetching.arrived(IDS[0])
    fetching.tick(at(5))
    assert {one.router for one in fetching.take_over()} == {silent, SECOND}
    assert fetching.due_s == inf and fetching.has_room


@pytest.mark.parametrize("at_once", [1, 3, 8, 40])
def test_router_that_answers_few_questions_at_once_is_asked_until_all_have_come(at_once: int) -> None:
    """Large messages use up its bytes of a second, or the window of the link: what exceeds them it leaves unanswered.
    After ten seconds it counted as silent, and all that it had not sent yet as missing, in all topics."""
    fetching, ids = Fetching(), [number(n) for n in range(300)]
    fetch = fetching.begin(GROUP, FIRST)
    fetch.add({id: Needed(70, 70, rank=n) for n, id in enumerate(ids)})
    fetch.close()
    for second in range(1_000):
        fetching.tick(at(second))
        asked = [one.id for one in fetching.go_on(at(second)) if isinstance(one, o.PullFrom)]
        for id in asked[:at_once]:
            fetching.arrived(id)
        if fetching.take_over():
            break
    assert (fetch.came, fetch.missing) == (300, 0)


def test_router_that_names_messages_that_it_has_not_is_not_asked_for_them_without_end() -> None:
    fetching, ids = Fetching(), [number(n) for n in range(80)]
    fetch = fetching.begin(GROUP, FIRST)
    fetch.add({id: Needed(70, 70, rank=n) for n, id in enumerate(ids)})
    fetch.close()
    for second in range(200):
        fetching.tick(at(second))
        for one in fetching.go_on(at(second)):
            assert isinstance(one, o.PullFrom)
            if ids.index(one.id) % 2:
                fetching.arrived(one.id)
        if fetching.take_over():
            break
    assert (fetch.came, fetch.missing) == (40, 40)


def test_message_that_comes_late_is_an_answer() -> None:
    fetching = Fetching(FetchLimits(unanswered_max=2))
    fetch = fetching.begin(GROUP, FIRST)
    fetch.add({id: Needed(70, 70, rank=n) for n, id in enumerate(IDS[:2])})
    fetch.close()
    fetching.go_on(at(0))
    assert fetching.arrived(IDS[1])
    fetching.tick(at(5))
    assert fetching.arrived(IDS[0]), "it was asked for"
    assert fetching.take_over() == [fetch] and (fetch.came, fetch.known, fetch.missing) == (2, 0, 0)


def test_no_comparison_begins_while_as_much_is_to_be_fetched_as_there_is_room_for() -> None:
    fetching = Fetching(FetchLimits(fetches_max=2, lacked_max=4))
    fetching.begin(GROUP, FIRST).add({id: Needed(70, 70, rank=0) for id in IDS[:3]})
    assert fetching.has_room
    second = fetching.begin(GROUP, SECOND)
    assert not fetching.has_room, "as many fetches as there may be"
    second.close()
    fetching.take_over()
    assert fetching.has_room
    fetching.begin(GROUP, SECOND).add({IDS[3]: Needed(70, 70, rank=0)})
    fetching.take_over()
    assert not fetching.has_room, "as many messages as there may be"


def number(n: int) -> MessageId:
    return MessageId(n.to_bytes(32, "big"))
