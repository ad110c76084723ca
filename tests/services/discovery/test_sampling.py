"""The exchange follows D21, and bad input changes nothing but the count of dropped entries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from msgspec.structs import replace
from samples.sampling import OWN, at, entry, node

from router.service.contract import Tick, Wake
from services.discovery.core.sampling import (
    Announce,
    Ask,
    Cause,
    Drop,
    Linked,
    Question,
    Renewed,
    Reply,
    Response,
    Sampling,
    SamplingLimits,
)
from services.discovery.core.view import ViewEntry
from services.discovery.simulation.network import LIFE_S, advert_of

LIMITS = SamplingLimits(jitter=0.0)


def question(number: int, *others: ViewEntry) -> Question:
    return Question(advert_of(number).key, (entry(number, age=0), *others))


def asked(sampling: Sampling, mono_s: float) -> Ask | None:
    """Return the question that begins a period."""
    return next((deed for deed in sampling.hear(Tick(), at(mono_s)) if isinstance(deed, Ask)), None)


def keys(sampling: Sampling) -> set[bytes]:
    return {one.advert.key for one in sampling.view}


def told_of(*numbers: int, limits: SamplingLimits = LIMITS) -> Sampling:
    """Return a node whose view holds these entries, with ages in their order, the first the oldest."""
    sampling = node(limits=limits)
    sampling.hear(Tick(), at(0))
    for begin in range(0, len(numbers), 4):
        period = begin // 4
        sampling.hear(Tick(), at(period * LIMITS.period_s))
        for number in numbers[begin : begin + 4]:
            exchange = question(number, entry(number))  # with the own entry alone it would ask for the sample
            sampling.hear(exchange, at(period * LIMITS.period_s))
    return sampling


# -- the exchange -----------------------------------------------------------------------------------------------------


def test_without_anybody_nothing_is_asked() -> None:
    [wake] = node().hear(Tick(), at(0))
    assert isinstance(wake, Wake)


def test_a_seed_is_asked_with_the_own_entry_at_age_0() -> None:
    [ask, wake] = node(1, limits=LIMITS).hear(Tick(), at(0))
    assert ask == Ask(advert_of(1).key, None, (ViewEntry(0, OWN),))
    assert wake == Wake(at(LIMITS.answer_s).wall_s)


def test_a_neighbour_that_is_connected_is_a_seed_until_it_is_gone() -> None:
    sampling, near = node(limits=LIMITS), advert_of(1).key
    sampling.hear(Tick(), at(0))
    [ask, wake] = sampling.hear(Linked(near, is_up=True), at(1))
    assert ask == Ask(near, None, (ViewEntry(0, OWN),)) and isinstance(wake, Wake), "at once, as no other is known"
    sampling.hear(Response(near, (entry(2), entry(3))), at(1))
    assert keys(sampling) == {advert_of(2).key, advert_of(3).key}
    assert not [one for one in sampling.hear(Linked(advert_of(4).key, is_up=True), at(2)) if isinstance(one, Ask)]
    second = asked(sampling, 11)
    assert second is not None and second.to == advert_of(4).key, "in its time, before those of the view"
    sampling.hear(Linked(near, is_up=False), at(12))
    sampling.hear(Linked(advert_of(4).key, is_up=False), at(12))
    found = [asked(sampling, 11 + 10 * period) for period in range(1, 9)]
    assert {one.to for one in found if one is not None} <= {advert_of(2).key, advert_of(3).key}
    assert sampling.hear(Linked(OWN.key, is_up=True), at(100)) == []


def test_the_oldest_is_removed_and_asked() -> None:
    sampling = node(limits=LIMITS)
    sampling.hear(question(1, *(entry(number, age=number) for number in range(2, 9))), at(0))
    ask = asked(sampling, 1)
    assert ask is not None
    assert (ask.to, ask.advert) == (advert_of(8).key, entry(8).advert)
    assert ask.view[0] == ViewEntry(0, OWN)
    assert len(ask.view) == LIMITS.shuffle
    assert advert_of(8).key not in keys(sampling)


def test_the_answer_is_merged_and_announced() -> None:
    sampling = node(1, limits=LIMITS)
    sampling.hear(Tick(), at(0))
    assert sampling.hear(Response(advert_of(1).key, (entry(2), entry(3))), at(1)) == []
    assert keys(sampling) == {advert_of(2).key, advert_of(3).key}
    announced = [deed for deed in sampling.hear(Tick(), at(10)) if isinstance(deed, Announce)]
    assert {one.key for deed in announced for one in deed.adverts} == {advert_of(2).key, advert_of(3).key}


def test_few_nodes_without_news_ask_in_one_period_of_seven() -> None:
    sampling, asks = node(1, limits=LIMITS), list[int]()
    for period in range(50):
        if (ask := asked(sampling, 10 * period)) is not None:
            asks.append(period)
            sampling.hear(Response(ask.to, (entry(1), entry(2))), at(10 * period + 1))
    assert [later - earlier for earlier, later in pairwise(asks) if later > 20] == [7] * 5
    sampling.hear(question(3, entry(3)), at(500))
    assert asked(sampling, 510) is not None, "a node that is new"


def test_a_seed_that_never_answered_is_asked_before_the_view() -> None:
    """Otherwise a node that was found before it began would never use its seeds."""
    sampling = node(9, limits=LIMITS)
    sampling.hear(question(1), at(0))
    first = asked(sampling, 1)
    assert first is not None and first.to == advert_of(9).key
    sampling.hear(Response(advert_of(9).key, ()), at(2))
    second = asked(sampling, 11)
    assert second is not None and second.to == advert_of(1).key


def test_an_empty_view_falls_back_on_the_seeds_and_on_what_was_sampled() -> None:
    sampling, found = node(9, limits=SamplingLimits(jitter=0.0, quarantine_periods=0)), set[bytes]()
    sampling.hear(Tick(), at(0))
    sampling.hear(Response(advert_of(9).key, (entry(1, age=25), entry(2, age=25))), at(1))
    for period in range(1, 20):
        ask = asked(sampling, period * 10)
        assert ask is not None
        found.add(ask.to)
        sampling.hear(Response(ask.to, ()), at(period * 10 + 1))
    assert found == {advert_of(number).key for number in (1, 2, 9)}


def test_every_question_is_answered_and_only_the_first_four_are_merged() -> None:
    sampling = node(limits=LIMITS)
    for number in range(1, 6):
        deeds = sampling.hear(question(number, entry(number + 10), entry(number + 20)), at(0))
        assert [type(deed) for deed in deeds] == [Reply, Drop][: 1 + (number == 5)]
    assert deeds[1] == Drop(advert_of(5).key, Cause.NOT_MERGED, 2)
    assert keys(sampling) == {advert_of(k).key for k in (1, 2, 3, 4, 5, 11, 12, 13, 14, 21, 22, 23, 24)}


def test_what_both_have_is_kept_by_both() -> None:
    sampling = told_of(*range(1, 21))
    sampling.hear(Tick(), at(60))
    known = sampling.view[:7]
    [reply] = sampling.hear(question(100, *known), at(61))
    assert isinstance(reply, Reply)
    assert {one.advert.key for one in reply.view} > {one.advert.key for one in known}
    assert len(reply.view) == LIMITS.shuffle
    assert {one.advert.key for one in known} < keys(sampling)


def test_a_question_with_the_own_entry_alone_is_answered_out_of_the_sample() -> None:
    """Its asker's entry displaces nobody, as nothing is given for it."""
    sampling = node(limits=LIMITS)
    for number in range(1, 21):
        sampling.hear(question(number, entry(number)), at(0))
    before = keys(sampling)
    assert len(before) == 20
    [reply] = sampling.hear(question(30), at(1))
    assert isinstance(reply, Reply) and len(reply.view) == LIMITS.shuffle
    assert {one.advert.key for one in reply.view} <= {one.key for one in sampling.sampled}
    assert keys(sampling) == before and advert_of(30).key in {one.key for one in sampling.sampled}


