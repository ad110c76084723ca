"""Neighbours that announce, list or claim what they do not have: others are disturbed for seconds at most."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from samples.capd import posted
from samples.capd_net import Client, Pool, greeted, parted, peers, post

from router.service import contract as c
from services.capd.core import messages as m
from services.capd.core.message import rescind_hash_of, shown_id
from services.capd.core.nexa import commands as n
from services.capd.core.nexa import fetching, neighbour
from services.capd.core.nexa import own_commands as own
from services.capd.core.nexa.limits import NexaLimits
from services.capd.core.nexa.neighbours import DOOR
from services.capd.core.outside import NAMES_MAX
from services.capd.settings import Settings

FAR = "203.0.113.7:5000"
OFFER = posted(b"TKD\x0coffer of something", 4.0)
SECRET = b"s" * 32


def test_many_that_announce_again_and_again_and_send_nothing_delay_a_message_by_seconds() -> None:
    pool = Pool()
    liars = [greeted(pool, f"198.51.100.{number}:1", number + 10) for number in range(32)]
    honest = greeted(pool, FAR, 5)
    announced = n.Inv((OFFER.own_id(),))
    for client in (*liars, honest):
        client.say(announced)
    seconds, wanted = 0, n.GetMsg(2.0, (OFFER.own_id(),))
    while wanted not in honest.take() and seconds < 600:
        seconds += 1
        for liar in liars:
            liar.say(announced)
        pool.pass_time(1)
    assert seconds <= 5 * fetching.AGAIN_S, "after 1, 2, 4, 8 and 16 others"
    honest.say(n.Msg((OFFER,)))
    assert pool.ask(m.Get(1, OFFER.own_id())).count == 1


@pytest.mark.parametrize("seconds", [2, pytest.param(10, marks=pytest.mark.long)])
def test_list_without_end_is_asked_for_at_a_bounded_rate(seconds: int) -> None:
    pool = Pool()
    liar = greeted(pool)
    post(pool, OFFER)
    page = own.HeldIds(1, (OFFER.own_id(),) * own.HELD_IDS_MAX)
    asked = 0
    for _ in range(seconds):
        for _ in range(100):
            found = liar.say(page)
            asked += own.GetHeld(1) in found
            if own.GetHeld(1) not in found:
                break
        pool.pass_time(1)
        if own.GetHeld(1) in liar.take():
            asked += 1
    assert 50 < asked <= neighbour.PAGES_BURST + (seconds + 1) * neighbour.PAGES_PER_S and not liar.is_closed
    assert peers(pool)["neighbours"][0]["points"] == 0 and not parted(pool)


def test_rescinded_message_that_is_brought_again_is_told_nobody_under_compat() -> None:
    pool = Pool(Settings(network="regtest", profile="compat"))
    offer = posted(b"TKD\x0cto be rescinded", 4.0, secret_hash=rescind_hash_of(SECRET))
    watcher, other = greeted(pool), greeted(pool, FAR, 5)
    watcher.say(n.PrefixQuery(1, n.MESSAGES | n.SUBSCRIBE, 0, 9, b"TKD\x0c"))
    for times in (1, 2):
        other.say(n.Msg((offer,)))
        assert n.MessagesReply(1, 1, (offer,)) in watcher.take(), f"{times} times, as deployed"
    pool.ask(m.Rescind(1, SECRET))
    watcher.take()
    other.say(n.Msg((offer,)))
    assert not [one for one in watcher.take() if isinstance(one, n.MessagesReply)]


def test_names_of_neighbours_that_come_again_and_again_are_bounded() -> None:
    pool = Pool()
    post(pool, OFFER)
    for number in range(NAMES_MAX + 10):
        client = Client(pool, f"127.0.0.1:{5000 + number}", number + 1)
        client.say(n.PoolLines(1.0, 2.0, 2.0), n.Inv((OFFER.own_id(),)))
        pool.pass_time(1)
        pool.hear(c.Came(DOOR, client.peer, b""))
    [answer] = [
        one.value for one in pool.hear(c.Asked(1, "why", shown_id(OFFER.own_id()))) if isinstance(one, c.Answer)
    ]
    assert (answer["announced_to"], answer["taken_by"]) == (NAMES_MAX, NAMES_MAX)


def test_requests_for_many_messages_let_others_in_between() -> None:
    pool = Pool(limits=replace(NexaLimits(), turn_units=3))
    stored = [posted(b"%d" % number, 4.0) for number in range(30)]
    for one in stored:
        post(pool, one)
    busy, other = greeted(pool), greeted(pool, "127.0.0.1:4001", 5)
    pool.is_stepped = True
    wanted = n.GetMsg(2.0, tuple(one.own_id() for one in stored))
    assert busy.say(*[wanted] * 10) == [n.Msg(tuple(stored))] * 2, "a turn when it asks, and one after that"
    assert other.say(n.GetMsg(2.0, (stored[0].own_id(),))) == [n.Msg((stored[0],))]
    pool.is_stepped = False
    pool.hear(c.Tick())
    assert busy.take() == [n.Msg(tuple(stored))] * 8, "the rest comes when it is woken"


def test_match_that_a_neighbour_without_room_was_not_sent_is_counted() -> None:
    pool = Pool(limits=NexaLimits(unread_bytes=2_000, ping_bytes=1_000))
    client = greeted(pool)
    client.say(n.PrefixQuery(1, n.MESSAGES | n.SUBSCRIBE, 0, 9, b"TK"))
    client.is_reading = False
    for number in range(30):
        post(pool, posted(b"TK%d" % number + bytes(80), 4.0))
    [link] = peers(pool)["neighbours"]
    assert link["untold"] > 5 and link["untold"] + link["told"] == 30
