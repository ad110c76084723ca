"""Maintenance of the rings: they close from one known node, after half of all died, and despite liars."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from rigs.rings import PERIOD_S, Member, Rings

from router.core.wire.crypto import PublicKey
from services.pubsub.core.known import Neighbour
from services.pubsub.core.meetings.candidates import CandidateLimits
from services.pubsub.core.rings.overlay import LATE_MOST, ExchangeRings, MeetWith, Overlay, OverlayLimits, RingOf
from services.pubsub.core.rings.topic_ring import Told

GROUP, OTHER = PublicKey(b"g" * 32), PublicKey(b"o" * 32)
NEIGHBOUR_SETS = 30


def stranger(number: int, service: bytes | None = None) -> Neighbour:
    return Neighbour(PublicKey(bytes((250, number)) * 16), PublicKey(service or bytes((251, number)) * 16))


def joined(count: int, seed: int) -> Rings:
    """Return nodes of one topic that all know one node, after their ring has closed."""
    rings = Rings([[GROUP]] * count, seed)
    for one in rings.members[1:]:
        one.overlay.offer(GROUP, rings.members[0].me)
    assert rings.periods_until_right(GROUP, 20) < 20
    return rings


@pytest.mark.parametrize("count", (1, 2, 3, 5, 60))
def test_the_ring_closes_from_one_known_node(count: int) -> None:
    rings = joined(count, seed=count)
    for one in rings.members:
        topic = one.known.topics[GROUP]
        assert len(topic.neighbours) == min(count - 1, NEIGHBOUR_SETS) or count > NEIGHBOUR_SETS
        assert one.overlay.is_whole(GROUP)


def test_the_ring_closes_after_half_of_all_have_died() -> None:
    rings = joined(60, seed=1)
    for _ in range(5):
        rings.period()
    for one in rings.chance.sample(rings.members, 30):
        one.is_up = False
    assert rings.periods_until_right(GROUP, 25) < 25
    for _ in range(45):
        rings.period()
    dead = {one.me.router for one in rings.members if not one.is_up}
    left = [router for one in rings.members if one.is_up for router in one.known.topics[GROUP].neighbours]
    assert not dead & set(left)


def test_in_a_period_at_most_two_are_met_and_the_nearest_first() -> None:
    one = Member(0, [GROUP], Random(1), OverlayLimits())
    own = one.me.service[0]
    for step in (40, 3, 80, 9, 120):
        one.overlay.offer(GROUP, stranger(step, bytes([(own + step) % 256]) * 32))
    met = [deed.candidate.service[0] for deed in one.overlay.tick(0.0) if isinstance(deed, MeetWith)]
    assert met == [(own + step) % 256 for step in (3, 120)], "the nearest on each side"
    again = [deed for deed in one.overlay.tick(0.5) if isinstance(deed, MeetWith)]
    assert not again, "and no more in that period"


def test_a_candidate_that_is_not_there_rests_longer_each_time() -> None:
    limits = OverlayLimits(candidates=CandidateLimits(rest_s=40.0, rest_max_s=100.0))
    rings = Rings([[GROUP]], 1, limits)
    met = list[float]()
    for _ in range(30):
        rings.members[0].overlay.offer(GROUP, stranger(1))
        before = rings.meetings
        rings.period()
        met += [rings.now_s - PERIOD_S] * (rings.meetings - before)
    assert [later - earlier for earlier, later in pairwise(met)] == [40, 80, 100, 100, 100, 100]


def test_a_lost_neighbour_is_met_again_after_a_rest() -> None:
    rings = joined(2, seed=3)
    first, second = rings.members
    second.is_up = False
    for _ in range(3):
        rings.period()
    assert not first.known.topics[GROUP].neighbours
    second.is_up = True
    assert rings.periods_until_right(GROUP, 4) < 4, "though nobody has told of it"


def test_who_does_not_answer_is_removed_and_the_next_is_asked_at_once() -> None:
    rings = joined(6, seed=4)
    one = rings.members[0]
    one.overlay = Overlay(one.known, one.me.router, rings.chance, OverlayLimits(fast_periods=0))
    one.overlay.begin(GROUP)
    for other in rings.members[1:]:
        one.overlay.met(other.me, 0.0)
    topic = one.known.topics[GROUP]
    first, second, *_ = topic.after
    assert [deed.to for deed in one.overlay.tick(0.0) if isinstance(deed, ExchangeRings)] == [first]
    assert one.overlay.due_s == OverlayLimits().answer_s
    assert not one.overlay.tick(4.9)
    assert [deed.to for deed in one.overlay.tick(5.0) if isinstance(deed, ExchangeRings)] == [second]
    assert topic.after[0] == second and first.router not in topic.neighbours


def test_a_service_that_comes_late_gives_others_more_time_but_not_without_end() -> None:
    """Ten cores on a busy machine came seconds late, and each took the others for gone again and again."""
    rings = joined(6, seed=4)
    one = rings.members[0]
    one.overlay = Overlay(one.known, one.me.router, rings.chance, OverlayLimits(fast_periods=0, period_s=1e6))
    one.overlay.begin(GROUP)
    for other in rings.members[1:]:
        one.overlay.met(other.me, 0.0)
    topic, answer_s = one.known.topics[GROUP], OverlayLimits().answer_s
    first = topic.after[0]
    one.overlay.tick(0.0)
    one.overlay.tick(answer_s + 3.0)
    assert topic.after[0] == first and answer_s + 3.0 < one.overlay.due_s < answer_s + 4.0
    while first.router in topic.neighbours:
        now_s = one.overlay.due_s + 3.0
        one.overlay.tick(now_s)
    assert now_s <= LATE_MOST * answer_s + 3.0


def test_who_fell_silent_is_no_neighbour_until_it_answers() -> None:
    rings = joined(6, seed=5)
    one = rings.members[0]
    topic = one.known.topics[GROUP]
    first = topic.after[0]
    one.known.silent(first.router)
    assert first.router not in topic.neighbours, "at once, for whoever forwards next"
    assert one.overlay.due_s <= rings.now_s
    rings.carry_out(one, one.overlay.tick(rings.now_s))
    assert topic.after[0] == first, "it was asked and has answered"
    rings.by_router[first.router].is_up = False
    one.known.silent(first.router)
    rings.period()
    assert first.router not in topic.neighbours


def test_what_is_shared_with_nobody_is_told_to_nobody() -> None:
    rings = Rings([[GROUP, OTHER], [GROUP], [OTHER]], seed=6)
    one, second, third = rings.members
    for other in (second, third):
        rings.meet(one, other.me.router)
    assert set(one.known.topics[OTHER].neighbours) == {third.me.router}
    for _ in range(12):
        for deed in one.overlay.tick(rings.now_s):
            if isinstance(deed, ExchangeRings):
                told = {each.neighbour for ring in deed.rings for each in ring.members}
                assert not told & {second.me, third.me}
                assert {one.known.topic(deed.to.router, ring.t) for ring in deed.rings} != {None}
        rings.now_s += PERIOD_S
    assert second.overlay.hear_question(one.me, [RingOf(b"x" * 16, ())]) is None
    assert third.overlay.hear_question(stranger(1), [RingOf(one.known.topics[OTHER].t[third.me.router], ())]) is None


def test_an_answer_to_no_question_changes_nothing() -> None:
    rings = joined(2, seed=7)
    first, second = rings.members
    t = first.known.topics[GROUP].t[second.me.router]
    for one in rings.members:
        rings.carry_out(one, one.overlay.tick(rings.now_s))
    before = repr(first.overlay)
    assert not first.overlay.hear_answer(second.me, [RingOf(t, (Told(stranger(1), 0),))])
    assert repr(first.overlay) == before
    rings.period()
    assert rings.meetings_in_vain == 0


def test_what_is_told_twice_old_or_of_oneself_does_not_count() -> None:
    rings = joined(2, seed=8)
    first, second = rings.members
    t = first.known.topics[GROUP].t[second.me.router]
    told = (Told(first.me, 0), Told(second.me, 0), Told(stranger(1), 26))
    reply = first.overlay.hear_question(second.me, [RingOf(t, told), RingOf(t, (Told(stranger(2), 0),))])
    assert reply is not None and len(reply.rings) == 1 and not reply.rings[0].members
    rings.period()
    assert rings.meetings_in_vain == 0


def test_who_tells_of_nobody_that_is_there_does_not_keep_others_from_being_met() -> None:
    """A liar names members nearer than any other, new ones each period; an honest one is met all the same."""
    rings = joined(12, seed=9)
    one, liar = rings.members[0], rings.members[1]
    honest = rings.members[2]
    number = 0
    newcomer = Member(99, [GROUP], rings.chance, OverlayLimits())
    rings.by_router[newcomer.me.router] = newcomer
    t, true_t = (one.known.topics[GROUP].t[each.me.router] for each in (liar, honest))
    for period in range(25):
        forged = list[Told]()
        for _ in range(10):
            number += 1
            near = (int.from_bytes(one.me.service, "big") + number).to_bytes(32, "big")
            forged.append(Told(Neighbour(PublicKey(rings.chance.randbytes(32)), PublicKey(near)), 0))
        one.overlay.hear_question(liar.me, [RingOf(t, tuple(forged))])
        if period == 10:
            one.overlay.hear_question(honest.me, [RingOf(true_t, (Told(newcomer.me, 0),))])
        rings.period()
    assert rings.meetings_in_vain <= 2 * 25 * 12, "two a period, of each who was told of them"
    assert one.me.router in newcomer.known.topics[GROUP].neighbours


def test_the_own_groups_change() -> None:
    rings = joined(5, seed=10)
    one = rings.members[0]
    one.overlay.end(GROUP)
    one.known.end(GROUP)
    assert not one.known.shared_with(rings.members[1].me.router)
    assert not [deed for deed in one.overlay.tick(rings.now_s) if not isinstance(deed, MeetWith)]
    asked = rings.members[1].known.topics[GROUP].t[one.me.router]
    assert one.overlay.hear_question(rings.members[1].me, [RingOf(asked, ())]) is None
    one.want(GROUP)
    assert one.overlay.hear_question(rings.members[1].me, [RingOf(asked, ())]) is None, "until they have met again"
    assert one.overlay.due_s <= rings.now_s + OverlayLimits().fast_s, "and a short period begins"


def test_periods_are_short_at_first() -> None:
    one = Member(0, [], Random(2), OverlayLimits())
    begun, now_s = list[float](), 0.0
    while len(begun) < 40:
        one.overlay.tick(now_s)
        begun.append(now_s)
        now_s = one.overlay.due_s
    gaps = [later - earlier for earlier, later in pairwise(begun)]
    assert gaps[:29] == [1.0] * 29 and all(7.5 <= gap <= 12.5 for gap in gaps[29:])


def test_topics_that_begin_at_one_moment_share_a_period() -> None:
    """Each began a period of its own, which costs something for every ring: 4,096 took 21 s of CPU."""
    one = Member(0, [], Random(2), OverlayLimits())
    one.overlay.tick(0)
    period = repr(one.overlay)
    for number in range(100):
        one.want(PublicKey(bytes((100 + number,)) * 32))
        if one.overlay.due_s <= 0.1:
            one.overlay.tick(0.1)
    assert repr(one.overlay).split(",")[0] == period.split(",")[0] and one.overlay.due_s == 1.0


def settled_pair(groups: int) -> Rings:
    """Return two nodes that share these groups, after each has told the other of all, with periods of the usual
    length."""
    shared = [PublicKey(number.to_bytes(32, "big")) for number in range(1, groups + 1)]
    rings = Rings([shared, shared], 11, OverlayLimits(fast_periods=0))
    rings.meet(rings.members[0], rings.members[1].me.router)
    for _ in range(groups // OverlayLimits().rings_max + 1):
        rings.period()
    return rings


def test_settled_rings_cost_a_question_only_if_a_neighbour_was_not_heard_for_long() -> None:
    rings, pause = settled_pair(40), OverlayLimits().settled_periods
    for count in range(1, 4):
        before = rings.questions
        for _ in range(pause):
            rings.period()
        assert rings.questions - before == 1, f"one of the two asks, in pause {count}"
    gone = rings.members[1]
    gone.is_up = False
    for _ in range(pause):
        rings.period()
    assert not any(topic.neighbours for topic in rings.members[0].known.topics.values()), "which finds out who is gone"


def short_periods(rings: Rings) -> int:
    """Let short periods pass at all nodes; return how many there were until the first node waits for longer."""
    one, fast_s = rings.members[0], OverlayLimits().fast_s
    for count in range(100):
        rings.period()
        rings.now_s += fast_s - PERIOD_S
        if one.overlay.due_s > rings.now_s:
            return count
    raise AssertionError("periods stay short for ever")


def meeting(count: int, groups: int) -> Rings:
    """Return nodes of which the first has just met the others, about so many groups, without first short periods."""
    shared = [PublicKey(number.to_bytes(32, "big")) for number in range(1, groups + 1)]
    rings = Rings([shared] * count, 11, OverlayLimits(fast_periods=0))
    for other in rings.members[1:]:
        rings.meet(rings.members[0], other.me.router)
    return rings


def test_periods_stay_short_until_members_were_told_of_most_of_very_many_rings() -> None:
    """After 30 short periods the rest of a thousand rings took minutes, with a question each ten seconds."""
    limits = OverlayLimits()
    most = limits.rings_max * limits.settled_periods
    assert short_periods(meeting(2, most)) == 0
    of_a_period = 2 * limits.rings_max
    assert 9 <= short_periods(meeting(2, most + 10 * of_a_period)) <= 11, "both ask in each period"


def test_periods_do_not_stay_short_once_a_neighbour_has_fallen_silent() -> None:
    rings = meeting(3, 600)
    one, gone = rings.members[0], rings.members[2]
    gone.is_up = False
    one.overlay.absent(gone.me.router, rings.now_s)
    assert short_periods(rings) == 0
    rings.now_s += OverlayLimits().calm_s
    assert short_periods(rings) > 3, "until nobody has for two minutes"


def test_partner_whose_groups_change_all_the_time_costs_a_question_a_second_and_holds_up_nobody() -> None:
    rings, limits = meeting(2, 400), OverlayLimits()
    one, liar = rings.members
    groups = list(one.known.topics)
    honest = Member(2, groups[:20], rings.chance, limits)
    rings.by_router[honest.me.router] = honest
    rings.meet(one, honest.me.router)
    periods = len(groups) // limits.rings_max + 3
    asked, topics = 0, set[bytes]()
    for number in range(periods):
        one.known.share(liar.me.router, {group: bytes((number,)) * 16 for group in groups[number % 2 :: 2]})
        one.overlay.met(liar.me, rings.now_s)
        for deed in one.overlay.tick(rings.now_s):
            if isinstance(deed, ExchangeRings):
                asked += 1
                one.overlay.hear_answer(deed.to, ())
                topics |= {ring.t for ring in deed.rings} if deed.to == honest.me else set()
        assert one.overlay.due_s >= rings.now_s + limits.fast_s
        rings.now_s = one.overlay.due_s
    assert asked == periods
    assert topics == {one.known.topics[group].t[honest.me.router] for group in groups[:20]}, "as without the other"


def test_neighbour_that_was_slow_to_answer_is_back_on_all_rings_with_its_first_word() -> None:
    """It came back on the sixteen rings of that word alone, and on the others when it was met again."""
    rings = settled_pair(40)
    one, slow = rings.members
    one.overlay.absent(slow.me.router, rings.now_s)
    assert not any(topic.neighbours for topic in one.known.topics.values())
    first = next(iter(one.known.topics.values()))
    assert one.overlay.hear_question(slow.me, [RingOf(first.t[slow.me.router], ())]) is not None
    assert all(slow.me.router in topic.neighbours for topic in one.known.topics.values())


def test_late_answer_is_heard_once_and_brings_its_neighbour_back() -> None:
    rings = settled_pair(4)
    one, slow = rings.members
    asked = list[Neighbour]()
    while not asked:
        rings.now_s += PERIOD_S
        asked = [deed.to for deed in one.overlay.tick(rings.now_s) if isinstance(deed, ExchangeRings)]
    rings.now_s += LATE_MOST * OverlayLimits().answer_s
    one.overlay.tick(rings.now_s)
    assert not any(topic.neighbours for topic in one.known.topics.values()), "taken for lost"
    answer = [RingOf(next(iter(one.known.topics.values())).t[slow.me.router], ())]
    assert one.overlay.hear_answer(slow.me, answer)
    assert all(slow.me.router in topic.neighbours for topic in one.known.topics.values())
    assert not one.overlay.hear_answer(slow.me, answer), "it was asked once"


def test_neighbour_that_is_back_is_not_met_for_having_been_lost() -> None:
    """A meeting about thousands of groups took a service so long that others took its node for lost again."""
    rings = settled_pair(40)
    one, slow = rings.members
    for is_back in (True, False):
        one.overlay.absent(slow.me.router, rings.now_s)
        first = next(iter(one.known.topics.values()))
        if is_back:
            one.overlay.hear_question(slow.me, [RingOf(first.t[slow.me.router], ())])
        meetings = list[Neighbour]()
        for _ in range(6):
            rings.now_s += PERIOD_S
            meetings += [deed.candidate for deed in one.overlay.tick(rings.now_s) if isinstance(deed, MeetWith)]
            one.overlay.heard(slow.me.router)
        assert (slow.me in meetings) is not is_back


def test_meeting_that_changes_nothing_leaves_rings_settled() -> None:
    rings = settled_pair(40)
    one, other = rings.members
    one.overlay.tick(rings.now_s)
    assert one.overlay._rings.is_settled
    one.overlay.met(other.me, rings.now_s)
    assert not one.overlay._rings._changed, "no ring is looked at again"


def test_ring_that_changes_among_many_settled_ones_is_asked_about_first() -> None:
    rings = settled_pair(200)
    one, changed = rings.members[0], PublicKey((150).to_bytes(32, "big"))
    newcomer = Member(2, [changed], rings.chance, OverlayLimits(fast_periods=0))
    rings.by_router[newcomer.me.router] = newcomer
    rings.meet(one, newcomer.me.router)
    topics = set[bytes]()
    for _ in range(2):
        for deed in one.overlay.tick(rings.now_s):
            if isinstance(deed, ExchangeRings):
                topics.add(deed.rings[0].t)
                one.overlay.hear_answer(deed.to, ())
        rings.now_s += PERIOD_S
    assert topics & set(one.known.topics[changed].t.values())


def test_it_reads_like_a_sentence() -> None:
    one = Member(0, [GROUP], Random(3), OverlayLimits())
    assert repr(one.overlay) == "<overlay: period 0, 1 rings, 0 questions>"
    assert repr(one.known) == "<1 topics, shared with 0 routers>"
    assert repr(one.known.topics[GROUP]) == "<topic 67676767: 0 neighbours>"