def test_a_router_of_the_sample_is_asked_too_and_its_answer_stays_out_of_the_view() -> None:
    sampling = told_of(*range(1, 13))
    found = [deed for deed in sampling.hear(Tick(), at(60)) if isinstance(deed, Ask)]
    assert [len(one.view) for one in found] == [LIMITS.shuffle, 1]
    before, asked_for_sample = keys(sampling), found[1]
    assert asked_for_sample.to != found[0].to and asked_for_sample.view == (ViewEntry(0, OWN),)
    assert sampling.hear(Response(asked_for_sample.to, (entry(40), entry(41, age=99))), at(61)) == []
    assert keys(sampling) == before
    assert {advert_of(40).key, advert_of(41).key} <= {one.key for one in sampling.sampled}
    later = [deed for deed in sampling.hear(Tick(), at(70)) if isinstance(deed, Ask)]
    assert not {one.to for one in later} & {one.to for one in found}, "nobody is asked in two periods running"


@pytest.mark.parametrize(("mono_s", "age"), [(4, 3), (6, 4)])
def test_a_period_that_is_half_over_counts_in_an_answer(mono_s: float, age: int) -> None:
    sampling = node(limits=LIMITS)
    sampling.hear(Tick(), at(0))
    sampling.hear(question(1, entry(2, age=3)), at(1))
    [reply] = sampling.hear(question(3), at(mono_s))
    assert isinstance(reply, Reply)
    assert [one.age for one in reply.view if one.advert.key == advert_of(2).key] == [age]


