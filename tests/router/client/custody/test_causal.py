"""Causal order in one group: under every order of arrival, with gaps, circles and forged numbers; its bounds."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from router.client.custody.causal import CausalOrder, Given, OrderLimits, Turn
from router.core.wire.crypto import MessageId, PublicKey

LIMITS = OrderLimits()
ANN, BOB, EVE = (PublicKey(bytes((n,)) * 32) for n in (1, 2, 3))
FOR_EVER_S = 1e9


def an_id(name: object) -> MessageId:
    return MessageId(str(name).encode().rjust(32, b"."))


class Reader:
    """Reads a group's messages as the client does, and records the names of those given."""

    def __init__(self, limits: OrderLimits = LIMITS) -> None:
        self.given = Given(limits.given_max)
        self.order: CausalOrder[object] = CausalOrder(self.given, limits)
        self.names: list[object] = []
        self.turns: list[Turn[object]] = []
        self.now_s = 0.0

    def read(
        self, name: object, *deps: object, sender: PublicKey = ANN, seq: int = 0, life_s: float = FOR_EVER_S
    ) -> list[object]:
        """Take a message; return the names of all messages that may be given then."""
        unknown = [id for id in map(an_id, deps) if id not in self.given]
        if self.order.is_next(sender, unknown):
            late = self.order.pass_by(an_id(name))
            self._note(Turn(name, (), late))
            return [name, *self.pump()]
        self.order.add(an_id(name), sender, seq, unknown, name, size=1, now_s=self.now_s, life_s=life_s)
        return self.pump()

    def pump(self, *, is_full: bool = False) -> list[object]:
        before = len(self.names)
        while (turn := self.order.ready() or self.order.overdue(self.now_s, is_full=is_full)) is not None:
            self._note(turn)
        return self.names[before:]

    def _note(self, turn: Turn[object]) -> None:
        self.turns.append(turn)
        self.names.append(turn.item)

    def missing(self) -> dict[object, tuple[MessageId, ...]]:
        return {turn.item: turn.missing for turn in self.turns if turn.missing}

    def late(self) -> list[object]:
        return [turn.item for turn in self.turns if turn.late]


def test_an_effect_waits_for_its_causes() -> None:
    reader = Reader()
    assert reader.read("c", "a", "b") == []
    assert reader.read("b", "a", sender=BOB) == []
    assert reader.read("a", sender=EVE) == ["a", "b", "c"]
    assert not reader.missing() and not reader.late() and not reader.order


def test_a_senders_earlier_one_goes_first_if_it_is_here() -> None:
    reader = Reader()
    assert reader.read("five", "a", seq=5) == []
    assert reader.read("six", seq=6) == [], "it names no cause, but its sender's fifth is here and waits"
    assert reader.read("b", sender=BOB) == ["b"]
    assert reader.read("a", sender=BOB) == ["a", "five", "six"]
    assert reader.read("three", seq=3) == ["three"], "a hole in the numbers is not waited for"


def test_deps_decide_where_numbers_say_otherwise() -> None:
    reader = Reader()
    assert reader.read("third of the tablet", "seventh of the phone", seq=3) == []
    assert reader.read("seventh of the phone", seq=7) == ["seventh of the phone", "third of the tablet"]


def test_two_devices_of_one_key_with_the_same_numbers() -> None:
    reader = Reader()
    assert reader.read("phone", "a", seq=1) == []
    assert reader.read("tablet", seq=1) == ["tablet"]
    assert reader.read("a", sender=BOB) == ["a", "phone"]


def test_what_does_not_come_is_named_and_what_comes_after_is_late() -> None:
    reader = Reader()
    reader.read("b", "a")
    reader.now_s = LIMITS.gap_s - 0.1
    assert reader.pump() == [] and reader.order.wake_s(is_full=False) == LIMITS.gap_s
    reader.now_s = LIMITS.gap_s
    assert reader.pump() == ["b"] and reader.missing() == {"b": (an_id("a"),)}
    assert reader.read("c", "a", sender=BOB) == ["c"], "what was waited for in vain is not waited for again"
    assert reader.missing()["c"] == (an_id("a"),)
    assert reader.read("a", sender=EVE) == ["a"] and reader.late() == ["a"]
    assert reader.read("d", "a", "b", "c") == ["d"] and "d" not in reader.missing()


def test_what_waits_too_long_goes_after_its_causes_that_are_here() -> None:
    reader = Reader()
    reader.read("c", "b")
    reader.now_s = 20
    reader.read("b", "a", sender=BOB)
    reader.now_s = LIMITS.gap_s
    assert reader.pump() == ["b", "c"] and reader.missing() == {"b": (an_id("a"),)}


