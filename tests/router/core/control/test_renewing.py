"""Another key takes the place of an app's at this node: its queue, groups, rights and name in the log, by value."""

from __future__ import annotations

from typing import Any

import pytest
from rigs.inviting import House
from rigs.one_router import ME, WALL_S
from samples.core import ALICE, BOB, GROUP

from router.core.log.events import RENEWAL, Accepted, Noted, Outward
from router.core.neighbours.directory import JOIN, STORE, Neighbour, Standing
from router.core.routing.effects import KeyRenewed
from router.core.routing.purges import Purge
from router.core.wire.control import Join, encode_control
from router.core.wire.crypto import SigningKey
from router.core.wire.lifetime import expiry_min
from router.core.wire.link_items import Outcome
from router.core.wire.message import message_id, seal_multicast, seal_unicast
from router.core.wire.reasons import Reason
from router.core.wire.renewal import READ_S, decode_renewal, encode_renewal, make_renewal

NEW, NEWER, OTHER = (SigningKey(bytes((n,)) * 32) for n in (91, 92, 93))
DAY_S = 86_400


def statement(old: SigningKey = BOB, new: SigningKey = NEW, from_s: int = WALL_S) -> str:
    return encode_renewal(make_renewal(old, new, from_s, from_s + READ_S)).hex()


def letter(number: int, to: SigningKey = BOB, source: SigningKey = ALICE, wall_s: int = WALL_S) -> bytes:
    return seal_unicast(source, to.public, b"%d" % number, ttl_s=DAY_S, expiry_min=expiry_min(wall_s + DAY_S))


def news(number: int) -> bytes:
    return seal_multicast(GROUP, b"%d" % number, ttl_s=DAY_S, expiry_min=expiry_min(WALL_S + DAY_S))


class Home(House):
    """Alice is the operator and writes; Bob's key is renewed. Bob is in the group, and away unless it says so."""

    def __init__(self, *known: Neighbour, **more: Any) -> None:
        super().__init__(*known, **more)
        if BOB.public not in self.router.directory.locals and NEW.public not in self.router.directory.locals:
            bob = self.link(BOB.public)
            self.join(bob, BOB)
            self.down(bob)

    def join(self, link: int, key: SigningKey) -> None:
        body = encode_control(Join(GROUP.public, False))
        self.bring(link, seal_unicast(key, ME.public, body, ttl_s=0, expiry_min=self.expiry()))
        self.cycle()
        self.settle(link)
        self.told(link)

    def down(self, link: int) -> None:
        self.router.link_down(link, self.now())
        self.cycle()

    def settle(self, link: int) -> None:
        end = self.router.links.get(link)
        assert end is not None
        self.router.settled(link, end.outgoing.sent, self.now())
        self.cycle()

    def write(self, *wires: bytes) -> None:
        self.bring(self.operator, *wires)
        self.cycle()

    def ends(self) -> list[tuple[str, bytes]]:
        """Return how messages have ended, and the recipient by whose key the log tells it."""
        found = [one for one in self.events if isinstance(one, Outward) and one.event != "forwarded"]
        return [(one.event, one.recipient) for one in found for _ in range(sum(count for _, count in one.ranges))]


def test_what_waits_and_what_still_comes_to_the_old_address_is_handed_to_the_new_key_once() -> None:
    one = Home()
    waiting = [letter(1), news(2), letter(3)]
    one.write(*waiting)
    assert one.order("renew", statement()) == {"old": BOB.public.hex(), "new": NEW.public.hex(), "was_known": False}
    assert BOB.public not in one.router.queues.by_recipient
    taken = decode_renewal(bytes.fromhex(statement()))
    assert one._gone(KeyRenewed) == [KeyRenewed(taken)]
    late = [letter(4), news(5)]
    one.write(*late)
    link = one.link(NEW.public)
    assert sorted(one.handed(link)) == sorted(waiting + late)
    one.settle(link)
    assert not one.disk.owed and not one.router.queues.by_recipient[NEW.public].total.messages
    assert one.ends() == [("delivered", BOB.public)] * 3 + [("delivered", NEW.public)] * 2
    named = [one.recipients for one in one.events if isinstance(one, Accepted)]
    assert named.count((BOB.public,)) >= 2 and (NEW.public,) in named


def test_each_delivery_ends_in_the_log_by_the_key_that_it_was_owed_to_over_two_renewals() -> None:
    one = Home()
    one.write(letter(1))
    one.order("renew", statement())
    one.write(letter(2))
    one.order("renew", statement(NEW, NEWER))
    one.write(letter(3), letter(4, to=NEW))
    link = one.link(NEWER.public)
    one.settle(link)
    assert one.ends() == [("delivered", BOB.public), ("delivered", NEW.public)] + [("delivered", NEWER.public)] * 2


