"""Rings with the same neighbours change together, and each as if it were alone."""

from __future__ import annotations

from random import Random

import pytest

from router.core.wire.crypto import PublicKey
from services.pubsub.core.known import Neighbour, Topic
from services.pubsub.core.rings.ring_book import RingBook
from services.pubsub.core.rings.view import RingMembers, View, ViewLimits

PLACE = 1 << 400
GROUPS = [PublicKey(number.to_bytes(32, "big")) for number in range(1, 41)]


def neighbour(number: int, prefix: bytes | None = None) -> Neighbour:
    return Neighbour(PublicKey(bytes((number, 7)) * 16), PublicKey(bytes((number * 37 % 256, 9)) * 16), prefix)


class Book:
    """Rings of these groups in one book, and what is recorded of their topics."""

    def __init__(self, groups: list[PublicKey], barred: set[bytes] | None = None) -> None:
        self.back = set[tuple[PublicKey, PublicKey]]()
        self.moved = set[PublicKey]()
        self.topics = {group: Topic(group, self.back, self.moved) for group in groups}
        self.members = RingMembers()
        self.rings = RingBook(PLACE, ViewLimits(), self.members, set() if barred is None else barred)
        for topic in self.topics.values():
            self.rings.begin(topic)

    def period(self, now_s: float) -> None:
        self.rings.look(now_s)
        self.members.period += 1

    def seen(self, group: PublicKey) -> tuple[object, ...]:
        """Return what others see of a topic."""
        topic, ring = self.topics[group], self.rings[group]
        is_in_order, is_alone = group in list(self.rings.order), group in self.rings.alone
        is_owed = group in self.rings.to_ask, ring.to_ask > 0
        ages = [(seat.neighbour, seat.is_silent) for seat in ring.neighbours]
        return topic.after, topic.before, topic.others, is_in_order, is_alone, is_owed, ages


@pytest.mark.parametrize("seed", range(20))
def test_each_ring_is_as_if_it_were_alone(seed: int) -> None:
    chance = Random(seed)
    groups = GROUPS[:12]
    together, alone = Book(groups), {group: Book([group]) for group in groups}
    for step in range(150):
        who = neighbour(chance.randrange(1, 9))
        some = set(groups if chance.random() < 0.4 else chance.sample(groups, chance.randrange(1, 12)))
        match chance.randrange(6):
            case 0 | 1:
                together.rings.seat(who, some)
                for group in groups:
                    if group in some:
                        alone[group].rings.seat(who, {group})
                    elif alone[group].members.get(who.router) is not None:
                        alone[group].rings.hear(who.router)
            case 2:
                together.rings.remove(who.router, some)
                for group in some:
                    alone[group].rings.remove(who.router)
            case 3:
                together.rings.remove(who.router)
                for one in alone.values():
                    one.rings.remove(who.router)
            case 4:
                together.rings.silence(who.router)
                for one in alone.values():
                    one.rings.silence(who.router)
            case 5:
                for book in (together, *alone.values()):
                    book.period(float(step))
        for book in (together, *alone.values()):
            book.rings.look(float(step))
        for group in groups:
            assert together.seen(group) == alone[group].seen(group), f"step {step}"
            assert {place for place in alone[group].back if place[0] == group} <= together.back
            assert together.rings[group].nearest.keys() == alone[group].rings[group].nearest.keys()
            for router, at_s in alone[group].rings[group].nearest.items():
                assert together.rings[group].nearest[router] >= at_s, "nobody is judged by what it was not sent"
        assert together.moved == {group for group in groups if alone[group].moved}


def test_neighbour_that_falls_silent_or_is_gone_is_arranged_once_for_all_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    book = Book(GROUPS)
    for number in range(1, 8):
        book.rings.seat(neighbour(number), set(GROUPS))
    book.rings.look(1.0)
    assert len({id(topic.near) for topic in book.topics.values()}) == 1
    arranged = list[int]()
    arrange = View._arrange

    def counted(view: View) -> object:
        arranged.append(len(view))
        return arrange(view)

    monkeypatch.setattr(View, "_arrange", counted)
    book.rings.silence(neighbour(3).router)
    book.rings.hear(neighbour(3).router)
    book.rings.remove(neighbour(3).router)
    book.rings.seat(neighbour(3), set(GROUPS))
    book.rings.look(2.0)
    assert arranged == [7, 7, 6, 7]
    assert all(len(topic.neighbours) == 7 for topic in book.topics.values())
    assert book.back >= {(group, neighbour(3).router) for group in GROUPS}
    assert all(ring.to_ask == 3 for ring in book.rings.values()) and book.rings.to_ask == {*GROUPS}


def test_topics_whose_neighbours_are_the_same_again_come_together_again() -> None:
    book = Book(GROUPS)
    book.rings.seat(neighbour(1), set(GROUPS))
    book.rings.seat(neighbour(2), set(GROUPS[:3]))
    assert len({id(topic.near) for topic in book.topics.values()}) == 2
    book.rings.remove(neighbour(2).router, set(GROUPS[:2]))
    assert [book.topics[group].near is book.topics[GROUPS[5]].near for group in GROUPS[:4]] == [True, True, False, True]
    book.rings.end(GROUPS[2])
    assert neighbour(2).router not in book.members, "who stands on no ring is forgotten"
    for group in GROUPS:
        book.rings.end(group)
    assert not book.members and not book.rings._circles


def test_barred_neighbour_is_live_on_no_ring_as_soon_as_that_is_looked_at() -> None:
    barred = set[bytes]()
    book = Book(GROUPS, barred)
    for number in (1, 2):
        book.rings.seat(neighbour(number), set(GROUPS))
    barred.add(neighbour(1).router)
    book.rings.show_all()
    assert all(set(topic.neighbours) == {neighbour(2).router} for topic in book.topics.values())


def test_neighbour_whose_network_becomes_known_is_renewed_on_all_rings() -> None:
    book = Book(GROUPS)
    for number in (1, 2):
        book.rings.seat(neighbour(number), set(GROUPS))
    known = neighbour(2, b"net")
    book.rings.seat_on(book.rings[GROUPS[0]], known)
    assert {topic.neighbours[known.router] for topic in book.topics.values()} == {known}
    assert len({id(topic.near) for topic in book.topics.values()}) == 1 and len(book.rings._circles) == 1
