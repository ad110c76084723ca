"""Who is barred because it takes messages and passes none on, and who never is."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from router.core.wire.crypto import MessageId, PublicKey
from services.pubsub.core.comparison.id_set import key_of
from services.pubsub.core.conduct.withholding import Barred, Withholding, WithholdingLimits

GROUP, OTHER = (PublicKey(bytes((one,)) * 32) for one in (7, 8))
PARTNER, THIRD = (PublicKey(bytes((one,)) * 32) for one in (1, 2))
MINUTE_S, HOUR_S = 60.0, 3_600.0


def id_of(number: int) -> MessageId:
    return MessageId(sha256(b"%d" % number).digest())


class Judge:
    """The proofs of a node that sends one copy a minute to each of its partners, which acknowledge it at once."""

    def __init__(self, limits: WithholdingLimits | None = None, *partners: PublicKey) -> None:
        self.part = Withholding(limits)
        self.now_s, self.number = 1_000.0, 0
        self.partners = partners or (PARTNER,)
        for one in self.partners:
            self.part.linked(one, self.now_s)

    def send(self, minutes: int = 1) -> None:
        for _ in range(minutes):
            self.number += 1
            for one in self.partners:
                assert self.part.wants(one, self.now_s)
                self.part.sent(one, GROUP, key_of(0, id_of(self.number)), self.now_s)
                self.part.taken(one, id_of(self.number), self.now_s)
            self.now_s += MINUTE_S

    def compare(self, lacks_from: int = 0, lacks_to: int = 1 << 30, partner: PublicKey = PARTNER) -> None:
        """Compare with a partner that lacks the messages with these numbers, the last of which came from somebody just
        now."""
        self.number += 1
        self.part.arrived(GROUP, key_of(0, id_of(self.number)), self.now_s)
        self.now_s += 6
        watched = self.part.watched(partner, GROUP, self.now_s)
        lacked = [key for n in range(lacks_from, min(lacks_to, self.number + 1)) if (key := key_of(0, id_of(n)))]
        self.part.compared(
            partner, GROUP, [one for one in watched if one in lacked], [one for one in watched if one not in lacked],
            self.now_s,
        )  # fmt: skip

    def lose(self, times: int, minutes: int = 3) -> list[Barred]:
        """Let the partner lose everything over so many comparisons."""
        for _ in range(times):
            self.send(minutes)
            self.compare()
        return self.part.take_decided()

    def proofs(self) -> tuple[int, int]:
        return self.part.proofs(PARTNER, self.now_s)


def test_withholding_bars_a_router_that_loses_what_it_took_after_four_proofs() -> None:
    judge = Judge()
    assert judge.lose(3) == [] and judge.proofs() == (3, 0) and not judge.part.barred
    [barred] = judge.lose(1)
    assert (barred.router, barred.for_s) == (PARTNER, HOUR_S)
    assert len({proof.id for proof in barred.proofs}) == 4 and all(proof.is_lost for proof in barred.proofs)
    assert judge.part.barred == {PARTNER} and judge.part.barred_for_s(PARTNER, judge.now_s) == HOUR_S


def test_withholding_counts_copies_two_to_ten_minutes_old() -> None:
    judge = Judge()
    judge.send(1)
    judge.now_s += 53
    judge.compare()
    assert judge.proofs() == (0, 0), "119 s old"
    judge.now_s += 476
    judge.compare()
    assert judge.proofs() == (0, 0), "601 s old"
    judge.send(2)
    judge.compare()
    assert judge.proofs() == (1, 0)


def test_withholding_counts_proofs_a_minute_apart_and_of_other_messages() -> None:
    judge = Judge()
    judge.send(3)
    judge.compare()
    judge.now_s += 53
    judge.compare()
    assert judge.proofs() == (1, 0)
    judge.now_s += 200
    for _ in range(5):
        judge.compare()
        judge.now_s += MINUTE_S
    assert judge.proofs() == (2, 0), "the third copy of three counts once, the others did before"


def test_withholding_forgets_proofs_after_two_hours() -> None:
    judge = Judge()
    judge.lose(3)
    judge.now_s += 2 * HOUR_S
    assert judge.lose(3) == [] and judge.proofs() == (3, 0)


def test_a_message_that_is_brought_unasked_clears_all() -> None:
    judge = Judge()
    judge.lose(3)
    judge.part.brought(PARTNER)
    assert judge.proofs() == (0, 0) and judge.part.watched(PARTNER, GROUP, judge.now_s) == []
    judge.lose(4)
    assert judge.part.barred
    judge.part.brought(PARTNER)
    assert not judge.part.barred and judge.part.is_changed
    assert judge.lose(4)[0].for_s == HOUR_S, "nothing is held against it"


def test_a_bar_lasts_twice_as_long_each_time_up_to_a_day() -> None:
    judge, lasts = Judge(), []
    for _ in range(7):
        [barred] = judge.lose(4)
        lasts.append(barred.for_s / HOUR_S)
        judge.now_s += barred.for_s
        judge.part.tick(judge.now_s - 1)
        assert judge.part.barred == {PARTNER}
        judge.part.tick(judge.now_s)
        assert not judge.part.barred and judge.part.is_changed
    assert lasts == [1, 2, 4, 8, 16, 24, 24]


def test_copies_of_before_a_lost_link_do_not_count() -> None:
    judge = Judge()
    judge.send(5)
    judge.part.gone(PARTNER)
    judge.part.linked(PARTNER, judge.now_s)
    judge.compare()
    assert judge.proofs() == (0, 0)


def test_a_history_without_room_is_no_proof() -> None:
    """The partner holds what came last; one that holds older messages and lacks newer ones has lost them."""
    judge = Judge()
    judge.send(8)
    judge.compare(lacks_to=7)
    assert judge.proofs() == (0, 0)
    judge.compare(lacks_from=4, lacks_to=5)
    assert judge.proofs() == (1, 0)


def test_messages_that_are_not_acknowledged_do_not_count() -> None:
    judge = Judge()
    judge.part.sent(PARTNER, GROUP, key_of(0, id_of(99)), judge.now_s)
    judge.now_s += 200
    assert judge.part.watched(PARTNER, GROUP, judge.now_s) == []
    judge.part.compared(PARTNER, GROUP, [key_of(0, id_of(99))], [], judge.now_s)
    assert judge.proofs() == (0, 0)


# -- what is held and not sent ----------------------------------------------------------------------------


def listed(judge: Judge, number: int, nearest_s: float | None = 1_000.0) -> None:
    """Compare with a partner that holds a message that is lacked here, and sends it when asked."""
    judge.part.compared(PARTNER, GROUP, [], [], judge.now_s)
    judge.part.listed(PARTNER, GROUP, [id_of(number)], nearest_s)
    judge.part.came(id_of(number), PARTNER, judge.now_s)
    judge.part.even(PARTNER, GROUP, judge.now_s)
    judge.now_s += 120


def test_withholding_bars_the_nearest_if_it_sends_only_what_it_is_asked_for() -> None:
    judge = Judge()
    for number in range(9):
        assert not judge.part.take_decided()
        listed(judge, number)
    [barred] = judge.part.take_decided()
    assert [proof.is_lost for proof in barred.proofs] == [False] * 8
    assert [proof.id for proof in barred.proofs] == [id_of(n) for n in range(1, 9)], "the first one may be older"


def test_what_was_withheld_while_this_node_stood_still_does_not_count() -> None:
    judge = Judge()
    listed(judge, 0)
    judge.part.stalled()
    listed(judge, 1)
    assert judge.proofs() == (0, 0)
    listed(judge, 2)
    assert judge.proofs() == (0, 1)


def test_withholding_counts_only_what_the_nearest_took_since() -> None:
    judge = Judge()
    listed(judge, 0)
    for number, nearest_s in enumerate((None, judge.now_s + 60), 1):
        listed(judge, number, nearest_s)
    assert judge.proofs() == (0, 0), "not the nearest, or not since before the last comparison"
    judge.part.gone(PARTNER)
    judge.part.linked(PARTNER, judge.now_s)
    listed(judge, 3)
    assert judge.proofs() == (0, 0), "the link is new"
    listed(judge, 4)
    assert judge.proofs() == (0, 1)


def test_a_listed_message_that_another_brings_is_no_proof() -> None:
    judge = Judge()
    listed(judge, 0)
    judge.part.listed(PARTNER, GROUP, [id_of(1)], 1_000.0)
    judge.part.came(id_of(1), THIRD, judge.now_s)
    assert judge.proofs() == (0, 0)


# -- whom to judge ----------------------------------------------------------------------------------------


def test_checks_take_turns_a_minute_apart_and_an_hour_with_each() -> None:
    judge = Judge(None, PARTNER, THIRD)
    judge.send(4)
    found = []
    for _ in range(70):
        for router, group in judge.part.checks(judge.now_s, {GROUP}):
            found.append(router)
            assert group == GROUP
            judge.part.compared(router, GROUP, [], judge.part.watched(router, GROUP, judge.now_s), judge.now_s)
        judge.send()
    assert found == [PARTNER, THIRD] * 2


def test_checks_follow_a_proof_soon_and_end_if_no_other_comes() -> None:
    judge = Judge()
    judge.send(4)
    checked = 0
    for at in range(58):
        if judge.part.checks(judge.now_s, {GROUP}):
            checked += 1
            judge.compare(lacks_from=1 if at == 0 else 1 << 29)
        judge.send()
    assert checked == 1 + WithholdingLimits().idle_max


def test_checks_of_whoever_lacks_all_in_a_quiet_group_go_on_where_messages_come() -> None:
    """The one check of an hour was in a group in which nothing came just then, so of many groups none was judged."""
    judge = Judge()
    judge.part.sent(PARTNER, OTHER, key_of(0, id_of(999)), judge.now_s)
    judge.part.taken(PARTNER, id_of(999), judge.now_s)
    judge.now_s += 180
    assert judge.part.checks(judge.now_s, {GROUP, OTHER}) == [(PARTNER, OTHER)]
    judge.part.compared(PARTNER, OTHER, judge.part.watched(PARTNER, OTHER, judge.now_s), [], judge.now_s)
    assert judge.proofs() == (0, 0), "it may have no room"
    judge.send(3)
    assert judge.part.checks(judge.now_s, {GROUP, OTHER}) == [], "nothing has come just now"
    judge.part.arrived(GROUP, key_of(0, id_of(998)), judge.now_s)
    judge.now_s += 30
    assert judge.part.checks(judge.now_s, {GROUP, OTHER}) == [(PARTNER, GROUP)], "although the other is older"
    judge.part.compared(PARTNER, GROUP, judge.part.watched(PARTNER, GROUP, judge.now_s), [], judge.now_s)
    assert judge.proofs() == (1, 0)


def test_checks_of_whoever_lacks_all_end_after_some_that_prove_nothing() -> None:
    judge, checked = Judge(), 0
    for _ in range(58):
        judge.send()
        judge.part.arrived(GROUP, key_of(0, id_of(judge.number + 500)), judge.now_s - 10)
        for router, group in judge.part.checks(judge.now_s, {GROUP}):
            checked += 1
            copies = judge.part.watched(router, group, judge.now_s)[:-1]
            judge.now_s += 25
            judge.part.compared(router, group, copies, [], judge.now_s)
    assert judge.proofs() == (0, 0) and checked == 1 + WithholdingLimits().idle_max


def test_checks_of_whoever_may_have_withheld_what_was_missed() -> None:
    judge = Judge()
    assert judge.part.check_due_s == float("inf") and judge.part.checks(judge.now_s, {GROUP}) == []
    judge.part.doubt(GROUP, {PARTNER: 0.0})
    assert judge.part.checks(judge.now_s, {GROUP}) == [(PARTNER, GROUP)]
    judge.part.compared(PARTNER, GROUP, [], [], judge.now_s)
    judge.now_s += 120
    assert judge.part.checks(judge.now_s, {GROUP}) == []
    judge.part.doubt(GROUP, {PARTNER: 0.0})
    judge.now_s += 120
    assert judge.part.checks(judge.now_s, {OTHER}) == [], "it is not wanted here any more"


# -- bounds -----------------------------------------------------------------------------------------------


def test_state_is_bounded_and_those_with_proofs_stay() -> None:
    judge = Judge(WithholdingLimits(routers_max=4, samples_max=5))
    judge.lose(1)
    for number in range(50):
        judge.part.linked(PublicKey(bytes((3, number)) * 16), judge.now_s)
    assert judge.proofs() == (1, 0) and len(judge.part._judged) == 4
    judge.send(20)
    assert len(judge.part.watched(PARTNER, GROUP, judge.now_s)) == 5


STEPS = st.lists(st.tuples(st.sampled_from(("send", "lose", "hold", "bring", "break", "wait")), st.integers(1, 5)))


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_nobody_is_barred_without_four_comparisons_since_it_brought_something(steps: list[tuple[str, int]]) -> None:
    judge, losses = Judge(), 0
    for step, many in steps:
        match step:
            case "send":
                judge.send(many)
            case "lose" | "hold":
                judge.compare(0 if step == "lose" else 1 << 29)
            case "bring":
                judge.part.brought(PARTNER)
            case "break":
                judge.part.gone(PARTNER)
        losses = 0 if step == "bring" else losses + (step == "lose")
        judge.now_s += many * 30
        judge.part.tick(judge.now_s)
        if judge.part.barred:
            assert losses >= 4
        for one in judge.part.take_decided():
            times = [proof.at_s for proof in one.proofs]
            assert len(times) == 4 and times[-1] - times[0] <= 2 * HOUR_S
            assert all(after - before >= MINUTE_S for before, after in pairwise(times))