def test_all_of_it_is_in_one_transaction_and_a_crash_before_it_changes_nothing() -> None:
    one = Home()
    one.write(letter(1), news(2))
    before = one.disk.copied()
    one.bring(one.operator, ordered := _order_of(one))
    jobs, one.jobs = one.jobs, []
    one.router.decide(jobs, set(), one.now())
    changes = one.router.take(one.now()).changes
    assert changes.moved == [(BOB.public, NEW.public)] and changes.locals == [NEW.public] and changes.book
    assert one.disk == before, "nothing is on the disk before the commit"
    killed = Home(disk=one.disk)
    link = killed.link(BOB.public)
    assert len(killed.handed(link)) == 2, "it has not begun"
    killed.bring(killed.operator, ordered)
    killed.cycle()
    again = Home(disk=killed.disk)
    assert len(again.handed(again.link(NEW.public))) == 2, "it is finished"
    assert again.router.groups.joined_by(NEW.public) == {GROUP.public} and not again.router.groups.joined_by(BOB.public)
    assert again.router.directory.standing(NEW.public, owner=False) is Standing.LOCAL


def _order_of(one: House) -> bytes:
    from router.core.wire.admin import Inquiry, encode_inquiry

    body = encode_inquiry(Inquiry("renew", statement()))
    return seal_unicast(ALICE, ME.public, body, ttl_s=0, expiry_min=one.expiry())


def test_messages_that_come_in_the_cycle_of_the_renewal_are_neither_lost_nor_doubled() -> None:
    one = Home()
    bob = one.link(BOB.public)
    one.bring(one.operator, letter(1), _order_of(one), letter(2), news(3))
    one.cycle()
    assert one.closed() == [(bob, "renewed")]
    again = Home(disk=one.disk)
    for router in (one, again):
        link = router.link(NEW.public)
        assert len(router.handed(link)) == 3
    one.settle(one.router.links.to(NEW.public).id)  # type: ignore[union-attr]
    assert not one.disk.owed and one.router.queues.node.messages == 0


def test_messages_that_end_in_the_cycle_of_the_renewal_have_ended() -> None:
    one = Home()
    bob = one.link(BOB.public)
    one.write(letter(1), letter(2))
    one.handed(bob)
    end = one.router.links.get(bob)
    assert end is not None
    one.router.settled(bob, 1, one.now())
    one.bring(one.operator, _order_of(one))
    one.cycle()
    assert one.handed(one.link(NEW.public)) == [letter(2)] and len(one.disk.owed) == 1


def test_the_old_address_is_read_for_seven_days_and_then_refused_with_a_reason() -> None:
    one = Home()
    one.order("renew", statement())
    one.pass_time(READ_S - 10)
    late = letter(1, wall_s=one.now().wall_s)
    one.write(late)
    assert one.handed(one.link(NEW.public)) == [late]
    one.pass_time(20)
    one.write(letter(2, wall_s=one.now().wall_s))
    [(_, refused)] = one.settled().values()
    assert [reason for _, reason, _ in refused] == [Reason.RENEWED]
    one.write(to_new := letter(3, to=NEW, wall_s=one.now().wall_s))
    assert one.handed(one.router.links.to(NEW.public).id) == [to_new]  # type: ignore[union-attr]


def test_the_old_key_signs_on_no_more_and_what_it_signs_is_refused() -> None:
    one = Home(strangers=True)
    bob = one.link(BOB.public)
    one.order("renew", statement())
    assert one.closed() == [(bob, "renewed")]
    for owner in (True, False):
        again = one.link(BOB.public, owner=owner)
        assert one.closed() == [(again, "renewed")] and one.router.links.to(BOB.public) is None
    stranger = one.link(OTHER.public, role="router")
    one.settled()
    one.bring(stranger, letter(1, to=ALICE, source=BOB))
    one.cycle()
    assert [reason for _, reason, _ in one.settled()[stranger][1]] == [Reason.NOT_AUTHORISED], "as any of a stranger's"
    one.write(letter(1, to=ALICE, source=BOB))
    assert [reason for _, reason, _ in one.settled()[one.operator][1]] == [Reason.RENEWED]


def test_what_an_app_had_under_way_goes_on_over_the_link_of_its_new_key() -> None:
    one = Home()
    under_way = letter(1, to=ALICE, source=BOB)
    one.bring(one.link(BOB.public), under_way)
    one.cycle()
    one.order("renew", statement())
    one.settle(one.operator)
    assert one.handed(one.operator) == [under_way]
    link = one.link(NEW.public)
    second = letter(2, to=ALICE, source=BOB)
    one.settled()
    one.bring(link, under_way, second, letter(3, to=ALICE, source=NEW))
    one.cycle()
    assert one.settled()[link] == (3, []) and len(one.handed(one.operator)) == 2, "the first one was here already"


