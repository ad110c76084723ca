"""Heads: the messages that no other of the app's names, whatever is refused, and within bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.client.custody.causes import Causes, HeadLimits, Heads
from router.core.wire.crypto import MessageId

IDS = [MessageId(number.to_bytes(32, "big")) for number in range(400)]
UNTIL_MIN = 1000


def test_what_others_name_is_no_head() -> None:
    heads = Heads()
    heads.given(IDS[0], UNTIL_MIN, ())
    heads.given(IDS[1], UNTIL_MIN, ())
    assert heads.ids(0) == (IDS[1], IDS[0])
    heads.given(IDS[2], UNTIL_MIN, (IDS[0],))
    assert heads.ids(0) == (IDS[2], IDS[1])
    heads.published(IDS[3], UNTIL_MIN, heads.ids(0))
    assert heads.ids(0) == (IDS[3],)


def test_a_cause_that_comes_after_its_effect_is_no_head() -> None:
    heads = Heads()
    heads.given(IDS[1], UNTIL_MIN, (IDS[0],))
    heads.given(IDS[0], UNTIL_MIN, ())
    assert heads.ids(0) == (IDS[1],)


def test_what_has_expired_is_not_named() -> None:
    heads = Heads()
    heads.given(IDS[0], 5, ())
    heads.given(IDS[1], 6, ())
    assert heads.ids(5) == (IDS[1],) and heads.ids(6) == ()


def test_five_senders_at_once_are_all_named_and_the_newest_of_too_many() -> None:
    heads = Heads()
    for id in IDS[:5]:
        heads.given(id, UNTIL_MIN, ())
    assert set(heads.ids(0)) == set(IDS[:5])
    for id in IDS[5:40]:
        heads.given(id, UNTIL_MIN, ())
    assert heads.ids(0) == tuple(reversed(IDS[24:40]))


def test_what_is_refused_gives_back_what_it_named() -> None:
    heads = Heads()
    for id in IDS[:2]:
        heads.given(id, UNTIL_MIN, ())
    for id in IDS[2:6]:  # four in flight, each named by the next
        heads.published(id, UNTIL_MIN, heads.ids(0))
    heads.refused(IDS[3])
    assert heads.ids(0) == (IDS[5],)
    heads.kept(IDS[2])
    heads.refused(IDS[4])
    heads.refused(IDS[5])
    assert heads.ids(0) == (IDS[2],), "the one in custody names the first two"


def test_a_journal_s_heads_go_on() -> None:
    earlier = Heads()
    for id in IDS[:3]:
        earlier.given(id, UNTIL_MIN, ())
    heads = Heads(earlier.lasting())
    heads.given(IDS[3], UNTIL_MIN, (IDS[1],))
    assert heads.ids(0) == (IDS[3], IDS[2], IDS[0])


def test_what_is_remembered_is_bounded() -> None:
    heads = Heads(limits=HeadLimits(heads_max=4, named_max=10))
    for number in range(100):
        heads.given(IDS[number], UNTIL_MIN, tuple(IDS[100:356]))
    assert len(heads._named) == 10 and len(heads.ids(0)) == 4
    for number in range(300, 400):
        heads.published(IDS[number], UNTIL_MIN, heads.ids(0))
        heads.kept(IDS[number])
    assert not heads._own


def test_what_nobody_keeps_is_no_head() -> None:
    kept: list[tuple[MessageId, int]] = []
    causes = Causes(on_kept=lambda id, until_min: kept.append((id, until_min)))
    causes.given(IDS[0], UNTIL_MIN, 60, ())
    causes.given(IDS[1], UNTIL_MIN, 0, (IDS[0],))
    causes.published(IDS[2], UNTIL_MIN, (IDS[0],), is_head=False)
    assert causes.heads.ids(0) == (IDS[0],) and causes.recent.ids(0) == (IDS[2],)
    causes.kept(IDS[2], UNTIL_MIN)
    assert kept == [(IDS[2], UNTIL_MIN)]


@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 14), max_size=3)), min_size=1, max_size=15))
def test_heads_against_a_whole_history(history: list[tuple[bool, set[int]]]) -> None:
    """Whatever is given and published, heads are exactly the messages that no other names."""
    heads, names = Heads(), dict[MessageId, set[MessageId]]()
    for number, (is_own, earlier) in enumerate(history):
        id = IDS[number]
        deps = heads.ids(0) if is_own else tuple(IDS[one] for one in earlier if one < number)
        if is_own:
            heads.published(id, UNTIL_MIN, deps)
        else:
            heads.given(id, UNTIL_MIN, deps)
        names[id] = set(deps)
        assert set(heads.ids(0)) == names.keys() - set().union(*names.values())


@given(st.lists(st.tuples(st.sampled_from(("publish", "refuse", "keep", "give")), st.integers(0, 30)), max_size=40))
def test_nothing_given_or_in_custody_is_left_out(steps: list[tuple[str, int]]) -> None:
    """Whatever is refused, in any order, every message given to the app or in its custody precedes the heads."""
    heads, names, flying = (
        Heads(limits=HeadLimits(heads_max=99)),
        dict[MessageId, tuple[MessageId, ...]](),
        list[MessageId](),
    )
    solid: set[MessageId] = set()
    for number, (what, which) in enumerate(steps):
        id = IDS[number]
        if what == "publish":
            names[id] = heads.ids(0)
            heads.published(id, UNTIL_MIN, names[id])
            flying.append(id)
        elif what == "give":
            heads.given(id, UNTIL_MIN, ())
            names[id], solid = (), solid | {id}
        elif flying:
            gone = flying.pop(which % len(flying))
            (heads.refused if what == "refuse" else heads.kept)(gone)
            solid |= {gone} if what == "keep" else set()
        reached, todo = set[MessageId](), list(heads.ids(0))
        while todo:
            one = todo.pop()
            reached.add(one)
            todo += names[one]
        assert solid <= reached
