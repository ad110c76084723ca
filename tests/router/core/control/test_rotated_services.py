"""A service begins with another key: the first transaction of that start moves what the old key has, by value."""

from __future__ import annotations

from typing import Any

import pytest
from rigs.inviting import House
from rigs.one_router import ME, WALL_S
from rigs.plain_store import Disk
from samples.core import ALICE, BOB, GROUP

from router.core.log.events import Outward
from router.core.neighbours import agreements
from router.core.neighbours.agreements import Agreements
from router.core.neighbours.book import ADVERTISED, LEARNED, NOTED, Book, Granted, Learned, move_services
from router.core.routing.effects import BeginAnew, KeyRenewed
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.message import seal_multicast, seal_unicast
from router.core.wire.now import Now
from router.core.wire.renewal import READ_S, Renewal, encode_renewal, make_renewal

OLD, NEW = (SigningKey(bytes((n,)) * 32) for n in (90, 91))
DAY_S = 86_400
ROTATED = {bytes(OLD.public): bytes(NEW.public)}


def said(old: SigningKey = OLD, new: SigningKey = NEW, from_s: int = WALL_S) -> Renewal:
    return make_renewal(old, new, from_s, from_s + READ_S)


def letter(number: int) -> bytes:
    return seal_unicast(ALICE, OLD.public, b"%d" % number, ttl_s=DAY_S, expiry_min=expiry_min(WALL_S + DAY_S))


class Home(House):
    """Alice is the operator, and writes to the service "capd"."""

    def __init__(self, key: SigningKey = OLD, **more: Any) -> None:
        super().__init__(services={key.public: "capd"}, **more)

    def begin(self, renewal: Renewal | None = None) -> None:
        """Do what a node that starts does with a renewal that has begun."""
        assert self.router.renewing.resume([renewal or said()], self.now()) == []
        self.router.renewing.carry_out(self.now())


def used() -> Disk:
    """Return the disk of a router whose service has a group, a letter and a post that wait for it, and a neighbour that
    it has learned."""
    one = Home()
    service, later_s = one.link(OLD.public), WALL_S + DAY_S
    body = encode_control(Join(GROUP.public, False))
    one.bring(service, seal_unicast(OLD, ME.public, body, ttl_s=0, expiry_min=one.expiry()))
    one.cycle()
    one.router.link_down(service, one.now())
    one.bring(one.operator, letter(1), seal_multicast(GROUP, b"2", ttl_s=DAY_S, expiry_min=expiry_min(later_s)))
    one.cycle()
    book, by = Book(8), bytes(OLD.public)
    for key, value in (
        book.learn(Learned(by, bytes(BOB.public), "bob", ("tls://b:1",), later_s), WALL_S),
        book.grant(Granted(by, bytes(BOB.public), frozenset({"join"}), later_s, None), WALL_S),
        book.note(by, b"e" * 16, 7),
    ):
        assert value is not None
        one.disk.book[key] = value
    return one.disk


def check(one: Home) -> None:
    """Check that the new key has all that the old one had, and what comes to the old address, each message once."""
    router, new, old = one.router, bytes(NEW.public), bytes(OLD.public)
    assert router.groups.joined_by(new) == {GROUP.public} and not router.groups.joined_by(old)
    assert old not in router.queues.by_recipient
    assert new in router.directory.locals and old not in router.directory.locals
    assert [(one.learned, one.grants) for one in router.directory.neighbours.values()] == [
        ("capd", frozenset({"join"}))
    ]
    assert {key[:33] for key in one.disk.book} >= {LEARNED + new, NOTED + new}
    assert not [key for key in one.disk.book if key[1:33] == old and key[:1] in (LEARNED, NOTED)]
    one.bring(one.operator, letter(3))
    one.cycle()
    service = one.link(NEW.public)
    assert len(one.handed(service)) == 3
    end = router.links.get(service)
    assert end is not None
    router.settled(service, 3, one.now())
    one.cycle()
    ends = [it for it in one.events if isinstance(it, Outward) and it.event != "forwarded"]
    assert {it.event for it in ends} == {"delivered"} and not one.disk.owed


def test_new_key_has_all_that_the_old_one_had() -> None:
    one = Home(NEW, disk=used(), rotated=ROTATED)
    one.begin()
    one.cycle()
    assert one._gone(KeyRenewed) == [KeyRenewed(said())]
    check(one)


def test_new_key_has_it_all_too_where_the_clock_was_set_back_by_days_before_the_start() -> None:
    one = Home(NEW, disk=used(), rotated=ROTATED)
    one.begin(said(from_s=WALL_S + 3 * DAY_S))
    one.cycle()
    check(one)


def test_crash_before_the_commit_changes_nothing_and_one_after_it_is_finished_by_the_next_start() -> None:
    disk = used()
    owed = dict(disk.owed)
    killed = Home(NEW, disk=disk, rotated=ROTATED)  # which commits what its operator's link brings, and so the book
    killed.begin()
    assert disk.owed == owed, "nothing is moved before the commit"
    committed = Home(NEW, disk=disk, rotated=ROTATED)
    committed.begin()
    committed.cycle()
    again = Home(NEW, disk=disk, rotated=ROTATED)
    again.begin()
    again.cycle()
    assert again._gone(KeyRenewed) == [KeyRenewed(said())], "its files are not finished"
    check(again)
    assert Home(NEW, disk=disk).router.groups.joined_by(NEW.public) == {GROUP.public}


def test_order_is_judged_before_the_node_begins_anew() -> None:
    one = Home()
    assert one.order("rotate-service", encode_renewal(said()).hex()) == {"service": "capd"}
    assert one._gone(BeginAnew) == [BeginAnew()]
    for argument, because in (
        ("00", "no renewal of a key"),
        (encode_renewal(said(ALICE)).hex(), "the key of no service of this node"),
        (encode_renewal(said(from_s=WALL_S + 2 * DAY_S)).hex(), "set the clock that is wrong"),
    ):
        assert because in one.order("rotate-service", argument)["error"]
    assert "router keys rotate capd" in one.order("renew", encode_renewal(said()).hex())["error"]
    assert not one._gone(BeginAnew) and not one.router.renewing.believed


@pytest.mark.parametrize("kind", [LEARNED, ADVERTISED, NOTED, agreements.AGREED])
def test_rows_of_a_service_move_with_it_and_others_stay(kind: bytes) -> None:
    old, new = next(iter(ROTATED.items()))
    theirs, of = (kind + bytes(BOB.public), b"v"), bytes(BOB.public)
    rows, changed = move_services([(kind + old + of, b"1"), theirs, (b"k" + old, b"2")], ROTATED)
    assert rows == [(kind + new + of, b"1"), theirs, (b"k" + old, b"2")]
    assert changed == [(kind + old + of, None), (kind + new + of, b"1")]


def test_agreements_are_read_by_the_new_key() -> None:
    met, now = Agreements(8), Now(WALL_S * 10**9, 0)
    met.agree(bytes(OLD.public), bytes(BOB.public), [bytes(GROUP.public)], DAY_S, 0, lan=True)
    rows = [(key, value) for key, value in met.rows(now).items() if value is not None]
    found = Agreements(8)
    found.load(move_services(rows, ROTATED)[0], {bytes(NEW.public): "discovery"}, now)
    assert found.lan == {bytes(BOB.public): frozenset({bytes(GROUP.public)})}