def test_rights_by_configuration_and_services_are_those_of_the_new_key() -> None:
    service = bytes(OTHER.public)
    one = Home(Neighbour(BOB.public, "bob", frozenset({JOIN, STORE})), services={service: "friend"})
    one.order("renew", statement())
    directory = one.router.directory
    assert directory.grants(NEW.public) == {JOIN, STORE} and directory.name_of(NEW.public) == "bob"
    assert not directory.is_known(BOB.public) and not directory.grants(BOB.public)
    one.router.neighbours_changed([Neighbour(BOB.public, "bob", frozenset({JOIN}))], one.now())
    one.cycle()
    assert directory.grants(NEW.public) == {JOIN} and not directory.is_known(BOB.public), "the file names the old one"
    one.router.neighbours_changed([Neighbour(BOB.public, blocked=True)], one.now())
    one.cycle()
    assert directory.is_blocked(NEW.public) and directory.is_blocked(BOB.public)


def test_what_was_to_be_dropped_is_dropped_and_what_was_missed_is_told_to_the_new_key() -> None:
    one = Home()
    one.write(letter(1), letter(2))
    one.router.clear_queue(BOB.public, one.now())
    one.cycle()
    one.order("renew", statement())
    assert one.router.purges.next() == Purge(bytes(NEW.public), None, one.router.next_arrival)
    one.clear()
    assert one.ends() == [("dropped", BOB.public)] * 2
    assert not one.disk.purges and not one.disk.owed


def test_a_publisher_hears_the_end_by_the_key_that_it_was_told_at_first() -> None:
    one = Home()
    speaker = one.link(OTHER.public, outcome=True)
    one.bring(speaker, wire := letter(1, source=OTHER))
    one.cycle()
    one.order("renew", statement())
    one.settle(one.link(NEW.public))
    told = [item for item in one.said(speaker) if isinstance(item, Outcome)]
    assert {item.id for item in told} == {message_id(wire)}
    assert [(row.recipient, row.state) for item in told for row in item.recipients] == [
        (BOB.public, "queued"),
        (BOB.public, "delivered"),
    ]


def test_the_log_and_the_list_tell_of_it_and_a_repetition_changes_nothing() -> None:
    one = Home()
    one.order("renew", statement())
    again = Home(disk=one.disk)
    assert again.order("renew", statement())["was_known"] and not again.events[:0]
    for router in (one, again):
        [listed] = router.order("renewals")
        assert (listed["old"], listed["new"]) == (BOB.public.hex(), NEW.public.hex())
    [noted] = [event for event in one.events if isinstance(event, Noted) and event.event == RENEWAL]
    assert dict(noted.fields)["old"] == BOB.public and dict(noted.fields)["new"] == NEW.public
    assert not [event for event in again.events if isinstance(event, Noted)]


def test_what_is_refused_is_refused_with_a_sentence_and_changes_nothing() -> None:
    service = bytes(OTHER.public)
    one = Home(Neighbour(NEWER.public, blocked=True), services={service: "friend"})
    link = one.link(SigningKey(bytes((99,)) * 32).public)
    assert link
    forged = bytes.fromhex(statement())[:-1] + b"\0"
    before = one.disk.copied()
    for argument, said in (
        ("zz", "that is no renewal"),
        (forged.hex(), "not signed by both keys"),
        (statement(from_s=WALL_S + 2 * DAY_S), "more than a day ahead"),
        (statement(ME), "the key of this node"),
        (statement(OTHER), "the key of its service friend"),
        (statement(NEWER), "blocked"),
        (statement(BOB, SigningKey(bytes((99,)) * 32)), "in use here already"),
        (statement(BOB, ALICE), "in use here already"),
    ):
        assert said in one.order("renew", argument)["error"], said
    assert (one.disk.book, one.disk.locals, one.disk.groups) == (before.book, before.locals, before.groups)
    assert not one._gone(KeyRenewed)
    one.order("renew", statement())
    assert "is a thief's" in one.order("renew", statement(BOB, NEWER))["error"]
    assert one.router.directory.successors.newest(BOB.public) == NEW.public


@pytest.mark.parametrize("day", [-DAY_S, DAY_S])
def test_a_clock_a_day_off_renews_all_the_same(day: int) -> None:
    one = Home()
    assert "error" not in one.order("renew", statement(from_s=WALL_S + day))
