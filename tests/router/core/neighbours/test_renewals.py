"""Which renewals are believed: the first for each key, whatever comes later, in whatever order."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from router.core.neighbours import renewals
from router.core.neighbours.renewals import CLOCK_SLACK_S, Renewals, RenewalVerdict
from router.core.neighbours.successors import Successor, Successors
from router.core.wire.crypto import SigningKey
from router.core.wire.renewal import READ_S, Renewal, make_renewal

KEYS = [SigningKey(bytes((n,)) * 32) for n in range(1, 8)]
A, B, C, D, *_ = KEYS
NOW_S = 1_800_000_000


def said(old: SigningKey, new: SigningKey, from_s: int = NOW_S) -> Renewal:
    return make_renewal(old, new, from_s, from_s + READ_S)


def test_the_first_is_believed_and_a_second_one_is_refused_and_told() -> None:
    known = Renewals[Renewal]()
    assert known.hear(said(A, B), NOW_S) is RenewalVerdict.NEWS
    assert known.hear(said(A, C), NOW_S) is RenewalVerdict.OTHER and "a thief's" in RenewalVerdict.OTHER.sentence
    assert known.newest(A.public) == B.public and known.of(A.public) == said(A, B) and known.of(B.public) is None


def test_a_replay_changes_nothing_nor_do_other_dates() -> None:
    known = Renewals([said(A, B)])
    for again in (said(A, B), said(A, B, NOW_S - 500)):
        assert known.hear(again, NOW_S) is RenewalVerdict.KNOWN
    assert known.of(A.public) == said(A, B) and len(known) == 1


def test_one_key_alone_renews_nothing() -> None:
    known = Renewals[Renewal]()
    good = said(A, B)
    for forged in (
        replace(good, new_signature=good.old_signature),
        replace(good, old_signature=good.new_signature),
        replace(good, new=C.public),
    ):
        assert known.hear(forged, NOW_S) is RenewalVerdict.FORGED
    assert not list(known)


def test_circles_of_any_length_are_refused_in_any_order() -> None:
    ring = [said(A, B), said(B, C), said(C, D), said(D, A)]
    for order in permutations(ring):
        known = Renewals[Renewal]()
        verdicts = [known.hear(one, NOW_S) for one in order]
        assert verdicts == [RenewalVerdict.NEWS] * 3 + [RenewalVerdict.CIRCLE]
    assert Renewals([said(A, B)]).hear(said(B, A), NOW_S) is RenewalVerdict.CIRCLE


@given(st.permutations(range(5)))
def test_a_chain_is_followed_to_its_end_in_whatever_order_it_is_heard(order: list[int]) -> None:
    known = Renewals[Renewal]()
    for at in order:
        assert known.hear(said(KEYS[at], KEYS[at + 1]), NOW_S) is RenewalVerdict.NEWS
    assert {known.newest(one.public) for one in KEYS[:6]} == {KEYS[5].public}


def test_no_key_takes_the_place_of_two() -> None:
    known = Renewals([said(A, C)])
    assert known.hear(said(B, C), NOW_S) is RenewalVerdict.TAKEN and B.public not in known


@pytest.mark.parametrize(
    ("off_s", "verdict"),
    [
        (-10 * READ_S, RenewalVerdict.NEWS),
        (-CLOCK_SLACK_S, RenewalVerdict.NEWS),
        (CLOCK_SLACK_S, RenewalVerdict.NEWS),
        (CLOCK_SLACK_S + 1, RenewalVerdict.AHEAD),
    ],
)
def test_clocks_may_be_a_day_off_and_old_news_are_news(off_s: int, verdict: RenewalVerdict) -> None:
    assert Renewals[Renewal]().hear(said(A, B, NOW_S + off_s), NOW_S) is verdict


def test_beyond_the_bound_none_is_forgotten_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewals, "RENEWALS_MAX", 2)
    known = Renewals([said(A, B), said(C, D)])
    assert known.hear(said(B, KEYS[5]), NOW_S) is RenewalVerdict.FULL
    assert (
        known.hear(said(A, C), NOW_S) is RenewalVerdict.OTHER and known.hear(said(A, B), NOW_S) is RenewalVerdict.KNOWN
    )


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), max_size=20))
def test_whatever_is_heard_each_key_leads_to_one_end(heard: list[tuple[int, int, bool]]) -> None:
    """By a model that walks: the first honest statement of each key stands, and no walk returns."""
    known, first = Renewals[Renewal](), dict[int, int]()
    for old, new, is_forged in heard:
        if old == new:
            continue
        one = said(KEYS[old], KEYS[new])
        verdict = known.hear(replace(one, new_signature=one.old_signature) if is_forged else one, NOW_S)
        walk = [new]
        while walk[-1] in first:
            walk.append(first[walk[-1]])
        stands = not is_forged and old not in first and old not in walk and new not in first.values()
        assert (verdict is RenewalVerdict.NEWS) is stands
        if stands:
            first[old] = new
    assert {KEYS[old].public: KEYS[new].public for old, new in first.items()} == {one.old: one.new for one in known}


def test_the_log_names_who_was_owed_by_the_arrival() -> None:
    them = Successors([Successor(b"a", b"b", 100, 10), Successor(b"b", b"c", 200, 20)])
    assert [them.owed_as(b"c", at) for at in (5, 10, 19, 20)] == [b"a", b"b", b"b", b"c"]
    assert them.owed_as(b"x", 5) == b"x"
    assert them.reader_of(b"a", 99) == b"c" and them.reader_of(b"a", 100) is None and them.reader_of(b"b", 100) == b"c"
    assert (
        them.speaks_for(b"c", b"a", 99) and not them.speaks_for(b"b", b"a", 99) and not them.speaks_for(b"c", b"a", 100)
    )
