"""The view keeps its promises, whatever is merged into it."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from samples.sampling import OWN, entry

from router.core.wire.crypto import PublicKey
from services.discovery.core.view import View, ViewEntry, ViewLimits
from services.discovery.simulation.network import WALL_S, advert_of

LIMITS = ViewLimits()
_PREFIXES = st.sampled_from([None, b"a", b"b", b"c"])
_ENTRIES = st.builds(entry, st.integers(0, 40), st.integers(0, 255), st.integers(1, 3), _PREFIXES)
_EXCHANGES = st.lists(st.tuples(st.lists(_ENTRIES, max_size=12), st.integers(0, 8)), max_size=12)


def by_key(view: View) -> dict[PublicKey, ViewEntry]:
    return {one.advert.key: one for one in view.entries}


def filled(*entries: ViewEntry) -> View:
    view = View(OWN.key, LIMITS)
    view.merge(entries, ())
    return view


@given(_EXCHANGES)
def test_it_never_holds_more_than_it_may(exchanges: list[tuple[list[ViewEntry], int]]) -> None:
    view, chance = View(OWN.key, LIMITS), Random(1)
    for received, sent in exchanges:
        view.merge(received, view.pick(sent, chance))
        keys = [one.advert.key for one in view.entries]
        prefixes = Counter(one.advert.prefix for one in view.entries if one.advert.prefix is not None)
        assert OWN.key not in keys
        assert len(keys) == len(set(keys)) <= LIMITS.size
        assert all(count <= LIMITS.of_prefix_max for count in prefixes.values())
        assert all(one.age <= LIMITS.age_max for one in view.entries)


@given(_EXCHANGES)
def test_no_age_is_invented(exchanges: list[tuple[list[ViewEntry], int]]) -> None:
    """An entry is never younger than the youngest one with its revision that came, or was there."""
    view, chance = View(OWN.key, LIMITS), Random(1)
    for received, sent in exchanges:
        before = by_key(view)
        view.merge(received, view.pick(sent, chance))
        for key, after in by_key(view).items():
            came = [one for one in (*received, *before.values()) if one.advert.key == key]
            assert after.age in [one.age for one in came if one.advert.rev == after.advert.rev]
            if key in before:
                assert after.advert.rev >= before[key].advert.rev


@given(st.lists(_ENTRIES, max_size=30))
def test_a_period_ages_every_entry_by_one(entries: list[ViewEntry]) -> None:
    view = filled(*entries)
    before = by_key(view)
    view.grow_older(WALL_S)
    assert {key: one.age for key, one in by_key(view).items()} == {
        key: one.age + 1 for key, one in before.items() if one.age < LIMITS.age_max
    }


def test_what_has_expired_goes() -> None:
    view = filled(entry(1, lasts_s=10), entry(2, lasts_s=11))
    view.grow_older(WALL_S + 10)
    assert list(by_key(view)) == [advert_of(2).key]


def test_the_greater_revision_wins_then_the_lower_age() -> None:
    view = filled(entry(1, age=3, rev=2))
    for came, expected in [
        (entry(1, age=1, rev=1), (3, 2)),
        (entry(1, age=9, rev=2), (3, 2)),
        (entry(1, age=2, rev=2), (2, 2)),
        (entry(1, age=7, rev=3), (7, 3)),
    ]:
        view.merge([came], ())
        [found] = view.entries
        assert (found.age, found.advert.rev) == expected


def test_empty_places_are_filled_before_what_was_sent_is_replaced() -> None:
    view = filled(*(entry(number) for number in range(1, LIMITS.size)))
    sent = view.entries[:2]
    view.merge([entry(100), entry(101)], sent)
    kept = by_key(view)
    assert {advert_of(100).key, advert_of(101).key} < set(kept)
    assert len(kept) == LIMITS.size
    assert sum(one.advert.key in kept for one in sent) == 1


def test_a_full_view_takes_no_more_than_it_sent() -> None:
    view = filled(*(entry(number) for number in range(1, LIMITS.size + 1)))
    view.merge([entry(number) for number in range(100, 108)], view.entries[:3])
    assert sum(one.advert.key >= advert_of(100).key for one in view.entries) == 3


def test_what_comes_back_is_not_replaced() -> None:
    view = filled(*(entry(number) for number in range(1, LIMITS.size + 1)))
    sent = view.entries[:1]
    view.merge([*sent, entry(100)], sent)
    assert sent[0] in view.entries


def test_the_oldest_is_taken_out() -> None:
    view = filled(entry(1, age=2), entry(2, age=9), entry(3, age=4))
    found = view.take_oldest()
    assert found is not None
    assert (found.advert.key, len(view)) == (advert_of(2).key, 2)
    assert View(OWN.key, LIMITS).take_oldest() is None


def test_a_full_prefix_takes_a_place_that_was_sent_from_it() -> None:
    view = filled(*(entry(number, prefix=b"p") for number in range(1, 5)), entry(5))
    view.merge([entry(9, prefix=b"p")], [one for one in view.entries if one.advert.prefix is None])
    assert advert_of(9).key not in by_key(view)
    view.merge([entry(9, prefix=b"p")], view.entries[:1])
    assert advert_of(9).key in by_key(view)
    assert advert_of(1).key not in by_key(view)


def test_a_revision_that_moved_into_a_full_prefix_loses_its_place() -> None:
    view = filled(*(entry(number, prefix=b"p") for number in range(1, 5)), entry(5))
    view.merge([entry(5, rev=2, prefix=b"p")], ())
    assert advert_of(5).key not in by_key(view)
