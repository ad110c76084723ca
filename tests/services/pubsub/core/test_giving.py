"""Messages sent on after a comparison: a limited number at once, until the other router has each; a later comparison
makes up for a refusal, and a message without news does not hold up the others."""

from __future__ import annotations

from math import inf

from router.core.wire.crypto import MessageId, SigningKey
from router.service import contract as c
from router.service.roles import overlay as o
from services.pubsub.core.fetching import TAG, Fetching, FetchLimits
from services.pubsub.core.id_set import key_of
from services.pubsub.core.negentropy import Needed

GROUP, FIRST, SECOND = (SigningKey(bytes((n,)) * 32).public for n in (1, 2, 3))
IDS = [MessageId(bytes((n,)) * 32) for n in range(5)]
KEYS = [key_of(1 << 30, id) for id in IDS]
LIMITS = FetchLimits(open_max=2, giving_s=90.0)


def at(mono_s: float) -> c.Now:
    return c.Now(1_800_000_000 + mono_s, mono_s)


def asked(fetching: Fetching, now: c.Now) -> list[MessageId]:
    """Return the messages that the own router is asked for, to send them on."""
    deeds = fetching.give_more(now)
    assert all(isinstance(one, c.Pull) and one.group == GROUP for one in deeds)
    return [one.id for one in deeds if isinstance(one, c.Pull)]


def test_the_next_is_sent_on_when_the_other_router_has_one() -> None:
    fetching = Fetching(LIMITS)
    fetching.give(GROUP, FIRST, KEYS[:3], at(0))
    assert asked(fetching, at(0)) == IDS[:2]
    assert fetching.pulled(c.Pulled(GROUP, IDS[0], b"wire")) == [c.Forward(b"wire", FIRST, TAG)]
    assert asked(fetching, at(1)) == []
    fetching.gave(IDS[0], is_taken=True)
    assert asked(fetching, at(1)) == [IDS[2]]
    fetching.give(GROUP, FIRST, KEYS[:3], at(2))
    fetching.gave(IDS[1], is_taken=True)
    assert asked(fetching, at(2)) == [], "each once"


def test_what_the_other_router_did_not_get_is_sent_on_after_a_later_comparison() -> None:
    fetching = Fetching(LIMITS)
    fetching.give(GROUP, FIRST, KEYS[:2], at(0))
    assert asked(fetching, at(0)) == IDS[:2]
    fetching.gave(IDS[0], is_taken=False)
    fetching.gave(IDS[1], is_taken=True)
    assert asked(fetching, at(0)) == [], "not before it is compared again"
    fetching.give(GROUP, FIRST, KEYS[:2], at(300))
    assert asked(fetching, at(300)) == [IDS[0]]


def test_what_nothing_is_heard_of_makes_room_after_a_while() -> None:
    fetching = Fetching(LIMITS)
    assert fetching.due_s == inf
    fetching.give(GROUP, FIRST, KEYS[:3], at(0))
    assert asked(fetching, at(0)) == IDS[:2]
    fetching.gave(IDS[1], is_taken=True)
    assert asked(fetching, at(10)) == [IDS[2]] and fetching.due_s == 90
    fetching.tick(at(90))
    assert fetching.due_s == 100
    fetching.give(GROUP, FIRST, KEYS[3:4], at(90))
    assert asked(fetching, at(90)) == [IDS[3]]


def test_two_routers_that_lack_one_message_both_get_it() -> None:
    fetching = Fetching(LIMITS)
    fetching.give(GROUP, FIRST, KEYS[:1], at(0))
    fetching.give(GROUP, SECOND, KEYS[:1], at(0))
    assert asked(fetching, at(0)) == IDS[:1]
    fetching.gave(IDS[0], is_taken=True)
    assert asked(fetching, at(1)) == IDS[:1]
    assert fetching.pulled(c.Pulled(GROUP, IDS[0], b"wire")) == [c.Forward(b"wire", SECOND, TAG)]


def test_questions_are_due_in_the_order_in_which_they_were_asked() -> None:
    fetching = Fetching(FetchLimits(open_max=2, together=1, answer_s=5.0, later_s=1.0, asks_max=2))
    fetch = fetching.begin(GROUP, FIRST)
    fetch.add({id: Needed(70, 70 + n, rank=n) for n, id in enumerate(IDS[:3])})
    assert fetching.go_on(at(0)) == [], "not before it is known in which order"
    fetch.close()
    pulls = [o.PullFrom(FIRST, GROUP, id, 70, 1 + n) for n, id in enumerate(IDS[:3])]
    assert fetching.go_on(at(0)) == pulls[:2]
    assert (fetching.due_s, fetching.arrived(IDS[0]), fetching.arrived(IDS[0])) == (5, True, False)
    assert fetching.go_on(at(1)) == pulls[2:]
    fetching.pulled_from(o.PulledFrom(FIRST, GROUP, IDS[2], "later"), at(2))
    assert fetching.due_s == 3, "when the pause is over"
    fetching.tick(at(5))
    assert fetching.go_on(at(5)) == [pulls[1], pulls[2]]
    fetching.tick(at(10))
    assert (fetch.came, fetch.missing, len(fetch.waiting)) == (1, 1, 1), "one was asked for twice, the other once"


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
