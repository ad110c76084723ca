"""Pools as neighbours of Nexa nodes: which messages cross, which are passed on and to whom, and the dialling."""

from __future__ import annotations

import pytest
from samples.capd import BORN, posted
from samples.capd_net import Pool, greeted, join, parted, peers, post

from router.service import contract as c
from services.capd import reasons
from services.capd.core import messages as m
from services.capd.core.message import CapdMessage, rescind_hash_of
from services.capd.core.nexa import commands as n
from services.capd.core.nexa import own_commands as own
from services.capd.core.nexa.limits import NexaLimits
from services.capd.core.nexa.neighbours import DOOR
from services.capd.core.nexa.packets import Ping, Pong
from services.capd.core.pattern import Pattern
from services.capd.settings import Settings

OFFER = posted(b"TKD\x0coffer of something", 4.0)
SECRET = b"s" * 32
LIMITS = NexaLimits()
FAR = "203.0.113.7:5000"
STRICT, COMPAT = Settings(network="regtest"), Settings(network="regtest", profile="compat")


# -- what crosses ---------------------------------------------------------------------------------------------------


def test_brought_message_is_kept_announced_and_served() -> None:
    pool = Pool()
    client, other = greeted(pool), greeted(pool, FAR, 5)
    assert client.say(n.GetInfo(), cookie=0x5_0000) == [n.PoolLines(1.0, 2.0, 2.0)]
    assert client.say(n.Msg((OFFER,))) == [n.Inv((OFFER.own_id(),))], "as deployed, also to who brought it"
    assert other.take() == [n.Inv((OFFER.own_id(),))]
    assert client.say(n.Msg((OFFER,))) == [] == other.take(), "once"
    assert other.say(n.GetMsg(2.0, (bytes(32), OFFER.own_id()))) == [n.Msg((OFFER,))]
    [kept] = [key for key in pool.kept if key.startswith(b"m ")]
    [note] = pool.events("capd_accepted")
    assert note.fields["by"] == "127.0.0.1:4000" and note.message == OFFER.own_id()[::-1]
    [sent] = pool.events("capd_sent")
    assert (sent.message, sent.fields) == (OFFER.own_id()[::-1], {"to": FAR})
    pool.crash()
    assert pool.ask(m.Get(1, OFFER.own_id())).count == 1 and kept in pool.kept


def test_commands_of_one_read_are_handled_in_order() -> None:
    pool = Pool()
    secret = posted(b"TKD\x0cto be rescinded", 4.0, secret_hash=rescind_hash_of(SECRET))
    client = greeted(pool)
    ids = OFFER.own_id(), secret.own_id()
    said = [
        n.Msg((OFFER, secret)), n.GetMsg(2.0, ids), own.RescindSecrets((SECRET,)), n.GetMsg(2.0, ids),
        n.PrefixQuery(1, n.MESSAGES, 0, 9, b"TKD\x0c"), Ping(7),
    ]  # fmt: skip
    assert client.say(*said) == [
        n.Msg((OFFER, secret)), own.RescindSecrets((SECRET,)), n.Msg((OFFER,)), n.MessagesReply(1, 1, (OFFER,)),
        Pong(7), n.Inv(ids[:1]),
    ], "announced when all is handled, as deployed"  # fmt: skip
    pool.crash()
    assert pool.ask(m.Query(1, Pattern.prefix(b""), True, 0, 10)).ids == (OFFER.own_id(),)


@pytest.mark.parametrize("settings", (STRICT, COMPAT), ids=("strict", "compat"))
def test_answer_has_the_cookie_of_its_request(settings: Settings) -> None:
    pool = Pool(settings)
    other = posted(b"TKD\x0canother", 5.0)
    for one in (OFFER, other):
        post(pool, one)
    client = greeted(pool)
    ids = (OFFER.own_id(), other.own_id())
    client.session.say(n.GetMsg(2.0, ids), 0x5_0000)
    client.flush()
    found = [(one.cookie, one.message) for one in client.heard]
    single = [(0x5_FFFF, n.Msg((OFFER,))), (0x5_FFFF, n.Msg((other,)))]
    assert found == ([] if settings is STRICT else [(0, n.Msg(()))]) + single
    client.take()
    assert client.say(n.GetMsg(2.0, ids), cookie=9) == [n.Msg((OFFER, other))], "without a high half: in one"