def test_too_many_that_wait_give_the_oldest() -> None:
    reader = Reader()
    for number in range(LIMITS.waiting_max - 1):
        assert reader.read(number, f"never {number}", seq=number) == []
    assert reader.read("one more", "never", seq=1000) == [0]
    assert reader.missing() == {0: (an_id("never 0"),)} and len(reader.order) == LIMITS.waiting_max - 1
    assert reader.read("a last one", "never", seq=1001) == [1]
    assert reader.read("never", sender=BOB) == ["never"], "they stay behind their sender's earlier ones"
    assert len(reader.order) == LIMITS.waiting_max - 1


def test_what_is_missing_to_one_too_many_may_still_come_for_the_others() -> None:
    reader = Reader(replace(LIMITS, waiting_max=3))
    reader.read("x", "a", seq=1)
    reader.read("y", "a", sender=BOB)
    assert reader.read("z", "b", sender=EVE) == ["x"] and reader.missing() == {"x": (an_id("a"),)}
    assert reader.read("a", sender=PublicKey(b"p" * 32)) == ["a", "y"] and reader.late() == ["a"]
    assert "y" not in reader.missing()


def test_a_full_window_gives_the_oldest_sooner() -> None:
    reader = Reader()
    reader.read("b", "a")
    reader.now_s = LIMITS.full_s - 0.1
    assert reader.pump(is_full=True) == [] and reader.order.wake_s(is_full=True) == LIMITS.full_s
    reader.now_s = LIMITS.full_s
    assert reader.pump() == [] and reader.pump(is_full=True) == ["b"] and reader.missing()


def test_what_expires_is_not_waited_for_and_does_not_wait() -> None:
    reader = Reader()
    reader.read("c", "b")
    reader.read("b", "a", sender=BOB, life_s=10)
    reader.now_s = 10
    assert reader.pump() == ["b", "c"] and reader.missing() == {"b": (an_id("a"),)}
    assert reader.read("e", "nowhere", life_s=-5) == ["e"], "one that has expired in the queue"


def test_what_came_and_cannot_be_read_is_waited_for_no_longer() -> None:
    reader = Reader()
    reader.read("b", "junk")
    reader.order.settle(an_id("junk"))
    assert reader.pump() == ["b"] and not reader.missing()


def test_what_will_not_come_is_missing_to_all_that_name_it() -> None:
    reader = Reader()
    reader.read("b", "a")
    reader.read("c", "a", "b", sender=BOB)
    reader.order.give_up(an_id("a"))
    assert reader.pump() == ["b", "c"]
    assert reader.missing() == {"b": (an_id("a"),), "c": (an_id("a"),)}


# -- bad input ---------------------------------------------------------------------------------------------


def test_a_message_that_names_itself() -> None:
    reader = Reader()
    assert reader.read("a", "a", "a") == ["a"] and not reader.missing()


def test_a_circle_ends_with_the_gap() -> None:
    reader = Reader()
    for one, other in (("a", "b"), ("b", "c"), ("c", "a")):
        assert reader.read(one, other, sender=PublicKey(one.encode() * 32)) == []
    reader.now_s = LIMITS.gap_s
    assert sorted(map(str, reader.pump())) == ["a", "b", "c"]
    assert sum(map(len, reader.missing().values())) == 1 and len(reader.late()) == 1


def test_256_causes_that_nobody_sent() -> None:
    reader = Reader()
    causes = [f"forged {number}" for number in range(256)]
    reader.read("a", *causes)
    reader.now_s = LIMITS.gap_s
    assert reader.pump() == ["a"] and reader.missing() == {"a": tuple(map(an_id, causes))}
    assert not reader.order._effects


def test_numbers_that_jump_or_begin_again() -> None:
    reader = Reader()
    for name, seq in (("first", 0), ("far", 2**64 - 1), ("next", 1), ("again", 0), ("on", 2)):
        assert reader.read(name, seq=seq) == [name]
    assert not reader.late() and not reader.order._by_sender


def test_what_is_remembered_is_bounded() -> None:
    limits = OrderLimits(waiting_max=8, given_max=20, missed_max=10)
    reader = Reader(limits)
    for number in range(2000):
        reader.read(number, *(f"never {number} {one}" for one in range(4)), seq=number)
        reader.now_s += 0.001
    order = reader.order
    assert len(order) < 8 and 10 <= len(reader.given.ids) <= 20 and len(order._missed) == 10
    assert len(order._effects) <= 32 and len(order._due) <= 4 * 8 and len(order._free) <= 8
    assert reader.names == list(range(len(reader.names)))
    for number in range(100):
        reader.read(f"ok {number}", sender=BOB)
    assert 10 <= len(reader.given.ids) <= 20