def test_a_key_and_a_prefix_are_answered_once_a_period() -> None:
    sampling = node(limits=LIMITS)
    sampling.hear(Tick(), at(0))
    near = Question(advert_of(1).key, (entry(1, age=0, prefix=b"p"),))
    neighbour = Question(advert_of(2).key, (entry(2, age=0, prefix=b"p"),))
    assert isinstance(sampling.hear(near, at(1))[0], Reply)
    assert sampling.hear(near, at(2)) == [Drop(near.by, Cause.TOO_SOON, 1)]
    assert sampling.hear(neighbour, at(3)) == [Drop(neighbour.by, Cause.TOO_SOON, 1)]
    sampling.hear(Tick(), at(10))
    assert isinstance(sampling.hear(neighbour, at(11))[0], Reply)


def test_askers_beyond_the_limit_of_a_period_are_not_answered() -> None:
    sampling = node(limits=SamplingLimits(askers_max=2))
    found = [sampling.hear(question(number), at(0)) for number in (1, 2, 3)]
    assert found[2] == [Drop(advert_of(3).key, Cause.TOO_MANY, 1)]


def test_a_renewed_advertisement_is_sent_from_then_on() -> None:
    sampling = node(1, limits=LIMITS)
    newer = replace(OWN, rev=2)
    sampling.hear(Renewed(newer), at(0))
    ask = asked(sampling, 0)
    assert ask is not None and ask.view == (ViewEntry(0, newer),)


def test_ticks_that_come_early_begin_no_period() -> None:
    sampling = node(1, 2, limits=LIMITS)
    sampling.hear(Tick(), at(0))
    assert asked(sampling, 9) is None
    assert asked(sampling, 10) is not None


def test_nobody_is_asked_in_two_periods_running() -> None:
    """Both questions might come within one period of the other side, which answers one."""
    sampling = node(1, limits=LIMITS)
    found = list[bool]()
    for period in range(5):
        ask = asked(sampling, period * 10)
        found.append(ask is not None)
        sampling.hear(Response(advert_of(1).key, ()), at(period * 10 + 1))
    assert found == [True, False, True, False, True]


# -- a partner that never answers -------------------------------------------------------------------------------------


def test_who_does_not_answer_is_quarantined_until_it_comes_itself() -> None:
    sampling = told_of(1)
    ask = asked(sampling, 10)
    assert ask is not None and ask.to == advert_of(1).key
    sampling.hear(question(2, entry(1)), at(14.9))
    assert advert_of(1).key in keys(sampling), "its time is not over"
    sampling = told_of(1)
    asked(sampling, 10)
    sampling.hear(question(2, entry(1, rev=9)), at(15))
    assert keys(sampling) == {advert_of(2).key}
    assert sampling.hear(Response(advert_of(1).key, (entry(3),)), at(15)) == [Drop(ask.to, Cause.UNASKED, 1)]
    sampling.hear(question(1), at(16))
    assert advert_of(1).key in keys(sampling)


@pytest.mark.parametrize(("among", "shuffle", "ends"), [((1,), 8, 4), ((1, 2, 3), 2, 31)], ids=["few", "many"])
def test_the_quarantine_ends_sooner_where_few_are_known(among: Sequence[int], shuffle: int, ends: int) -> None:
    sampling = told_of(*among, limits=SamplingLimits(jitter=0.0, shuffle=shuffle))
    asked(sampling, 10)
    for period in range(2, 40):
        ask = asked(sampling, period * 10)
        sampling.hear(question(22, entry(1)), at(period * 10 + 1))
        if advert_of(1).key in keys(sampling):
            break
        if ask is not None:
            sampling.hear(Response(ask.to, ()), at(period * 10 + 2))
    assert period == ends