def test_neighbour_pools_exchange_what_they_held_before_they_met_and_what_comes() -> None:
    place = "127.0.0.1:7001"
    one, two = Pool(), Pool(Settings(network="regtest", connect=(place,)))
    assert two.dialled == [f"tcp://{place}"]
    before, other = posted(b"before", 5.0), posted(b"from the other side", 5.0)
    secret = posted(b"to be rescinded", 5.0, secret_hash=rescind_hash_of(SECRET))
    assert post(one, before) == post(two, other) == post(two, secret) == 0
    join(two, one, place)
    assert post(one, OFFER) == 0
    everything = {one.own_id() for one in (before, other, secret, OFFER)}
    for pool in (one, two):
        assert set(pool.ask(m.Query(1, Pattern.prefix(b""), True, 0, 10)).ids) == everything
    assert one.ask(m.Rescind(1, SECRET)) == m.Rescinded(1, (secret.own_id(),))
    for pool in (one, two):
        assert pool.ask(m.Query(1, Pattern.prefix(b"to be"), True, 0, 10)).ids == ()
        assert [note.reason for note in pool.events("capd_rescinded")] == [reasons.RESCINDED]
    [link] = peers(two)["neighbours"]
    assert (link["target"], link["direction"], link["agent"]) == (place, "out", "/capd-pool:1.0/")
    assert (link["taken"], link["sent"], link["announced"]) == (2, 2, 2)
    # A pool that was away still holds the message; it gets the secret when it connects.
    late = Pool()
    assert post(late, secret) == 0
    client = greeted(one)
    assert client.say(own.GetHeld(0)) == [
        own.HeldIds(0, tuple(one.own_id() for one in (before, other, OFFER))),
        own.RescindSecrets((SECRET,)),
    ]
    greeted(late).say(own.RescindSecrets((SECRET, b"another")))
    assert late.ask(m.Query(1, Pattern.prefix(b""), True, 0, 10)).ids == ()


def test_catching_up_is_paced_and_costs_no_allowance() -> None:
    limits = NexaLimits(units_per_s=0.001, units_burst=100, outstanding_ids=10, waiting_ids=10)
    place = "127.0.0.1:7001"
    one, two = Pool(limits=limits), Pool(Settings(network="regtest", connect=(place,)), limits)
    for number in range(60):
        post(one, posted(b"%d" % number, 3.0))
    join(two, one, place)
    assert two.ask(m.Info(1)).count == 60
    assert not parted(one) and not parted(two)


def test_held_ids_are_listed_in_pages() -> None:
    pool = Pool(Settings(network="regtest"))
    ids = []
    for number in range(7):
        message = posted(b"%d" % number, 3.0)
        post(pool, message)
        ids.append(message.own_id())
    client, found, after, pages = greeted(pool), list[bytes](), 0, 0
    while not pages or after:
        [page] = client.say(own.GetHeld(after, 3))
        found += page.ids
        after, pages = page.after, pages + 1
    assert found == ids and pages == 3
    for after, quantity in ((7, 5), ((1 << 64) - 1, 0xFFFFFFFF), (0, 0)):
        assert client.say(own.GetHeld(after, quantity)) == [own.HeldIds(0, ())]


def test_announced_message_is_requested_from_the_first_and_then_from_another() -> None:
    pool = Pool()
    liar, honest = greeted(pool), greeted(pool, FAR, 5)
    wanted = n.GetMsg(2.0, (OFFER.own_id(),))
    assert liar.say(n.Inv((OFFER.own_id(), OFFER.own_id()))) == [wanted], "each once"
    assert honest.say(n.Inv((OFFER.own_id(),))) == [] and liar.say(n.Inv((OFFER.own_id(),), 73)) == []
    pool.pass_time(4)
    assert honest.take() == []
    pool.pass_time(1)
    assert honest.take() == [wanted] and liar.take() == []
    assert honest.say(n.Msg((OFFER,))) == [n.Inv((OFFER.own_id(),))]
    assert honest.say(n.Inv((OFFER.own_id(),))) == [], "it is here"
    bad = CapdMessage(b"bad work", BORN, OFFER.difficulty_bits)
    assert honest.say(n.Msg((bad,)), n.Inv((bad.own_id(),))) == [], "what was turned away is not asked for again"
    pool.pass_time(59)
    assert honest.take() == [n.GetInfo()], "asked for its line once more"
    pool.pass_time(1)
    assert honest.say(n.Inv((bad.own_id(),))) == [n.GetMsg(2.0, (bad.own_id(),))], "for a minute"


