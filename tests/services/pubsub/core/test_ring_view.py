"""A view of the ring, compared with one that sorts all members each time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.wire.crypto import PublicKey
from services.pubsub.core.known import Neighbour
from services.pubsub.core.rings.ring import SPACE, ahead, place_of
from services.pubsub.core.rings.view import RingMembers, Seat, View, ViewLimits

OWN = place_of(bytes([100]) * 32, bytes(32))


def at(number: int, prefix: bytes | None = None, router: int | None = None) -> Neighbour:
    """Return a neighbour at a position from 0 to 255; this node is at 100."""
    router = number if router is None else router
    return Neighbour(PublicKey(bytes([router]) * 32), PublicKey(bytes([number]) * 32), prefix)


def numbers(side: tuple[Neighbour, ...] | list[Seat]) -> list[int]:
    return [(one.neighbour if isinstance(one, Seat) else one).service[0] for one in side]


def view_of(*places: int, **limits: int) -> View:
    found = View(OWN, ViewLimits(**limits))
    for one in places:
        found.put(at(one), 0)
    return found


def test_the_nearest_stand_on_their_sides_and_of_the_rest_the_youngest_stay() -> None:
    view = view_of(*range(110, 160, 2), *range(40, 100, 4), side=3, others=2)
    after, before, others = view.sides
    assert (numbers(after), numbers(before)) == ([110, 112, 114], [96, 92, 88])
    assert len(others) == 2 and len(view) == 8


@given(st.lists(st.tuples(st.integers(0, 255).filter(lambda one: one != 100), st.integers(0, 40)), max_size=60))
def test_as_one_that_sorts_all_members(put: list[tuple[int, int]]) -> None:
    view, ages = View(OWN, ViewLimits(side=4, others=3)), dict[int, int]()
    for place, age in put:
        view.put(at(place), age)
        ages[place] = min(age, ages.get(place, age))
    order = sorted(ages, key=lambda one: (one - 100) % 256)
    after, before, others = view.sides
    assert numbers(after) == order[:4] and numbers(before) == order[::-1][:4]
    assert len(others) <= 3 and not set(numbers(others)) & {*numbers(after), *numbers(before)}
    assert len(view) == len({*after, *before, *others}) == len(list(view))


@given(st.lists(st.integers(0, 255).filter(lambda one: one != 100), unique=True, max_size=25), st.integers(0, 255))
def test_what_is_near_another_position(places: list[int], place: int) -> None:
    view = view_of(*places)
    held = sorted(numbers(list(view)), key=lambda one: (one - place) % 256)
    held = [one for one in held if one != place]
    after, before = view.around(at(place).place, 3, but=at(place).router)
    assert numbers(after) == held[:3] and numbers(before) == held[::-1][:3]


def test_of_a_small_topic_one_member_stands_on_both_sides() -> None:
    assert view_of(120).sides == ((at(120),), (at(120),), ())


def test_who_is_silent_is_not_live_until_heard() -> None:
    view = view_of(120, 130)
    view.silence(at(120).router)
    assert numbers(view.sides[0]) == [130] and len(view) == 2
    assert numbers(view.passed_on(but=b"")) == [130] and view.rank(ahead(OWN, at(125).place), is_after=True) == 0
    view.hear(at(120).router)
    assert numbers(view.sides[0]) == [120, 130] and view.rank(ahead(OWN, at(125).place), is_after=True) == 1


def test_what_is_told_makes_a_member_younger_and_never_older() -> None:
    members = RingMembers()
    view = View(OWN, ViewLimits(), members=members)
    seat = None
    for age, expected in ((7, 7), (9, 7), (3, 3)):
        view.put(at(120), age)
        seat = view.get(at(120).router)
        assert seat is not None and seat.age == expected
    assert seat is not None
    members.period += 1
    assert seat.age == 4
    view.hear(at(120).router)
    assert seat.age == 0


def test_the_old_are_not_passed_on_and_can_be_dropped() -> None:
    members = RingMembers()
    view = View(OWN, ViewLimits(age_max=25), members=members)
    view.put(at(120), 25)
    assert len(view.passed_on(but=b"")) == 1 and not view.forget_old()
    members.period += 1
    assert not view.passed_on(but=b"") and numbers(view.sides[0]) == [120]
    assert view.forget_old() and not len(view)
    view.put(at(120), 255)
    members.period += 1
    assert [one.age for one in view] == [255]


def test_one_public_network_does_not_take_a_whole_side() -> None:
    view = View(OWN, ViewLimits(side=4, others=2, of_prefix_max=2))
    for place in range(101, 120):
        view.put(at(place, b"crowd"), 0)
    for place in (150, 160, 170, 180, 190):
        view.put(at(place, bytes([place])), 0)
    after, before, _ = view.sides
    assert numbers(after) == [101, 102, 150, 160] and numbers(before) == [190, 180, 170, 160]


def test_two_with_one_service_key_are_told_apart_by_their_routers() -> None:
    view = View(OWN, ViewLimits())
    view.put(at(120, router=1), 0)
    view.put(at(120, router=2), 0)
    assert [one.router[0] for one in view.sides[0]] == [1, 2]
    view.put(at(100, router=3), 0)
    assert len({one.router for one in view.sides[0]}) == 3, "also one that bears this node's service key"


def test_a_router_has_one_place_that_of_its_last_service() -> None:
    view = view_of(120)
    view.put(at(130, router=120), 0)
    assert numbers(view.sides[0]) == [130]


@pytest.mark.parametrize(("start", "end", "distance"), ((0, 1, 1), (1, 0, SPACE - 1), (5, 5, 0)))
def test_distances_go_around(start: int, end: int, distance: int) -> None:
    assert ahead(start, end) == distance


def test_a_router_that_is_heard_or_silent_on_one_ring_is_so_on_all() -> None:
    members = RingMembers()
    first, second = (View(OWN, ViewLimits(), members=members, is_shared=True) for _ in range(2))
    named = View(OWN, ViewLimits(), members=members)
    for view in (first, second, named):
        view.put(at(120), 4)
    second.put(at(120), 2)
    members.period += 3
    assert [one.age for view in (first, second, named) for one in view] == [7, 5, 7]
    first.silence(at(120).router)
    second.rearrange()
    assert numbers(second.sides[0]) == [] and numbers(named.sides[0]) == [120]
    assert second.hear(at(120).router) and not first.hear(at(120).router)
    assert [one.age for view in (first, second, named) for one in view] == [0, 0, 7]
    first.clear()
    assert len(members) == 1 and not len(first)
    second.remove(at(120).router)
    assert not members, "what stands in no view is forgotten"


def test_it_reads_like_a_sentence() -> None:
    view = view_of(120)
    view.silence(at(120).router)
    assert repr(view) == "<view of 1>"
    assert repr(next(iter(view))) == "<<neighbour 78787878> of age 0, silent>"


def test_the_barred_are_not_live_unless_nobody_else_is() -> None:
    barred: set[bytes] = {at(120).router}
    view = View(OWN, ViewLimits(), barred)
    for place in (120, 130):
        view.put(at(place), 0)
    assert numbers(view.sides[0]) == [130] and view.rank(ahead(OWN, at(125).place), is_after=True) == 0
    assert view.nearest[0] == at(120).router, "it may still stand between others"
    view.silence(at(130).router)
    assert numbers(view.sides[0]) == [120]
    view.hear(at(130).router)
    barred.clear()
    view.rearrange()
    assert numbers(view.sides[0]) == [120, 130]


def test_the_barred_give_way_first() -> None:
    view = View(OWN, ViewLimits(side=1, others=2), {at(105).router, at(140).router})
    for place, age in ((105, 0), (120, 3), (130, 5), (140, 0), (150, 4), (160, 1)):
        view.put(at(place), age)
    assert sorted(numbers(list(view))) == [120, 130, 150, 160]