def test_while_few_are_known_every_second_question_goes_to_a_seed_that_is_not_in_the_view() -> None:
    """Otherwise two nodes that only know each other would never hear of a seed that was away and is back."""
    sampling, found = node(9, limits=LIMITS), list[bytes]()
    sampling.hear(Tick(), at(0))
    sampling.hear(Response(advert_of(9).key, (entry(1), entry(2))), at(1))
    for period in range(1, 60):
        if (ask := asked(sampling, period * 10)) is not None:
            found.append(ask.to)
            sampling.hear(Response(ask.to, (entry(1), entry(2))), at(period * 10 + 1))
    assert len(found) == 14, "at first in each period, then in one of seven"
    assert found.count(advert_of(9).key) == 7


def test_who_does_not_answer_is_no_longer_announced() -> None:
    sampling = told_of(1)
    asked(sampling, 10)
    assert not [deed for deed in sampling.hear(Tick(), at(20)) if isinstance(deed, Announce)]


# -- bad input --------------------------------------------------------------------------------------------------------

EIGHT = tuple(entry(7) for _ in range(8))
BAD_QUESTIONS = [
    (Question(advert_of(1).key, ()), Cause.EMPTY),
    (question(1, *(entry(number) for number in range(2, 10))), Cause.OVERSIZED),
    (Question(OWN.key, (ViewEntry(0, OWN),)), Cause.OWN_KEY),
    (Question(advert_of(1).key, (entry(1, age=1),)), Cause.NOT_ITS_OWN),
    (Question(advert_of(1).key, (entry(2, age=0),)), Cause.NOT_ITS_OWN),
    (Question(advert_of(1).key, (entry(1, age=0, lasts_s=0),)), Cause.EXPIRED),
]


@pytest.mark.parametrize(("bad", "cause"), BAD_QUESTIONS, ids=lambda one: getattr(one, "name", ""))
def test_a_bad_question_is_dropped_and_not_answered(bad: Question, cause: Cause) -> None:
    sampling = told_of(5)
    before = sampling.view
    assert sampling.hear(bad, at(1)) == [Drop(bad.by, cause, len(bad.view))]
    assert sampling.view == before
    assert isinstance(sampling.hear(question(1), at(1))[0], Reply), "it may still ask rightly"


@pytest.mark.parametrize("by", [1, 2])
def test_an_answer_nobody_asked_for_is_dropped(by: int) -> None:
    sampling = node(1, limits=LIMITS)
    sampling.hear(Tick(), at(0))
    sampling.hear(Response(advert_of(1).key, ()), at(1))
    assert sampling.hear(Response(advert_of(by).key, (entry(7),)), at(2)) == [Drop(advert_of(by).key, Cause.UNASKED, 1)]
    assert sampling.view == ()


def test_an_oversized_answer_is_no_answer() -> None:
    sampling = node(1, limits=LIMITS)
    sampling.hear(Tick(), at(0))
    nine = tuple(entry(number) for number in range(2, 11))
    assert sampling.hear(Response(advert_of(1).key, nine), at(1)) == [Drop(advert_of(1).key, Cause.OVERSIZED, 9)]
    sampling.hear(question(2, entry(1)), at(6))
    assert keys(sampling) == {advert_of(2).key}, "its sender is quarantined"


def test_the_same_entry_eight_times_counts_once() -> None:
    sampling = node(1, limits=LIMITS)
    sampling.hear(Tick(), at(0))
    assert sampling.hear(Response(advert_of(1).key, EIGHT), at(1)) == [Drop(advert_of(1).key, Cause.REPEATED, 7)]
    assert sampling.view == EIGHT[:1]


def test_entries_of_our_own_key_are_passed_over() -> None:
    sampling = node(1, limits=LIMITS)
    sampling.hear(Tick(), at(0))
    assert sampling.hear(Response(advert_of(1).key, (entry(0, rev=9), entry(2))), at(1)) == []
    assert keys(sampling) == {advert_of(2).key}


def test_expired_entries_are_dropped() -> None:
    sampling = node(1, limits=LIMITS)
    sampling.hear(Tick(), at(0))
    answer = Response(advert_of(1).key, (entry(2, lasts_s=1), entry(3, lasts_s=2), entry(4, lasts_s=LIFE_S)))
    assert sampling.hear(answer, at(1)) == [Drop(advert_of(1).key, Cause.EXPIRED, 1)]
    assert keys(sampling) == {advert_of(3).key, advert_of(4).key}