def test_a_crowd_behind_one_cause_is_given_in_order_without_much_work() -> None:
    reader = Reader()
    for number in reversed(range(200)):
        assert reader.read(number, number - 1, seq=number) == []
    assert reader.read(-1, sender=BOB) == list(range(-1, 200))


# -- every order of arrival -----------------------------------------------------------------------------------

History = dict[int, tuple[int, int, tuple[int, ...]]]  # by name: sender, number, causes


def test_every_order_of_five() -> None:
    history: History = {0: (0, 0, ()), 1: (1, 0, (0,)), 2: (2, 0, (0,)), 3: (0, 1, (1, 2)), 4: (1, 1, (1,))}
    for arrivals in permutations(history):
        reader = Reader()
        for name in arrivals:
            sender, seq, deps = history[name]
            reader.read(name, *deps, sender=PublicKey(bytes((sender + 1,)) * 32), seq=seq)
        check(reader, history)
        assert sorted(map(int, map(str, reader.names))) == [0, 1, 2, 3, 4] and not reader.missing()


def check(reader: Reader, history: History) -> None:
    """Check that no effect comes before its cause, unless marked; that each comes once; and that late ones were
    reported missing."""
    position = {name: at for at, name in enumerate(reader.names)}
    assert len(position) == len(reader.names)
    for turn in reader.turns:
        assert isinstance(turn.item, int)
        for dep in history[turn.item][2]:
            is_before = position.get(dep, math.inf) < position[turn.item]
            assert is_before != (an_id(dep) in turn.missing)
        said = [other for other in reader.turns if an_id(turn.item) in other.missing]
        assert turn.late == any(position[other.item] < position[turn.item] for other in said)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Generate a history as honest apps make it: each message names heads of those that its sender has."""
    count = draw(st.integers(1, 12))
    history: History = {}
    heads: list[set[int]] = [set(), set(), set()]
    past: dict[int, set[int]] = {}
    seqs = [0, 0, 0]
    for name in range(count):
        sender = draw(st.integers(0, 2))
        for other in draw(st.lists(st.sampled_from(sorted(history)), max_size=3)) if history else ():
            heads[sender].add(other)
        own = {one for one in heads[sender] if not any(one in past[more] for more in heads[sender] if more != one)}
        history[name] = sender, seqs[sender], tuple(sorted(own))
        past[name] = set().union({*own}, *(past[one] for one in own))
        heads[sender] = {name}
        seqs[sender] += 1
    return history


@given(histories(), st.data())
def test_any_history_in_any_order_is_given_whole(history: History, data: st.DataObject) -> None:
    reader = Reader()
    for name in data.draw(st.permutations(sorted(history))):
        sender, seq, deps = history[name]
        reader.read(name, *deps, sender=PublicKey(bytes((sender + 1,)) * 32), seq=seq)
    check(reader, history)
    assert set(reader.names) == history.keys() and not reader.missing()


@given(histories(), st.data())
def test_with_messages_lost_or_slow_each_is_given_and_says_what_is_missing(
    history: History, data: st.DataObject
) -> None:
    reader = Reader(replace(LIMITS, waiting_max=data.draw(st.integers(2, 6)), missed_max=99))
    lost = data.draw(st.sets(st.sampled_from(sorted(history))))
    for name in data.draw(st.permutations(sorted(history))):
        if name not in lost:
            sender, seq, deps = history[name]
            reader.read(name, *deps, sender=PublicKey(bytes((sender + 1,)) * 32), seq=seq)
            reader.now_s += data.draw(st.sampled_from((0, 1, 40)))
            reader.pump(is_full=data.draw(st.booleans()))
    reader.now_s += LIMITS.gap_s
    reader.pump()
    check(reader, history)
    assert set(reader.names) == history.keys() - lost and not reader.order
    if not lost:
        for name in history:
            assert an_id(name) in reader.given


def test_a_cause_that_was_given_up_and_came_late_is_not_missing_to_those_behind_it() -> None:
    reader = Reader()
    reader.read(5, 1, sender=PublicKey(bytes((1,)) * 32), seq=5)
    reader.now_s += LIMITS.gap_s
    reader.pump()
    assert reader.turns[-1].missing == (an_id(1),)
    reader.read(4, 1, 3, sender=PublicKey(bytes((2,)) * 32), seq=2)
    reader.read(1, sender=PublicKey(bytes((1,)) * 32), seq=1)
    reader.read(3, sender=PublicKey(bytes((2,)) * 32), seq=1)
    assert reader.names == [5, 1, 3, 4]
    assert [turn.missing for turn in reader.turns[1:]] == [(), (), ()]


@pytest.mark.parametrize("is_full", [True, False])
def test_nothing_wakes_a_reader_of_nothing(is_full: bool) -> None:
    assert Reader().order.wake_s(is_full=is_full) == math.inf