# -- what is passed on ----------------------------------------------------------------------------------------------


def test_messages_at_or_above_the_line_on_arrival_are_announced_and_sent_unless_they_are_below_it_at_once() -> None:
    pool = Pool()
    client, picky = greeted(pool), greeted(pool, FAR, 5)
    picky.say(n.PoolLines(1.0, 3.0, 9.0))
    cases = [(1.9, False, False), (2.005, True, False), (2.99, True, False), (3.01, True, True), (3.1, True, True)]
    for priority, here, there in cases:
        message = posted(b"%d" % int(1000 * priority), priority)
        assert post(pool, message) == 0
        inventory = [n.Inv((message.own_id(),))]
        assert client.take() == (inventory if here else []), priority
        assert picky.take() == (inventory if there else []), priority
        assert picky.say(n.GetMsg(3.0, (message.own_id(),))) == ([n.Msg((message,))] if there else [])
        assert client.say(n.GetMsg(0.0, (message.own_id(),))) == [n.Msg((message,))], "who wants all, gets all"
        client.say(n.PoolLines(1.0, 2.0, 9.0))
    client.say(n.PoolLines(0.0, 1e300, 0.0))
    picky.say(n.PoolLines(0.0, float("nan"), 0.0))
    assert post(pool, posted(b"to nobody", 50.0)) == 0 and client.take() == [] == picky.take()
    seen = peers(pool)["neighbours"]
    assert [one["line"] for one in seen] == [1e300, "nan"] and [one["announced"] for one in seen] == [4, 2]


@pytest.mark.parametrize("settings", (STRICT, COMPAT), ids=("strict", "compat"))
def test_messages_are_passed_on_until_their_own_expiration(settings: Settings) -> None:
    pool = Pool(settings)
    client, expected = greeted(pool), settings is COMPAT
    query = n.PrefixQuery(1, n.IDS | n.SUBSCRIBE, 0, 10, b"of")
    assert client.say(query) == [n.IdsReply(1, 0, ())]
    for seconds, passed, served in ((301, True, True), (1, True, True), (0, expected, expected)):
        message = posted(b"of %d s" % seconds, 9.0, expiration=seconds)
        assert post(pool, message) == 0
        match = [n.IdsReply(1, 1, (message.own_id(),))] if served else []
        assert client.take() == match + ([n.Inv((message.own_id(),))] if passed else []), seconds
        assert bool(client.say(n.GetMsg(2.0, (message.own_id(),)))) is passed
    assert [one.total for one in client.say(query)] == [3 if expected else 2]
    pool.pass_time(301)
    client.take()
    assert [one.total for one in client.say(query)] == [3 if expected else 0]


# -- queries --------------------------------------------------------------------------------------------------------


