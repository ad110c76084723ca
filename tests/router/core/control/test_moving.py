"""A router says where it is, hears where its neighbours are, and asks others for one that does not answer, by value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.inviting import House
from rigs.one_router import ME, WALL_S
from samples.core import ALICE, BOB, GROUP

from router.core.control.moving import TAKEN_AT_ONCE, TAKEN_EVERY_S
from router.core.log.events import WHEREABOUTS, Noted
from router.core.neighbours.directory import RELAY, Neighbour
from router.core.neighbours.whereabouts import HERE_MAX, STAYS_S, own_places, urls_said
from router.core.neighbours.whereabouts import WHEREABOUTS as ROW
from router.core.routing.effects import Reconcile, SendOwn
from router.core.wire.address import NamedAddress, parse_address
from router.core.wire.crypto import SigningKey
from router.core.wire.message import seal_unicast
from router.core.wire.reasons import ADVERT_STALE, Reason
from router.core.wire.succession import formers, make_succession
from router.core.wire.whereabouts import (
    PLACES_MAX,
    AskWhereabouts,
    DatedAddress,
    Whereabouts,
    decode_about_places,
    encode_about_places,
    is_about_places,
    make_whereabouts,
)

HUB, OTHER, STRANGER, NEXT = (SigningKey(bytes((n,)) * 32) for n in (81, 82, 83, 84))
OLD, NEW, NEWER, NEWEST = (f"tls://{name}.example:4101" for name in ("old", "new", "newer", "newest"))
DAY_S = 86_400
CLIENT = Neighbour(BOB.public, grants=frozenset({RELAY}))
UPLINK = Neighbour(HUB.public, uplink=True, urls=(OLD,))
PEER = Neighbour(OTHER.public)


def place(url: str, since_s: int = WALL_S) -> DatedAddress:
    return DatedAddress(parse_address(url), since_s)


def said(*urls: str, key: SigningKey = HUB, rev: int = WALL_S * 1000, since_s: int = WALL_S) -> Whereabouts:
    return make_whereabouts(key, [place(url, since_s) for url in urls], rev)


class Home(House):
    """A router at `at`, with an operator and these neighbours."""

    def __init__(self, *known: Neighbour, at: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__(*known, **more)
        self.router.directory.addresses = tuple(map(parse_address, at))

    def router_link(self, key: SigningKey) -> int:
        return self.link(key.public, role="router")

    def say(self, link: int, key: SigningKey, what: Whereabouts | AskWhereabouts) -> list[tuple[Reason, str]]:
        """Bring it by the link; return why it is refused."""
        wire = seal_unicast(key, ME.public, encode_about_places(what), ttl_s=0, expiry_min=self.expiry())
        self.settled()
        self.bring(link, wire)
        self.cycle()
        return [(reason, text) for _, reason, text in self.settled().get(link, (0, []))[1]]

    def heard(self, link: int) -> list[Whereabouts | AskWhereabouts]:
        """Return what was said and asked on the link since the last call."""
        others = [one for one in self.done if isinstance(one, SendOwn) and one.link != link]
        found = [decode_about_places(one) for one in self.bodies(link) if is_about_places(one)]
        self.done += others
        if (end := self.router.links.get(link)) is not None:
            self.router.settled(link, end.outgoing.sent, self.now())
        return found

    def move(self, url: str, since_s: int = 0) -> Any:
        return self.order("move", json.dumps({"url": url, "since_s": since_s}))

    def urls_of(self, key: SigningKey = HUB) -> tuple[str, ...]:
        return self.router.directory.neighbours[key.public].said_urls

    def logged(self) -> list[dict[str, Any]]:
        return [dict(one.fields) for one in self.events if isinstance(one, Noted) and one.event == WHEREABOUTS]


def test_a_core_says_where_it_is_to_clients_and_peers_and_to_nobody_else() -> None:
    one = Home(CLIENT, PEER, at=(OLD,), strangers=True)
    links = [one.router_link(key) for key in (BOB, OTHER, STRANGER)]
    one.pass_time(1)
    told = [one.heard(link) for link in links]
    [[first], [second], []] = told
    assert first == second and isinstance(first, Whereabouts) and first.verify() and first.router == ME.public
    assert first.places == (place(OLD, WALL_S + 1),)
    one.pass_time(1)
    assert [one.heard(link) for link in links] == [[], [], []], "it is said once"


def test_a_node_that_others_do_not_reach_says_nothing() -> None:
    one = Home(UPLINK)
    link = one.router_link(HUB)
    one.pass_time(1)
    assert one.heard(link) == [] and one.order("whereabouts")["places"] == []
    assert "nobody dials it" in one.move(NEW)["error"]


def test_a_move_is_announced_beside_the_old_address_also_to_those_who_connect_later_and_after_a_restart() -> None:
    one = Home(CLIENT, PEER, at=(OLD,))
    link = one.router_link(BOB)
    one.pass_time(1)
    [before] = one.heard(link)
    one.seconds += 5
    answer = one.move(NEW)
    assert [(row["url"], row["state"]) for row in answer["places"]] == [(NEW, "next"), (OLD, "here")]
    assert (answer["told"], answer["neighbours"], answer["gone"]) == (0, 1, [])
    one.pass_time(1)
    [after] = one.heard(link)
    assert isinstance(before, Whereabouts) and isinstance(after, Whereabouts) and after.rev > before.rev
    assert [at.address.url for at in after.places] == [NEW, OLD]
    assert one.order("whereabouts")["told"] == 1
    later = Home(CLIENT, PEER, at=(NEW,), disk=one.disk, seconds=DAY_S)
    link = later.router_link(OTHER)
    later.pass_time(1)
    [moved] = later.heard(link)
    assert [(row["url"], row["state"]) for row in later.order("whereabouts")["places"]] == [
        (NEW, "here"),
        (OLD, "former"),
    ]
    assert isinstance(moved, Whereabouts) and moved.places == after.places and moved.rev > after.rev


def test_bad_moves_are_refused_with_cause_and_remedy_and_change_nothing() -> None:
    one = Home(CLIENT, at=(OLD,))
    one.pass_time(1)
    for url, why in (
        ("tls://224.0.0.1:4101", "no router can be"),
        ("tls://0.0.0.0:4101", "names no host"),
        ("tls://127.0.0.1:4101", "leads back to the machine"),
        ("tls://[fe80::1]:4101", "link-local"),
        ("unix:///tmp/x", "not an address for others"),
        ("tls://new.example", "needs a port"),
        ("tls://new.example:99999", "99999"),
    ):
        assert why in one.move(url)["error"]
    late = WALL_S + 367 * DAY_S
    assert "a year ahead" in one.move(NEW, late)["error"]
    assert "error" in one.order("move", "{") and "error" in one.order("move", '{"url": 5}')
    assert "is where this node is now" in one.order("unmove", OLD)["error"]
    assert "is not announced" in one.order("unmove", NEW)["error"]
    assert [row["url"] for row in one.order("whereabouts")["places"]] == [OLD]


def test_of_more_than_three_addresses_the_oldest_goes_and_one_can_be_taken_back() -> None:
    one = Home(CLIENT, at=(OLD,))
    one.pass_time(1)
    for number, url in enumerate((NEW, NEWER, NEWEST)):
        answer = one.move(url, WALL_S + 10 + number)
    assert [row["url"] for row in answer["places"]] == [NEWEST, NEWER, OLD] and answer["gone"] == [NEW]
    assert "later addresses" in one.move("tls://x.example:1", WALL_S)["error"]
    assert [row["url"] for row in one.order("unmove", NEWEST)["places"]] == [NEWER, OLD]


def test_an_edge_keeps_what_its_uplink_says_in_its_own_book_and_dials_it_after_the_configured_address() -> None:
    one = Home(UPLINK)
    link = one.router_link(HUB)
    assert one.say(link, HUB, said(NEW, OLD)) == []
    known = one.router.directory.neighbours[HUB.public]
    assert known.urls == (OLD,) and known.said_urls == (NEW,)
    assert one.router.directory.configured[HUB.public].said_urls == ()
    [told] = [dict(found) for found in one.logged()]
    assert told["peer"] == HUB.public and told["at"] == f"{NEW} {OLD}"
    again = Home(UPLINK, disk=one.disk)
    assert again.urls_of() == (NEW,), "it is in the store"
    assert Home(disk=one.disk).router.directory.neighbours == {}, "and makes nobody a neighbour"


def test_an_older_statement_and_a_forged_one_change_nothing() -> None:
    one = Home(UPLINK)
    link = one.router_link(HUB)
    assert one.say(link, HUB, said(NEW, rev=9)) == []
    [(reason, text)] = one.say(link, HUB, said(OLD, NEWER, rev=8))
    assert reason is ADVERT_STALE and "revision 9" in text
    [(reason, _)] = one.say(link, HUB, said(NEWER, rev=9))
    assert reason is ADVERT_STALE
    assert one.say(link, HUB, said(NEW, rev=9)) == [], "the same again"
    [(reason, _)] = one.say(link, HUB, said(NEWER, rev=(WALL_S + DAY_S + 1) * 1000))
    assert reason is Reason.EXPIRY_TOO_FAR, "it would shut out all later ones"
    genuine = said(NEWER, rev=10)
    forged = decode_about_places(b"\x82\x0f" + genuine.wire.replace(b"newer.ex", b"loser.ex"))
    [(reason, _)] = one.say(link, HUB, forged)
    assert reason is Reason.BAD_SIGNATURE
    assert one.urls_of() == (NEW,)


def test_nobody_says_where_another_router_is_unless_it_was_asked() -> None:
    one = Home(UPLINK, PEER, strangers=True)
    link = one.router_link(OTHER)
    [(reason, text)] = one.say(link, OTHER, said(NEW))
    assert reason is Reason.NOT_AUTHORISED and "nobody was asked" in text
    stranger = one.router_link(STRANGER)
    [(reason, _)] = one.say(stranger, STRANGER, said(NEW, key=STRANGER))
    assert reason is Reason.NOT_AUTHORISED
    [(reason, _)] = one.say(stranger, STRANGER, AskWhereabouts(HUB.public))
    assert reason is Reason.NOT_AUTHORISED
    assert one.urls_of() == () and [row for row in one.disk.book if row[:1] == ROW] == []


def test_what_counts_by_where_the_configured_address_is() -> None:
    """A router far away does not have this node dial machines of its own network."""
    at = [parse_address(url) for url in (NEW, "tls://192.168.1.9:4101", "tls://127.0.0.1:4101", "tls://224.0.0.1:1")]
    assert urls_said(at, ("tls://203.0.113.7:4101",), on_loopback=False) == (NEW,)
    assert urls_said(at, ("tls://192.168.1.5:4101",), on_loopback=False) == (NEW, "tls://192.168.1.9:4101")
    home = (NEW, "tls://192.168.1.9:4101", "tls://127.0.0.1:4101")
    assert urls_said(at, ("tls://127.0.0.1:4100",), on_loopback=False) == home
    assert urls_said(at, (NEW,), on_loopback=False) == ()
    plain = [parse_address(url) for url in ("ws://hub.example/link?plain=yes", "wss://hub.example/link")]
    assert urls_said(plain, (NEW,), on_loopback=False) == ("wss://hub.example/link",), "nobody else takes the TLS away"
    assert urls_said(plain, ("ws://203.0.113.7/link?plain=yes",), on_loopback=False) == tuple(one.url for one in plain)


def test_an_address_counts_from_its_time_on() -> None:
    one = Home(UPLINK)
    link = one.router_link(HUB)
    assert one.say(link, HUB, said(NEW, since_s=WALL_S + 100)) == []
    one.pass_time(99)
    assert one.urls_of() == ()
    one._gone(Reconcile)
    one.pass_time(1)
    assert one.urls_of() == (NEW,) and one._gone(Reconcile), "the dialler gets it"


def test_a_neighbour_that_does_not_answer_is_asked_for_at_uplinks_and_peers() -> None:
    """An edge that slept through the announcement learns the address of another core that knows it."""
    edge, other = Home(UPLINK, PEER, CLIENT), Home(Neighbour(HUB.public), Neighbour(ME.public), strangers=True)
    peer, client = edge.router_link(OTHER), edge.router_link(BOB)
    at_other = other.router_link(HUB)
    assert other.say(at_other, HUB, said(NEW)) == []
    edge.pass_time(1)
    assert edge.heard(peer) == [], "it may be there in a moment"
    edge.pass_time(10)
    [asked] = edge.heard(peer)
    assert asked == AskWhereabouts(HUB.public) and edge.heard(client) == []
    asker = Home(Neighbour(BOB.public), Neighbour(HUB.public))
    assert asker.say(asker.router_link(HUB), HUB, said(NEW)) == []
    there = asker.router_link(BOB)
    assert asker.say(there, BOB, AskWhereabouts(HUB.public)) == []
    [answer] = asker.heard(there)
    assert isinstance(answer, Whereabouts) and edge.say(peer, OTHER, answer) == []
    assert edge.urls_of() == (NEW,)
    edge.pass_time(100)
    assert edge.heard(peer) == [], "it is not asked over and over"


def test_whereabouts_go_with_the_neighbour_and_damaged_ones_are_left_out() -> None:
    one = Home(UPLINK)
    assert one.say(one.router_link(HUB), HUB, said(NEW)) == []
    [row] = [key for key in one.disk.book if key[:1] == ROW]
    one.disk.book[row] = one.disk.book[row][:-1] + b"\0"
    damaged = Home(UPLINK, disk=one.disk)
    assert damaged.router.moving.damaged == [HUB.public] and damaged.urls_of() == ()
    damaged.cycle()
    assert row not in damaged.disk.book and damaged.logged()[-1]["damaged"]
    assert damaged.say(damaged.router_link(HUB), HUB, said(NEWER)) == [] and damaged.urls_of() == (NEWER,)
    damaged.router.neighbours_changed([], damaged.now())
    damaged.pass_time(1)
    assert [key for key in damaged.disk.book if key[:1] == ROW] == []


ADDRESSES = st.lists(st.integers(1, 6), max_size=4, unique=True)


@given(steps=st.lists(st.tuples(ADDRESSES, st.integers(0, 2 * STAYS_S)), min_size=1, max_size=8))
def test_a_router_always_names_where_it_is_first_and_never_too_many(steps: list[tuple[list[int], int]]) -> None:
    known: tuple[DatedAddress, ...] = ()
    now_s = WALL_S
    for ports, later_s in steps:
        now_s += later_s
        here = [NamedAddress("hub.example", port) for port in ports]
        known = own_places(known, here, now_s)
        assert len(known) <= PLACES_MAX and len({one.address for one in known}) == len(known)
        assert all(one.since_s <= now_s for one in known)
        named = {one.address for one in known}
        assert set(here[:HERE_MAX]) <= named
        assert own_places(known, here, now_s) == known, "it is signed once"


@pytest.mark.parametrize("key", [ALICE, GROUP])
def test_this_router_believes_nobody_about_itself(key: SigningKey) -> None:
    one = Home(CLIENT, at=(OLD,))
    link = one.router_link(BOB)
    assert one.say(link, BOB, make_whereabouts(ME, [place(NEWER)], 2**40)) == []
    one.pass_time(1)
    assert [row["url"] for row in one.order("whereabouts")["places"]] == [OLD]


def test_a_clock_that_was_years_ahead_once_does_not_end_all_later_moves() -> None:
    """What it signed then was refused by all whose clock is right, and its later statements count for them."""
    one = Home(CLIENT, at=(OLD,), seconds=3 * 365 * DAY_S)
    one.pass_time(1)
    later = Home(CLIENT, at=(OLD,), disk=one.disk)
    link = later.router_link(BOB)
    later.move(NEW)
    later.pass_time(1)
    told = [it for it in later.heard(link) if isinstance(it, Whereabouts)]
    assert told and told[-1].rev <= (WALL_S + 2) * 1000
    edge = Home(UPLINK)
    at = edge.router_link(HUB)
    edge.router.moving._known.put(said(NEWER, rev=(WALL_S + 400 * DAY_S) * 1000))
    assert edge.say(at, HUB, said(NEW, rev=WALL_S * 1000)) == [], (
        "what it took by a wrong clock of its own goes as well"
    )
    [(reason, _)] = edge.say(at, HUB, said(NEWER, rev=(WALL_S + 400 * DAY_S) * 1000))
    assert reason is Reason.EXPIRY_TOO_FAR and edge.urls_of() == (NEW,)


def test_a_doubted_clock_that_is_ahead_signs_by_the_time_that_is_believed() -> None:
    one = Home(CLIENT, at=(OLD,))
    one.ahead_s = 900 * DAY_S
    link = one.router_link(BOB)
    one.pass_time(1)
    [told] = one.heard(link)
    assert isinstance(told, Whereabouts) and told.rev <= (WALL_S + 2) * 1000


def test_of_thousands_of_statements_the_newest_counts_and_few_are_written_and_dialled() -> None:
    """Each names another place, so each would be a dial, an event and rows of all neighbours."""
    one = Home(UPLINK)
    link = one.router_link(HUB)
    one._gone(Reconcile)
    for rev in range(1, 200):
        assert one.say(link, HUB, said(f"tls://h{rev}.example:4101", rev=rev)) == []
    assert len(one.logged()) == TAKEN_AT_ONCE and len(one._gone(Reconcile)) == TAKEN_AT_ONCE
    [(reason, _)] = one.say(link, HUB, said(NEWER, rev=198))
    assert reason is ADVERT_STALE
    one.pass_time(TAKEN_EVERY_S)
    assert one.urls_of() == ("tls://h199.example:4101",) and len(one.logged()) == TAKEN_AT_ONCE + 1


def test_where_a_core_had_said_that_it_is_counts_after_its_key_was_followed() -> None:
    """A core moves, and gets another key later: edges know the new place by its word alone, and dial the new key
    there."""
    one = Home(UPLINK, PEER)
    link = one.router_link(HUB)
    one.say(link, HUB, said(NEW))
    one.router.link_down(link, one.now())
    was = formers([make_succession(HUB, NEXT, WALL_S, WALL_S + DAY_S)])
    one.link(NEXT.public, role="router", was=was)
    assert one.urls_of(NEXT) == (NEW,) and HUB.public not in one.router.directory.neighbours
    one.pass_time(1)
    again = Home(UPLINK, PEER, disk=one.disk)
    again.pass_time(1)
    assert again.urls_of(NEXT) == (NEW,), "it is in the store"
    asker = again.router_link(OTHER)
    assert again.say(asker, OTHER, AskWhereabouts(HUB.public)) == []
    [answer] = [it for it in again.heard(asker) if isinstance(it, Whereabouts) and it.router == HUB.public]
    assert answer.places == (place(NEW),), "who slept through the move and the renewal asks for the old key"
    link = again.link(NEXT.public, role="router", was=was)
    assert again.say(link, NEXT, said(NEWEST, key=NEXT)) == [] and again.urls_of(NEXT) == (NEWEST,)
    again.router.neighbours_changed([PEER], again.now())
    again.pass_time(1)
    assert [key for key in again.disk.book if key[:1] == ROW] == []


def test_what_a_core_has_announced_is_announced_by_its_next_key() -> None:
    one = Home(CLIENT, at=(OLD,), key=HUB)
    one.pass_time(1)
    moving = one.router.moving
    moving.ORDERS["move"](moving, json.dumps({"url": NEW, "since_s": WALL_S + DAY_S}), one.now())
    one.router.renewing.hear(make_succession(HUB, ME, WALL_S, WALL_S + DAY_S), one.now())
    one.cycle()
    later = Home(CLIENT, at=(OLD,), disk=one.disk)
    later.pass_time(1)
    assert [(row["url"], row["state"]) for row in later.order("whereabouts")["places"]] == [
        (NEW, "next"),
        (OLD, "here"),
    ]
