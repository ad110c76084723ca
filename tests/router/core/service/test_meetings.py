"""Meetings of two services with an adversary in between: both find the groups that both want, and nobody else does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.core import ALICE, BOB, GROUP

from router.core.service.meetings import Cause, Common, Deed, Drop, LetGo, MeetingLimits, Meetings, Say
from router.core.wire.crypto import PublicKey
from router.core.wire.meeting import TAGS_MAX, TAGS_STEP, Meet, Meeting, Met

EVE = GROUP.public
GROUPS = st.sets(st.binary(min_size=32, max_size=32), max_size=40)
SERVICE = PublicKey(b"s" * 32)


def keys(count: int, first: int = 0) -> list[bytes]:
    return [number.to_bytes(32, "big") for number in range(first, first + count)]


@dataclass
class Side:
    """One service, and the deeds that it told its router."""

    router: PublicKey
    meetings: Meetings
    agreed: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)
    drops: list[Drop] = field(default_factory=list)
    left_out: int = 0
    let_go: list[PublicKey] = field(default_factory=list)

    def take(self, deeds: Iterable[Deed]) -> list[Say]:
        """Record the deeds about groups, and return those to be sent."""
        said = []
        for deed in deeds:
            match deed:
                case Say():
                    said.append(deed)
                case Common(router, topics, left_out):
                    self.agreed[router], self.left_out = dict(topics), left_out
                case LetGo(router):
                    self.let_go.append(router)
                case Drop():
                    self.drops.append(deed)
        return said


class Table:
    """Sides that hear each other at once; `seen`: all words in the order sent, with their senders."""

    def __init__(self, *routers: PublicKey, seed: int = 0, limits: MeetingLimits | None = None) -> None:
        self.seconds = 0.0
        chance = random.Random(seed)
        self.sides = {
            router: Side(router, Meetings(router, chance.randbytes, 0.0, limits)) for router in routers
        }  # fmt: skip
        self.seen: list[tuple[PublicKey, Say]] = []
        self.carry: Callable[[PublicKey, Say], bool] = lambda sender, said: True

    def __getitem__(self, router: PublicKey) -> Side:
        return self.sides[router]

    def run(self, until_s: float) -> None:
        """Carry out everything that is due by then."""
        while (due_s := min(side.meetings.due_s for side in self.sides.values())) <= until_s:
            self.seconds = max(self.seconds, due_s)
            for side in self.sides.values():
                self.send(side, side.meetings.tick(self.seconds))
        self.seconds = until_s

    def send(self, side: Side, deeds: Iterable[Deed]) -> None:
        for said in side.take(deeds):
            self.seen.append((side.router, said))
            if said.via in self.sides and self.carry(side.router, said):
                self.hear(self.sides[said.via], side.router, said.word)

    def hear(self, side: Side, bringer: PublicKey, word: Meet | Met) -> None:
        hear = side.meetings.hear_meet if isinstance(word, Meet) else side.meetings.hear_met
        self.send(side, hear(bringer, SERVICE, word, self.seconds))  # type: ignore[arg-type]

    def want(self, router: PublicKey, groups: Iterable[bytes], wanted: bool = True) -> None:
        for group in groups:
            self.sides[router].meetings.want(group, wanted, self.seconds)


def pair(mine: Iterable[bytes], theirs: Iterable[bytes], seed: int = 0) -> Table:
    table = Table(ALICE.public, BOB.public, seed=seed)
    table.want(ALICE.public, mine)
    table.want(BOB.public, theirs)
    assert table[ALICE.public].meetings.meet(BOB.public, SERVICE, 0.0)
    return table


@given(GROUPS, GROUPS, GROUPS, st.integers(0, 1 << 32))
def test_both_learn_what_they_share_and_nothing_else(
    both: set[bytes], mine: set[bytes], theirs: set[bytes], seed: int
) -> None:
    table = pair(mine | both, theirs | both, seed)
    table.run(10.0)
    alice, bob = (
        table[one].agreed.get(other) for one, other in ((ALICE.public, BOB.public), (BOB.public, ALICE.public))
    )
    assert alice == bob and alice is not None, "they call each group alike"
    assert alice.keys() == (mine | both) & (theirs | both)
    assert len(table.seen) == 3, "a question, an answer, and what closes it"
    mets = [said.word for _, said in table.seen if isinstance(said.word, Met)]
    assert all(len(met.tags) % TAGS_STEP == 0 and list(met.tags) == sorted(met.tags) for met in mets)


def test_both_begin_at_once() -> None:
    table = pair(keys(3), keys(3, 1))
    table[BOB.public].meetings.meet(ALICE.public, SERVICE, 0.0)
    held: list[tuple[PublicKey, Say]] = []

    def hold(sender: PublicKey, said: Say) -> bool:
        if len(table.seen) <= 2:
            held.append((sender, said))
        return len(table.seen) > 2

    table.carry = hold
    table.run(1.0)
    assert len(held) == 2
    for sender, said in held:
        table.hear(table[said.via], sender, said.word)
    assert [set(side.agreed.popitem()[1]) for side in table.sides.values()] == [set(keys(2, 1))] * 2


def test_a_group_that_is_wanted_while_a_meeting_goes_on_is_found_by_both() -> None:
    table = pair(keys(1), ())
    closing: list[Say] = []

    def hold(sender: PublicKey, said: Say) -> bool:
        if len(table.seen) == 3:
            closing.append(said)
        return len(table.seen) != 3

    table.carry = hold
    table.run(1.0)
    table.want(BOB.public, keys(1))  # Alice has Bob's tags already
    table.hear(table[BOB.public], ALICE.public, closing[0].word)
    table.run(10.0)
    assert [set(side.agreed.popitem()[1]) for side in table.sides.values()] == [set(keys(1))] * 2


@given(st.integers(0, 1 << 32))
def test_both_find_what_both_want_whenever_they_came_to_want_it(seed: int) -> None:
    """Words take up to half a second, in order; one side begins, or both; the last change is 3 s after the start."""
    chance = random.Random(seed)
    table = pair((), ())
    if chance.random() < 0.3:
        table[BOB.public].meetings.meet(ALICE.public, SERVICE, 0.0)
    under_way: list[tuple[float, PublicKey, Say]] = []

    def hold(sender: PublicKey, said: Say) -> bool:
        last_s = max((at_s for at_s, one, _ in under_way if one == sender), default=table.seconds)
        under_way.append((max(last_s, table.seconds + chance.random() / 2), sender, said))
        return False

    table.carry = hold
    changes = sorted((chance.random() * 3, side, group) for side in (0, 1) for group in (0, 1, chance.randrange(2)))
    wanted: tuple[set[int], set[int]] = set(), set()
    for at_s in [step / 20 for step in range(600)]:
        table.run(at_s)
        while changes and changes[0][0] <= at_s:
            _, side, group = changes.pop(0)
            wanted[side].symmetric_difference_update({group})
            table.want((ALICE, BOB)[side].public, keys(1, group), group in wanted[side])
        for one in [one for one in under_way if one[0] <= at_s]:
            under_way.remove(one)
            table.hear(table[one[2].via], one[1], one[2].word)
    agreed = [set().union(*side.agreed.values()) for side in table.sides.values()]
    assert agreed == [{key for group in wanted[0] & wanted[1] for key in keys(1, group)}] * 2


def test_they_meet_again_every_hour_and_when_the_own_set_changes() -> None:
    table = pair(keys(1), keys(3))
    table.run(10.0)
    assert set(table[BOB.public].agreed[ALICE.public]) == set(keys(1))
    table.want(ALICE.public, keys(1, 2))
    table.run(12.0)
    assert set(table[BOB.public].agreed[ALICE.public]) == {*keys(1), *keys(1, 2)}
    table.want(BOB.public, keys(1), wanted=False)
    table.run(22.0)
    assert set(table[ALICE.public].agreed[BOB.public]) == set(keys(1, 2)), "what is not wanted any more is gone"
    nonces = {said.word.nonce for _, said in table.seen if isinstance(said.word, Meet)}
    met = len(table.seen)
    table.run(22.0 + 3600 * 4)
    assert len(table.seen) in (met + 9, met + 12), "three or four meetings in four hours, each of three words"
    nonces |= {said.word.nonce for _, said in table.seen[met:] if isinstance(said.word, Meet)}
    assert len(nonces) == len(table.seen) // 3, "every meeting has a fresh nonce"


def test_what_is_relayed_between_two_shows_the_relay_nothing() -> None:
    """Eve relays the words of each to the other as if they were hers."""
    group = keys(1)
    table = Table(ALICE.public, BOB.public)
    table.want(ALICE.public, group)
    table.want(BOB.public, group)
    table[ALICE.public].meetings.meet(EVE, SERVICE, 0.0)

    def relay(sender: PublicKey, said: Say) -> bool:
        assert said.via == EVE
        table.hear(table[BOB.public if sender == ALICE.public else ALICE.public], EVE, said.word)
        return False

    table.sides[EVE] = Side(EVE, Meetings(EVE, random.Random(1).randbytes, 0.0))
    table.carry = relay
    table.run(3.0)
    assert [type(said.word) for _, said in table.seen] == [Meet, Met, Met], "it took its whole course"
    assert table[ALICE.public].agreed == {EVE: {}} and table[BOB.public].agreed == {EVE: {}}


def test_replayed_and_forged_words_agree_on_nothing_and_take_nothing_away() -> None:
    table = pair(keys(2), keys(2))
    table.run(5.0)
    agreed = dict(table[ALICE.public].agreed), dict(table[BOB.public].agreed)
    for sender, said in list(table.seen):
        if isinstance(said.word, Met):
            table.hear(table[said.via], sender, said.word)
            table.hear(table[said.via], EVE, said.word)
            table.hear(table[sender], said.via, said.word)
    causes = {drop.cause for side in table.sides.values() for drop in side.drops}
    assert causes == {Cause.UNASKED}
    chance = random.Random(7)
    for _ in range(50):
        forged = Met(chance.randbytes(16), chance.randbytes(16), tuple([chance.randbytes(16) for _ in range(32)]))
        table.hear(table[ALICE.public], BOB.public, forged)
    assert (table[ALICE.public].agreed, table[BOB.public].agreed) == agreed


@given(st.binary(min_size=16, max_size=16), st.sets(st.binary(min_size=16, max_size=16), max_size=64))
def test_an_answer_in_time_with_invented_tags_shares_nothing(nonce: bytes, tags: set[bytes]) -> None:
    table = pair(keys(20), ())
    table.carry = lambda sender, said: False
    table.run(1.0)
    _, said = table.seen[0]
    table.hear(table[ALICE.public], BOB.public, Met(nonce, said.word.nonce, tuple(tags)))
    assert table[ALICE.public].agreed == {BOB.public: {}}
    closing = table.seen[-1][1].word
    assert isinstance(closing, Met)
    reflected = Meeting(ALICE.public, BOB.public, said.word.nonce, nonce)
    table.hear(table[ALICE.public], BOB.public, Met(nonce, said.word.nonce, closing.tags))
    assert reflected.shared(keys(20), closing.tags) == [] and table[ALICE.public].agreed == {BOB.public: {}}


def test_an_answer_after_its_time_is_none() -> None:
    table = pair(keys(2), keys(2))
    table.carry = lambda sender, said: False
    table.run(1.0)
    (sender, said), limits = table.seen[0], MeetingLimits()
    table.hear(table[BOB.public], sender, said.word)
    table.seconds += limits.answer_s + 1
    table.hear(table[ALICE.public], BOB.public, table.seen[1][1].word)
    assert table[ALICE.public].drops == [Drop(BOB.public, Cause.UNASKED)] and not table[ALICE.public].agreed


def test_questions_without_end_are_answered_seldom() -> None:
    table = Table(ALICE.public)
    chance = random.Random(3)
    table.want(ALICE.public, keys(TAGS_MAX))
    table.seconds = 10.0
    for _ in range(1000):
        table.hear(table[ALICE.public], BOB.public, Meet(chance.randbytes(16)))
    assert len(table.seen) == MeetingLimits().partner_burst == 8, "some at once"
    for number in range(200):
        table.hear(table[ALICE.public], PublicKey(keys(1, 5_000 + number)[0]), Meet(chance.randbytes(16)))
    assert len(table.seen) == 10, "and of all together ten a second, if each is about 1,024 groups"
    assert {drop.cause for drop in table[ALICE.public].drops} == {Cause.TOO_SOON}
    table.run(11.15)
    assert 19 <= len(table.seen) <= 21, "the others wait for their turn"
    table.seconds += 60
    table.hear(table[ALICE.public], BOB.public, Meet(chance.randbytes(16)))
    answers = [said.via for _, said in table.seen if isinstance(said.word, Met)]
    assert answers[-1] == BOB.public and len(answers) <= 22, "not for longer than their nonces are valid"


@pytest.mark.parametrize("size", [1, 4])
def test_meetings_about_many_groups_are_further_apart_while_these_change(size: int) -> None:
    """Ten cores that each joined 5,000 groups in minutes met every five seconds about all of them."""
    first, seconds = keys(TAGS_MAX * size), 120
    table = pair(first, first)
    for at in range(seconds):
        table.run(float(at))
        table.want(ALICE.public, keys(1, len(first) + at))
    begun = sum(isinstance(said.word, Meet) for _, said in table.seen)
    assert abs(begun - seconds / (MeetingLimits().apart_s * size)) <= 2
    table.run(seconds + MeetingLimits().apart_s * (size + 1))
    [*_, last] = (said.word for sender, said in table.seen if sender == ALICE.public and isinstance(said.word, Met))
    assert len(last.tags) == TAGS_MAX


def test_more_questions_than_may_wait_are_dropped() -> None:
    table = Table(ALICE.public, limits=MeetingLimits(waiting_max=3))
    for number in range(5):
        table.hear(table[ALICE.public], PublicKey(keys(1, 500 + number)[0]), Meet(b"n" * 16))
    assert [drop.cause for drop in table[ALICE.public].drops] == [Cause.TOO_MANY] * 2 and not table.seen
    table.run(1.0)
    assert len(table.seen) == 3


def test_who_may_go_is_let_go_for_the_next_and_who_may_not_stays() -> None:
    limits, near = MeetingLimits(partners_max=3), keys(1, 801)
    table = Table(*map(PublicKey, [bytes(ALICE.public), *keys(9, 800)]), limits=limits)
    hub = table[ALICE.public]
    hub.meetings = Meetings(ALICE.public, random.Random(5).randbytes, 0.0, limits, lambda router: router not in near)
    for router, side in table.sides.items():
        table.want(router, keys(1))
        if side is not hub:
            side.meetings.meet(ALICE.public, SERVICE, table.seconds)
            table.run(table.seconds + 1)
    assert not hub.drops and len(hub.meetings) == 3 and hub.agreed.keys() == {*keys(9, 800)}, "each was met"
    assert hub.let_go == [PublicKey(one) for one in keys(9, 800)[:7] if one not in near]
    assert hub.meetings.shared_with(PublicKey(near[0])) == 1
    assert not hub.meetings.meet(EVE, SERVICE, table.seconds, is_back=True), "a link alone lets nobody go"
    assert hub.meetings.meet(EVE, SERVICE, table.seconds)


def test_strangers_take_no_answer_from_a_partner_that_shares_something() -> None:
    table = Table(ALICE.public, BOB.public)
    table.want(ALICE.public, keys(1))
    table.want(BOB.public, keys(1))
    table[ALICE.public].meetings.meet(BOB.public, SERVICE, 0.0)
    table.run(2.0)
    assert table[ALICE.public].meetings.shared_with(BOB.public) == 1
    table.seconds += 60
    table.seen.clear()
    strangers = [PublicKey(keys(1, 500 + number)[0]) for number in range(400)]
    for one in strangers:
        table.hear(table[ALICE.public], one, Meet(b"n" * 16))
    assert len(table.seen) == 240, "24 times as many as of 1,024 groups"
    table.hear(table[ALICE.public], BOB.public, Meet(b"b" * 16))
    assert [said.via for _, said in table.seen[240:]] == [BOB.public]


def test_who_shares_nothing_and_was_silent_longest_gives_way() -> None:
    limits = MeetingLimits(partners_max=3, answers_per_s=1000.0)
    table = Table(ALICE.public, BOB.public, limits=limits)
    table.want(ALICE.public, keys(1))
    table.want(BOB.public, keys(1))
    table[ALICE.public].meetings.meet(BOB.public, SERVICE, 0.0)
    table.run(2.0)
    alice = table[ALICE.public].meetings
    for number in range(300):
        table.seconds += 0.1
        table.hear(table[ALICE.public], PublicKey(keys(1, 500 + number)[0]), Meet(b"n" * 16))
        assert len(alice) <= 3
    assert alice.shared_with(BOB.public) == 1, "a partner with something in common stays"
    others = [
        Side(PublicKey(one), Meetings(PublicKey(one), random.Random(5).randbytes, 0.0, limits)) for one in keys(2, 800)
    ]
    for side in others:
        table.sides[side.router] = side
        table.want(side.router, keys(1))
        side.meetings.meet(ALICE.public, SERVICE, table.seconds)
        table.run(table.seconds + 40)  # behind the strangers, whose questions are answered one after the other
        assert alice.shared_with(side.router) == 1
    assert not alice.meet(EVE, SERVICE, table.seconds) and len(alice) == 3
    table.hear(table[ALICE.public], EVE, Meet(b"n" * 16))
    assert table[ALICE.public].drops[-1] == Drop(EVE, Cause.NO_ROOM)


def test_nobody_is_answered_before_the_own_set_is_known() -> None:
    table = pair(keys(2), ())
    table.hear(table[BOB.public], ALICE.public, Meet(b"n" * 16))
    assert not table.seen
    table.want(BOB.public, keys(2))
    table.run(0.99)
    assert not table.seen
    table.run(1.0)
    assert [said.via for _, said in table.seen][:2] == [BOB.public, ALICE.public], "the question held back is answered"


def test_who_does_not_answer_is_asked_less_and_less_and_then_forgotten() -> None:
    table = pair(keys(1), ())
    at: list[float] = []

    def lose(sender: PublicKey, said: Say) -> bool:
        at.append(table.seconds)
        return False

    table.carry = lose
    table.run(3600.0)
    assert at == [1.0, 6.0, 16.0, 36.0] and not len(table[ALICE.public].meetings)


def test_who_does_not_answer_may_also_be_asked_for_as_long_as_it_is_a_partner() -> None:
    table = Table(ALICE.public, limits=MeetingLimits(tries_max=None))
    table[ALICE.public].meetings.meet(BOB.public, SERVICE, 0.0)
    at: list[float] = []

    def lose(sender: PublicKey, said: Say) -> bool:
        at.append(table.seconds)
        return False

    table.carry = lose
    table.sides[BOB.public] = Side(BOB.public, Meetings(BOB.public, random.Random(1).randbytes, 0.0))
    table.run(1500.0)
    assert at == [1.0, 6.0, 16.0, 36.0, 76.0, 156.0, 316.0, 616.0, 916.0, 1216.0]


def test_more_groups_than_a_meeting_is_about() -> None:
    many = keys(TAGS_MAX + 500)
    table = pair(many, many)
    table.run(2.0)
    alice, bob = table[ALICE.public], table[BOB.public]
    assert alice.agreed[BOB.public] == bob.agreed[ALICE.public] and len(alice.agreed[BOB.public]) == 512
    assert alice.left_out == TAGS_MAX - 512, "both choose alike, so what was chosen is in common"
    table = pair(many, keys(20, 100))
    table.run(2.0)
    first = set(table[ALICE.public].agreed[BOB.public])
    table.run(2.0 + 7000)
    assert first < set(table[ALICE.public].agreed[BOB.public]), "another hour chooses others, and the first still hold"


def test_a_meeting_with_oneself_and_with_those_who_are_forgotten() -> None:
    table = pair(keys(1), keys(1))
    table.run(2.0)
    alice = table[ALICE.public]
    table.hear(alice, ALICE.public, Meet(b"n" * 16))
    assert alice.drops == [Drop(ALICE.public, Cause.OWN_KEY)]
    alice.meetings.forget(BOB.public)
    assert not len(alice.meetings) and alice.agreed[BOB.public], "what was agreed stays as it is"
    assert "0 partners" in repr(alice.meetings)


@pytest.mark.parametrize("lost", range(3))
def test_a_lost_word_is_made_up_for(lost: int) -> None:
    table = pair(keys(1), keys(1))
    table.carry = lambda sender, said: len(table.seen) != lost + 1
    table.run(60.0)
    assert [side.agreed for side in table.sides.values()] == [
        {BOB.public: table[ALICE.public].agreed[BOB.public]}, {ALICE.public: table[ALICE.public].agreed[BOB.public]}
    ]  # fmt: skip