def test_queries_are_answered_as_deployed() -> None:
    pool = Pool()
    stored = [posted(b"TKD\x0c%012d" % number, 3.0) for number in range(3)]
    for one in stored:
        post(pool, one)
    client = greeted(pool)
    most = 0xFFFFFFFF
    ids = tuple(one.own_id() for one in stored)
    for content in (b"TK", b"TKD\x0c", b"TKD\x0c0000"):
        assert client.say(n.PrefixQuery(most, n.MESSAGES, 0, most, content)) == [
            n.MessagesReply(most, 3, tuple(stored[::-1]))
        ]
        assert client.say(n.PrefixQuery(7, n.IDS, 1, 1, content)) == [n.IdsReply(7, 3, ids[1:2])]
    assert client.say(n.PrefixQuery(7, n.MESSAGES, most, most, b"TK")) == [n.MessagesReply(7, 3, ())]
    assert client.say(n.PrefixQuery(7, n.IDS, 0, 0, stored[1].data)) == [n.IdsReply(7, 1, ())]
    assert client.say(n.PrefixQuery(7, n.MESSAGES, 0, 9, b"nowhere ")) == [n.MessagesReply(7, 0, ())]
    for length in (0, 1, 3, 5, 15, 17, 255):
        assert client.say(n.PrefixQuery(7, n.MESSAGES, 0, 9, b"T" * length)) == [n.BadLengthReply(7, length)]
    for kind in (0, 3, 4, 0x7F, n.SUBSCRIBE, n.SUBSCRIBE | 3):
        assert client.say(n.PrefixQuery(7, kind, 0, 9, b"TK")) == [], "an unknown type gets no answer"
    masked = own.MaskedQuery(8, n.IDS, 0, most, Pattern.of(b"\0KD", b"\0\xff\xff"))
    assert client.say(masked) == [n.IdsReply(8, 3, ids[::-1])]
    client.session.say(n.PrefixQuery(7, n.IDS, 0, 9, b"no"), 0x9_0000)
    client.flush()
    assert [one.cookie for one in client.heard] == [0x9_FFFF]


def test_standing_query_sends_each_match_once_and_ends_with_its_connection() -> None:
    pool = Pool()
    before, other = posted(b"TKD\x0cbefore", 3.0), posted(b"TK another", 3.0)
    post(pool, before)
    client = greeted(pool)
    exact, wide = n.PrefixQuery(1, n.MESSAGES | n.SUBSCRIBE, 0, 10, b"TKD\x0c"), Pattern.of(b"T", b"\xff")
    assert client.say(exact) == [n.MessagesReply(1, 1, (before,))]
    assert client.say(own.MaskedQuery(2, n.IDS | n.SUBSCRIBE, 0, 10, wide)) == [n.IdsReply(2, 1, (before.own_id(),))]
    client.say(n.PoolLines(0.0, 1e300, 0.0))  # nothing is announced, so the matches come alone
    post(pool, OFFER)
    assert client.take() == [n.MessagesReply(1, 1, (OFFER,)), n.IdsReply(2, 1, (OFFER.own_id(),))], "one a cookie"
    assert client.say(n.Msg((OFFER, before))) == [], "what comes again is not told again"
    post(pool, other)
    assert client.take() == [n.IdsReply(2, 1, (other.own_id(),))]
    assert client.say(n.PrefixQuery(3, n.IDS | n.SUBSCRIBE, 0, 0, b"TKD\x0c")) == [n.IdsReply(3, 2, ())], "in its place"
    assert client.say(n.Remove(2), n.Remove(77)) == []
    post(pool, last := posted(b"TKD\x0clast", 3.0))
    assert client.take() == [n.IdsReply(3, 1, (last.own_id(),))]
    pool.hear(c.Came(DOOR, client.peer, b""))
    again = greeted(pool)
    post(pool, posted(b"TKD\x0cafter", 3.0))
    assert [type(one) for one in again.take()] == [n.Inv]


# -- dialling -------------------------------------------------------------------------------------------------------


def test_neighbour_that_is_away_is_dialled_after_longer_pauses() -> None:
    place = "127.0.0.1:7001"
    pool = Pool(Settings(network="regtest", connect=(place,)))
    pauses, last, attempts = [], 0, 1
    for second in range(1, 2000):
        if len(pool.dialled) == attempts:
            pool.hear(c.ConnectionFailed("nexa dialled", place, "connection refused"))
            attempts += 1
        pool.pass_time(1)
        if len(pool.dialled) == attempts:
            pauses.append(second - last)
            last = second
    assert pauses == sorted(pauses[:9]) + pauses[9:] and pauses[0] <= 2 and 149 <= pauses[-1] <= 302, pauses
    assert parted(pool)[0] == (reasons.UNREACHED, "connection refused")
    assert peers(pool)["unconnected"] == [{"target": place, "problem": "connection refused"}]


def test_pool_that_dials_itself_reports_it() -> None:
    place = "127.0.0.1:7001"
    pool = Pool(Settings(network="regtest", connect=(place,)))
    join(pool, pool, place)
    assert {reason for reason, _ in parted(pool)} == {reasons.ITSELF}
    assert "out of `connect`" in peers(pool)["unconnected"][0]["problem"]
