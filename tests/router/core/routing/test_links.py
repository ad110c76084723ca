"""Open links by number and by key, and their reprs."""

from __future__ import annotations

from random import Random

from samples.stores import parcel

from router.core.link.custody import Outgoing
from router.core.neighbours.directory import Standing
from router.core.routing.links import Flight, Link, Links

ANN, BOB = b"a" * 32, b"b" * 32


def link(number: int, key: bytes, standing: Standing = Standing.LOCAL) -> Link:
    return Link(number, key, standing, Outgoing(8, 1000))


def test_one_link_per_key_is_found_by_number_and_key() -> None:
    links = Links()
    ann, bob = link(1, ANN), link(2, BOB, Standing.PEER)
    links.add(ann)
    links.add(bob)
    assert links.get(1) is ann and links.to(BOB) is bob and list(links) == [ann, bob] and len(links) == 2
    assert (links.standing_of(ANN), links.standing_of(b"?")) == (Standing.LOCAL, None)


def test_removing_the_earlier_link_leaves_the_later_one() -> None:
    links = Links()
    old, new = link(1, ANN), link(2, ANN)
    links.add(old)
    links.add(new)
    revision = links.revision
    links.remove(old)
    assert links.to(ANN) is new and links.get(1) is None and not old.up and links.revision > revision
    links.remove(new)
    assert links.to(ANN) is None and len(links) == 0


def test_link_is_charged_to_strangers_until_its_standing_says_otherwise() -> None:
    links, known = Links(), link(2, BOB, Standing.PEER)
    stranger = link(1, ANN, Standing.STRANGER)
    links.add(stranger)
    links.add(known)
    assert (links.is_stranger(1), links.is_stranger(2), links.is_stranger(3)) == (True, False, True)
    stranger._charge(to_itself=True)
    assert not links.is_stranger(1)


def test_it_reads_like_a_sentence() -> None:
    one = link(3, ANN)
    one.outgoing.send(2, 10)
    assert repr(one) == "<link 3 to local 61616161, up, 2 in flight>"
    one.up = False
    assert "down" in repr(one)


def test_message_in_flight_is_the_routers_own_where_no_parcel_carries_it() -> None:
    one = link(1, BOB, Standing.PEER)
    assert not one.is_own(1)
    one.fly(Flight(1, None, 0, 1))
    one.fly(Flight(4, parcel(Random(1), 1, 1_800_000_000, count=3), 0, 3))
    assert [one.is_own(n) for n in range(1, 6)] == [True, False, False, False, False]
